"""The list of tables and their templates: checked when built, and pinned so that a change of layout is deliberate."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.checks.load import load_spec
from dnsteer.modes import MODES, by_word
from dnsteer.modes.base import Mode
from dnsteer.modes.dsr import Dsr
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import flow_lines, lines_of, render_flows
from dnsteer.render.templates import check_own_templates, check_templates, environment, leads_to, resolve, templates_dir
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.model.spec import Forwarding
from dnsteer.tables.cookies import Category, cookie, number_names
from dnsteer.tables.order import ORDER, PIPELINE, TABLES, build_pipeline
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Register, Table, TemplateError

Order = tuple[tuple[int, Table], ...]
TOY = Table("toy", "nothing", "sends everything on", "no packet is")


def test_layout_is_pinned() -> None:
    """Renumbering tables or registers changes every running switch: change the digest only when that is meant."""
    layout = (
        [[t.number, t.name, leads_to(t.name)] for t in TABLES],
        [[r.name, r.number, PIPELINE.owners[r.name].name, r.until] for r in PIPELINE.registers.values()],
    )
    assert hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16] == "bd14139bb328a18d"


def _with(order: Order, name: str, **changes: object) -> Order:
    """The list with one table changed."""
    return tuple((n, replace(t, **changes) if t.name == name else t) for n, t in order)  # type: ignore[arg-type]


def _registers(*registers: Register) -> Order:
    """The list with more registers in table vip."""
    return _with(ORDER, "vip", registers=(*PIPELINE.tables["vip"].registers, *registers))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((*ORDER, (99, ORDER[0][1])), "order.py: a table occurs twice: ingress, .*, ingress"),
        ((*ORDER, (63, TOY)), r"order.py: tables state and toy both have number 63; 62 and 64 are free"),
        ((*ORDER, (7, TOY)), r"order.py: table toy \(7\) stands after state \(63\); expected a higher number"),
        (
            _registers(Register("pool2", 0, "", "forward")),
            "vip.py: register pool2 overlaps pool of table vip: both are live in register 0",
        ),
        (
            _registers(Register("pool", 9, "", "forward")),
            "vip.py: register pool is owned by dnsteer/tables/vip.py already",
        ),
        (
            _registers(Register("sixteenth", 16, "", "forward")),
            "vip.py: register sixteenth has number 16; expected 0 to 15",
        ),
        (
            _registers(Register("late", 9, "", "ingress")),
            "vip.py: register late is live until ingress, which packets pass before vip",
        ),
        (
            _registers(Register("lost", 9, "", "nowhere")),
            "vip.py: register lost is live until nowhere, and no table has that name",
        ),
    ],
)
def test_a_broken_list_is_refused(order: Order, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        build_pipeline(order)


def test_registers_may_share_a_number_when_never_live_together() -> None:
    late = Register("late", PIPELINE.registers["pool"].number, "", "egress")
    assert "late" in build_pipeline(_with(ORDER, "return", registers=(late,))).registers


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the templates, to be broken."""
    return Path(shutil.copytree(templates_dir(), tmp_path / "templates"))


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


AFTER_VIP = leads_to("vip")[0]
NEXT = PIPELINE.tables["slot"].number
TOY_ORDER: Order = tuple(sorted((*ORDER, (NEXT - 1, TOY)), key=lambda placed: placed[0]))
TOY_TEMPLATE = "cookie={{ plan.pipeline.cookie | hex }}, table=@toy, priority=0 actions=goto_table:@slot\n"


def test_a_table_is_added_in_two_files_a_line_and_a_goto(templates: Path) -> None:
    before = [name for name in PIPELINE.tables if "slot" in leads_to(name)]
    (templates / "tables" / "toy.j2").write_text(TOY_TEMPLATE)
    for name in before:
        _edit(templates / "tables" / f"{name}.j2", "goto_table:@slot", "goto_table:@toy")
    pipeline = build_pipeline(TOY_ORDER)
    check_templates(templates, pipeline)
    assert leads_to("toy", templates, pipeline) == ("slot",)
    assert not any("slot" in leads_to(name, templates, pipeline) for name in before)
    assert resolve(TOY_TEMPLATE, "tables/toy.j2", pipeline).endswith(
        f"table={NEXT - 1}, priority=0 actions=goto_table:{NEXT}\n"
    )


def _unreached(templates: Path) -> None:
    (templates / "tables" / "toy.j2").write_text(TOY_TEMPLATE)


def _backwards(templates: Path) -> None:
    _unreached(templates)
    _edit(templates / "tables" / "slot.j2", "goto_table:@forward", "goto_table:@toy")


