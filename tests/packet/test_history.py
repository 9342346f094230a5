# SPDX-License-Identifier: Apache-2.0
"""`history`, `show` and `rollback`: what is kept, how it is numbered, and going back to it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from dnsteer import __version__
from dnsteer.checks.load import load_spec
from dnsteer.cli.output import Exit, utc
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from tests.packet.command import FARM, fresh, nothing_changes, on, run, spec_file
from tests.packet.switches import Switch


@pytest.fixture
def applied(shared: Switch) -> Switch:
    """The switch without a bridge."""
    fresh(shared)
    return shared


def text(number: int) -> str:
    """The spec of state *number*: each has a weight and a comment of its own."""
    return f"# number {number}: é \N{SNOWMAN}   \n\n" + FARM.replace("weight: 2", f"weight: {number + 1}") + "\n# end"


def go(switch: Switch, folder: Path, *numbers: int) -> None:
    for n in numbers:
        file = folder / f"spec-{n}.yaml"
        file.write_bytes(text(n).encode())
        done = on(switch)("apply", file, "--yes", "--note", f"note {n}")
        assert done.code == 0, done.err


def numbers(switch: Switch) -> list[int]:
    return [s["state"] for s in on(switch)("history", "--json").json["states"]]


def show(switch: Switch, what: object) -> str:
    done = run("show", what, "--db", switch.database)
    assert done.code == 0, done.err
    return done.out


def test_history_lists_states_with_user_and_time(
    applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    go(applied, tmp_path, 1, 2)
    done = on(applied)("history", "--json")
    assert done.code == 0
    assert (done.json["ok"], done.json["current"]) == (True, 2)
    second, first = done.json["states"]
    assert (second["state"], first["state"]) == (2, 1)
    assert (second["current"], first["current"]) == (True, False)
    assert (second["note"], first["note"]) == ("note 2", "note 1")
    assert second["by"].startswith("alice@")
    assert second["spec_file"].endswith("spec-2.yaml")
    assert second["version"] == __version__
    assert second["digest"] != first["digest"]
    applied_at = datetime.fromisoformat(second["applied"])
    assert abs(datetime.now(timezone.utc) - applied_at) < timedelta(minutes=2)
    heading, *lines = on(applied)("history").out.splitlines()
    assert heading.split()[:3] == ["state", "applied", "(UTC)"] and len(lines) == 2
    assert lines[0].startswith("* 2 ") and lines[1].startswith("  1 ")
    assert "note 2" in lines[0]


def test_history_fits_a_narrow_terminal(applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "customer-007-authoritative.yaml"
    spec.write_text(text(1))
    assert (
        on(applied)("apply", spec, "--yes", "--note", "CHG 4711: kernel update of rack seven, see the ticket").code == 0
    )
    monkeypatch.setenv("COLUMNS", "80")
    lines = on(applied)("history").out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {"kernel", "update", "seven,"} <= set(words)  # broken between words
    assert "authoritative.yaml" in "".join(words) and "digest" not in words


def test_an_apply_without_changes_makes_no_state(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 1)
    assert on(applied)("drain", "farm/ns1").code == 0
    assert on(applied)("apply", tmp_path / "spec-1.yaml").code == 0
    assert numbers(applied) == [1]


def test_texts_come_back_byte_for_byte(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 2)
    file = tmp_path / "shown"
    for what, number in (("1", 1), ("2", 2), ("current", 2)):
        assert show(applied, what) == text(number)
        assert on(applied)("show", what, "-o", file).code == 0
        assert file.read_bytes() == text(number).encode()


def test_a_text_with_other_line_ends_comes_back(applied: Switch, tmp_path: Path) -> None:
    file, shown = tmp_path / "spec.yaml", tmp_path / "shown"
    file.write_bytes(FARM.replace("\n", "\r\n").encode())
    assert on(applied)("apply", file).code == 0
    assert on(applied)("show", "current", "-o", shown).code == 0
    assert shown.read_bytes() == file.read_bytes()


def test_a_dash_is_standard_output(applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    go(applied, tmp_path, 1)
    assert on(applied)("show", "-o", "-").out == text(1)
    assert not Path("-").exists()


def test_at_most_ten_are_kept(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, *range(1, 15))
    assert numbers(applied) == list(range(14, 4, -1))
    assert len(on(applied)("history").out.splitlines()) == 1 + 10


def test_ten_are_kept_and_numbers_go_on(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, *range(1, 15))
    kept = numbers(applied)[:10]
    assert kept == list(range(14, 4, -1))
    for n in kept:
        assert show(applied, n) == text(n)
    with nothing_changes(applied):
        for gone in ("2", "1", "0", "15", "99999999999999999999"):
            done = on(applied)("rollback", gone, "--yes")
            assert (done.code, f"state {gone}" in done.err) == (Exit.ERROR, True)
            assert run("show", gone, "--db", applied.database).code == Exit.ERROR
        assert on(applied)("rollback", "--yes", "--", "-1").code in (Exit.ERROR, Exit.USAGE)
        assert on(applied)("rollback", "x").code == Exit.USAGE
        assert run("show", "x", "--db", applied.database).code == Exit.USAGE
    assert on(applied)("rollback", "5", "--yes").code == 0
    assert numbers(applied)[:10] == list(range(15, 5, -1))
    assert show(applied, "current") == text(5)


def test_rollback_returns_to_the_previous_state(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1)
    first = applied.tables()
    go(applied, tmp_path, 2)
    done = on(applied)("rollback", "--yes", "--json")
    assert (done.code, done.json["changed"], done.json["state"]) == (0, True, 3)
    assert applied.tables() == first
    assert show(applied, "current") == text(1)
    newest = on(applied)("history", "--json").json["states"][0]
    assert "rollback" in newest["note"]
    assert newest["spec_file"].endswith("spec-1.yaml")
    assert on(applied)("verify", tmp_path / "spec-1.yaml").code == 0


def test_a_state_that_was_rolled_back_from_is_marked_and_no_target_unless_it_is_named(
    applied: Switch, tmp_path: Path
) -> None:
    go(applied, tmp_path, 1, 2)
    second = applied.tables()
    assert on(applied)("rollback", "--yes").code == 0
    with nothing_changes(applied):
        done = on(applied)("rollback", "--yes")
    assert done.code == Exit.ERROR
    assert "with another spec; state 2 was rolled back from and can be named: dnsteer rollback N" in done.err
    states = on(applied)("history", "--json").json["states"]
    assert [(s["state"], s["rolled_back"], s["restores"]) for s in states] == [
        (3, False, 1),
        (2, True, None),
        (1, False, None),
    ]
    marked = ["note 2 (rolled back)" in line for line in on(applied)("history").out.splitlines()[1:]]
    assert marked == [False, True, False]
    assert on(applied)("rollback", "2", "--yes", "--note", "why", "--json").json["state"] == 4
    assert applied.tables() == second
    assert on(applied)("history", "--json").json["states"][0]["note"] == "why"


def test_a_rollback_to_a_later_state_rolls_back_from_none(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 2)
    for options in ((), ("2",)):
        assert on(applied)("rollback", *options, "--yes").code == 0
    assert "rolled back" not in on(applied)("history").out
    assert on(applied)("rollback", "--yes", "--json").json["state"] == 5
    assert show(applied, "current") == text(1)
    states = on(applied)("history", "--json").json["states"]
    assert {s["state"] for s in states if s["rolled_back"]} == {2, 4}


def test_a_rejected_state_is_no_target_either_once_the_restored_spec_was_applied_anew(
    applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by a newer version: then the current state is no rollback."""
    go(applied, tmp_path, 1, 2)
    assert on(applied)("rollback", "--yes").code == 0
    with monkeypatch.context() as patch:
        patch.setattr("dnsteer.deploy.recorded_spec.__version__", "99.0")
        go(applied, tmp_path, 1)
    assert numbers(applied) == [4, 3, 2, 1]
    done = on(applied)("rollback", "--yes")
    assert done.code == Exit.ERROR and "state 2 was rolled back from" in done.err


