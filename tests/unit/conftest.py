# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the unit tests."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.cli import main
from tests.unit.commands import Command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `dnsteer` in this process, which is quicker: exit code, output and messages."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dnsteer", *args])
        code = main._run()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name, for sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)
