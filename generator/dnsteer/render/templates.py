# SPDX-License-Identifier: Apache-2.0
"""Jinja2 set up for flows: undefined names are errors, and numbers are printed as ovs-ofctl prints them.

Templates of tables, groups and meters look like the flows that they produce. `@name` is replaced when a template is
loaded, so it costs nothing per flow: after `goto_table:`, `table=` and `resubmit(,` it is a table; elsewhere a register, or,
before `[`, a packet field as move actions spell it; `@register.value` is a named value of a register. Lines that begin
with `# ` are comments, which are left out when the flows are not for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from dnsteer import __version__
from dnsteer.slots.membership import Membership
from dnsteer.spec.errors import escape, file_of_part, near, show_path
from dnsteer.tables.cookies import Subject
from dnsteer.tables.ingress import QUERY
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.order import PIPELINE, Pipeline
from dnsteer.tables.return_ import PREFIX
from dnsteer.tables.slot import GroupRow, SlotTable
from dnsteer.tables.table import ALL_TRAFFIC, FIELDS, SCRATCH, Register, Table, TemplateError

_TABLES = "tables/"
_METERS = "meters/"
_FLOWS = (_TABLES, "groups/", _METERS)
_TO_TABLE = re.compile(r"((?:goto_table:|\btable=|resubmit\(,))@(\w+)(?:\.(\w+))?")
_LEADS_TO = re.compile(r"(?:goto_table:|[(,]table=|resubmit\(,)@(\w+)(?:\.(\w+))?")
_OWN = "own"
"""In place of a table's name, in a template that several tables share: the table that is rendered."""
_NEXT = "next"
"""In place of a table's name: the table that follows in the order, `next.KIND` for packets of a kind of `Traffic`."""
_OWN_MISS = re.compile(r"\bpriority=0 actions=")
_UNNAMED_TABLE = re.compile(r"(?:goto_table:|\btable=|resubmit\(\w*,)(?!@)")
_FLOW_OF = re.compile(r"^(?:cookie=.*?)?\btable=@(\w+)", re.MULTILINE)
_NAME = re.compile(r"@(\w+)(?:\.(\w+)|(\[))?")
_MATCHED = re.compile(r"(?<![.@\w])@(?P<register>\w+)=(?P<value>@(\w+)\.\w+)")
_SET = re.compile(r"set_field:(?P<value>@(\w+)\.\w+)->@(?P<register>\w+)")
_RAW_REGISTER = re.compile(r"(?<![@\w.])(?:x{0,2}reg(\d+)|NXM_NX_X{0,2}REG(\d+))\b")
_UNDEFINED = re.compile(r"'(\w+)' is undefined$")
_COMMENT = re.compile(r"^# (.*)$", re.MULTILINE)


def templates_dir() -> Path:
    """Return the folder of the templates: inside the installed package, or at the top of a source checkout."""
    packaged = Path(str(resources.files("dnsteer"))) / "templates"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "templates"


def resolve(source: str, file: str, pipeline: Pipeline = PIPELINE, own: Table | None = None) -> str:
    """Return the source of a flow template with every `@name` replaced, for the table *own* where several share it.

    Raises TemplateError with file and line.
    """
    template = _FlowTemplate(source, file, pipeline, own or next(iter(_tables_of(file, pipeline)), None))
    template.check_numbers()
    # Line breaks stay where they are, so that the lines of errors are those of the file.
    text = _NAME.sub(template.replace_name, _TO_TABLE.sub(template.replace_table, source))
    template.check_values()
    template.check_jumps()
    return _COMMENT.sub(r'{% if notes %}# \1{{ "\\n" }}{% endif %}', text)


def _tables_of(file: str, pipeline: Pipeline) -> list[Table]:
    """Return the tables that a template is for: several where they share it, and for a group the table of its name."""
    stem = Path(file).stem
    return [table for table in pipeline.tables.values() if (table.template or table.name) == stem]


