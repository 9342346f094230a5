# SPDX-License-Identifier: Apache-2.0
"""Balancing of load by the agent: which slots move, by what the switch counts."""
