# SPDX-License-Identifier: Apache-2.0
"""Plan -> flows and groups: as commented text for people, and as the lines that the switch prints, for comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from dnsteer.plan.mask_policy import MaskPolicy
from dnsteer.plan.plan import Plan
from dnsteer.render.flow_checks import check_actions, check_buckets, check_flows, shortened
from dnsteer.render.templates import check_own_templates, leads_to, render_template, template_line
from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.slot import GroupRow
from dnsteer.tables.table import Table, TemplateError


@dataclass(frozen=True)
class Flow:
    """One flow, spelt as `ovs-ofctl -O OpenFlow15 --no-stats dump-flows` prints it, with ports by name."""

    table: int
    priority: int
    match: str
    cookie: int
    actions: str

    @property
    def key(self) -> tuple[int, int, str]:
        """What identifies a flow in OpenFlow: table, priority and match."""
        return (self.table, self.priority, self.match)

    def spec(self) -> str:
        """The flow's key as ovs-ofctl del-flows --strict takes it."""
        match = f",{self.match}" if self.match else ""
        return f"table={self.table},priority={self.priority}{match}"

    def line(self) -> str:
        """The flow as ovs-ofctl add-flow takes it."""
        comma = "," if self.match else ""
        head = f"cookie=0x{self.cookie:x}, table={self.table}, priority={self.priority}"
        return f"{head}{comma}{self.match} actions={self.actions}"


@dataclass(frozen=True)
class Group:
    """One group: its number and its description as ovs-ofctl prints it."""

    number: int
    text: str


def parse_flow(line: str) -> Flow:
    """Parse a flow as rendered or as dumped with --no-stats. Raises ValueError for anything else, also for flow flags."""
    head, mark, actions = line.strip().rpartition(" actions=")
    cookie, table, priority, match = 0, 0, 32768, ""
    if not mark and not line.strip().startswith("actions="):
        raise ValueError(f"not a flow: {line!r}")
    for part in head.rstrip(",").split(", ") if head else ():
        name, _, value = part.partition("=")
        if name == "cookie":
            cookie = int(value, 16)
        elif name == "table":
            table = int(value)
        elif name == "priority":
            number, _, match = value.partition(",")
            priority = int(number)
        elif match or " " in part or name in _FLAGS:
            raise ValueError(f"not a flow without flags: {line!r}")
        else:
            match = part
    return Flow(table, priority, match, cookie, actions.removeprefix("actions="))


_FLOW = re.compile(r"cookie=0x[0-9a-f]+, table=[0-9]+, priority=[0-9]+(?:,[^ ]+)? actions=[^ ]")
_GROUPS = "groups/slot.j2"
_FLAGS = frozenset(["idle_timeout", "hard_timeout", "importance"])


def render_table(
    plan: Plan, table: Table, file: str = "spec", *, notes: bool = True, masks: MaskPolicy | None = None
) -> str:
    """Render one table's flows, with comments if *notes*; these name the spec as *file*.

    *masks* is the plan's mask policy, so that rendering several tables computes it once.
    """
    return _render(f"tables/{table.name}.j2", plan, table, file, notes=notes, masks=masks or MaskPolicy(plan))


def _render(template: str, plan: Plan, table: Table, file: str, *, notes: bool, masks: MaskPolicy | None) -> str:
    rows = {name: plan.rows.of(kind) for name, kind in table.uses.items()}
    return render_template(template, **rows, table=table, plan=plan, masks=masks, file=file, notes=notes)


def render_flows(plan: Plan, file: str = "spec") -> tuple[str, list[str]]:
    """Render the flows of all tables in pipeline order: as text with comments, and their lines alone."""
    check_own_templates()
    parts, found, masks = [], list[str](), MaskPolicy(plan)
    for table in TABLES:
        leads = ", ".join(f"{n} ({PIPELINE.tables[n].number})" for n in leads_to(table.name)) or "out"
        head = f"# table {table.number} {table.name}: {table.does}; leads to {leads}"
        text = render_table(plan, table, file, masks=masks)
        lines = flow_lines(text, table.template_file)
        check_flows(plan, table, lines)
        parts.append(f"{head}\n{text}")
        found += lines
    return "\n".join(parts), found


def lines_of(plan: Plan, *, check: bool = False) -> list[str]:
    """Return all flows of the plan, each as the line that the switch prints.

    With *check* the flows and their actions are checked, which an installed package needs for no spec.
    """
    check_own_templates()
    masks, found = MaskPolicy(plan), []
    for table in TABLES:
        text = render_table(plan, table, notes=False, masks=masks)
        lines = flow_lines(text, table.template_file)
        if check:
            check_flows(plan, table, lines)
            check_actions(plan, table, lines)
        found += lines
    if check:
        check_buckets(plan, _GROUPS, (group.text for group in groups_of(plan)))
    return found


def flows_of(plan: Plan) -> list[Flow]:
    """Return all flows of the plan, parsed."""
    return [parse_flow(line) for line in lines_of(plan)]


def flow_lines(text: str, file: str = "template") -> list[str]:
    """Return the flows of a rendered text without comments and blank lines.

    Raises TemplateError for any other line, with the name of the template *file* that rendered it.
    """
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    flows = list(filter(_FLOW.match, lines))
    if len(flows) < len(lines):
        other = next((x for x in lines if x.strip() and not _FLOW.match(x)), None)
        if other is not None:
            raise TemplateError(
                f"{template_line(file, other)}: a flow is written cookie=0x..., table=@NAME, priority=N,MATCH actions=...; "
                f"this line was rendered: {shortened(other)}"
            )
    return flows


def groups_of(plan: Plan) -> list[Group]:
    """Return all groups of the plan. Raises TemplateError unless their template renders one line for each."""
    rows, lines = plan.rows.of(GroupRow), _render_groups(plan, "spec", notes=False).splitlines()
    lines = [line for line in lines if line.strip()]
    for row, line in zip_longest(rows, lines):
        if row is None or line is None or not line.startswith(f"group_id={row.group},"):
            expected = f"group_id={row.group},type=..." if row is not None else "no further line"
            found = f"this line was rendered: {shortened(line)}" if line is not None else "no further line was rendered"
            where = template_line(_GROUPS, line) if line is not None else _GROUPS
            raise TemplateError(f"{where}: a group is one line; expected {expected}; {found}")
    return [Group(row.group, line) for row, line in zip(rows, lines, strict=True)]


def render_groups(plan: Plan, file: str = "spec") -> str:
    """Render all groups with comments."""
    return _render_groups(plan, file, notes=True)


def _render_groups(plan: Plan, file: str, *, notes: bool) -> str:
    return _render(_GROUPS, plan, PIPELINE.holding("slots"), file, notes=notes, masks=None)
