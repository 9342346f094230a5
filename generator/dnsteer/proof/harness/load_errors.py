"""Why a private switch does not hold the flows that were loaded into it: what to look for in which template."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from dnsteer.render.flows import Flow, Group, parse_flow
from dnsteer.render.templates import templates_dir
from dnsteer.switch.openflow import RejectedError, Tables
from dnsteer.switch.table_changes import changes
from dnsteer.tables.order import TABLES

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_TABLE = re.compile(r"\btable=(\d+)")


def rejected(err: RejectedError) -> str:
    """Say which flow or group Open vSwitch refuses, and the line of its template where that can be found."""
    table = _TABLE.search(err.what)
    if table is None:
        which = f": {err.what}" if err.what else ", such as set_field:5->ip_dscp without ip or ipv6 in its match"
        return f"the private switch refuses what the templates make: {err.reason}{which}"
    words = [word for word in _WORD.findall(err.reason) if word in err.what]
    return f"{_template(int(table[1]), words)}: the private switch refuses a flow: {err.reason}: {err.what}"


def shown_differently(lines: Collection[str], groups: Sequence[Group], tables: Tables) -> str:
    """Say how the switch shows a flow otherwise than its template spells it."""
    first: dict[tuple[int, int, str], str] = {}
    for line in lines:
        other = first.setdefault(parse_flow(line).key, line)
        if other != line:
            file = _template(parse_flow(line).table, ())
            return f"{file}: two flows of one table have the same priority and match: {other!r} and {line!r}"
    todo = changes(dict.fromkeys(lines), groups, tables)
    for flow in (*todo.add, *todo.replace):
        shown = _alike(flow, [*tables.flows.values(), *tables.other.values()])
        if shown is not None:
            return (
                f"{_template(flow.table, ())}: the switch shows a flow otherwise than the template spells it, so that it "
                f"would seem changed after every apply; write it as the switch shows it\n"
                f"    rendered: {flow.line()}\n    shown:    {shown.line()}"
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
    name = next((f"tables/{t.name}.j2" for t in TABLES if t.number == table), f"table {table}")
    file = templates_dir() / name
    text = file.read_text().splitlines() if file.exists() else []
    for word in words:
        found = [number for number, line in enumerate(text, 1) if re.search(rf"\b{word}\b", line)]
        if len(found) == 1:
            return f"{name}:{found[0]}"
    return name
