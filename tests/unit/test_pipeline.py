# SPDX-License-Identifier: Apache-2.0
"""The list of tables and their templates: numbers and jumps follow from the order, and what contradicts it is refused."""

from __future__ import annotations

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
from dnsteer.render.templates import (
    check_own_templates,
    check_templates,
    environment,
    leads_to,
    resolve,
    templates_dir,
    with_miss,
)
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.model.spec import Forwarding
from dnsteer.tables.cookies import Category, cookie, number_names
from dnsteer.tables.order import ORDER, PIPELINE, TABLES, build_pipeline
from dnsteer.tables.rows import Rows
from dnsteer.tables.table import Register, Table, TemplateError

Order = tuple[tuple[Table, ...], ...]
_NOW = {table.name: table.number for table in TABLES}
TOY = Table("toy", "nothing", "sends everything on", ("queries",), {"miss": "All queries go on."}, miss="next")


def _with(order: Order, name: str, **changes: object) -> Order:
    """The list with one table changed."""
    return tuple(
        tuple(replace(t, **changes) if t.name == name else t for t in stage)  # type: ignore[arg-type]
        for stage in order
    )


def _after(name: str, *tables: Table, order: Order = ORDER) -> Order:
    """The list with tables after the one called *name*, in its stage."""
    return tuple(tuple(one for t in stage for one in ((t, *tables) if t.name == name else (t,))) for stage in order)


def _numbers(order: Order) -> dict[str, int]:
    return {name: table.number for name, table in build_pipeline(order).tables.items()}


def test_numbers_follow_from_the_order() -> None:
    for base, stage in enumerate(ORDER):
        assert [PIPELINE.tables[t.name].number for t in stage] == [10 * base + n for n in range(len(stage))]
    assert list(PIPELINE.tables) == [t.name for stage in ORDER for t in stage]


@pytest.mark.parametrize(
    ("before", "renumbered"),
    [
        ("vip", {"recirculate", "keep", "selection"}),
        ("echo", set()),
        ("ingress", {"icmp", "solicitation", "nd_code", "neighbor", "advertise", "echo"}),
    ],
)
def test_a_new_table_renumbers_only_those_after_it_in_its_stage(before: str, renumbered: set[str]) -> None:
    old, new = _numbers(ORDER), _numbers(_after(before, TOY))
    assert {name for name in old if new[name] != old[name]} == renumbered
    assert new["toy"] == old[before] + 1


