# SPDX-License-Identifier: Apache-2.0
"""dnsteer as its users run it, in a lab of a spec."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ("ipip", "spray", "client-hash", "siit")


def example(name: str) -> Path:
    """An example spec."""
    return ROOT / "examples" / f"{name}.yaml"


def dnsteer(*argv: str, timeout: float = 900.0) -> str:
    """Run a verb; what it printed. Raises RuntimeError with its errors where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "dnsteer", *argv], capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"dnsteer {' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def apply(spec: Path) -> float:
    """Apply *spec* in the lab; seconds of the whole process."""
    begin = time.monotonic()
    dnsteer("apply", str(spec), "--db", names.db_target(), "--yes")
    return time.monotonic() - begin


@contextmanager
def lab_of(spec: Path, say: Callable[[str], None]) -> Iterator[lab.LabState]:
    """A lab with *spec* applied."""
    lab.up(load_spec(spec).spec, progress=say)
    before = os.environ.get("DNSTEER_EXTENSION_SOCKET")
    try:
        os.environ["DNSTEER_EXTENSION_SOCKET"] = str(names.EXTENSION_SOCKET)
        apply(spec)
        state = lab.status()
        assert state is not None
        yield state
    finally:
        if before is None:
            os.environ.pop("DNSTEER_EXTENSION_SOCKET", None)
        lab.down()


def report_of(spec: Path, folder: Path, seconds: float) -> dict[str, Any]:
    """What `lab demo` reports of *seconds* of load on every service of *spec*."""
    file = folder / "report.json"
    dnsteer("lab", "demo", str(spec), "--seconds", f"{seconds:g}", "--report", str(file))
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@contextmanager
def control() -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Requests to the extension's control socket. An answer that is a refusal raises RuntimeError."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30.0)
        connection.connect(str(names.EXTENSION_SOCKET))
        with connection.makefile("rwb") as stream:

            def ask(request: dict[str, Any]) -> dict[str, Any]:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                answer: dict[str, Any] = json.loads(stream.readline())
                if not answer.get("ok"):
                    raise RuntimeError(str(answer.get("error")))
                return answer

            yield ask
