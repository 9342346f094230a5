# SPDX-License-Identifier: Apache-2.0
"""The log of the agent: events with fields, as text, logfmt or JSON, and in systemd's journal."""
