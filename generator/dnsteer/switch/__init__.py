# SPDX-License-Identifier: Apache-2.0
"""A running Open vSwitch: its OVSDB, its OpenFlow tables, and private instances of it."""
