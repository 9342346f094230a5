# SPDX-License-Identifier: Apache-2.0
"""Explain why a private switch does not hold the flows loaded into it, with the line of the template."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from dnsteer.render.flow_checks import shortened
from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.render.templates import template_line, templates_dir
from dnsteer.switch.openflow import RejectedError, Tables
from dnsteer.switch.table_changes import compare_tables
from dnsteer.tables.order import TABLES

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_TABLE = re.compile(r"\btable[=:](\d+)")
_MEANS = {
    "OFPBAC_BAD_OUT_GROUP": "it sends to a group that is not there; groups are made from the rows of type GroupRow",
    "OFPBIC_BAD_TABLE_ID": "it leads back, to itself or to no table",
}
"""What errors of OpenFlow mean, where their names do not tell."""


def rejected(err: RejectedError, lines: Iterable[str]) -> str:
    """Say which flow or group Open vSwitch refuses, and the line of its template where that can be found."""
    table, what = _TABLE.search(err.what), shortened(err.what)
    means = next((f" ({text})" for name, text in _MEANS.items() if name in err.reason), "")
    reason = f"{shortened(err.reason)}{means}"
    if table is None and "group_id=" in err.what:
        return f"groups/slot.j2: the private switch refuses a group: {reason}: {what}"
    if table is None:
        which = f": {what}" if what else ", such as set_field:5->ip_dscp without ip or ipv6 in its match"
        return f"the private switch refuses what the templates make: {reason}{which}"
    words = [word for word in _WORD.findall(err.reason) if word in err.what]
    file = _template(int(table[1]), words)
    same = [x for x in lines if f", table={table[1]}," in x and x.endswith(f" {err.what.rpartition(' ')[2]}")]
    if ":" not in file and same:
        file = template_line(file, same[0])
    return f"{file}: the private switch refuses a flow: {reason}: {what}"


def shown_differently(lines: Collection[str], groups: Sequence[Group], tables: Tables) -> str:
    """Say how the switch shows a flow otherwise than its template spells it."""
    first: dict[tuple[int, int, str], str] = {}
    for line in lines:
        other = first.setdefault(parse_flow(line).key, line)
        if other != line:
            file = template_line(_template(parse_flow(line).table, ()), line)
            return f"{file}: two flows of one table have the same priority and match: {other!r} and {line!r}"
    todo = compare_tables(dict.fromkeys(lines), groups, tables)
    for flow in (*todo.add, *todo.replace):
        alike = _alike(flow, [*tables.flows.values(), *tables.other.values()])
        if alike is not None:
            lost = alike.match.count(",") < flow.match.count(",")
            advice = "write it as the switch shows it"
            if lost:
                advice += ", or add what the field that it leaves out depends on, as ip for nw_src"
            return (
                f"{template_line(_template(flow.table, ()), flow.line())}: the switch shows a flow otherwise than the "
                f"template spells it, so that it would seem changed after every apply; {advice}\n"
                f"    rendered: {flow.line()}\n    shown:    {alike.line()}"
            )
    return f"the private switch shows other flows or groups than were loaded; the first difference: {todo.bundle()[0]}"


def _alike(flow: Flow, shown: Iterable[Flow]) -> Flow | None:
    """Return the flow that the switch made of *flow*: of the same table, priority and cookie, and as alike as there is."""
    same = (flow.table, flow.priority, flow.cookie)
    found = [other for other in shown if (other.table, other.priority, other.cookie) == same]
    words = set(_WORD.findall(flow.match + " " + flow.actions))
    return max(found, key=lambda other: len(words & set(_WORD.findall(f"{other.match} {other.actions}"))), default=None)


def _template(table: int, words: Iterable[str]) -> str:
    """Return the template of a table, with the line that has one of *words* where only one has."""
    name = next((t.template_file for t in TABLES if t.number == table), f"table {table}")
    file = templates_dir() / name
    text = file.read_text().splitlines() if file.exists() else []
    for word in words:
        found = [number for number, line in enumerate(text, 1) if re.search(rf"\b{word}\b", line)]
        if len(found) == 1:
            return f"{name}:{found[0]}"
    return name
