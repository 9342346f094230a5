# SPDX-License-Identifier: Apache-2.0
"""The command line for tests: as a process of its own, or in this one, which is quicker."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from dnsteer.cli import main, output

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "examples" / "own-ports.yaml")
ENV = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "COLUMNS": "100"}
ENV.pop("PYTHONUNBUFFERED", None)  # it would hide what goes wrong when the output is written at the end
Command = Callable[..., tuple[int, str, str]]
RUN = "import dnsteer.switch.tools as tools; tools.SBIN = (); from dnsteer.cli.main import run; run()"


def dnsteer(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    argv = [sys.executable, "-m", "dnsteer", *args]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**ENV, **more}, timeout=60)


def in_process(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: a start of Python and its modules is most of what a short verb takes."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch().context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["dnsteer", *args])
        for name, value in {"COLUMNS": ENV["COLUMNS"], **more}.items():
            patch.setenv(name, value)
        for stream in (output.out, output.err):
            stream._here = None  # made anew, with the width of this run
        try:
            code = main._run()
        finally:
            for stream in (output.out, output.err):
                stream._here = None
    return subprocess.CompletedProcess(["dnsteer", *args], code, out.getvalue(), err.getvalue())


def shell(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which `dnsteer` is the command."""
    function = f'dnsteer() {{ "{sys.executable}" -m dnsteer "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", function + script], capture_output=True, text=True, check=False, env=ENV, timeout=60
    )


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses to make a file longer than *size* bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    cached, sys.dont_write_bytecode = (
        sys.dont_write_bytecode,
        True,
    )  # Python would leave half a file, and fail to read it
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = cached
