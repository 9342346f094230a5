# SPDX-License-Identifier: Apache-2.0
"""Which values of a setting leave so little of the traffic that they count as differences and not as somebody's choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dnsteer.plan.bridge import LEAST_MTU, WantedBridge
from dnsteer.plan.plan import Plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.tables.order import PIPELINE

if TYPE_CHECKING:
    from dnsteer.switch.openflow import Tables

LEAST_MBITS = 100
"""Mbit/s of a limit for a port: 100,000 queries a second of 125 bytes; with less the limit is no protection."""
_LEAST_KPKTS = 100
_FRAME_KBITS = 12
"""The burst, in kbit, that one frame of 1,500 bytes needs."""
LEAST_IDLE = 500
"""ms: the least max-idle that Open vSwitch documents."""
_USUAL_IDLE = 10_000
_BURST = re.compile(r" burst (\d+)")
_BITS = re.compile(r"max-rate (\d+)")
_BYTES = re.compile(r"cir (\d+)")


@dataclass(frozen=True)
class HarmfulValues:
    """Values that stop most of the traffic: *where*, in words, and the *test* of a value of the object of a name."""

    where: str
    test: Callable[[str, SettingsInput, str], bool]


def _whole(value: str) -> int | None:
    """The number that a value begins with, None for none."""
    m = re.match(r"-?\d+", value)
    return int(m[0]) if m else None


def _few_flows(value: str, seen: SettingsInput, _name: str) -> bool:
    limit = _whole(value)
    return limit is not None and 2 * limit < seen.datapath_flows()


def _too_short_idle(value: str, _seen: SettingsInput, _name: str) -> bool:
    idle = _whole(value)
    return idle is not None and idle < LEAST_IDLE


def forgets_sooner(value: str, _seen: SettingsInput, _name: str) -> bool:
    """Whether datapath flows are forgotten sooner than by default."""
    idle = _whole(value)
    return idle is not None and idle < _USUAL_IDLE


def _fewer_than_flows(value: str, seen: SettingsInput, name: str) -> bool:
    limit = _whole(value)
    return limit is not None and limit < seen.own_flows(name)


def _short_policing(least: int, burst: int) -> Callable[[str, SettingsInput, str], bool]:
    def test(value: str, _seen: SettingsInput, _name: str) -> bool:
        found = _BURST.search(value)
        return (_whole(value) or 0) < least or (found is not None and int(found[1]) < burst)

    return test


def _short_qos(value: str, _seen: SettingsInput, _name: str) -> bool:
    least = LEAST_MBITS * 1_000_000
    rates = [int(n) for n in _BITS.findall(value)] + [8 * int(n) for n in _BYTES.findall(value)]
    return any(rate < least for rate in rates)


def _short_mtu(value: str, _seen: SettingsInput, _name: str) -> bool:
    mtu = _whole(value)
    return mtu is not None and mtu < LEAST_MTU


FEW_FLOWS = HarmfulValues("less than half of these flows", _few_flows)
SHORT_IDLE = HarmfulValues(f"less than {LEAST_IDLE}", _too_short_idle)
FEWER_THAN_FLOWS = HarmfulValues("fewer than dnsteer has there", _fewer_than_flows)
SHORT_RATE = HarmfulValues(
    f"less than {LEAST_MBITS * 1000:,}, or a burst below {_FRAME_KBITS}",
    _short_policing(LEAST_MBITS * 1000, _FRAME_KBITS),
)
SHORT_PACKET_RATE = HarmfulValues(f"less than {_LEAST_KPKTS}", _short_policing(_LEAST_KPKTS, 0))
SHORT_QOS = HarmfulValues(f"less than {LEAST_MBITS} Mbit/s", _short_qos)
SHORT_MTU = HarmfulValues(f"less than {LEAST_MTU}", _short_mtu)


TABLE_NAMES = {t.number: t.name for t in PIPELINE.tables.values()}
"""The names of the pipeline's tables by number."""


@dataclass(frozen=True)
class SettingsInput:
    """What was read of a switch. *tables* is None if none can be read; *lines* are the plan's flows.

    *no_megaflows*: the switch is known to make none.
    """

    spec: Spec
    plan: Plan
    want: WantedBridge
    have: Bridge
    config: Mapping[str, str]
    tables: Tables | None
    lines: Collection[str] = ()
    no_megaflows: bool = False

    def own_flows(self, table: str) -> int:
        """Return how many flows the plan has in a table, by its name or number."""
        number = next((n for n, name in TABLE_NAMES.items() if table in (name, str(n))), None)
        return sum(f" table={number}," in line for line in self.lines)

    def datapath_flows(self) -> int:
        """Return how many datapath flows all clients together can cause."""
        return sizes_of(self.spec, self.plan).total
