# SPDX-License-Identifier: Apache-2.0
"""The ICMP errors that a running switch has passed to backends: to the one of a kept connection, or a copy to each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from dnsteer.spec import derived
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.cookies import COOKIE_TAG
from dnsteer.tables.error import COPY_TABLE
from dnsteer.tables.order import TABLES

Receivers = Literal["one", "each"]
_TABLE = next(table.number for table in TABLES if table.name == COPY_TABLE.name)
_FLOW = re.compile(
    r"cookie=0x([0-9a-f]+), duration=([0-9.]+)s, table=\d+, n_packets=(\d+), n_bytes=(\d+), .*?priority=\d+,(\S+) actions="
)


class ErrorCount(NamedTuple):
    """The errors of one flow so far, which went to *receivers*; its match, and its age in seconds."""

    receivers: Receivers
    match: str
    packets: int
    age: float


@dataclass(frozen=True)
class PassedErrors:
    """ICMP errors since the flows are there: those for *one* backend, and those of which *each* got a copy."""

    one: int
    each: int

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.one:,} to the backend of their connection, {self.each:,} copied to each backend"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"one": self.one, "each": self.each}


def passes_errors(spec: Spec) -> bool:
    """Whether backends of any VIP get ICMP errors."""
    return any(derived.copies_errors(vip, spec.pools[vip.pool]) for vip in spec.vips.values())


def read_errors(client: OpenFlow) -> Iterator[ErrorCount]:
    """Yield the counts of all flows that pass errors. Raises as OpenFlow does."""
    for line in client.ofctl("dump-flows", f"table={_TABLE}", "--stats").splitlines():
        m = _FLOW.search(line)
        if m is not None and int(m[1], 16) >> 48 == COOKIE_TAG:
            yield ErrorCount("one" if "ct_mark=" in m[5] else "each", m[5], int(m[3]), float(m[2]))


def count_errors(client: OpenFlow) -> PassedErrors:
    """The errors that were passed. Raises as OpenFlow does."""
    found = list(read_errors(client))
    return PassedErrors(*(sum(count.packets for count in found if count.receivers == to) for to in ("one", "each")))
