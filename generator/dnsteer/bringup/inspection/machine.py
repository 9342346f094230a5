# SPDX-License-Identifier: Apache-2.0
"""What is inspected: files below a root, and the output of programs. Both can be recorded ones."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dnsteer.switch.tools import SBIN

ItemState = Literal["ok", "missing", "unknown"]
_TIMEOUT = 10.0


@dataclass(frozen=True)
class Item:
    """An inspected item: what it is, whether it is there, what was found, and what to do about it."""

    name: str
    state: ItemState
    found: str
    todo: str = ""

    def as_json(self) -> dict[str, Any]:
        """The item as a JSON object."""
        return {"name": self.name, "state": self.state, "found": self.found, "todo": self.todo}


@dataclass(frozen=True)
class RunResult:
    """What a program did. *code* is None when there is no such program, or it took too long."""

    code: int | None
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0


ProgramRunner = Callable[[Sequence[str]], RunResult]


def run_program(argv: Sequence[str]) -> RunResult:
    """Run a program of this machine that only looks."""
    program = shutil.which(argv[0]) or shutil.which(argv[0], path=":".join(SBIN))
    if program is None:
        return RunResult(None, err=f"{argv[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return RunResult(None, err=f"{argv[0]} did not answer within {_TIMEOUT:g} s")
    except OSError as error:
        return RunResult(None, err=f"{argv[0]}: {error.strerror}")
    return RunResult(done.returncode, done.stdout, done.stderr.strip())


@dataclass(frozen=True)
class Machine:
    """A machine: its files are below *root*."""

    root: Path = Path("/")
    run: ProgramRunner = field(default=run_program)

    def path(self, name: str) -> Path:
        """Where the file with the absolute path *name* is."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """The text of a file without blanks at its ends; None when it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        """Whether there is such a file or folder."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def has_link(self, name: str) -> bool:
        """Whether there is such a symbolic link, wherever it leads to."""
        return self.path(name).is_symlink()

    def is_executable(self, name: str) -> bool:
        """Whether the file exists and is executable for any user."""
        try:
            path = self.path(name)
            return path.is_file() and bool(path.stat().st_mode & 0o111)
        except OSError:
            return False

    def target(self, name: str) -> str | None:
        """The last part of what a symbolic link leads to; None when there is no such link."""
        path = self.path(name)
        return path.resolve().name if path.is_symlink() else None

    def names(self, name: str) -> list[str]:
        """Names in a folder, sorted; none when it cannot be read."""
        try:
            return sorted(p.name for p in self.path(name).iterdir())
        except OSError:
            return []

    def number(self, name: str) -> int | None:
        """The whole number in a file; None when there is none."""
        text = self.text(name)
        return int(text) if text and text.isdecimal() else None
