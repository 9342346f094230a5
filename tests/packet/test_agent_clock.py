# SPDX-License-Identifier: Apache-2.0
"""The agent when somebody sets the machine's clock: nothing moves, checks go on, and who is coming back comes back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import on, spec_file
from tests.packet.switches import LARGE, Switch
from tests.packet.test_agent_repair import ENDED

DAY = 86400
SHIFT = Path(__file__).with_name("shifted_clock.c")


class Clock:
    """A clock that can be set, and files whose presence means that a backend is healthy."""

    def __init__(self, folder: Path) -> None:
        self._file, self._folder = folder / "shift", folder
        self.set(0)
        for name in ("a", "c"):
            self.good(name)

    def set(self, seconds: int) -> None:
        """Set it so many seconds ahead of the machine's, at once."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)

    def good(self, backend: str) -> None:
        (self._folder / f"good-{backend}").touch()

    def bad(self, backend: str) -> None:
        (self._folder / f"good-{backend}").unlink()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    library = tmp_path / "shifted_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SHIFT], check=True)
    monkeypatch.setenv("SHIFTED_CLOCK", str(tmp_path / "shift"))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    return Clock(tmp_path)


@pytest.fixture
def running(switch: Switch, tmp_path: Path, clock: Clock) -> Iterator[Agent]:
    """An agent that checks the pool `direct`, whose backends come back over 3 s."""
    switch.expected += ENDED
    check = f"check: command, command: [test, -e, '{tmp_path}/good-{{backend}}'], interval: 1s, timeout: 900ms"
    health = f"    health: {{{check}, rise: 1, fall: 1}}\n    slow_start: 3s\n    hold_max: 1s\n"
    spec = spec_file(tmp_path, LARGE.replace("  direct:\n", f"  direct:\n{health}"))
    assert on(switch)("apply", spec).code == 0
    with agent(switch, tmp_path) as running:
        yield running


def overlay(switch: Switch) -> Overlay:
    with TargetSwitch(switch.database).session() as session:
        return session.record_of(None).overlay


def out(switch: Switch) -> dict[str, int]:
    """What share of its slots each backend is without, in thousandths."""
    return {entry.backend: entry.gone for entry in overlay(switch)}


def is_out(switch: Switch, running: Agent, **wanted: int) -> None:
    wait(lambda: out(switch) == wanted, lambda: f"{out(switch)} {running.said()}")


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_checks_and_maintenance_continue_after_the_clock_is_set(
    switch: Switch, running: Agent, clock: Clock, seconds: int
) -> None:
    clock.bad("a")
    is_out(switch, running, a=1000)
    for address in ("10.53.0.11", "[2001:db8:53::11]"):
        running.waits_for(f"direct/a is unhealthy: command {address}")
    running.waits_for("slots of pool direct move")
    said, tables = running.said(), switch.tables()
    clock.set(seconds)
    time.sleep(2.5)
    assert running.said() == said
    assert switch.tables() == tables
    clock.good("a")
    is_out(switch, running)
    clock.bad("c")
    is_out(switch, running, c=1000)
    since = datetime.fromisoformat(overlay(switch).entries[0].since).timestamp()
    assert abs(since - time.time() - seconds) < 60  # the agent did have that time


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_a_returning_backend_finishes_its_slow_start_after_the_clock_is_set(
    switch: Switch, running: Agent, clock: Clock, seconds: int
) -> None:
    clock.bad("a")
    is_out(switch, running, a=1000)
    clock.good("a")
    wait(lambda: 0 < out(switch).get("a", 0) < 1000, running.said)
    clock.set(seconds)
    began = time.monotonic()
    is_out(switch, running)
    assert time.monotonic() - began > 1  # by steps, though a day has passed
