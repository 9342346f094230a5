# SPDX-License-Identifier: Apache-2.0
"""Names, paths and addresses that belong to the lab."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

PREFIX = "dnst-"
"""Prefix of the names of the lab's namespaces, and of no others."""
SWITCH_NAMESPACE = f"{PREFIX}sw"
TRANSIT_NAMESPACE = f"{PREFIX}transit"
EXTENSION_NAMESPACE = f"{PREFIX}ext"

RUN_DIR = Path("/run/dnsteer-lab")
"""Directory of all the lab's files."""
DB_SOCKET = RUN_DIR / "db.sock"
STATE_FILE = RUN_DIR / "state.json"
EXTENSION_SOCKET = RUN_DIR / "dnsteer-ext.sock"
"""Control socket of the extension."""
NETNS_DIR = Path("/run/netns")

ZONE = "dnsteer.test"
"""The zone that the name servers serve (RFC 6761 reserves `.test`)."""

DNSPERF_PORTS = range(10240, 49152)
"""Source ports for dnsperf; a client's other programs use higher ones."""


MANY_ADDRESSES = (IPv4Network("198.19.0.0/16"), IPv6Network("2001:2:0:ffff::/112"))
"""65,536 further addresses of the first client in each family, where the spec selects by client address."""


def client_addresses(index: int) -> tuple[IPv4Address, IPv6Address]:
    """Addresses of the client of the uplink number *index*, from the benchmark ranges (RFC 2544, RFC 5180)."""
    return IPv4Address(f"198.18.{index}.2"), IPv6Address(f"2001:2:0:{index:x}::2")


def direct_addresses(index: int) -> tuple[IPv4Address, IPv6Address]:
    """Second addresses of that client, from which it queries a backend directly, bypassing the VIPs."""
    return IPv4Address(f"198.18.{index}.3"), IPv6Address(f"2001:2:0:{index:x}::3")


def db_target() -> str:
    """The lab's OVSDB as `--db` takes it."""
    return f"unix:{DB_SOCKET}"