def _no_table(templates: Path) -> None:
    _edit(templates / "tables" / "slot.j2", "goto_table:@forward", "goto_table:@deny")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_unreached, "nothing leads to table toy: no template has goto_table:@toy"),
        (_backwards, rf"tables/slot.j2:\d+: table slot \({NEXT}\) cannot lead back to toy \({NEXT - 1}\)"),
        (_no_table, r"tables/slot.j2:\d+: no table @deny; known here: ingress, neighbor, "),
        (lambda t: None, "table toy has no template tables/toy.j2"),
        (
            lambda t: (t / "tables" / "deny.j2").write_text(""),
            "tables/deny.j2: no table deny; add its line to ORDER in dnsteer/tables/order.py",
        ),
        (
            lambda t: _edit(t / "tables" / "slot.j2", "->@backend", "->@server"),
            r"tables/slot.j2:\d+: no register @server; known here: ",
        ),
        (
            lambda t: _edit(t / "tables" / "slot.j2", "->@backend", "->@backnd"),
            r"tables/slot.j2:\d+: no register @backnd; did you mean \"backend\"\?",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "->@pool,", "->@backend,"),
            r"tables/vip.j2:\d+: register @backend in table vip \(20\) is live from slot \(30\) to forward \(40\) only",
        ),
        (
            lambda t: _edit(t / "tables" / "egress.j2", "@path=", "@side="),
            r"tables/egress.j2:\d+: register @side in table egress \(60\) is live from ingress \(0\) to echo \(8\) only",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "@transport.udp", "@transport.sctp"),
            r"tables/vip.j2:\d+: no value @transport.sctp; known here: udp, tcp",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "@udp_src[", "@udp_source["),
            r"tables/vip.j2:\d+: no register or field @udp_source",
        ),
        (
            lambda t: _edit(t / "groups" / "slot.j2", "resubmit(,@forward)", "resubmit(,@vip)"),
            r"groups/slot.j2:\d+: table slot \(30\) cannot lead back to vip \(20\)",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", f"goto_table:@{AFTER_VIP}", "goto_table:30"),
            r"tables/vip.j2:\d+: goto_table: without the name of a table: write goto_table:@NAME",
        ),
        (
            lambda t: _edit(t / "groups" / "slot.j2", "resubmit(,@forward)", "resubmit(,40)"),
            r"groups/slot.j2:\d+: resubmit\(, without the name of a table: write resubmit\(,@NAME",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "->@pool,", "->reg0,"),
            r"tables/vip.j2:\d+: reg0 without the name of a register; write @pool",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "table=@vip", "table=@slot"),
            r"tables/vip.j2:\d+: a flow of table slot; here are those of table vip",
        ),
    ],
)
def test_templates_that_contradict_the_list_are_refused(
    templates: Path, edit: Callable[[Path], object], message: str
) -> None:
    """Whatever the list says: what leads where is read from the templates themselves."""
    edit(templates)
    with pytest.raises(TemplateError, match=message):
        check_templates(templates, build_pipeline(TOY_ORDER if "toy" in message else ORDER))


