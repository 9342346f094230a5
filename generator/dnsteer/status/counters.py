# SPDX-License-Identifier: Apache-2.0
"""Packet counters of a running switch: those of the VIPs' services and of the backends, from two of its tables.

The switch adds up what its datapath counted only now and then: Open vSwitch every half second, where nothing else is set
and there is little to add up. Samples that are taken just after it did so are a whole number of these rounds apart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.cookies import COOKIE_TAG
from dnsteer.tables.order import PIPELINE
from dnsteer.tables.vip import PROTOCOL_OF

if TYPE_CHECKING:
    from dnsteer.spec.model.types import Address

_SERVICES, _BACKENDS = PIPELINE.holding("services").number, PIPELINE.holding("backends").number
_REGISTERS = tuple(PIPELINE.registers[name].field for name in ("pool", "backend", "transport"))
_FLOW = re.compile(
    r"\s*cookie=0x([0-9a-f]+), duration=([0-9.]+)s, table=\d+, n_packets=(\d+), n_bytes=(\d+), "
    r".*?priority=\d+,(\S+) actions="
)
_SERVICE = re.compile(r"(udp|tcp)6?,(?:nw|ipv6)_dst=([0-9a-f.:]+),tp_dst=(\d+)\Z")
_IDLE = " n_packets=0,"
_SUM = re.compile(r"\bpacket_count=(\d+)")
_LOOK = 0.05
ROUND = 0.6
"""How long to wait for the switch to add up, in seconds; a little more than it takes."""


class CountedService(NamedTuple):
    """A service of a VIP address."""

    protocol: str
    address: Address
    port: int


class BackendKey(NamedTuple):
    """A backend of a pool, by the numbers that both have in the tables, and the transport protocol."""

    pool: int
    backend: int
    protocol: str


class ExtendedServiceKey(NamedTuple):
    """A service that the extension serves, by its name in the program."""

    name: str
    protocol: str


class Count(NamedTuple):
    """Packets of one flow so far, its age in seconds, which is the switch's own clock, and the packets' bytes."""

    packets: int
    age: float
    bytes: int = 0


Key = CountedService | BackendKey | ExtendedServiceKey
Sample = Mapping[tuple[Key, str], Count]
"""The counters by what they count and the flow's match: a backend has a flow for each way to forward to it."""


def take_counters(client: OpenFlow, *, idle: bool = True) -> Sample:
    """All counters now; without *idle* only those that are not 0, which is quicker. Raises as OpenFlow does."""
    found: dict[tuple[Key, str], Count] = {}
    for table in (_SERVICES, _BACKENDS):
        text = client.ofctl("dump-flows", f"table={table}", "--stats")
        found.update(
            parse_counters(text if idle else "\n".join(line for line in text.splitlines() if _IDLE not in line))
        )
    return found


def take_round(client: OpenFlow) -> Sample:
    """All counters of one moment: nothing was added between those of services and of backends. Raises as OpenFlow does.

    The switch adds to both at once, half a second's packets at a time: were one table read before and one after that, a
    backend had a round more than its VIP. Where it adds all the time, so that there is no moment, each time adds little.
    """
    deadline = time.monotonic() + ROUND
    before = _sum(client)
    while True:
        found = take_counters(client)
        after = _sum(client)
        if after == before or time.monotonic() > deadline:
            return found
        before = after


def parse_counters(text: str) -> Iterator[tuple[tuple[Key, str], Count]]:
    """The counters in what ovs-ofctl printed of the two tables. Flows of others are passed over."""
    for line in text.splitlines():
        m = _FLOW.match(line)
        if m is None or int(m[1], 16) >> 48 != COOKIE_TAG:
            continue
        key = _key(m[5])
        if key is not None:
            yield (key, m[5]), Count(int(m[3]), float(m[2]), int(m[4]))


@lru_cache(maxsize=1 << 16)
def _key(match: str) -> CountedService | BackendKey | None:
    """What a flow counts. Remembered: metrics read the same thousands again and again."""
    return _service(match) or _way(match)


def _service(match: str) -> CountedService | None:
    m = _SERVICE.match(match)
    return CountedService(m[1], ip_address(m[2]), int(m[3])) if m else None


def _way(match: str) -> BackendKey | None:
    fields = dict(part.split("=", 1) for part in match.split(",") if "=" in part)
    try:
        pool, backend, transport = (int(fields[name], 0) for name in _REGISTERS)
        return BackendKey(pool, backend, PROTOCOL_OF[transport])
    except (KeyError, ValueError):
        return None


def wait_for_round(client: OpenFlow) -> bool:
    """Wait until the switch has added up what its datapath counted. False when it did not within ROUND seconds.

    It cannot be seen where no packets come.
    """
    deadline = time.monotonic() + ROUND
    first = _sum(client)
    while time.monotonic() < deadline:
        time.sleep(_LOOK)
        if _sum(client) != first:
            return True
    return False


def _sum(client: OpenFlow) -> str:
    m = _SUM.search(client.ofctl("dump-aggregate", f"table={_SERVICES}"))
    return m[1] if m else ""
