"""Whether what the templates of a table rendered are flows, and flows of the plan."""

from __future__ import annotations

from collections.abc import Sequence

from dnsteer.plan.plan import Plan
from dnsteer.render.template_lines import place_of
from dnsteer.tables.table import Table, TemplateError

_SHOWN = 300


def shown(line: str) -> str:
    """Return a flow or group, cut where it is too long for a message: a group has a bucket for each slot."""
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


def check_flows(plan: Plan, table: Table, lines: Sequence[str]) -> None:
    """Check the rendered flows of a table, one on each line.

    Raises TemplateError for a cookie that the plan has no subject for, so that the flow would count as somebody else's; for
    a flow that occurs twice; and for a table without a flow of priority 0 for all other packets.
    """
    file = f"tables/{table.name}.j2"
    seen: dict[str, str] = {}
    for line in lines:
        seen.setdefault(line[: line.index(",")], line)
    for cookie, line in seen.items():
        number = int(cookie.removeprefix("cookie="), 16)
        if plan.subject(number) is None:
            raise TemplateError(
                f"{place_of(file, line)}: cookie 0x{number:x} belongs to nothing of the plan, so the flow would count as "
                "somebody else's; write cookie={{ ROW.subject.cookie | hex }}, or {{ plan.pipeline.cookie | hex }}: "
                f"{shown(line)}"
            )
    if len(set(lines)) != len(lines):
        known: set[str] = set()
        twice = next(line for line in lines if line in known or known.add(line))  # type: ignore[func-returns-value]
        raise TemplateError(
            f"{place_of(file, twice)}: the flow is rendered twice; leave one out, or match what tells them apart: "
            f"{shown(twice)}"
        )
    if not any(", priority=0 actions=" in line for line in lines):
        raise TemplateError(
            f"{file}: no flow for all other packets; end it with cookie={{{{ plan.pipeline.cookie | hex }}}}, "
            f"table=@{table.name}, priority=0 actions=drop"
        )
