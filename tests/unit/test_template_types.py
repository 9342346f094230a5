# SPDX-License-Identifier: Apache-2.0
"""Names in templates are those of rows, plan and masks, in lines that no example leads to as well."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import jinja2
import pytest

from dnsteer.modes.base import Mode
from dnsteer.render.template_types import check_template_rows
from dnsteer.render.templates import environment, templates_dir
from dnsteer.spec.errors import DefinitionError
from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.slot import GroupRow
from dnsteer.tables.table import Table, TemplateError, rows_of_modes


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the templates, to be broken."""
    return Path(shutil.copytree(templates_dir(), tmp_path / "templates"))


def _broken(templates: Path, file: str, old: str, new: str) -> str:
    """What is said of a template with *new* in the place of *old*."""
    check_template_rows(templates)
    path = templates / f"{file}.j2"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(TemplateError) as error:
        check_template_rows(templates)
    return str(error.value)


def _line_of_change(file: Path, old: str, new: str) -> int:
    """The line of a template in which *new* differs from *old*."""
    text = file.read_text()
    alike = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
    return text.count("\n", 0, text.index(old) + alike) + 1


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("tables/return", ",tp_src={{ r.port }}", ",tp_src={{ r.prot }}", "25: TranslatedRow has no prot; did you"),
        ("tables/slot", "g.pool | reg", "g.pol | reg", '11: GroupRow has no pol; did you mean "pool"?'),
        ("groups/slot", "g.backends", "g.bakends", '4: GroupRow has no bakends; did you mean "backends"?'),
        ("tables/slot", "t.members.title", "t.members.titel", '5: Membership has no titel; did you mean "title"?'),
        (
            "tables/slot",
            "t.backends[owner] |",
            "t.backends[owner].pth |",
            '5: Subject has no pth; did you mean "path"?',
        ),
        ("tables/slot", "| numbered", "| numbred", '4: no filter numbred; did you mean "numbered"?'),
        (
            "tables/ingress",
            'unwildcard("eth_dst") }}\n',
            'unwildcard("eth_dts") }}\n',
            "LINE: no field eth_dts; did you mean",
        ),
        ("tables/egress", "for family, address in", "for family, address, x in", "15: 3 names for 2 values"),
        ("tables/ingress", "is not none", "is not noone", "LINE: no test noone; did you mean"),
        ("tables/protect", "{% for port in k", "{{ loop.indx }}{% for port in k", "5: LoopContext has no indx; did"),
        ("tables/egress", "{{ e.out | reg }}{{", "{{ e.name | reg }}{{", "7: filter reg takes int, and is given str"),
        ("tables/slot", "{{ p.subject | about(file) }}", "{{ p.subject | port }}", "14: filter port takes str, and is"),
        ("tables/forward", "{{ f.mac }}", "{{ f.mac | reg }}", "15: filter reg takes int, and is given str"),
        (
            "tables/forward",
            "{% set protocol",
            "{% set g = f %}{{ g.adress }}{% set protocol",
            "7: ForwardRow has no ad",
        ),
        (
            "tables/fragment",
            'map(attribute="vip")',
            'map(attribute="vipp")',
            "3: FragmentRow has no vipp; did you mean",
        ),
        ("tables/fragment", '"family", "equalto"', '"famly", "equalto"', "3: FragmentRow has no famly; did you mean"),
        ("tables/ingress", 'groupby("came_by")', 'groupby("came_bye")', "LINE: ExitRow has no came_bye; did you mean"),
        ("tables/ingress", "{{ probe.mac }}", "{{ plan.macc }}", 'LINE: Plan has no macc; did you mean "mac"?'),
        ("tables/return", "in masks.native", "in masks.nativ", '5: MaskPolicy has no nativ; did you mean "native"?'),
        (
            "tables/return",
            "cookie={{ r.subject.cookie",
            "cookie={{ r.subject.cooky",
            "6: Subject has no cooky; did you",
        ),
        (
            "tables/vip",
            "k.destination",
            "k.destinatio",
            '35: TrafficKind has no destinatio; did you mean "destination"?',
        ),
        (
            "tables/vip",
            "plan.extension.ingress",
            "plan.extension.ingres",
            "15: ExtensionPlan has no ingres; did you mean",
        ),
        ("tables/vip", "if s.slot_bits else", "if bits_of_slot else", "17: nothing is called bits_of_slot here; known"),
        ("tables/vip", "s.slot_bits else", "slotbits else", "17: nothing is called slotbits here; known here:"),
        ("tables/forward", "{{ f.mac }}", "{{ f.index }}", "15: ForwardRow has no index; known here: "),
        (
            "tables/forward",
            "{% endfor %}\n{% endfor %}\n{% endfor %}",
            "{% endfor %}",
            "28: Unexpected end of template.",
        ),
    ],
)
def test_unknown_names_in_templates_are_refused_with_their_line(
    templates: Path, file: str, old: str, new: str, message: str
) -> None:
    line = _line_of_change(templates / f"{file}.j2", old, new)
    assert _broken(templates, file, old, new).startswith(f"{file}.j2:{message.replace('LINE', str(line))}")


