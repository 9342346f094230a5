# SPDX-License-Identifier: Apache-2.0
"""The extension beside a running switch: its program, its control socket, and handover together with the tables."""
