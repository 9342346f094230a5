# SPDX-License-Identifier: Apache-2.0
"""Announce VIPs to routers while they work."""
