# SPDX-License-Identifier: Apache-2.0
"""What access lists have denied: the counters of the flows that deny, by list and entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dnsteer.tables.access import DENIES, ENTRY_BITS, LIST_BITS
from dnsteer.tables.cookies import COOKIE_MASK, OBJECT_BITS, Category, cookie

DENYING_FLOWS = f"cookie=0x{cookie(Category.ACCESS, DENIES):x}/0x{COOKIE_MASK | 0xFF << OBJECT_BITS | DENIES:x}"
"""Flows of access lists that deny, as ovs-ofctl takes them."""
_DENIED = re.compile(
    r"cookie=0x([0-9a-f]+), duration=([0-9.]+)s, table=(\d+), n_packets=([1-9]\d*), n_bytes=(\d+), .*?(priority=\S+)"
)


class DenyingFlow(NamedTuple):
    """The counters of a flow that denies: its match, the numbers of its list (0: by hand) and entry, its age in seconds."""

    list: int
    entry: int
    flow: tuple[str, str]
    packets: int
    bytes: int
    age: float


def parse_denying_flows(text: str) -> Iterator[DenyingFlow]:
    """The flows that have denied packets, in what ovs-ofctl printed of DENYING_FLOWS."""
    for line in text.splitlines():
        m = _DENIED.search(line)
        if m is not None:
            number = int(m[1], 16)
            of_list, entry = number >> ENTRY_BITS & (1 << LIST_BITS) - 1, number & (1 << ENTRY_BITS) - 1
            yield DenyingFlow(of_list, entry, (m[3], m[6]), int(m[4]), int(m[5]), float(m[2]))
