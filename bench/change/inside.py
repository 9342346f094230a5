# SPDX-License-Identifier: Apache-2.0
"""A helper process in a client's or another namespace, started once and asked many times."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from types import TracebackType
from typing import Any

from bench.change.priority import PROBING, prefer_process
from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.errors import LabCommandError, LabError
from dnsteer.lab.state import LabState
from dnsteer.lab.traffic import client_command

_END_SECONDS = 5.0


class Helper:
    """`python -m MODULE` at the client of *lab* behind *uplink*, or in *namespace*, where no lab is needed.

    It ends when this object is closed, or this process ends.
    """

    def __init__(self, lab: LabState | None, module: str, *, uplink: str | None = None, namespace: str = "") -> None:
        argv = [sys.executable, "-m", module]
        self._argv = client_command(lab, argv, uplink=uplink) if lab else netns_exec(namespace, argv)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._lock = threading.Lock()
        self._rest = b""
        # The helper finds the modules where this process does.
        path = os.pathsep.join(p or "." for p in sys.path)
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**program_environment(), "PYTHONPATH": path},
        )
        prefer_process(self._process.pid, PROBING)

    def __enter__(self) -> Helper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def call(self, do: str, *, timeout: float, **arguments: Any) -> dict[str, Any]:
        """Let it do one thing and return what it answers; one call at a time, others wait.

        Raises LabError for what the helper refuses, LabCommandError when it has ended or takes over *timeout* seconds.
        """
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
                self._process.stdin.flush()
            except OSError:
                raise self._ended() from None
            answer: dict[str, Any] = json.loads(self._line(do, timeout))
        if "error" in answer:
            raise LabError(f"{do}: {answer['error']}")
        return answer

    def _line(self, do: str, timeout: float) -> bytes:
        assert self._process.stdout is not None
        handle, deadline = self._process.stdout.fileno(), time.monotonic() + timeout
        while b"\n" not in self._rest:
            ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self._process.kill()  # its late answer would be taken for the next one's
                raise LabCommandError(self._argv, f"did not answer to `{do}` within {timeout:g} s")
            more = os.read(handle, 1 << 20)
            if not more:
                raise self._ended()
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _ended(self) -> LabCommandError:
        code = self._process.wait(_END_SECONDS)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return LabCommandError(self._argv, f"ended with exit code {code}: {' '.join(said) or 'no message'}")

    def close(self) -> None:
        """End it; nothing happens when it has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
