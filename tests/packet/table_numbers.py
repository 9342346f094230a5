# SPDX-License-Identifier: Apache-2.0
"""A switch with the tables of a version of dnsteer that has them in another order: the same flows by other numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dnsteer.tables.cookies import COOKIE_MASK, COOKIE_TAG
from dnsteer.tables.order import PIPELINE
from tests.packet.switches import BRIDGE, Switch

NUMBERS = {name: table.number for name, table in PIPELINE.tables.items()}


def _with_the_rest(numbers: dict[str, int]) -> dict[str, int]:
    """All tables: those that are not named get numbers above the others, in their order."""
    rest = [name for name in NUMBERS if name not in numbers]
    return {**numbers, **{name: 120 + n for n, name in enumerate(rest)}}


WITH_GAPS = _with_the_rest(
    {
        "ingress": 0,
        "neighbor": 5,
        "advertise": 6,
        "echo": 8,
        "protect": 10,
        "vip": 20,
        "slot": 30,
        "forward": 40,
        "return": 50,
        "fragment": 55,
        "extension": 58,
        "egress": 60,
        "state": 63,
    }
)
"""Numbers of builds before the order gave them: none belongs to another table now."""
ONE_BY_ONE = {name: number for number, name in enumerate(NUMBERS)}
"""Numbers of which some belong to other tables now."""
IN_PLACE_OF_OTHERS = _with_the_rest(
    {
        "ingress": 0,
        "neighbor": 1,
        "advertise": 2,
        "echo": 3,
        "protect": 50,
        "vip": 51,
        "slot": 60,
        "forward": 61,
        "return": 70,
        "fragment": 71,
        "extension": 72,
        "egress": 80,
        "state": 81,
    }
)
"""Tables that queries pass have the numbers that tables have now which answers pass."""
ALL_ABOVE = {name: number + (120 if number else 0) for name, number in NUMBERS.items()}
"""All numbers but the first are others."""
_TO_TABLE = re.compile(r"\b(table=|goto_table:|resubmit\(,)(\d+)")
_OURS = (COOKIE_TAG, COOKIE_TAG + 1)  # the tables', and those of a switch on standby


def renumber(switch: Switch, numbers: Mapping[str, int]) -> None:
    """Give the tables of a bridge, which have the numbers of this version, other ones, in OVSDB as well."""
    becomes = {str(NUMBERS[name]): str(number) for name, number in numbers.items()}

    def moved(line: str) -> str:
        return _TO_TABLE.sub(lambda m: m[1] + becomes.get(m[2], m[2]), line)

    flows = [line for line in switch.flows() if int(line[len("cookie=") : line.index(",")], 16) >> 48 in _OURS]
    lines = [f"flow delete cookie=0x{tag << 48:x}/0x{COOKIE_MASK:x}" for tag in _OURS]
    lines += [f"group modify {moved(line)}" for line in switch.groups() if "group_id=" in line]
    lines += [f"flow add {moved(line)}" for line in flows]
    switch.ofctl("bundle", "-", stdin="\n".join(lines) + "\n")
    words: list[str] = []
    for name, number in NUMBERS.items():
        words += (
            ["--", "remove", "Bridge", BRIDGE, "flow_tables", str(number)] if number not in numbers.values() else []
        )
        new = numbers[name]
        words += ["--", f"--id=@t{new}", "create", "Flow_Table", f"name={name}"]
        words += ["--", "set", "Bridge", BRIDGE, f"flow_tables:{new}=@t{new}"]
    switch.vsctl(*words[1:])


def names(switch: Switch) -> dict[int, str]:
    """The names that OVSDB has for the tables of the bridge, by number."""
    found = {}
    for number, row in re.findall(r"(\d+)=([0-9a-f-]{36})", switch.column("Bridge", BRIDGE, "flow_tables")):
        name = switch.column("Flow_Table", row, "name").strip().strip('"')
        if name and name != "[]":
            found[int(number)] = name
    return found
