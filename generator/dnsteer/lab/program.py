"""A program in a namespace, and when it said what."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.errors import LabError

Line = tuple[float, str]
"""A time of `time.monotonic` and what was said then."""


def python_environment() -> dict[str, str]:
    """Environment of a Python that finds the modules where this one does."""
    return {**program_environment(), "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}


class LabProgram:
    """A program that runs until the block ends. Its lines, of standard output and error, get the time at which they came."""

    def __init__(self, namespace: str, argv: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        self.argv = netns_exec(namespace, argv)
        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**python_environment(), **(more or {})},
        )
        self.lines: list[Line] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> LabProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Ask it to end (SIGTERM), and kill it when it does not in 10 s."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(5)

    @property
    def pid(self) -> int:
        """Its process id: `ip netns exec` becomes the program."""
        return self._process.pid

    def waits_for(self, test: Callable[[str], object], seconds: float, since: float = 0.0) -> Line | None:
        """The first line after *since* that passes *test*; None when none comes in *seconds*. LabError when it has ended."""
        until = time.monotonic() + seconds
        while True:
            found = next((line for line in list(self.lines) if line[0] >= since and test(line[1])), None)
            if found is not None or time.monotonic() > until:
                return found
            if self._process.poll() is not None:
                last = " / ".join(text for _, text in self.lines[-3:])
                raise LabError(f"`{' '.join(self.argv)}` ended with exit code {self._process.returncode}: {last}")
            time.sleep(0.01)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
