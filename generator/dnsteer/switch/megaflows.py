"""Datapath flows and packet counters, as the switch shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ovs.flow.odp import ODPFlow

from dnsteer.switch.fields import Field, fields_of

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
    match_text, _, actions = line.partition(", actions:")
    return Megaflow(match_text, mask_of(fields_of(flow.match)), actions.split(", dp-extra-info")[0])


_SAME_SHAPE = {"udp.": "l4.", "tcp.": "l4."}  # one set of fields in the datapath's key, and so one mask


def mask_of(match: Iterable[Field]) -> str:
    """The mask of a match: which bits of which fields count, whatever their values."""
    return " ".join(sorted(map(_shape, match)))


def _shape(field: Field) -> str:
    """A field's part of the mask."""
    key = _SAME_SHAPE.get(field.key[:4], field.key[:4]) + field.key[4:]
    return f"{key}/{field.mask:x}"


def masks(flows: Iterable[Megaflow]) -> int:
    """Number of distinct masks among datapath flows."""
    return len({flow.mask for flow in flows})