@dataclass(frozen=True)
class _FlowTemplate:
    """The *source* of the template *file* of the table *own*, whose names are those of a *pipeline*."""

    source: str
    file: str
    pipeline: Pipeline
    own: Table | None

    def replace_table(self, m: re.Match[str]) -> str:
        """Return a jump to a table with its number."""
        return f"{m[1]}{self._target(m.start(), m[2], m[3]).number}"

    def _target(self, at: int, name: str, kind: str) -> Table:
        """The table that a jump at character *at* leads to: by its name, or the next one for a *kind* of packets."""
        own, tables = self.own, self.pipeline.tables
        if name == _OWN and own is not None and own.template:
            return own
        if name != _NEXT or own is None:
            if name not in tables or kind:
                what = f"no table @{name}{f'.{kind}' if kind else ''}"
                raise self._mistake(at, what, name, [*tables, _NEXT])
            return tables[name]
        if kind and kind not in ALL_TRAFFIC:
            raise self._mistake(at, f"no kind of packets {kind}", kind, ALL_TRAFFIC)
        found = self.pipeline.next_table(own, kind)
        if found is None:
            who = kind or " and ".join(own.traffic) or "no packets"
            raise self._mistake(
                at,
                f"no table after {own.name} ({own.number}) is passed by {who}; write @next.KIND with one of "
                f"{', '.join(ALL_TRAFFIC)}, or the table's name",
            )
        return found

    def replace_name(self, m: re.Match[str]) -> str:
        """Return what stands for a register, a value of one, or the name of a field before its bits."""
        register = self.pipeline.registers.get(m[1])
        if m[2]:
            return self._value(m, register)
        if register is not None:
            self._check_live(m, register)
        if m[3]:
            return f"{self._field(m, register)}["
        if register is not None:
            return register.field
        if m[1] in self.pipeline.tables:
            raise self._mistake(m.start(), f"@{m[1]} is a table; write goto_table:@{m[1]}")
        raise self._mistake(m.start(), f"no register @{m[1]}", m[1], self.pipeline.registers)

    def _value(self, m: re.Match[str], register: Register | None) -> str:
        values = register.values if register is not None else {}
        if m[2] not in values:
            raise self._mistake(m.start(), f"no value {m[0]}", m[2], values)
        return register_value(values[m[2]])

    def _field(self, m: re.Match[str], register: Register | None) -> str:
        if register is not None:
            return register.nxm
        if m[1] in FIELDS:
            return FIELDS[m[1]][0]
        known = [*self.pipeline.registers, *FIELDS]
        raise self._mistake(m.start(), f"no register or field @{m[1]}", m[1], known)

    def _check_live(self, m: re.Match[str], register: Register) -> None:
        """Refuse a register outside of the tables in which it is live."""
        own = self.own
        if own is None:
            return
        owner, until = self.pipeline.owners[register.name], self.pipeline.tables[register.until]
        if owner.number <= own.number <= until.number:
            return
        live = f"{owner.name} ({owner.number}) to {until.name} ({until.number})"
        advice = "use a register that is live here"
        if own.number > until.number:
            advice = f"set until={own.name!r} in {owner.file}, or {advice}"
        raise self._mistake(
            m.start(), f"register @{m[1]} in table {own.name} ({own.number}) is live from {live} only; {advice}"
        )

    def check_numbers(self) -> None:
        """Refuse tables and registers that are named by their number."""
        if unnamed := _UNNAMED_TABLE.search(self.source):
            what = f"{unnamed[0]} without the name of a table: write {unnamed[0]}@NAME"
            raise self._mistake(unnamed.start(), what)
        if raw := _RAW_REGISTER.search(self.source):
            registers = self.pipeline.registers.values()
            names = " or ".join(f"@{r.name}" for r in registers if r.number == int(raw[1] or raw[2])) or "@NAME"
            raise self._mistake(raw.start(), f"{raw[0]} without the name of a register; write {names}")

    def check_values(self) -> None:
        """Refuse a value of another register than that which is matched or set."""
        registers = self.pipeline.registers
        for named in (*_MATCHED.finditer(self.source), *_SET.finditer(self.source)):
            register, value = named["register"], named["value"]
            if value.split(".")[0] != f"@{register}":
                known = registers[register].values if register in registers else ()
                raise self._mistake(named.start(), f"{value} is no value of @{register}", value, known)

    def check_jumps(self) -> None:
        """Refuse flows of other tables, and jumps that do not lead on."""
        own = self.own
        if own is None:
            return
        for flow in _FLOW_OF.finditer(self.source):
            if flow[1] != (_OWN if own.template else own.name):
                what = f"a flow of table {flow[1]}; here are those of table {own.name}"
                raise self._mistake(flow.start(), what)
        for jump in _LEADS_TO.finditer(self.source):
            to = self._target(jump.start(), jump[1], jump[2])
            again = jump[0].startswith(("(table=", ",table=")) and set(own.traffic).isdisjoint(to.traffic)
            if to.number <= own.number and not again:  # a second pass, as packets of another kind: not in a circle
                what = f"table {own.name} ({own.number}) cannot lead back to {to.name} ({to.number})"
                raise self._mistake(jump.start(), what)

    def _mistake(self, at: int, what: str, word: str = "", known: Iterable[str] = ()) -> TemplateError:
        """An error with the line of the character *at*, and a hint of which of the names *known* the *word* was to be."""
        hint = f"; {near(word, known)}" if word else ""
        return TemplateError(f"{self.file}:{self.source.count(chr(10), 0, at) + 1}: {what}{hint}")


