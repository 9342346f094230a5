"""The pipeline constants: checked when built, and pinned so that a change of layout is deliberate."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.render.templates import templates_dir
from dnsteer.tables.cookies import Category, cookie, number_names
from dnsteer.tables.order import REGISTERS, TABLES, build_pipeline


def test_layout_is_pinned() -> None:
    """Renumbering tables or registers changes every running switch: change the digest only when that is meant."""
    layout = (
        [[t.number, t.name, t.next] for t in TABLES],
        [[r.name, r.number, r.bits, r.first, r.last] for r in REGISTERS],
    )
    assert hashlib.sha256(json.dumps(layout).encode()).hexdigest()[:16] == "7ef78361c5574c75"


def test_every_table_has_its_template() -> None:
    files = {p.name for p in (templates_dir() / "tables").iterdir()}
    assert files == {f"{t.number:02d}-{t.name}.j2" for t in TABLES}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, r: ((*t, replace(t[0], name="again")), r), "occurs twice"),
        (lambda t, r: ((*t, replace(t[0], number=99)), r), "occurs twice"),
        (lambda t, r: ((replace(t[0], next=("nowhere",)), *t[1:]), r), "cannot lead to nowhere"),
        (lambda t, r: ((*t[:-1], replace(t[-1], next=("ingress",))), r), "cannot lead to ingress"),
        (lambda t, r: (t, (*r, replace(r[0], name="pool2"))), "overlap"),
        (lambda t, r: (t, (*r, replace(r[0], meaning="again"))), "occurs twice"),
        (lambda t, r: (t, (replace(r[0], bits=(0, 32)), *r[1:])), "outside"),
        (lambda t, r: (t, (replace(r[0], first="egress", last="vip"), *r[1:])), "ends before"),
    ],
)
def test_a_broken_layout_is_refused(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        build_pipeline(*change(TABLES, REGISTERS))


def test_registers_may_share_bits_when_never_live_together() -> None:
    late = replace(REGISTERS[0], name="late", first="return", last="egress")
    assert "late" in build_pipeline(TABLES, (*REGISTERS, late)).registers


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
    assert asdict(TABLES[0])["number"] == 0
