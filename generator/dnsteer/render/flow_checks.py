# SPDX-License-Identifier: Apache-2.0
"""Check that what templates rendered are flows of the plan, with actions whose result `check` sees."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from dnsteer.plan.plan import Plan
from dnsteer.render.templates import port_name, template_line
from dnsteer.tables.ingress import PortRow, ProbeRow
from dnsteer.tables.slot import GroupRow
from dnsteer.tables.table import Table, TemplateError

_SHOWN = 300
_GROUP = re.compile(r"\bgroup:(\d+)")
ACTIONS = frozenset(
    ["IN_PORT", "bundle_load", "ct", "drop", "goto_table", "group", "meter", "move", "output", "set_field"]
)
"""Actions after which `check` sees all that becomes of a packet: not so, for example, with CONTROLLER or NORMAL."""
_BUCKET_ACTIONS = frozenset(["output", "resubmit", "set_field"])
_IN_BRACKETS = re.compile(r"\([^()]*\)")


def shortened(line: str) -> str:
    """Return a flow or group, cut where it is too long for a message: a group has a bucket for each slot."""
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


def check_flows(plan: Plan, table: Table, lines: Sequence[str]) -> None:
    """Check the rendered flows of a table, one on each line.

    Raises TemplateError for a cookie that the plan has no subject for, so that the flow would count as somebody else's; for
    two flows with one match; for a group that no row makes; and for a table without a flow for all other packets.
    """
    file = table.template_file
    for cookie in dict.fromkeys([line[: line.index(",")] for line in lines]):
        number = int(cookie.removeprefix("cookie="), 16)
        if not plan.has_subject(number):
            line = next(line for line in lines if line.startswith(f"{cookie},"))
            raise TemplateError(
                f"{template_line(file, line)}: cookie 0x{number:x} belongs to nothing of the plan, so the flow would count "
                "as somebody else's; write cookie={{ ROW.subject.cookie | hex }}, or {{ plan.pipeline.cookie | hex }}: "
                f"{shortened(line)}"
            )
    keys = [line[line.index(",") : line.index(" actions=")] for line in lines]  # all but the cookie
    if len(set(keys)) < len(keys):
        known: dict[str, str] = {}
        for key, line in zip(keys, lines, strict=True):
            if key in known:
                raise TemplateError(
                    f"{template_line(file, line)}: two flows have the same priority and match, so that one would replace "
                    "the other; leave one out, or match what tells them apart:\n"
                    f"    {shortened(known[key])}\n    {shortened(line)}"
                )
            known[key] = line
    groups = {row.group for row in plan.rows.of(GroupRow)}
    for line in [line for line in lines if "group:" in line]:
        for number in _GROUP.findall(line):
            if int(number) not in groups:
                raise TemplateError(
                    f"{template_line(file, line)}: group {number} is not there; groups are made from the rows of type "
                    f"GroupRow: {shortened(line)}"
                )
    if not any(", priority=0 actions=" in line for line in reversed(lines)):
        raise TemplateError(
            f"{file}: no flow for all other packets: none of priority=0 was rendered for this spec; let it stand outside of "
            "{% if %}, or leave it out, and one is added as miss= of the table says"
        )


def check_actions(plan: Plan, table: Table, lines: Sequence[str]) -> None:
    """Raise TemplateError for an action that takes packets to where `check` does not see them, or to a port of no spec."""
    ports, checked = _ports(plan), set[str]()
    for line in lines:
        actions = line[line.index(" actions=") + 9 :]
        if actions not in checked:
            checked.add(actions)
            _refuse_unseen(table.template_file, line, actions, ACTIONS, ports)


def check_buckets(plan: Plan, file: str, groups: Iterable[str]) -> None:
    """Raise TemplateError as `check_actions` does, for the buckets of groups, which the template *file* has rendered."""
    ports = _ports(plan)
    for line in groups:
        for bucket in line.split(",bucket=")[1:]:
            _refuse_unseen(file, line, bucket.partition("actions=")[2], _BUCKET_ACTIONS, ports)


def _refuse_unseen(file: str, line: str, actions: str, known: Collection[str], ports: Collection[str]) -> None:
    while "(" in actions:
        actions = _IN_BRACKETS.sub("", actions)
    for action in actions.split(","):
        name, _, port = action.partition(":")
        if name not in known or (name == "output" and port not in ports):
            places = ("output to one of", ports) if name == "output" else ("one of", known)
            raise TemplateError(
                f"{template_line(file, line)}: check does not see what {action} does with a packet; expected {places[0]} "
                f"{', '.join(sorted(places[1]))}: {shortened(line)}"
            )


def _ports(plan: Plan) -> set[str]:
    names = {row.name for row in plan.rows.of(PortRow)} | {row.name for row in plan.rows.of(ProbeRow)}
    if plan.extension is not None:
        names |= {plan.extension.ingress.name, plan.extension.egress.name}
    return set(map(port_name, names | {name for name, _ in plan.tunnel_ports}))