def with_miss(source: str, table: Table) -> str:
    """Return the source of a table's template with the flow for all other packets at its end, unless it has its own."""
    if _OWN_MISS.search(source):
        return source
    what, actions = ("dropped", "drop") if table.miss == "drop" else ("to the next table", f"goto_table:@{_NEXT}")
    end = "" if not source or source.endswith("\n") else "\n"
    own = _OWN if table.template else table.name
    head = f"cookie={{{{ plan.pipeline.cookie | hex }}}}, table=@{own}, priority=0"
    return f"{source}{end}# what no other flow matches: {what}\n{head} actions={actions}\n"


def template_source(folder: Path, template: str, own: Table) -> str:
    """Return the source of a template of flows, groups or meters of the table *own* as it is rendered, with its names."""
    source = (folder / template).read_text()
    return with_miss(source, own) if template.startswith(_TABLES) else source


def leads_to(table: str, folder: Path | None = None, pipeline: Pipeline = PIPELINE) -> tuple[str, ...]:
    """Return the names of the tables that the flows and groups of a table jump to, in pipeline order."""
    found: set[str] = set()
    folder, own = folder or templates_dir(), pipeline.tables[table]
    for part in _FLOWS:
        file = f"{part}{own.template or own.name}.j2"
        if (folder / file).exists():
            found |= _targets(template_source(folder, file, own), own, pipeline)
    return tuple(name for name in pipeline.tables if name in found)


def _targets(source: str, own: Table, pipeline: Pipeline) -> set[str]:
    """Return the names of the tables that a source of the table *own* leads to."""
    found: set[str] = set()
    for name, kind in _LEADS_TO.findall(source):
        follower = pipeline.next_table(own, kind) if name == _NEXT else pipeline.tables.get(name)
        if follower is not None:
            found.add(follower.name)
    return found


def check_templates(folder: Path | None = None, pipeline: Pipeline = PIPELINE) -> None:
    """Check all templates against the list of tables, before the first of all tables is rendered.

    Raises TemplateError for what `resolve` refuses, a template without table, a table without template, a table that nothing
    leads to, and a register that no template uses.
    """
    folder = folder or templates_dir()
    reached, named = {pipeline.first.name}, set[str]()
    for part in _FLOWS:
        for file in sorted((folder / part).glob("*.j2")):
            name, owners = f"{part}{file.name}", _tables_of(file.name, pipeline)
            if not owners:
                where = "add its line to ORDER in dnsteer/tables/order.py"
                raise TemplateError(f"{name}: no table {file.stem}; {where}")
            if part == "groups/" and GroupRow not in owners[0].uses.values():
                raise TemplateError(f"{name}: table {file.stem} has no GroupRow in its uses, so it has no groups")
            if part == _METERS and MeterRow not in owners[0].uses.values():
                raise TemplateError(f"{name}: table {file.stem} has no MeterRow in its uses, so it has no meters")
            for own in owners:
                source = template_source(folder, name, own)
                resolve(source, name, pipeline, own)
                reached |= _targets(source, own, pipeline)
                named.update(match[1] for match in _NAME.finditer(_TO_TABLE.sub("", source)))
    for table in pipeline.tables.values():
        if not (folder / table.template_file).exists():
            raise TemplateError(f"table {table.name} has no template {table.template_file}")
        if table.traffic and table.name not in reached:
            tables = list(pipeline.tables)
            raise TemplateError(
                f"nothing leads to table {table.name}: no template has goto_table:@{table.name}, or @next where "
                f"{' or '.join(table.traffic)} go on; the table before it is {tables[tables.index(table.name) - 1]}"
            )
    for register in pipeline.registers:
        if register not in named and not register.startswith("scratch"):  # which `unwildcard` names
            raise TemplateError(f"{pipeline.owners[register].file}: no template uses register {register}")


