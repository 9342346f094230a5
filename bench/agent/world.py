# SPDX-License-Identifier: Apache-2.0
"""The pool that the faults happen to, and the settings that both checkers have."""

from __future__ import annotations

from dnsteer.checks.load import check_document
from dnsteer.lab import names
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document

INTERVAL, TIMEOUT, FALL, RISE = 1.0, 0.5, 2, 3
"""Seconds between two probes, seconds that an answer may take, results in a row: the agent's defaults."""
POOL, VIP, SLOTS = "authoritative", "192.0.2.53", 512
_FIRST = 64


def address(number: int) -> str:
    """The address of name server number *number*, from 1."""
    return f"192.0.2.{_FIRST + number}"


def server(number: int) -> str:
    """Its name."""
    return f"ns{number}"


def spec(servers: int) -> Loaded:
    """One pool of so many servers that answer the clients themselves, checked through the bridge."""
    backends = "".join(
        f"      - {{name: {server(n)}, ipv4: {address(n)}, mac: '02:00:00:00:01:{n:02x}'}}\n"
        for n in range(1, servers + 1)
    )
    text = f"""apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {{next_hop: 02:00:00:00:00:fe}}
  probe: {{addresses: [192.0.2.9/24]}}
pools:
  {POOL}:
    slots: {SLOTS}
    backends:
{backends}    health:
      query: {{name: {names.ZONE}, type: SOA}}
      interval: {INTERVAL * 1000:g}ms
      timeout: {TIMEOUT * 1000:g}ms
      fall: {FALL}
      rise: {RISE}
vips:
  dns: {{addresses: [{VIP}], services: [dns], pool: {POOL}}}
"""
    return check_document(parse_document("bench.yaml", text))