def test_rolling_back_again_goes_further_back(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 2, 3, 4)
    for rolled_back, restored in ((4, 3), (5, 2), (6, 1)):
        assert on(applied)("rollback", "--yes").code == 0
        newest = on(applied)("history", "--json").json["states"][0]
        assert (newest["state"], newest["restores"]) == (rolled_back + 1, restored)
        assert show(applied, "current") == text(restored)
    assert [s["rolled_back"] for s in on(applied)("history", "--json").json["states"]] == [False, *[True] * 5, False]
    go(applied, tmp_path, 5, 6)
    assert on(applied)("rollback", "--yes").code == 0  # from 9
    assert show(applied, "current") == text(5)
    assert (
        on(applied)("rollback", "--yes").code == 0
    )  # state 7, which is a rollback: of all before it, it alone is left
    assert show(applied, "current") == text(1)
    assert on(applied)("rollback", "--yes").code == Exit.ERROR


def test_the_target_is_named_before_anything_happens(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 2)
    (_, first) = on(applied)("history", "--json").json["states"]
    with nothing_changes(applied):
        dry = on(applied)("rollback", "--dry-run")
        asked = on(applied)("rollback", "--dry-run", "--json").json
    named = f"back to state 1, applied {utc(first['applied'])} UTC by {first['by']} from {first['spec_file']}: note 1\n"
    assert dry.err.startswith(named)
    wanted = {key: first[key] for key in ("state", "applied", "by", "note", "spec_file")}
    assert asked["target"] == wanted
    assert on(applied)("rollback", "--yes").err.startswith(named)


