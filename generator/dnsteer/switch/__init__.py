"""A running Open vSwitch: its OVSDB, its OpenFlow tables, and private instances of it."""
