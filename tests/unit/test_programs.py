# SPDX-License-Identifier: Apache-2.0
"""Programs of the extension as values: equality, differences, and one that serves what two serve."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from dnsteer.extension import program_diff
from dnsteer.switch.tools import SwitchError

BUDGETS = {"vips": 16, "slots": 64, "backends": 16, "counters": 80}
A = {"name": "p/a/192.0.2.1", "mac": "02:00:00:00:00:0a", "address": "192.0.2.1"}
B = {"name": "p/b/192.0.2.2", "mac": "02:00:00:00:00:0b", "address": "192.0.2.2"}
PLAIN = {"name": "q/c", "mac": "02:00:00:00:00:0c"}
SIX = {"name": "s/x/2001:db8::1", "mac": "02:00:00:00:00:0d", "address": "2001:db8::1"}
SEVEN = {"name": "s/y/2001:db8::2", "mac": "02:00:00:00:00:0e", "address": "2001:db8::2"}


def vip(name: str, address: str, *slots: dict[str, str], forward: str = "ipip", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "family": "ipv6" if ":" in address else "ipv4",
        "address": address,
        "protocol": "udp",
        "port": 53,
        "select": "slots",
        "forward": forward,
        "slots": [b["name"] for b in slots],
        **more,
    }


def program(*vips: dict[str, Any], backends: tuple[dict[str, str], ...], **more: Any) -> program_diff.Value:
    return {
        "version": 1,
        "ports": {"in": "i", "out": "o"},
        "budgets": BUDGETS,
        "backends": list(backends),
        "vips": list(vips),
        **more,
    }


TUNNEL = {"mac": "02:00:00:00:00:53", "ipv4": "192.0.2.254"}
ONE = program(vip("one", "198.51.100.1", A, B), backends=(A, B), tunnel=TUNNEL)
TWO = program(vip("two", "198.51.100.2", PLAIN, forward="l2"), backends=(PLAIN,))


def test_order_and_spelling_do_not_make_programs_differ() -> None:
    other = copy.deepcopy(ONE)
    other["about"] = "from elsewhere"
    other["backends"] = [{**B, "mac": B["mac"].upper()}, A]
    assert program_diff.same(ONE, other)
    assert list(program_diff.program_differences(ONE, other)) == []


def test_the_combined_program_adds_vips_only_in_the_old_one() -> None:
    both = program_diff.combine(ONE, TWO)
    assert [v["name"] for v in both.program["vips"]] == ["two", "one"]
    assert both.program["backends"] == [PLAIN, A, B]
    assert both.program["tunnel"] == TUNNEL
    assert program_diff.same(program_diff.combine(ONE, ONE).program, ONE)
    assert program_diff.combine(ONE, TWO, unserved={("198.51.100.1", "udp", 53)}).program == TWO


def test_backends_that_changed_their_place() -> None:
    """By its address a server stays the same one, whatever its name and MAC; without an address its MAC tells."""
    moved = {**A, "mac": "02:00:00:00:00:1a"}
    renamed = {**B, "name": "p/bb/192.0.2.2"}
    new = program(vip("three", "198.51.100.3", moved, renamed), backends=(moved, renamed))
    both = program_diff.combine(ONE, new).program
    assert both["backends"] == [moved, renamed]
    assert both["vips"][1]["slots"] == [moved["name"], renamed["name"]]
    other = {**PLAIN, "mac": "02:00:00:00:00:1c"}
    both = program_diff.combine(
        TWO, program(vip("four", "198.51.100.4", other, forward="l2"), backends=(other,))
    ).program
    assert both["backends"] == [other, {**PLAIN, "name": "q/c~0"}]
    assert both["vips"][1]["slots"] == ["q/c~0"]


def test_translated_answers_still_come_through() -> None:
    old = program(vip("t", "198.51.100.5", SIX, SEVEN, forward="siit"), backends=(SIX, SEVEN))
    new = program(vip("t", "198.51.100.5", SEVEN, forward="siit"), backends=(SEVEN,))
    assert program_diff.combine(old, new).program["backends"] == [SEVEN, SIX]
    other = program(vip("u", "198.51.100.6", SEVEN, forward="siit"), backends=(SEVEN,))
    both = program_diff.combine(old, other)
    assert both.left_out == ("t",)  # nothing would tell whose answers they are
    assert [v["name"] for v in both.program["vips"]] == ["u"]


def test_vips_only_in_the_old_program_are_not_probed() -> None:
    probed = program(
        vip("one", "198.51.100.1", A, B, probes={A["name"]: 2049, B["name"]: 3000}),
        vip("away", "198.51.100.7", probes={A["name"]: 2049}),
        backends=(A, B),
        tunnel=TUNNEL,
        probe={"mac": "02:00:00:00:00:51"},
    )
    both = program_diff.combine(probed, TWO)
    assert both.program == program_diff.combine(ONE, TWO).program
    assert "probes" in probed["vips"][0]
    assert program_diff.same(program_diff.combine(ONE, probed).program, probed)


def test_changed_probes_are_a_difference() -> None:
    have = program(vip("one", "198.51.100.1", A, B, probes={A["name"]: 2049}), backends=(A, B), probe={"mac": "02::1"})
    want = program(
        vip("one", "198.51.100.1", A, B, probes={A["name"]: 2050, B["name"]: 9}),
        backends=(A, B),
        probe={"mac": "02::2"},
    )
    assert not program_diff.same(have, want)
    assert [d.detail for d in program_diff.program_differences(have, want)] == [
        f"differs in the probes of {A['name']}, {B['name']}",
        "mac=02::1, should be mac=02::2",
    ]
    plain = program(vip("one", "198.51.100.1", A, B), backends=(A, B))
    assert [d.name for d in program_diff.program_differences(have, plain)] == ["one", "probe"]


def test_names_that_are_taken() -> None:
    new = program(vip("one", "198.51.100.9", A), backends=(A,), tunnel=TUNNEL)
    both = program_diff.combine(ONE, new).program
    assert [v["name"] for v in both["vips"]] == ["one", "one~0"]


@pytest.mark.parametrize(("have", "want"), list(itertools.product([ONE, TWO], repeat=2)))
def test_programs_without_differences_are_the_same(have: program_diff.Value, want: program_diff.Value) -> None:
    assert (not list(program_diff.program_differences(have, want))) == program_diff.same(have, want)


def test_slots_in_hardware_that_differ_are_a_difference() -> None:
    slots = [{"backend": B["name"]}, {"backend": B["name"]}]
    found = program_diff.readable({"program": ONE, "services": [{"vip": "one", "slots": slots}]}, "it")
    (difference,) = program_diff.program_differences(found, ONE)
    assert difference.key == ("198.51.100.1", "udp", 53)
    assert difference.detail == f"slot 0: 1 go to {B['name']}, should go to {A['name']}"


@pytest.mark.parametrize(
    "dump", [{}, {"program": {}}, {"program": ONE, "services": [{}]}, {"program": 1, "services": []}]
)
def test_a_malformed_dump_is_refused(dump: dict[str, Any]) -> None:
    with pytest.raises(SwitchError, match="found no program in its answer"):
        program_diff.readable(dump, "it")