def test_unused_rows_of_a_template_are_refused(templates: Path) -> None:
    assert _broken(templates, "tables/slot", "in probe_slots", "in ()") == (
        "dnsteer/tables/slot.py: uses has 'probe_slots' (ProbeSlotRow), and tables/slot.j2 does not use it"
    )


def test_rows_with_a_reserved_name_are_refused(templates: Path) -> None:
    table = replace(PIPELINE.tables["slot"], uses={"plan": GroupRow})
    with pytest.raises(TemplateError, match=r"slot\.py: rows cannot be called 'plan'"):
        check_template_rows(templates, (table,))


def test_a_table_without_a_template_is_refused(templates: Path) -> None:
    (templates / "tables" / "slot.j2").unlink()
    with pytest.raises(TemplateError, match=r"table slot has no template tables/slot\.j2"):
        check_template_rows(templates)


def test_a_field_of_a_type_that_only_type_checkers_import(templates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("dnsteer.tables.slot.Membership")
    said = r"slot\.j2:\d+: SlotTable\.members is a Membership, which only type checkers import; import it for templates too"
    with pytest.raises(TemplateError, match=said):
        check_template_rows(templates)


class _Denied(NamedTuple):
    address: str


_DENY = partial(Table, "deny", "", "", ("queries",), {"miss": "Others go on."}, miss="next")


def test_rows_that_nothing_makes_are_refused() -> None:
    with pytest.raises(
        DefinitionError, match="table deny uses rows of type _Denied, and nothing makes them: give it rows="
    ):
        _DENY(uses={"denied": _Denied})
    assert _DENY(uses={"denied": _Denied}, rows=rows_of_modes).uses


def test_a_mode_with_a_slip_in_a_name_is_refused() -> None:
    with pytest.raises(DefinitionError, match='a mode has no translate_ports; did you mean "translates_ports"'):
        type("Slip", (Mode,), {"translate_ports": True})
    with pytest.raises(DefinitionError, match='a mode has no returns_rows; did you mean "return_rows"'):
        type("Slip", (Mode,), {"returns_rows": lambda self: ()})
    assert type("Fine", (Mode,), {"translates_ports": True, "_own": 1})


def test_a_template_is_parsed_once_to_be_checked_and_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    environment.cache_clear()
    parsed: list[str] = []
    parse = jinja2.Environment._parse

    def count(env: jinja2.Environment, source: str, *rest: str | None) -> jinja2.nodes.Template:
        parsed.append(source)
        return parse(env, source, *rest)

    monkeypatch.setattr(jinja2.Environment, "_parse", count)
    check_template_rows()
    checked = len(parsed)
    for table in TABLES:
        if not table.template:
            environment().get_template(f"tables/{table.name}.j2")
    assert len({table.template_file for table in TABLES}) <= checked == len(parsed)
