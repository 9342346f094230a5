"""Plan -> flows and groups: as commented text for people, and as the lines that a switch prints for comparing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dnsteer.plan.mask_policy import Looks
from dnsteer.plan.objects import GroupRow, Plan
from dnsteer.plan.pipeline import PIPELINE, TABLES, Table
from dnsteer.plan.subject import Subject
from dnsteer.render.templates import environment, register_value
from dnsteer.spec.errors import Path, show_path


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
        """What makes a flow the same flow in OpenFlow: table, priority and match."""
        return (self.table, self.priority, self.match)

    def spec(self) -> str:
        """The match part, as used to delete this one flow strictly."""
        match = f",{self.match}" if self.match else ""
        return f"table={self.table},priority={self.priority}{match}"

    def line(self) -> str:
        """The flow as ovs-ofctl reads it."""
        comma = "," if self.match else ""
        head = f"cookie=0x{self.cookie:x}, table={self.table}, priority={self.priority}"
        return f"{head}{comma}{self.match} actions={self.actions}"


@dataclass(frozen=True)
class Group:
    """One group: its number and its description as ovs-ofctl prints it."""

    number: int
    text: str


def parse_flow(line: str) -> Flow:
    """Read one flow as rendered or as dumped with --no-stats. Raises ValueError for anything else, flags included."""
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


_FLAGS = frozenset(["idle_timeout", "hard_timeout", "importance"])


def render_table(
    plan: Plan, table: Table, file: str = "spec", *, notes: bool = True, looks: Looks | None = None
) -> str:
    """One table's flows with comments. *file* is the spec's name in them. Without *notes* what is many has none.

    *looks* are those of the plan, where several tables are rendered.
    """
    template = environment().get_template(f"tables/{table.number:02d}-{table.name}.j2")
    return template.render(plan=plan, looks=looks or Looks(plan), place=_placer(file), notes=notes)


def _placer(file: str) -> Callable[[Subject], str]:
    shown: dict[Path, str] = {}  # a path's text is costly and many slots share one

    def place(subject: Subject) -> str:
        path = shown.get(subject.path)
        if path is None:
            path = shown[subject.path] = show_path(subject.path)
        return f"{file}:{subject.line} {path}"

    return place


def render_flows(plan: Plan, file: str = "spec") -> str:
    """All tables' flows with comments, in pipeline order."""
    parts, looks = [], Looks(plan)
    for table in TABLES:
        leads = ", ".join(f"{n} ({PIPELINE.tables[n].number})" for n in table.next) or "out"
        head = f"# table {table.number} {table.name}: {table.does}; leads to {leads}"
        parts.append(f"{head}\n{render_table(plan, table, file, looks=looks)}")
    return "\n".join(parts)


def lines_of(plan: Plan) -> list[str]:
    """All flows of the plan, each as the line that a switch prints."""
    looks = Looks(plan)
    return [line for table in TABLES for line in flow_lines(render_table(plan, table, notes=False, looks=looks))]


def flows_of(plan: Plan) -> list[Flow]:
    """All flows of the plan."""
    return [parse_flow(line) for line in lines_of(plan)]


def flow_lines(text: str) -> list[str]:
    """The flows of a rendered text, without comments and blank lines."""
    return [line for line in text.splitlines() if line.startswith("cookie=")]


def groups_of(plan: Plan) -> list[Group]:
    """All groups of the plan."""
    return [Group(g.group, _group_text(g)) for g in plan.groups]


def _group_text(row: GroupRow) -> str:
    backend, forward = PIPELINE.registers["backend"].field, PIPELINE.tables["forward"].number
    buckets = ",".join(
        f"bucket=bucket_id:{slot},actions=set_field:{register_value(b)}->{backend},resubmit(,{forward})"
        for slot, b in enumerate(row.backends)
    )
    return f"group_id={row.group},type=select,selection_method=dp_hash,{buckets}"


def render_groups(plan: Plan, file: str = "spec") -> str:
    """All groups with comments."""
    out = ["# groups: one bucket of weight 1 per slot, so that the slots and not the hash decide who moves"]
    place = _placer(file)
    for row in plan.groups:
        out += [f"# {row.subject.title} ({place(row.subject)})", _group_text(row)]
    return "\n".join(out) + "\n"