@pytest.mark.parametrize(
    ("table", "kind", "follower"),
    [
        ("protect", "", "port"),
        ("port", "", "address1"),
        ("address7", "", "access"),
        ("access", "", "syn"),
        ("access", "sources", "switch_list1"),
        ("switch_list1", "listed", "vip_list1"),
        ("vip_list16", "listed", "admit"),
        ("admit", "queries", None),
        ("forward", "", "egress"),
        ("return", "", "egress"),
        ("return", "fragments", "fragment"),
        ("vip", "to_extension", "egress"),
        ("ingress", "answers", "return"),
        ("ingress", "", None),
        ("echo", "", None),
        ("state", "", None),
    ],
)
def test_the_next_table_is_that_which_the_packets_pass(table: str, kind: str, follower: str | None) -> None:
    found = PIPELINE.next_table(PIPELINE.tables[table], kind)
    assert (found.name if found is not None else None) == follower


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        ({"flows": {"udp": ""}}, r"table toy has no text for udp in flows=: say"),
        ({"miss": "drop"}, r"table toy drops what none of its flows matches, and has no drops=: say why"),
        ({"traffic": ("querys",)}, r"table toy has 'querys' in traffic=; expected neighbors, echo, queries, "),
    ],
)
def test_a_table_that_contradicts_itself_is_refused_when_it_is_made(lacks: dict[str, object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(TOY, **lacks)  # type: ignore[arg-type]


def test_a_table_that_lacks_something_is_refused_by_its_name() -> None:
    with pytest.raises(DefinitionError, match=r"test_pipeline\.py: table toy has no flows=: say in a sentence"):
        Table("toy", "", "", ("queries",), drops="denied")
    with pytest.raises(DefinitionError, match=r"table toy has no traffic=: say what passes it, of neighbors, echo"):
        Table("toy", "", "", flows=TOY.flows, drops="denied")


def _registers(*registers: Register) -> Order:
    """The list with more registers in table vip."""
    return _with(ORDER, "vip", registers=(*PIPELINE.tables["vip"].registers, *registers))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((*ORDER, (ORDER[0][0],)), "order.py: table ingress occurs twice"),
        (
            _after("ingress", *(replace(TOY, name=f"toy{n}") for n in range(7))),
            "order.py: the stage that begins with table ingress has 14 tables; expected at most 10: begin another stage",
        ),
        (
            (*ORDER, *((replace(TOY, name=f"toy{n}"),) for n in range(20))),
            f"order.py: {len(ORDER) + 20} stages; expected at most 24: numbers from 240 on are those of recorded states",
        ),
        (_with(ORDER, "slot", holds=None), "order.py: no table has holds='slots'; expected one"),
        (_with(ORDER, "forward", holds="slots"), "order.py: tables slot and forward both have holds='slots'"),
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


AFTER_VIP = "slot"
NEXT = PIPELINE.tables["slot"].number
TOY_ORDER = _after("vip", TOY)
TOY_NUMBER = PIPELINE.tables["vip"].number + 1


def test_a_table_is_added_in_two_files_and_a_line(templates: Path) -> None:
    """No template of another table is changed: those before it jump to the next table, and its miss goes on to slot."""
    (templates / "tables" / "toy.j2").write_text("{# Nothing yet. #}\n")
    pipeline = build_pipeline(TOY_ORDER)
    check_templates(templates, pipeline)
    assert leads_to("toy", templates, pipeline) == ("slot",)
    assert leads_to("vip", templates, pipeline) == ("toy", "recirculate", "keep", "selection", "egress")
    source = with_miss((templates / "tables" / "toy.j2").read_text(), TOY)
    assert resolve(source, "tables/toy.j2", pipeline).endswith(
        f"table={TOY_NUMBER}, priority=0 actions=goto_table:{NEXT}\n"
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_the_miss_flow_goes_where_the_table_says(table: Table) -> None:
    """The flow for it is added unless the template has its own."""
    source = (templates_dir() / table.template_file).read_text()
    own = "priority=0 actions=" in source
    assert own == (table.name in ("ingress", "state") or table.template == "access_list")
    assert with_miss(source, table).count("priority=0 actions=") == 1
    if not own:
        to = "drop" if table.miss == "drop" else "goto_table:@next"
        assert with_miss(source, table).endswith(f"priority=0 actions={to}\n")


def _unreached(templates: Path) -> None:
    (templates / "tables" / "toy.j2").write_text("")
    _edit(templates / "tables" / "vip.j2", "goto_table:@next\n", "goto_table:@slot\n")


def _backwards(templates: Path) -> None:
    _unreached(templates)
    _edit(templates / "tables" / "slot.j2", "goto_table:@next", "goto_table:@toy")


def _no_table(templates: Path) -> None:
    _edit(templates / "tables" / "slot.j2", "goto_table:@next", "goto_table:@nosuch")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_unreached, "nothing leads to table toy: no template has goto_table:@toy"),
        (_backwards, rf"tables/slot.j2:\d+: table slot \({NEXT}\) cannot lead back to toy \({TOY_NUMBER}\)"),
        (_no_table, r"tables/slot.j2:\d+: no table @nosuch; known here: ingress, icmp, "),
        (lambda t: None, "table toy has no template tables/toy.j2"),
        (
            lambda t: _edit(t / "tables" / "ingress.j2", "goto_table:@next.echo", "goto_table:@next"),
            r"tables/ingress.j2:\d+: no table after ingress \(0\) is passed by neighbors and .*; write @next.KIND",
        ),
        (
            lambda t: _edit(t / "tables" / "echo.j2", ",IN_PORT", ",goto_table:@next"),
            r"tables/echo.j2:\d+: no table after echo \(6\) is passed by echo; write @next.KIND",
        ),
        (
            lambda t: _edit(t / "tables" / "ingress.j2", "goto_table:@next.echo", "goto_table:@next.ecko"),
            r"tables/ingress.j2:\d+: no kind of packets ecko; did you mean \"echo\"\?",
        ),
        (
            lambda t: _edit(t / "tables" / "ingress.j2", "goto_table:@next.echo", "goto_table:@echo.echo"),
            r"tables/ingress.j2:\d+: no table @echo.echo",
        ),
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
            rf"tables/vip.j2:\d+: register @backend in table vip \({_NOW['vip']}\) is live from keep \({_NOW['keep']}\) to "
            rf"forward \({_NOW['forward']}\) only",
        ),
        (
            lambda t: _edit(t / "tables" / "egress.j2", "@path=", "@side="),
            rf"tables/egress.j2:\d+: register @side in table egress \({_NOW['egress']}\) is live from ingress \(0\) to echo "
            r"\(6\) only",
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
            lambda t: _edit(t / "groups" / "slot.j2", "resubmit(,@next)", "resubmit(,@vip)"),
            rf"groups/slot.j2:\d+: table slot \({_NOW['slot']}\) cannot lead back to vip \({_NOW['vip']}\)",
        ),
        (
            lambda t: _edit(t / "tables" / "vip.j2", "goto_table:@next\n", "goto_table:30\n"),
            r"tables/vip.j2:\d+: goto_table: without the name of a table: write goto_table:@NAME",
        ),
        (
            lambda t: _edit(t / "groups" / "slot.j2", "resubmit(,@next)", "resubmit(,40)"),
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
    for name in ("vip", "selection"):
        _edit(templates / "tables" / f"{name}.j2", "goto_table:@next\n", "goto_table:@forward\n")
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
def test_template_errors_name_their_line(
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


def test_cookies_have_prefix_category_and_index() -> None:
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
