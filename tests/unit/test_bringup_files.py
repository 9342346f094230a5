# SPDX-License-Identifier: Apache-2.0
"""What `bringup -o` and `render -o` write over, and what not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dnsteer.bringup.files import EXTENSION, EXTENSION_UNIT, NAMES, PROGRAM, UNIT
from tests.unit.bringup_cases import DOCA, NETDEV
from tests.unit.commands import Command

VERBS = pytest.mark.parametrize("verb", ["bringup", "render"])


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec, in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "spec.yaml"
    file.write_text(DOCA)
    return file


def states(shown: str) -> dict[str, str]:
    """What the text says of each file."""
    lines = [line.rsplit(": ", 1) for line in shown.splitlines() if not line.startswith("note: ")]
    return {Path(file).name: said.rsplit(", ", 1)[-1] for file, said in lines}


@VERBS
def test_an_empty_output_option_is_refused(verb: str, spec: Path, command: Command) -> None:
    code, shown, said = command(verb, str(spec), "-o", "")
    assert (code, shown) == (64, "")
    assert "found an empty name; expected a folder" in " ".join(said.replace("│", " ").split())
    assert [f.name for f in spec.parent.iterdir()] == ["spec.yaml"]
    assert command(verb, str(spec), "-o", ".")[0] == 0


@pytest.mark.parametrize(
    ("verb", "name"), [("bringup", "teardown.sh"), ("bringup", "README.md"), ("render", "flows.txt")]
)
def test_a_foreign_file_stays_and_nothing_is_written(verb: str, name: str, spec: Path, command: Command) -> None:
    folder = spec.parent / "out"
    folder.mkdir()
    (folder / name).write_text("mine\n")
    code, shown, said = command(verb, str(spec), "-o", str(folder))
    assert (code, shown) == (1, "")
    assert said == (
        f"dnsteer: {folder / name}: not made by dnsteer; nothing was written: choose another folder, or give --force\n"
    )
    assert [(f.name, f.read_text()) for f in folder.iterdir()] == [(name, "mine\n")]
    code, shown, _ = command(verb, str(spec), "-o", str(folder), "--force")
    assert (code, states(shown)[name]) == (0, "changed")
    assert "mine" not in (folder / name).read_text()


@VERBS
def test_a_directory_in_place_of_a_file_is_refused(verb: str, spec: Path, command: Command) -> None:
    name = {"bringup": "bringup.sh", "render": "bridge.sh"}[verb]
    (spec.parent / "out" / name).mkdir(parents=True)
    code, shown, said = command(verb, str(spec), "-o", "out", "--force")
    assert (code, shown) == (1, "")
    assert f"out/{name}: not made by dnsteer; nothing was written: choose another folder\n" in said
    assert [f.name for f in (spec.parent / "out").iterdir()] == [name]


@VERBS
def test_the_state_of_each_file_is_listed(verb: str, spec: Path, command: Command) -> None:
    assert set(states(command(verb, str(spec), "-o", "out")[1]).values()) == {"new"}
    assert set(states(command(verb, str(spec), "-o", "out")[1]).values()) == {"unchanged"}
    spec.write_text(DOCA.replace("mtu: 9000", "mtu: 1500").replace("10.53.0.12", "10.53.0.13"))
    script = {"bringup": "40-bridge.sh", "render": "flows.txt"}[verb]
    said = states(command(verb, str(spec), "-o", "out")[1])
    assert said[script] == "changed"
    assert set(said.values()) == {"changed", "unchanged"}


def test_unneeded_scripts_are_removed_and_foreign_files_stay(spec: Path, command: Command) -> None:
    command("bringup", str(spec), "-o", "out")
    folder = spec.parent / "out"
    (folder / "notes.txt").write_text("mine, by dnsteer 1\n")
    (folder / "25-functions.sh").write_text("#!/bin/sh\n# mine\n")
    spec.write_text(NETDEV)
    said = states(command("bringup", str(spec), "-o", "out")[1])
    assert [name for name, state in said.items() if state == "removed"] == ["10-hugepages.sh", "20-eswitch.sh"]
    left = {f.name for f in folder.iterdir()}
    extension = {EXTENSION, EXTENSION_UNIT, PROGRAM}
    assert left == {*NAMES, "notes.txt"} - {"10-hugepages.sh", "20-eswitch.sh"} - extension
    spec.write_text(DOCA)
    (folder / "25-functions.sh").unlink()
    command("bringup", str(spec), "-o", "out")
    spec.write_text(NETDEV)
    found = json.loads(command("bringup", str(spec), "-o", "out", "--json")[1])
    assert found["removed"] == ["10-hugepages.sh", "20-eswitch.sh", "25-functions.sh"]
    assert set(found["changed"]) >= {*found["removed"], "bringup.sh", UNIT}