@cache
def check_own_templates() -> None:
    """Check the templates that are used, once in a process. Raises TemplateError."""
    check_templates()


def _file_of(template: str) -> str:
    """Return the file of a template: that of a table by the table's name, as it may be one that several share."""
    own = PIPELINE.tables.get(Path(template).stem) if template.startswith(_TABLES) else None
    return own.template_file if own is not None else template


class _Loader(jinja2.FileSystemLoader):
    """Loads templates, those of tables by the tables' names; in those of flows every `@name` is replaced."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        own = PIPELINE.tables.get(Path(template).stem)
        name = _file_of(template)
        source, file, fresh = super().get_source(environment, name)
        if template.startswith(_FLOWS):
            whole = with_miss(source, own) if own is not None and template.startswith(_TABLES) else source
            source = resolve(whole, name, own=own)
        return source, file, fresh


class _Environment(jinja2.Environment):
    """A Jinja2 environment whose dot only looks up attributes: faster, and a large switch takes 300,000 lookups."""

    getattr = staticmethod(getattr)  # type: ignore[assignment]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._trees: dict[str, jinja2.nodes.Template] = {}

    def tree(self, source: str) -> jinja2.nodes.Template:
        """Parse a template. Its tree is kept for the code that is made of the template later: parsing takes long."""
        return self._trees.setdefault(source, self.parse(source))

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        kept = self._trees.pop(source, None)
        return super()._parse(source, name, filename) if kept is None else kept


@cache
def environment() -> _Environment:
    """Return the Jinja2 environment, made once."""
    env = _Environment(
        loader=_Loader(templates_dir()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        keep_trailing_newline=True,
        autoescape=False,  # flows and shell, not markup
    )
    # Filters, since Jinja2 takes far longer to call a function than a filter.
    env.filters.update(
        about=about,
        active=active_member,
        bits=bits,
        hex=hex,
        numbered=numbered_slots,
        place=place_in_spec,
        port=port_name,
        reg=register_value,
        to=to,
    )
    scratch = (register.field for name, register in PIPELINE.registers.items() if name.startswith("scratch"))
    clear = ",".join(f"set_field:0->{field}" for field in scratch)
    env.globals.update(clear_scratch=clear, PREFIX=PREFIX, QUERY=QUERY, unwildcard=unwildcard, version=__version__)
    return env


def render_template(template: str, **values: Any) -> str:
    """Render one template. Raises TemplateError with file and line for what Jinja2 refuses."""
    file = _file_of(template)
    try:
        return environment().get_template(template).render(**values)
    except jinja2.TemplateSyntaxError as err:
        raise TemplateError(
            f"{file if err.name == template else err.name or file}:{err.lineno}: {err.message}"
        ) from None
    except (jinja2.TemplateError, AttributeError, LookupError, TypeError, ValueError) as err:
        import traceback  # here, since the quick verbs do without

        # The template's own frame is among those of the traceback, unless the mistake is elsewhere.
        lines = [f.lineno for f in traceback.extract_tb(err.__traceback__) if f.filename.endswith(file)]
        if not lines:
            raise
        raise TemplateError(f"{file}:{lines[-1]}: {_mistake(err, values)}") from None


def _mistake(err: Exception, given: Iterable[str]) -> str:
    """What is wrong in a template, with the nearest of the names *given* to it where one is misspelt."""
    if isinstance(err, jinja2.UndefinedError) and (m := _UNDEFINED.match(str(err))):
        return f"nothing is called {m[1]} here; {near(m[1], sorted(given))}"
    if isinstance(err, AttributeError) and err.name and err.obj is None:
        return f"what should have {err.name} is None for this spec; let the lines stand in {{% if ... %}}"
    if isinstance(err, AttributeError) and err.name:
        known = [name for name in dir(err.obj) if not name.startswith("_")]
        return f"{type(err.obj).__name__} has no {err.name}; {near(err.name, known)}"
    return str(err) if isinstance(err, jinja2.TemplateError | TemplateError) else f"{type(err).__name__}: {err}"


def register_value(value: int) -> str:
    """Return a register's value as ovs-ofctl prints it. Raises TypeError for what is no number, such as None."""
    if not isinstance(value, int) or value is True or value is False:
        raise TypeError(f"{value!r} is no value of a register")
    return f"0x{value:x}" if value else "0"


