# SPDX-License-Identifier: Apache-2.0
"""What the lab says before it touches anything. These tests need no root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import command

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"


def test_the_lab_without_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    spec = load_spec(QUICKSTART).spec
    with pytest.raises(lab.NotRootError, match="needs root"):
        lab.up(spec)
    with pytest.raises(lab.NotRootError):
        lab.down()


def test_missing_programs_name_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    present = shutil.which
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if "nsd" in name else present("sh"))
    with pytest.raises(lab.MissingProgramError) as refused:
        lab.up(load_spec(QUICKSTART).spec)
    assert str(refused.value) == "missing nsd, nsd-control: apt-get install nsd"
    assert refused.value.packages == ["nsd"]


def test_a_failing_command_is_reported_with_its_output() -> None:
    with pytest.raises(lab.LabCommandError, match=r"failed with exit code \d+: .*nonsense"):
        command.run(["ls", "nonsense"])
    with pytest.raises(lab.LabCommandError, match=r"did not end within 0\.1 s"):
        command.run(["sleep", "5"], timeout=0.1)
    with pytest.raises(lab.LabCommandError, match="could not be started"):
        command.run(["no-such-program"])
