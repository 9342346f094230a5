# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a switch and its agent: what each is, how it is read, and the server of /metrics."""
