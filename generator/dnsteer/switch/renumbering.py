"""Tables on a switch that have other numbers than here, those of another version of dnsteer.

OVSDB has their names by number, since dnsteer names its tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dnsteer.render.flows import Flow, Group
from dnsteer.switch.bridge_rows import Bridge
from dnsteer.switch.openflow import Key, Tables
from dnsteer.tables.order import PIPELINE

_TO_TABLE = re.compile(r"(\bgoto_table:|[(,]table=|\bresubmit\(,)(\d+)")


def other_numbers(have: Bridge) -> dict[int, int]:
    """Return what the tables of a bridge are here that have other numbers there, by their numbers there."""
    here = {name: table.number for name, table in PIPELINE.tables.items()}
    found = {number: here[table.name] for number, table in have.tables.items() if table.name in here}
    return {there: number for there, number in found.items() if there != number}


def uses_numbers(flows: Iterable[Flow], numbers: Mapping[int, int]) -> bool:
    """Whether a flow is in a table of another number."""
    return any(flow.table in numbers for flow in flows)


def with_own_numbers(tables: Tables, numbers: Mapping[int, int]) -> Tables:
    """Return the tables of a switch with the numbers that they have here."""

    def actions(text: str) -> str:
        return _TO_TABLE.sub(lambda m: f"{m[1]}{numbers.get(int(m[2]), m[2])}", text)

    def moved(flows: Iterable[Flow]) -> dict[Key, Flow]:
        own = (replace(f, table=numbers.get(f.table, f.table), actions=actions(f.actions)) for f in flows)
        return {flow.key: flow for flow in own}

    return replace(
        tables,
        same=set(),
        flows=moved(tables.all_flows().values()),
        standby=moved(tables.standby.values()),
        groups={number: Group(number, actions(group.text)) for number, group in tables.groups.items()},
        flags={(numbers.get(t, t), priority, match): text for (t, priority, match), text in tables.flags.items()},
    )