def test_rollback_to_a_number_restores_that_state(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1)
    first = applied.tables()
    go(applied, tmp_path, 2, 3)
    with nothing_changes(applied):
        dry = on(applied)("rollback", "1", "--dry-run")
    assert "weight 4 -> 2" in dry.out
    assert on(applied)("rollback", "1", "--yes").code == 0
    assert applied.tables() == first
    assert numbers(applied) == [4, 3, 2, 1]
    with nothing_changes(applied):
        done = on(applied)("rollback", "4", "--yes", "--json")
    assert (done.code, done.json["changed"]) == (0, False)


def test_rollback_of_the_only_state_is_refused(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1)
    with nothing_changes(applied):
        done = on(applied)("rollback", "--yes")
    assert done.code == Exit.ERROR
    assert "no state before" in done.err
    assert "Traceback" not in done.err


def test_rollback_keeps_drains(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1, 2)
    assert on(applied)("drain", "farm/ns1", "--note", "disk").code == 0
    assert on(applied)("rollback", "--yes").code == 0
    assert on(applied)("verify", tmp_path / "spec-1.yaml").code == 0
    (found,) = on(applied)("status", "--json", "--interval", "0.5s").json["overlay"]
    assert (found["pool"], found["backend"], found["note"]) == ("farm", "ns1", "disk")
    drained = applied.tables()
    assert on(applied)("undrain", "farm/ns1").code == 0
    assert applied.tables() != drained
    assert on(applied)("drain", "farm/ns1").code == 0
    assert applied.tables() == drained


def test_rollback_skips_states_of_the_same_spec(
    applied: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the one that an apply by a newer version makes."""
    go(applied, tmp_path, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr("dnsteer.deploy.recorded_spec.__version__", "99.0")
        go(applied, tmp_path, 2)
    assert numbers(applied) == [3, 2, 1]
    assert on(applied)("rollback", "--yes").code == 0
    assert show(applied, "current") == text(1)


def test_control_characters_in_notes_are_escaped(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 2)
    loaded = load_spec(spec_file(tmp_path))  # the verb would not take it; other versions did
    deploy(FileSource(loaded), TargetSwitch(applied.database), Options(note="x\x1b]0;y\x07"))
    assert r"x\x1b]0;y\x07" in on(applied)("history").out


def test_a_rollback_that_moves_more_than_half_asks(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, -1, 60)  # from no query to nearly all
    with nothing_changes(applied):
        done = on(applied)("rollback", "1")
    assert done.code == Exit.ERROR
    assert "--yes" in done.err


def test_verbs_before_the_first_apply_are_refused(applied: Switch) -> None:
    for verb in (("history",), ("rollback", "--yes"), ("show", "current")):
        done = on(applied)(*verb)
        assert done.code == Exit.ERROR
        assert "apply a spec first" in done.err


def test_rollback_restores_the_switch_name(applied: Switch, tmp_path: Path) -> None:
    go(applied, tmp_path, 1)
    second = spec_file(tmp_path, old="name: dpu-1", new="name: dpu-2")
    with nothing_changes(applied):
        done = on(applied)("apply", second, "--yes")
    assert done.code == Exit.ERROR
    assert all(word in done.err for word in ("dpu-1", "dpu-2", "--rename"))
    assert on(applied)("apply", second, "--yes", "--rename").code == 0
    assert on(applied)("status", "--json", "--interval", "0.5s").json["switch"] == "dpu-2"
    done = on(applied)("rollback", "--yes")
    assert "the switch, with all of its bridges, is renamed dpu-2 -> dpu-1" in done.out
    assert on(applied)("status", "--json", "--interval", "0.5s").json["switch"] == "dpu-1"
    assert on(applied)("apply", tmp_path / "spec-1.yaml").code == 0
