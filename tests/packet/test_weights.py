# SPDX-License-Identifier: Apache-2.0
"""`weight`: the slots of a spec with that weight, at once and gradually, and back; what it records, refuses and asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from tests.packet.command import FARM, fresh, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import make_overdue, overlay, slots, states
from tests.packet.switches import ROOT, SLOT_TABLE, Switch


def given(switch: Switch, pool: str = "farm") -> dict[str, tuple[int | None, int]]:
    """The given weight of each backend by `status`, and how many slots it has."""
    found = on(switch)("status", "--json", "--no-rates").json
    (here,) = [p for p in found["pools"] if p["name"] == pool]
    return {b["name"]: (b["given_weight"], b["slots"]) for b in here["backends"]}


def slots_of_a_spec(switch: Switch, folder: Path, old: str, new: str, *commands: tuple[str, ...]) -> set[str]:
    """The slots of a switch with another spec and the same commands."""
    fresh(switch)
    assert on(switch)("apply", spec_file(folder, old=old, new=new), "--yes").code == 0
    for words in commands:
        assert on(switch)(*words, "--yes").code == 0
    return slots(switch)


def moved(done: object) -> int:
    """How many slots moved, by what a verb said."""
    return sum(m["moved"] for m in done.json["moves"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("over", [(), ("--over", "2s")])
def test_a_weight_moves_only_its_slots_and_undo_restores_them(
    applied: Switch, tmp_path: Path, over: tuple[str, ...]
) -> None:
    base = applied.tables()
    done = on(applied)("weight", "farm/ns1", "3", *over, "--json")
    assert (done.code, done.json["changed"]) == (0, True)
    heavy = slots(applied)
    changed = len(heavy - {f for f in base[0] if SLOT_TABLE in f})
    assert moved(done) == changed > 0
    (found,) = overlay(applied)
    assert (found["kind"], found["backend"], found["weight"], found.get("gone", 1000)) == ("weight", "ns1", 3, 1000)
    assert given(applied)["ns1"][0] == 3 and states(applied)["ns1"] == "up"
    with nothing_changes(applied):
        again = on(applied)("weight", "farm/ns1", "3")
        assert (again.code, "farm/ns1 has weight 3 already" in again.out) == (0, True)
        assert on(applied)("verify", tmp_path / "spec.yaml").code == 0
    back = on(applied)("weight", "farm/ns1", "--undo", *over, "--json")
    assert (back.code, moved(back)) == (0, changed)
    assert (applied.tables(), overlay(applied)) == (base, [])
    with nothing_changes(applied):
        again = on(applied)("weight", "farm/ns1", "--undo")
        assert (again.code, "farm/ns1 has the spec's weight already" in again.out) == (0, True)
    line = "      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'"
    assert slots_of_a_spec(applied, tmp_path, line, f"{line}, weight: 3") == heavy


def test_a_weight_of_a_drained_backend_applies_after_undrain(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("drain", "farm/ns2", "--yes").code == 0
    assert on(applied)("weight", "farm/ns2", "5", "--yes").code == 0
    assert (states(applied)["ns2"], given(applied)["ns2"]) == ("drained", (5, 0))
    assert on(applied)("undrain", "farm/ns2").code == 0
    heavy = slots(applied)
    assert heavy == slots_of_a_spec(applied, tmp_path, "weight: 2", "weight: 5")


def test_weights_and_a_drain_make_the_tables_of_such_a_spec(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("weight", "farm/ns2", "0", "--yes").code == 0
    assert on(applied)("weight", "farm/ns3", "4", "--yes").code == 0
    assert on(applied)("drain", "farm/ns1", "--yes").code == 0
    assert on(applied)("weight", "farm/ns2", "3", "--yes").code == 0
    now = slots(applied)
    one = slots_of_a_spec(
        applied, tmp_path, "weight: 2", "weight: 3", ("weight", "farm/ns3", "4"), ("drain", "farm/ns1")
    )
    assert now == one


def test_a_gradual_weight_moves_slots_in_one_direction(applied: Switch) -> None:
    start = time.monotonic()
    done = on(applied)("weight", "farm/ns1", "4", "--over", "2s")
    assert done.code == 0
    assert 1.9 < time.monotonic() - start < 10
    shares = [float(x) for x in re.findall(r"([\d.]+) % of the way to weight 4", done.err)]
    assert shares == sorted(shares) and len(shares) >= 2 and shares[-1] == 100
    back = on(applied)("weight", "farm/ns1", "--undo", "--over", "2s")
    shares = [float(x) for x in re.findall(r"([\d.]+) % of the way back from weight 4", back.err)]
    assert shares == sorted(shares) and shares


def test_an_abandoned_gradual_weight_continues_and_can_turn_back(applied: Switch) -> None:
    base = applied.tables()
    argv = [sys.executable, "-m", "dnsteer", "weight", "farm/ns1", "4", "--over", "6s", "--db", applied.database]
    child = subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT / "generator")}, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr
    for _ in range(3):
        child.stderr.readline()
    child.kill()
    child.wait()
    child.stderr.close()
    applied.expected += ["Broken pipe", "Connection reset"]
    first = overlay(applied)[0].get("gone", 1000)
    assert 0 < first < 1000
    time.sleep(0.5)
    assert on(applied)("reconcile", "--json").json["changed"] is True
    gone = overlay(applied)[0].get("gone", 1000)
    assert first < gone < 1000
    shown = on(applied)("status", "--no-rates").out
    assert re.search(r"given weight +by command", shown)
    assert re.search(r"farm/ns1 +weight 4 --over 6s, \d+%", shown) and "4 (spec 1)" in shown
    turned = on(applied)("weight", "farm/ns1", "--undo", "--over", "2s")
    assert turned.code == 0, turned.err
    assert (applied.tables(), overlay(applied)) == (base, [])


def test_another_weight_starts_from_the_current_one(applied: Switch) -> None:
    assert on(applied)("weight", "farm/ns1", "4", "--note", "tuning").code == 0
    had = slots(applied)
    done = on(applied)("weight", "farm/ns1", "9", "--over", "1s")
    assert done.code == 0
    (found,) = overlay(applied)
    assert (found["weight"], found["was"], found["note"]) == (9, 4, "tuning")
    back = on(applied)("weight", "farm/ns1", "4", "--over", "1s")
    assert (back.code, slots(applied)) == (0, had)


def test_the_specs_own_weight_is_as_undo(applied: Switch) -> None:
    base = applied.tables()
    with nothing_changes(applied):
        assert "has the spec's weight already" in on(applied)("weight", "farm/ns2", "2").out
    assert on(applied)("weight", "farm/ns2", "1").code == 0
    assert on(applied)("weight", "farm/ns2", "2").code == 0
    assert (applied.tables(), overlay(applied)) == (base, [])


def test_dry_run_counts_the_moves_of_the_final_weight(applied: Switch) -> None:
    with nothing_changes(applied):
        would = on(applied)("weight", "farm/ns1", "3", "--over", "60s", "--dry-run", "--json")
    assert would.code == 0
    assert moved(would) == moved(on(applied)("weight", "farm/ns1", "3", "--json"))
    with nothing_changes(applied):
        back = on(applied)("weight", "farm/ns1", "--undo", "--over", "60s", "--dry-run", "--json")
    assert moved(back) == moved(would)


def test_a_weight_for_a_time_ends(applied: Switch) -> None:
    base = applied.tables()
    assert on(applied)("weight", "farm/ns1", "3", "--for", "2h", "--note", "new disk").code == 0
    make_overdue(applied)
    overdue = on(applied)("status", "--no-rates").out
    assert "farm/ns1 was to be at weight 3 only until" in " ".join(overdue.split())
    assert on(applied)("reconcile", "--json").json["changed"] is True
    assert (applied.tables(), overlay(applied)) == (base, [])


def test_moving_more_than_half_needs_confirmation_also_gradually_and_back(applied: Switch) -> None:
    with nothing_changes(applied):
        for words in (("5000",), ("5000", "--over", "60s")):
            done = on(applied)("weight", "farm/ns1", *words)
            assert (done.code, " % of its clients would move" in done.err) == (Exit.ERROR, True)
    assert on(applied)("weight", "farm/ns1", "5000", "--yes").code == 0
    with nothing_changes(applied):
        for words in ((), ("--over", "60s")):
            assert on(applied)("weight", "farm/ns1", "--undo", *words).code == Exit.ERROR
    assert on(applied)("weight", "farm/ns1", "--undo", "--yes").code == 0


def test_weight_0_of_the_last_backend_needs_confirmation_and_warns(applied: Switch) -> None:
    assert on(applied)("weight", "spare/sp1", "0").code == 0
    with nothing_changes(applied):
        done = on(applied)("weight", "spare/sp2", "0")
    assert (done.code, "no backend would be left" in done.err) == (Exit.ERROR, True)
    before = slots(applied)
    done = on(applied)("weight", "spare/sp2", "0", "--yes")
    assert "pool spare: every backend is out of service" in " ".join(done.err.split())
    assert slots(applied) == before


def test_a_weight_is_kept_until_the_spec_has_it_or_drops_the_backend(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("weight", "farm/ns2", "3").code == 0
    assert on(applied)("weight", "spare/sp2", "3").code == 0
    had, before = slots(applied), overlay(applied)
    with nothing_changes(applied):
        assert on(applied)("apply", spec_file(tmp_path), "--json").json["changed"] is False
    assert overlay(applied) == before
    other = FARM.replace("weight: 2", "weight: 3")
    done = on(applied)("apply", spec_file(tmp_path, other), "--json")
    assert done.json["ended"] == ["weight 3 of farm/ns2 ends: the spec gives it that weight"]
    assert (moved(done), slots(applied) == had, [a["backend"] for a in overlay(applied)]) == (0, True, ["sp2"])
    line = next(text for text in FARM.splitlines(keepends=True) if "name: sp2" in text)
    file = spec_file(tmp_path, other.replace(line, ""))
    assert "weight 3 of spare/sp2 ends: the backend is no longer in the spec" in on(applied)("plan", file).out
    assert on(applied)("apply", file, "--yes").code == 0
    assert overlay(applied) == []
    assert "(ended: weight 3 of spare/sp2)" in on(applied)("history").out
    assert on(applied)("rollback", "--yes").code == 0
    assert [(a["backend"], a["weight"]) for a in overlay(applied)] == [("sp2", 3)]
    assert on(applied)("verify", spec_file(tmp_path, other)).code == 0


def test_restore_and_explain_use_the_weight(applied: Switch) -> None:
    assert on(applied)("weight", "farm/ns1", "6", "--note", "new CPU", "--yes").code == 0
    had = applied.tables()
    applied.ofctl("del-flows")
    assert on(applied)("restore").code == 0
    assert applied.tables() == had
    seen = set()
    for slot in range(32):
        query = ("--client", f"198.51.100.7:{1024 + 2 * slot}", "--vip", "192.0.2.53:53/udp")
        told = on(applied)("explain", "--live", *query, "--json").json
        if told["own"] != told["backend"]:
            text = on(applied)("explain", "--live", *query).out
            assert "out: nobody; farm/ns1 at weight 6\n" in text
            assert re.search(r"base +ns\d.*; farm/ns1 is at weight 6 since .* UTC, by \S+: new CPU\n", text)
            seen.add(told["own"])
            break
    assert seen


UNKNOWN = {"farm/ns9": "did you mean", "frm/ns1": "farm/ns1", "farm": "POOL/BACKEND", "farm/ns1/x": "POOL/BACKEND"}


def test_wrong_names_and_weights_are_refused(applied: Switch) -> None:
    with nothing_changes(applied):
        for name, word in UNKNOWN.items():
            for words in (("3",), ("--undo",)):
                done = on(applied)("weight", name, *words)
                assert (done.code, done.out, word in done.err) == (Exit.ERROR, "", True), done.err
        for number in ("65536", "1.5", "x", "", "1e3", "٣"):
            done = on(applied)("weight", "farm/ns1", number)
            assert done.code == Exit.USAGE
            assert "expected a whole number from 0 to 65535" in " ".join(re.sub("[│╭╮╰╯─]", "", done.err).split())
        for line in ("", "3 --undo", "--undo --for 1h", "--undo --note x", "3 --over 2h --for 1h", "3 --over 0s"):
            assert on(applied)("weight", "farm/ns1", *line.split()).code == Exit.USAGE, line


def test_a_gradual_weight_ended_by_others_is_an_error(applied: Switch) -> None:
    argv = [sys.executable, "-m", "dnsteer", "weight", "farm/ns1", "4", "--over", "60s", "--db", applied.database]
    child = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT / "generator")}, stderr=subprocess.PIPE)
    assert child.stderr
    child.stderr.readline()
    child.kill()
    child.wait()
    child.stderr.close()
    applied.expected += ["Broken pipe", "Connection reset"]
    with nothing_changes(applied):
        done = on(applied)("weight", "farm/ns1", "4", "--for", "10s")
    assert (done.code, "give a longer --for" in done.err) == (Exit.ERROR, True)