def port_name(name: str) -> str:
    """Return a port's name as ovs-ofctl --names prints it: quoted unless it is a plain identifier."""
    return name if all(c.isalnum() or c in "_-." for c in name) else f'"{name}"'


def active_member(members: tuple[str, ...]) -> str:
    """Return the action after which the ingress port is the first member of a bond whose link is up, or none.

    So IN_PORT leaves by that one, whichever member the packet came in by, and if it is the same one too.
    """
    return f"bundle_load(eth_src,0,active_backup,ofport,NXM_OF_IN_PORT[],members:{','.join(map(port_name, members))})"


def place_in_spec(subject: Subject, file: str) -> str:
    """Return where a subject is in the spec: file, line and path."""
    if not subject.line:
        return "by hand"
    return escape(f"{file_of_part(file, subject.part)}:{subject.line} {show_path(subject.path)}")


def about(subject: Subject, file: str) -> str:
    """Return what a subject is, and where it is in the spec."""
    return f"{subject.title} ({place_in_spec(subject, file)})"


def to(low: int, high: int) -> str:
    """Return a range of bits without its brackets, as ovs-ofctl prints it."""
    return f"{low}" if low == high else f"{low}..{high}"


def bits(low: int, high: int) -> str:
    """Return a range of bits of a field with brackets, as ovs-ofctl prints it."""
    return f"[{to(low, high)}]"


def unwildcard(*names: str) -> str:
    """Return actions that unwildcard fields (`udp_dst`, or `udp_dst[0..11]`) by copying them to scratch registers."""
    moves = []
    for name in names:
        field, mark, part = name.partition("[")
        if field not in FIELDS:
            raise TemplateError(f"no field {field}; {near(field, FIELDS)}")
        nxm, width = FIELDS[field]
        count = _width_of_part(name, field, part, width) if mark else width
        target = "[]" if count == _SCRATCH_BITS else bits(0, count - 1)
        moves.append(f"move:{nxm}{mark}{part}{'' if mark else '[]'}->{SCRATCH}{target}")
    return ",".join(moves)


def _width_of_part(name: str, field: str, part: str, width: int) -> int:
    found = _PART.fullmatch(part)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, width)
    if not low <= high < width:
        raise TemplateError(
            f"unwildcard: found {name!r}; expected {field}, or some of its bits, as {field}[0..{width - 1}]"
        )
    return high - low + 1


_SCRATCH_BITS = 128
_PART = re.compile(r"(\d+)(?:\.\.(\d+))?\]")
"""What follows the bracket of a field's bits."""


def numbered_slots(slots: SlotTable) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield for each slot: its number, the low half of its cookie, its register value, its backend's number and name."""
    backends = _backend_numbers(slots.members)
    lows, values = _slot_texts(len(slots.owners))
    return zip(range(len(lows)), lows, values, map(backends.__getitem__, slots.owners), slots.owners, strict=True)


def _backend_numbers(members: Membership) -> Mapping[str, str]:
    return {m.name: register_value(m.number) for m in members.members}


@cache
def _slot_texts(count: int) -> tuple[list[str], list[str]]:
    """Return the low half of each slot's cookie, and each register value; the same for all pools of one size."""
    return [f"{slot:04x}" for slot in range(count)], [register_value(slot) for slot in range(count)]


_RENDERED = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def template_line(file: str, rendered: str) -> str:
    """Return a template's name with the number of the line that most likely rendered *rendered*; alone if none could."""
    template = templates_dir() / file
    if not template.exists():
        return file
    found = []
    for number, line in enumerate(resolve(template.read_text(), file).splitlines(), 1):
        fixed = _RENDERED.split(line)
        if any(fixed) and re.fullmatch(".*".join(map(re.escape, fixed)), rendered):
            found.append((len("".join(fixed)), -number))
    return f"{file}:{-max(found)[1]}" if found else file
