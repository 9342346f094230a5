# SPDX-License-Identifier: Apache-2.0
"""Plan files: applied exactly as they were made, or refused with nothing changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy import plan_file
from dnsteer.deploy.summary import hash_of
from tests.packet.command import FARM, all_of, fresh, nothing_changes, on, run, spec_file
from tests.packet.switches import BRIDGE, FORWARD_TABLE, SLOT_TABLE, Switch

HEAVIER = {"old": "'02:00:00:00:01:03'", "new": "'02:00:00:00:01:03', weight: 3"}


@pytest.fixture
def plan(applied: Switch, tmp_path: Path) -> Path:
    """A plan for a heavier backend."""
    file = tmp_path / "plan.json"
    done = on(applied)("plan", spec_file(tmp_path, **HEAVIER), "-o", file, "--note", "from a plan")
    assert done.code == Exit.DIFFERENT, done.err
    return file


def refused(switch: Switch, file: Path, *words: str) -> None:
    """Applying the plan is refused with these words, in both ways, and changes nothing."""
    with nothing_changes(switch):
        done = on(switch)("apply", "--plan", file)
        assert done.code == Exit.ERROR
        assert done.out == ""
        for word in words:
            assert word in done.err
        dry = on(switch)("apply", "--plan", file, "--dry-run")
        assert (dry.code, dry.out, dry.err) == (Exit.ERROR, "", done.err)
        value = on(switch)("apply", "--plan", file, "--json")
    assert value.code == Exit.ERROR
    assert value.json["ok"] is False
    assert all(word in value.json["error"] for word in words)


def test_a_plan_is_applied_exactly(applied: Switch, plan: Path, tmp_path: Path) -> None:
    spec_file(tmp_path, old="weight: 2", new="weight: 7")  # the plan has its own spec
    done = on(applied)("apply", "--plan", plan, "--json")
    assert done.code == 0
    assert (done.json["changed"], done.json["state"]) == (True, 2)
    heavier = FARM.replace(HEAVIER["old"], HEAVIER["new"])
    assert run("show", "current", "--db", applied.database).out == heavier
    assert on(applied)("history", "--json").json["states"][0]["note"] == "from a plan"
    tables = applied.tables()
    fresh(applied)
    assert on(applied)("apply", spec_file(tmp_path, heavier)).code == 0
    assert applied.tables() == tables


def test_applying_a_plan_makes_the_planned_changes(applied: Switch, plan: Path) -> None:
    said = json.loads(plan.read_text())["summary"]
    done = on(applied)("apply", "--plan", plan, "--json").json
    assert done["counts"] == said["counts"]
    assert done["moves"] == said["moves"]
    assert done["changes"] == said["changes"]


def test_a_plan_is_applied_once(applied: Switch, plan: Path) -> None:
    assert on(applied)("apply", "--plan", plan).code == 0
    refused(applied, plan, "has changed since", "dnsteer plan")


def test_a_plan_without_changes_applies(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert on(applied)("plan", spec_file(tmp_path), "-o", file).code == 0
    with nothing_changes(applied):
        done = on(applied)("apply", "--plan", file, "--json")
    assert (done.code, done.json["changed"]) == (0, False)


def test_a_plan_for_a_switch_that_has_no_bridge_yet(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    file = tmp_path / "plan.json"
    assert on(shared)("plan", spec_file(tmp_path), "-o", file).code == Exit.DIFFERENT
    assert shared.bridges() == []
    assert on(shared)("apply", "--plan", file).code == 0
    assert on(shared)("verify", spec_file(tmp_path)).code == 0


def test_a_dry_run_of_a_plan_changes_nothing(applied: Switch, plan: Path) -> None:
    with nothing_changes(applied):
        done = on(applied)("apply", "--plan", plan, "--dry-run")
    assert done.code in (0, Exit.DIFFERENT)
    assert "weight 1 -> 3" in done.out


def test_a_plan_moving_many_clients_needs_confirmation(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    spec = spec_file(tmp_path, old="slots: 32", new="slots: 1024")
    assert on(applied)("plan", spec, "-o", file).code == Exit.DIFFERENT
    with nothing_changes(applied):
        done = on(applied)("apply", "--plan", file)
    assert (done.code, " % of its clients would move" in done.err, "--yes" in done.err) == (Exit.ERROR, True, True)
    assert on(applied)("apply", "--plan", file, "--yes").code == 0


# Edited


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a JSON value has something that could be edited."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*at, key))


def edited(value: Any, at: tuple[Any, ...], new: Callable[[Any], Any]) -> Any:
    if not at:
        return new(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = edited(copy[at[0]], at[1:], new)
    return copy


def other(value: Any) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, list):
        return [*value, 1]
    return f"{value}x" if isinstance(value, str) else 1 if value is None else value + 1


def test_an_edit_of_any_field_is_seen(plan: Path, tmp_path: Path) -> None:
    value = json.loads(plan.read_text())
    file = tmp_path / "edited.json"
    places = list(paths(value))
    assert len(places) > 30
    for at in places:
        for new in (other, lambda _: None, lambda _: [1]):
            changed = edited(value, at, new)
            if changed == value:
                continue
            file.write_text(json.dumps(changed))
            with pytest.raises(plan_file.SwitchError, match=r"edited|format|version"):
                plan_file.read(file)
    for key in value:
        file.write_text(json.dumps({k: v for k, v in value.items() if k != key}))
        with pytest.raises(plan_file.SwitchError, match=r"edited|format|version"):
            plan_file.read(file)


def test_an_edited_plan_changes_nothing(applied: Switch, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("192.0.2.13", "192.0.2.19"))
    refused(applied, plan, str(plan), "edited", "dnsteer plan")


def signed(value: dict[str, Any]) -> str:
    """As somebody would write it who knows how plan files are signed."""
    content = {k: v for k, v in value.items() if k != "sum"}
    return json.dumps({**content, "sum": hash_of(content)})


def test_a_plan_of_another_version_is_refused(applied: Switch, plan: Path) -> None:
    plan.write_text(signed({**json.loads(plan.read_text()), "version": "99.9"}))
    refused(applied, plan, "99.9")


@pytest.mark.parametrize(
    ("number", "advice"),
    [(2, "upgrade dnsteer on this machine, and apply it then"), (0, "apply it with dnsteer 0.2.0")],
)
def test_a_plan_of_another_format_is_refused(applied: Switch, plan: Path, number: int, advice: str) -> None:
    value = {**json.loads(plan.read_text()), "format": f"dnsteer plan {number}", "version": "0.2.0"}
    plan.write_text(json.dumps(value))
    refused(applied, plan, f"has format {number}, made by dnsteer 0.2.0", "which knows format 1", advice)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "{",
        "[]",
        "null",
        "7",
        '"x"',
        "{}",
        "[[1]]",
        FARM,
        '{"format": "dnsteer plan 1"}',
        '{"format": "dnsteer plan 9"}',
        '{"format": []}',
        '{"sum": 1}',
        "\0" * 50,
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_malformed_plan_files_are_refused(applied: Switch, tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    refused(applied, file, "plan.json")


def test_a_binary_plan_file_is_refused(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(bytes(range(256)))
    refused(applied, file, "plan.json")


def test_a_truncated_plan_is_refused(applied: Switch, plan: Path) -> None:
    text = plan.read_text()
    for length in (1, len(text) // 3, len(text) // 2, len(text) - 3):
        plan.write_text(text[:length])
        with pytest.raises(plan_file.SwitchError, match="not JSON"):
            plan_file.read(plan)
    refused(applied, plan, "not a plan file")


def test_a_missing_file_or_a_folder_is_refused_as_plan(applied: Switch, tmp_path: Path) -> None:
    refused(applied, tmp_path / "none.json", "none.json")
    refused(applied, tmp_path, str(tmp_path))


# A switch that moved on


MOVES: dict[str, Callable[[Switch, Path], object]] = {
    "state": lambda s, d: on(s)("apply", spec_file(d, old="weight: 2", new="weight: 3")),
    "drain": lambda s, d: on(s)("drain", "farm/ns1"),
    "other drain": lambda s, d: (
        on(s)("drain", "farm/ns3"),
        on(s)("undrain", "farm/ns3"),
        on(s)("down", "spare/sp1", "--yes"),
    ),
    "rollback and back": lambda s, d: (
        on(s)("apply", spec_file(d, old="weight: 2", new="weight: 3")),
        on(s)("rollback", "--yes"),
    ),
    "flow removed": lambda s, d: s.ofctl("del-flows", FORWARD_TABLE),
    "flow changed": lambda s, d: s.ofctl("mod-flows", f"{SLOT_TABLE} actions=drop"),
    "a flow of ours more": lambda s, d: s.ofctl(
        "add-flow", f"cookie=0xd453070000000001,{SLOT_TABLE},priority=3,tcp,actions=drop"
    ),
    "port removed": lambda s, d: s.vsctl("del-port", BRIDGE, "p1"),
    "port of others added": lambda s, d: s.vsctl(
        "add-port", BRIDGE, "x0", "--", "set", "Interface", "x0", "type=dummy"
    ),
    "fail mode": lambda s, d: s.vsctl("del-fail-mode", BRIDGE),
    "bridge removed": lambda s, d: s.vsctl("del-br", BRIDGE),
    "bridge made anew": lambda s, d: (fresh(s), on(s)("apply", spec_file(d, old="weight: 2", new="weight: 5"))),
}


@pytest.mark.parametrize("how", MOVES)
def test_a_plan_for_an_earlier_state_is_refused(applied: Switch, plan: Path, tmp_path: Path, how: str) -> None:
    before = all_of(applied)
    MOVES[how](applied, tmp_path)
    assert all_of(applied) != before
    refused(applied, plan, "plan.json")


def test_a_plan_is_refused_when_a_foreign_flow_appeared(applied: Switch, tmp_path: Path) -> None:
    text = FARM.replace("192.0.2.54", "192.0.2.55")
    file = tmp_path / "plan.json"
    assert on(applied)("plan", spec_file(tmp_path, text), "-o", file).code == Exit.DIFFERENT
    flow = next(f for f in planned(applied, tmp_path, text) if "192.0.2.55" in f and "tp_dst=53" in f)
    match = flow.partition("table=")[2].partition(" actions=")[0]
    applied.ofctl("add-flow", f"cookie=0x5,table={match} actions=drop")
    refused(applied, file, "not dnsteer's")


def planned(switch: Switch, folder: Path, text: str) -> list[str]:
    """The flows that a plan would add."""
    return [str(x) for x in on(switch)("plan", spec_file(folder, text), "-v", "--json").json["details"]]


def test_a_plan_of_another_switch_is_refused(applied: Switch, plan: Path, tmp_path: Path) -> None:
    with Switch() as second:
        assert on(second)("apply", spec_file(tmp_path)).code == 0
        refused(second, plan, "another switch")


def test_a_plan_of_another_switch_without_a_bridge_is_refused(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    file = tmp_path / "plan.json"
    assert on(shared)("plan", spec_file(tmp_path), "-o", file).code == Exit.DIFFERENT
    with Switch() as second:
        refused(second, file, "another switch")


# Writing


@pytest.mark.root("a small file system")
def test_a_plan_file_is_written_whole_or_not_at_all(applied: Switch, tmp_path: Path) -> None:
    """A disk that is full: the earlier plan stays, and no scrap is left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], check=True)
    try:
        file = disk / "plan.json"
        assert on(applied)("plan", spec_file(tmp_path, **HEAVIER), "-o", file).code == Exit.DIFFERENT
        earlier = file.read_text()
        full = disk / "full"
        with full.open("wb", buffering=0) as out, pytest.raises(OSError, match="space"):
            while True:
                out.write(b"x" * 1024)
        done = on(applied)("plan", spec_file(tmp_path, old="weight: 2", new="weight: 9"), "-o", file)
        assert done.code == Exit.ERROR
        assert done.err.endswith(f"dnsteer: {file}: No space left on device\n")
        assert file.read_text() == earlier
        assert sorted(p.name for p in disk.iterdir()) == ["full", "plan.json"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_missing_folder_for_a_plan_is_named(applied: Switch, tmp_path: Path) -> None:
    done = on(applied)("plan", spec_file(tmp_path, **HEAVIER), "-o", tmp_path / "none" / "plan.json")
    assert done.code == Exit.ERROR
    assert str(tmp_path / "none") in done.err
    done = on(applied)("plan", spec_file(tmp_path, **HEAVIER), "-o", tmp_path)
    assert done.code == Exit.ERROR
    assert sorted(p.name for p in tmp_path.iterdir()) == ["spec.yaml"]
