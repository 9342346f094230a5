# SPDX-License-Identifier: Apache-2.0
"""A switch with the tables of a version of dnsteer that has them in another order: the same flows by other numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dnsteer.tables.cookies import COOKIE_MASK, COOKIE_TAG
from dnsteer.tables.order import PIPELINE
from tests.packet.switches import BRIDGE, Switch

NUMBERS = {name: table.number for name, table in PIPELINE.tables.items()}
WITH_GAPS = {name: 70 + 2 * n if n else 0 for n, name in enumerate(NUMBERS)}
"""Numbers with others between them: none belongs to another table now."""
ONE_BY_ONE = {name: number for number, name in enumerate(NUMBERS)}
"""Numbers of which some belong to other tables now."""
_QUERIES = [table.name for table in PIPELINE.passed_by("queries") if NUMBERS["echo"] < table.number < NUMBERS["return"]]
IN_PLACE_OF_OTHERS = {
    **{name: number if number <= NUMBERS["echo"] else number + 120 for name, number in NUMBERS.items()},
    **{name: NUMBERS["return"] + n for n, name in enumerate(_QUERIES)},
}
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
