# SPDX-License-Identifier: Apache-2.0
"""A running agent for tests on a private switch, and what it said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dnsteer.switch.session import Session
from dnsteer.switch.state import BusyError
from tests.packet.switches import LARGE, Switch

BRIDGE = "br-dns"

PATIENCE = 60.0
"""Seconds until something must have happened: an agent starts in two on a core of its own, and may have a tenth of one."""


class Agent:
    """An agent in a process of its own, which may be killed."""

    program: tuple[str, ...] = ("-m", "dnsteer")
    """What Python runs."""

    def __init__(self, switch: Switch, log: Path, *options: str, **environment: str) -> None:
        self.log = log
        with log.open("w") as file:
            argv = [sys.executable, *self.program, "agent", "--db", switch.database, *options]
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path), **environment}
            self.process = subprocess.Popen(argv, stdout=file, stderr=file, env=environ)

    def said(self) -> str:
        """All that it said."""
        return self.log.read_text()

    def waits_for(self, text: str) -> None:
        """Wait until it said *text*."""
        wait(lambda: text in self.said(), lambda: f"the agent did not say {text!r}: {self.said()}")

    def hang(self, switch: Switch) -> None:
        """Stop it while it does not change the bridge: one that hangs with the bridge's lock keeps everybody out."""

        def stopped() -> bool:
            self.process.send_signal(signal.SIGSTOP)
            try:
                with Session(switch.database, 0.1) as session:
                    session.lock(BRIDGE)
            except BusyError:
                self.process.send_signal(signal.SIGCONT)
                return False
            return True

        wait(stopped, lambda: f"it changes the bridge all the time: {self.said()}")

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(20)


@contextmanager
def agent(
    switch: Switch, folder: Path, ready: str = "pools with health checks", name: str = "agent", *options: str
) -> Iterator[Agent]:
    """A running agent, which must end in order."""
    running = Agent(switch, folder / f"{name}.log", *options)
    try:
        running.waits_for(ready)
        yield running
        assert running.end() == 0, running.said()
        assert "Traceback" not in running.said()
    finally:
        running.end(signal.SIGKILL)


def wait(until: Callable[[], object], why: Callable[[], str]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def checked_by_files(folder: Path, interval: str, timeout: str) -> str:
    """The spec LARGE, with checks of its pool `direct` that pass while there is a file of the backend's name in *folder*."""
    direct, command = "  direct:\n    slots: 32\n", f"[test, -e, '{folder}/{{backend}}']"
    check = f"{{check: command, command: {command}, interval: {interval}, timeout: {timeout}, fall: 1, rise: 1}}"
    assert direct in LARGE
    for name in "ac":
        (folder / name).touch()
    return LARGE.replace(direct, f"{direct}    health: {check}\n    hold_max: 1s\n")
