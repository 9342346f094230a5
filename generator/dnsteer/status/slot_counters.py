"""Packets of each slot of one pool: one dump of its flows in table slot, or of its group. Never of all pools."""

from __future__ import annotations

import re

from dnsteer.slots.membership import Membership
from dnsteer.status.flow_counts import bucket_packets
from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.cookies import COOKIE_TAG, GROUP_BASE, Category, cookie
from dnsteer.tables.order import PIPELINE

_SLOT = re.compile(r"cookie=0x([0-9a-f]+), duration=[0-9.]+s, table=\d+, n_packets=(\d+),")
_TABLE = PIPELINE.holding("slots").number
_POOL = PIPELINE.registers["pool"].field


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
