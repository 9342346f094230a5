"""Datapath flows and packet counters, as the switch shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ovs.flow.odp import ODPFlow

_COUNTER = re.compile(r"^\s*packets? (received|recirculations): (\d+)", re.M)


@dataclass(frozen=True)
class Counters:
    """Packets that the userspace datapath received, and further passes (recirculations) that they took."""

    received: int
    recirculations: int


def read_counters(text: str) -> Counters:
    """Read `dpif-netdev/pmd-stats-show`, all threads together."""
    sums = {"received": 0, "recirculations": 0}
    for name, value in _COUNTER.findall(text):
        sums[name] += int(value)
    return Counters(**sums)


@dataclass(frozen=True)
class Megaflow:
    """A datapath flow as the switch shows it: the match without wildcards, its mask's shape, and the actions."""

    text: str
    mask: str
    actions: str


def read_megaflows(text: str) -> list[Megaflow]:
    """Read all of `dpctl/dump-flows -m`."""
    return [read_megaflow(line) for line in text.splitlines() if "recirc_id(" in line]


def read_megaflow(line: str) -> Megaflow:
    """Read one line of dpctl/dump-flows -m."""
    flow = ODPFlow(line)
    shapes: list[str] = []
    _shape(dict(flow.match), "", shapes)
    match_text, _, actions = line.partition(", actions:")
    return Megaflow(match_text, " ".join(sorted(shapes)), actions.split(", dp-extra-info")[0])


_SAME_SHAPE = {"udp": "l4", "tcp": "l4"}  # one set of fields in the datapath's key, and so one mask


def _shape(match: dict[str, Any], prefix: str, out: list[str]) -> None:
    """The mask of a match, field by field; fields that are wholly wildcarded do not count."""
    for name, value in match.items():
        full = f"{prefix}{_SAME_SHAPE.get(name, name)}"
        if isinstance(value, dict):
            _shape(value, f"{full}.", out)
            continue
        mask = _mask_of(value)
        if mask:
            out.append(f"{full}/{mask}")


def _mask_of(value: Any) -> str:
    """A value's mask as text: empty when wildcarded, `exact` when whole."""
    text = str(value)
    if hasattr(value, "fully") and value.fully():
        return "exact"
    _, slash, mask = text.partition("/")
    if not slash:
        return "exact"
    zero = set(mask.replace("0x", "").replace(":", "").replace(".", "")) <= {"0"}
    return "" if zero else mask


def masks(flows: Iterable[Megaflow]) -> int:
    """Number of distinct masks among datapath flows."""
    return len({flow.mask for flow in flows})
