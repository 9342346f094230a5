# SPDX-License-Identifier: Apache-2.0
"""Real queries to many servers at once, from many sockets and client addresses, by asker.c."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.message

from bench.hosts import space
from dnsteer.lab.command import netns_exec, program_environment, run
from dnsteer.lab.zone import queries_text
from dnsteer.switch.signals import ends_with_parent

SOURCE = Path(__file__).with_name("asker.c")
SOCKETS = 512
"""Of each family, so that source ports choose every slot of 256, and a query's slot is drawn at random."""
_QUERIES = 64


def built_asker(folder: Path) -> Path:
    """Compile the program. Raises LabCommandError."""
    program = folder / "asker"
    run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE)], timeout=60)
    return program


@dataclass(frozen=True)
class Asker:
    """Asks *servers* from *clients*, addresses of the namespace *where*, also such as are local by a route alone."""

    program: Path
    where: str
    clients: Sequence[str]
    servers: Sequence[str]

    def ask(self, seconds: float, qps: int, seed: int) -> RunningAsker:
        """Begin at once, *qps* queries a second (0: 200 wait for an answer)."""
        queries = [line.split() for line in queries_text().splitlines()[:_QUERIES]]
        lines = [f"query {dns.message.make_query(name, kind).to_wire().hex()}" for name, kind in queries]
        lines += [f"client {address}" for address in self.clients] + [f"server {address}" for address in self.servers]
        argv = [str(self.program), str(SOCKETS), str(qps), f"{seconds:g}", str(seed)]
        return RunningAsker(self.where, argv, "".join(f"{line}\n" for line in lines))


class RunningAsker:
    """Queries that are being asked. As a context manager it ends with the block."""

    def __init__(self, where: str, argv: Sequence[str], text: str) -> None:
        self._process = subprocess.Popen(
            netns_exec(space(where), argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=program_environment(),
            preexec_fn=ends_with_parent(signal.SIGKILL),
        )
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.close()
        self._process.stdin = None

    def __enter__(self) -> RunningAsker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def figures(self) -> dict[str, Any]:
        """Wait for the end: what was asked and answered a second, the share lost, and latency in milliseconds.

        *silent* servers answered nothing; *least* and *most* are answers of one server. Raises RuntimeError where it failed.
        """
        said, _ = self._process.communicate(timeout=120)
        if self._process.returncode != 0:
            raise RuntimeError(f"the asker ended with {self._process.returncode}: {said}")
        found = json.loads(said)
        return {
            "asked": round(found["sent"] / found["seconds"]),
            "qps": round(found["answered"] / found["seconds"]),
            "lost": round(1 - found["answered"] / max(1, found["sent"]), 5),
            "latency_ms": round(found["mean_ms"], 3),
            **{f"latency_{name}_ms": round(found[f"{name}_ms"], 3) for name in ("p50", "p99", "p999")},
            "silent": found["silent"],
            "least": found["least"],
            "most": found["most"],
        }
