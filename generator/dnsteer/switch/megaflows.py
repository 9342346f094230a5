"""Datapath flows and packet counters, as the switch shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ovs.flow.odp import ODPFlow

from dnsteer.switch.fields import every_name_is_known, fields_of
from dnsteer.switch.masks import Mask, mask_of_match

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
    """A datapath flow as the switch shows it: the match without wildcards, its mask, and the actions."""

    text: str
    mask: Mask
    actions: str


def read_megaflows(text: str) -> list[Megaflow]:
    """Read all of `dpctl/dump-flows -m`."""
    return [read_megaflow(line) for line in text.splitlines() if "recirc_id(" in line]


def read_megaflow(line: str) -> Megaflow:
    """Read one line of dpctl/dump-flows -m."""
    with every_name_is_known():
        match = tuple(fields_of(dict(ODPFlow(line).match)))
    match_text, _, actions = line.partition(", actions:")
    return Megaflow(match_text, mask_of_match(match), actions.split(", dp-extra-info")[0])


def masks(flows: Iterable[Megaflow]) -> int:
    """Number of distinct masks among datapath flows."""
    return len({flow.mask for flow in flows})
