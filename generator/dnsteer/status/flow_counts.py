# SPDX-License-Identifier: Apache-2.0
"""Packets of single flows by their cookies, of the buckets of one group, and of the slots of one pool.

Never of a whole table, nor of all pools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from dnsteer.slots.membership import Membership
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.trace import ANY
from dnsteer.tables.cookies import COOKIE_TAG, GROUP_BASE, Category, cookie
from dnsteer.tables.order import PIPELINE, TABLES

_FLOW = re.compile(r"\s*cookie=0x([0-9a-f]+), .*?table=(\w+), n_packets=(\d+), .*?(priority=\d+\S*|\S*) actions=")
_PRIORITY = re.compile(r"priority=(\d+),?(.*)\Z")
_BUCKET = re.compile(r"bucket(\d+):packet_count=(\d+)")
_OWNER = re.compile(
    rf"bucket_id:(\d+),(?:weight:\d+,)?actions=set_field:(0x[0-9a-f]+|\d+)->{PIPELINE.registers['backend'].field}\b"
)
_TABLES = {table.name: table.number for table in TABLES}
_SLOT = re.compile(r"cookie=0x([0-9a-f]+), duration=[0-9.]+s, table=\d+, n_packets=(\d+),")
_TABLE = PIPELINE.holding("slots").number
_POOL = PIPELINE.registers["pool"].field


class FlowKey(NamedTuple):
    """What identifies a flow: the number of its table, its priority, and its match as the switch prints it."""

    table: int
    priority: int
    match: str


def flow_packets(client: OpenFlow, flows: Iterable[tuple[int, int]]) -> dict[FlowKey, int]:
    """Packets so far of flows by cookie and table, and of others that have their cookies. Raises as OpenFlow does."""
    found: dict[FlowKey, int] = {}
    # Others may have thousands of flows of one cookie, or of none.
    wanted = [f"cookie=0x{key:x}/-1" + ("" if key >> 48 == COOKIE_TAG else f",table={table}") for key, table in flows]
    for match in dict.fromkeys(wanted):
        found.update(read_flow_packets(client.ofctl("dump-flows", match, "--stats", names=True)))
    return found


def read_flow_packets(text: str) -> dict[FlowKey, int]:
    """Read what ovs-ofctl printed of flows, with names."""
    found: dict[FlowKey, int] = {}
    for line in text.splitlines():
        if (m := _FLOW.match(line)) is None:
            continue
        table = _TABLES.get(m[2], -1) if not m[2].isdigit() else int(m[2])
        p = _PRIORITY.match(m[4])
        priority, match = (int(p[1]), p[2]) if p is not None else (32768, m[4])  # which is not printed
        found[FlowKey(table, priority, match or ANY)] = int(m[3])
    return found


class Bucket(NamedTuple):
    """A bucket of a group: the number of its backend in the tables, and its packets so far."""

    number: int
    backend: int
    packets: int


def read_buckets(client: OpenFlow, group: int) -> list[Bucket]:
    """The buckets of one group. Raises as OpenFlow does."""
    owners = {int(n): int(backend, 0) for n, backend in _OWNER.findall(client.ofctl("dump-groups", str(group)))}
    packets = bucket_packets(client, group)
    return [Bucket(n, backend, packets[n]) for n, backend in sorted(owners.items())]


def bucket_packets(client: OpenFlow, group: int) -> Counter[int]:
    """Packets so far of the buckets of one group, by their numbers. Raises as OpenFlow does."""
    text = client.ofctl("dump-group-stats", f"group_id={group}")
    return Counter({int(n): int(packets) for n, packets in _BUCKET.findall(text)})


def read_slots(client: OpenFlow, pool: Membership) -> dict[int, int]:
    """Packets so far by slot, of those that the switch counts. Raises as OpenFlow does."""
    if pool.selection == "dp-hash":
        return bucket_packets(client, GROUP_BASE + pool.number)
    first = cookie(Category.SLOT, pool.number << 16)
    text = client.ofctl("dump-flows", f"table={_TABLE},{_POOL}={pool.number}", "--stats")
    found: dict[int, int] = {}
    for line in text.splitlines():
        m = _SLOT.search(line)
        if m and int(m[1], 16) & ~0xFFFF == first and int(m[1], 16) >> 48 == COOKIE_TAG:
            slot = int(m[1], 16) & 0xFFFF
            found[slot] = found.get(slot, 0) + int(m[2])
    return found