def test_nothing_is_rendered_from_templates_that_contradict_the_list(
    templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that `check`, `render` and `apply` refuse them."""
    plan = build_plan(load_spec(Path(__file__).parents[2] / "examples" / "quickstart.yaml"))
    _edit(templates / "tables" / "vip.j2", f"goto_table:@{AFTER_VIP}", "goto_table:@forward")
    monkeypatch.setattr("dnsteer.render.templates.templates_dir", lambda: templates)
    for render in (lines_of, render_flows):
        check_own_templates.cache_clear()
        with pytest.raises(
            TemplateError, match=f"nothing leads to table {AFTER_VIP}: no template has goto_table:@{AFTER_VIP}"
        ):
            render(plan)
    check_own_templates.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{% endfor %}", "{% enfor %}", r"tables/state.j2:\d+: Encountered unknown tag 'enfor'"),
        ("{{ plan.", "{{ plna.", r"tables/state.j2:\d+: nothing is called plna here; did you mean .plan"),
        ("{{ plan.state", "{{ plan.sate", r"tables/state.j2:\d+: Plan has no sate; did you mean \"state\"\?"),
        (
            "actions=drop",
            "actions={{ unwildcard('ip_prtoo') }}",
            r"tables/state.j2:\d+: no field ip_prtoo; did you mean",
        ),
        (
            "actions=drop",
            "actions={{ unwildcard('udp_dst[8.15]') }}",
            r"tables/state.j2:\d+: unwildcard: found 'udp_dst\[8.15\]'; expected udp_dst, or .* as udp_dst\[0..15\]",
        ),
        (
            "actions=drop",
            "actions={{ unwildcard('udp_dst[8..16]') }}",
            r"state.j2:\d+: unwildcard: found .*udp_dst\[8..16",
        ),
        ("actions=drop", "actions={{ 'x' | reg }}", r"tables/state.j2:\d+: TypeError: 'x' is no value of a register"),
        ("actions=drop", "actions={{ None | reg }}", r"tables/state.j2:\d+: TypeError: None is no value of a register"),
        (
            "actions=drop",
            "actions={{ plan.extension.subject }}",
            r"tables/state.j2:\d+: what should have subject is None for this spec; let the lines stand in {% if",
        ),
    ],
)
def test_what_jinja_refuses_is_said_with_its_line(
    templates: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    file = templates / "tables" / "state.j2"
    file.write_text("{% for _ in (1,) %}\n" + file.read_text() + "{% endfor %}\n")
    _edit(file, old, new)
    monkeypatch.setattr("dnsteer.render.templates.templates_dir", lambda: templates)
    environment.cache_clear()
    try:
        plan = build_plan(load_spec(Path(__file__).parents[2] / "examples" / "quickstart.yaml"))
        with pytest.raises(TemplateError, match=message):
            lines_of(plan)
    finally:
        environment.cache_clear()


def test_rows_that_no_template_uses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be lost in silence."""

    class LostRow(NamedTuple):
        subject: object = None

    tables = tuple(replace(t, rows=lambda _: [LostRow()]) if t.name == "protect" else t for t in TABLES)
    monkeypatch.setattr("dnsteer.plan.build.TABLES", tables)
    with pytest.raises(DefinitionError, match="rows of type LostRow are made, and no table has the type in its uses"):
        build_plan(load_spec(Path(__file__).parents[2] / "examples" / "quickstart.yaml"))


class _Nameless(Mode):
    pass


class _Dumb(Mode):
    word = Forwarding.DSR
    number = 9


class _Numberless(Dsr):
    number = 0


class _Baseless:
    word = Forwarding.DSR


class _Misspelt(Dsr):
    word = "dsr"  # type: ignore[assignment]


class _SecondNat(Dsr):
    word = Forwarding.NAT


class _Endless(Dsr):
    backend_end = Mode.backend_end  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (_Nameless(), "forwarding mode _Nameless has no word: its name in the spec"),
        (_Dumb(), "forwarding mode dsr has number 9, so the switch forwards, but no forward_rows"),
        (_Numberless(), "forwarding mode dsr has forward_rows, and no number for register mode"),
        (_Baseless(), "_Baseless in MODES is not derived from modes.base.Mode"),
        (_Misspelt(), "the word of forwarding mode _Misspelt is 'dsr'; expected a member of Forwarding"),
        (_SecondNat(), "_SecondNat has the word nat, which is that of Nat"),
        (_Endless(), "forwarding mode dsr has no backend_end: what identifies a backend's packets"),
    ],
)
def test_modes_that_lack_something_are_refused(mode: Mode, message: str) -> None:
    others = [MODES[word] for word in Forwarding if word is not Forwarding.DSR]
    with pytest.raises(DefinitionError, match=message):
        by_word([*others, mode])


def test_modes_of_one_number_are_refused() -> None:
    class Twice(Dsr):
        number = MODES[Forwarding.NAT].number

    others = [MODES[word] for word in Forwarding if word is not Forwarding.DSR]
    with pytest.raises(DefinitionError, match="forwarding modes nat and dsr both have number 2; 1 is free"):
        by_word([*others, Twice()])


def test_lines_of_a_template_stay_where_they_are() -> None:
    """An error in a template names the line of the file."""
    for file in sorted((templates_dir() / "tables").glob("*.j2")):
        source = file.read_text()
        assert resolve(source, file.name).count("\n") == source.count("\n"), file


@given(st.sets(st.text(min_size=1), max_size=60), st.text(min_size=1))
def test_a_new_name_moves_few_numbers(names: set[str], new: str) -> None:
    before, after = number_names(names, 24), number_names(names | {new}, 24)
    moved = [n for n in names if before[n] != after[n]]
    assert len(moved) <= 1  # at most the one that the new name displaces
    assert len(set(after.values())) == len(names | {new})
    assert 0 not in after.values()


def test_numbers_run_out_loudly() -> None:
    assert sorted(number_names("abc", 2).values()) == [1, 2, 3]
    with pytest.raises(ValueError, match="more than 3 names"):
        number_names("abcd", 2)


def test_cookie_layout() -> None:
    assert cookie(Category.POOL, 0x1234) == 0xD453_06_0000001234


@pytest.mark.parametrize(
    "line",
    [
        "cookie=0x1, table=9, priority=1,udp action=drop",
        "cookie=0x1, table=9,priority=1,udp actions=drop",
        "cookie=0x1, table=9, priority=1, udp actions=drop",
        "cookie=0x1, table=9, priority=high actions=drop",
        "cookie=1, table=9, priority=1 actions=drop",
        "cookie=0x1, table=9, priority=1 actions=",
        " cookie=0x1, table=9, priority=1 actions=drop",
    ],
)
def test_a_flow_that_is_misspelt_is_refused_when_it_is_rendered(line: str) -> None:
    with pytest.raises(TemplateError, match=r"tables/acl\.j2: a flow is written cookie=0x"):
        flow_lines(line, "tables/acl.j2")


def test_rows_are_read_only_when_all_are_made() -> None:
    rows = Rows()
    assert rows.of(int) == []
    with pytest.raises(DefinitionError, match="rows of type int were read before all of them were made"):
        rows.add([1])


def test_a_table_knows_its_file() -> None:
    assert PIPELINE.tables["return"].file == "dnsteer/tables/return_.py"
