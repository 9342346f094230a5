# SPDX-License-Identifier: Apache-2.0
"""An agent whose changes OVSDB cannot record: failover goes on, the record follows, and the next agent knows of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance, take_out
from dnsteer.deploy.times import now, stamp
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.session import Session
from dnsteer.switch.tools import SwitchError, UnwrittenError
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, on, spec_file
from tests.packet.full_disk import REFUSED, enduring, leave
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import BRIDGE, SLOT_TABLE, Switch, unexpected

ENDED = [
    "Connection reset by peer",
    "connection dropped",
    "Broken pipe",
    "receive error",
    "flow_limit",
    "is already up",
]
WITHOUT = "backends go out and come back without the record, which follows once it can be written: "
AGAIN = "the record has all that was decided"


@dataclass
class Farm:
    """A switch with the pool farm applied, whose checks pass while there is a file of a backend's name."""

    switch: Switch
    marks: Path
    spec: Path

    def out(self) -> list[str]:
        """Backends that are out by the record."""
        return [entry["backend"] for entry in overlay(self.switch) if entry["kind"] == "health"]

    def tables_with(self, *names: str) -> object:
        """The tables once these backends have failed one after the other, which is recorded meanwhile."""
        for number, name in enumerate(names, 1):
            (self.marks / name).unlink()
            wait(lambda: self.out() == [*names[:number]], lambda: str(self.out()))  # noqa: B023  it waits here
        tables = self.switch.tables()
        for name in names:
            (self.marks / name).touch()
        wait(lambda: self.out() == [], lambda: str(self.out()))
        return tables


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    marks = tmp_path / "marks"
    marks.mkdir()
    for name in ("ns1", "ns2", "ns3"):
        (marks / name).touch()
    times = "interval: 200ms, timeout: 190ms, fall: 2, rise: 2"
    check = f"{{check: command, command: [test, -e, '{marks}/{{backend}}'], {times}}}"
    text = FARM.replace("  farm:\n", f"  farm:\n    health: {check}\n    hold_max: 1s\n    panic: 70%\n")
    with enduring(tmp_path), Switch() as private:
        private.expected = [*SLOW, *REFUSED, *ENDED]
        spec = spec_file(tmp_path, text)
        assert on(private)("apply", spec, "--yes").code == 0
        yield Farm(private, marks, spec)
        assert unexpected(private) == []


def as_recorded(farm: Farm, out: list[str]) -> bool:
    return sorted(farm.out()) == sorted(out) and on(farm.switch)("verify", farm.spec).code == 0


def test_failover_goes_on_and_the_record_follows(farm: Farm, tmp_path: Path) -> None:
    """One comes back, two fail one after the other; what people ask for is refused, and changes nothing."""
    with agent(farm.switch, tmp_path) as running:
        all_in, two_out = farm.switch.tables(), farm.tables_with("ns1", "ns3")
        (farm.marks / "ns2").unlink()
        wait(lambda: farm.out() == ["ns2"], running.said)
        leave(farm.switch, 0)
        (farm.marks / "ns2").touch()
        wait(lambda: farm.switch.tables() == all_in, running.said)
        running.waits_for(WITHOUT)
        for name in ("ns1", "ns3"):
            (farm.marks / name).unlink()
            text = f"farm/{name} goes out of service"  # for the second time
            wait(lambda: running.said().count(text) == 2, running.said)  # noqa: B023  it waits here
        wait(lambda: farm.switch.tables() == two_out, running.said)
        assert farm.out() == ["ns2"]
        for verb in (("drain", "farm/ns2", "--yes"), ("apply", farm.spec, "--yes"), ("drain", "spare/sp1", "--yes")):
            done = on(farm.switch)(*verb)
            assert farm.switch.tables() == two_out, done
            assert verb[0] == "apply" or (done.code == 1 and "nothing was changed" in done.err), done
        assert "repaired: " not in running.said()
        leave(farm.switch, None)
        running.waits_for(AGAIN)
        wait(lambda: as_recorded(farm, ["ns1", "ns3"]), running.said)
        assert farm.switch.tables() == two_out
        assert on(farm.switch)("drain", "spare/sp1", "--yes").code == 0
        for name in ("ns1", "ns3"):
            (farm.marks / name).touch()
        wait(lambda: farm.out() == [], running.said)


def test_failover_works_at_any_amount_of_free_space(farm: Farm, tmp_path: Path) -> None:
    """A change that could be begun may not be confirmed any more: it is in force all the same."""
    with agent(farm.switch, tmp_path) as running:
        all_in, out = farm.switch.tables(), farm.tables_with("ns1")
        for room in range(0, 1400, 200):
            leave(farm.switch, room)
            (farm.marks / "ns1").unlink()
            wait(lambda: farm.switch.tables() == out, running.said)
            leave(farm.switch, None)
            wait(lambda: as_recorded(farm, ["ns1"]), running.said)
            (farm.marks / "ns1").touch()
            wait(lambda: farm.out() == [] and farm.switch.tables() == all_in, running.said)
        assert "repaired: " not in running.said()


@pytest.mark.parametrize("step", [(OpenFlow, "bundle"), (Session, "commit")], ids=["bundle", "commit"])
def test_an_unconfirmed_change_by_an_operator_is_kept(
    step: tuple[type, str], farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has made of the tables stays, and failover goes on from there; both are recorded together."""
    switch = HeldSwitch(farm.switch.database)
    original = getattr(*step)

    def fills(*args: Any, **more: Any) -> Any:
        leave(farm.switch, 0)
        if step[1] == "bundle":
            raise SwitchError("the switch refused it")
        return original(*args, **more)

    def fail(overlay: Overlay, *_: object) -> Overlay:
        return overlay.put(Maintenance("farm", "ns1", "health", stamp(now()), "agent"))

    before = farm.switch.tables()
    with monkeypatch.context() as patch, pytest.raises(SwitchError):
        patch.setattr(*step, fills)
        change_overlay(switch, BRIDGE, take_out("farm/ns2", "drain"))
    after = farm.switch.tables()
    assert (after != before) is (step[1] == "commit")
    with pytest.raises(UnwrittenError):
        change_overlay(switch, BRIDGE, take_out("farm/ns3", "drain"))
    change = change_overlay(switch, BRIDGE, fail, unrecorded=True)
    assert {move.pool for move in change.moves} == {"farm"}
    assert farm.switch.tables() != after and farm.out() == []
    with pytest.raises(UnwrittenError, match="nothing was changed"):
        change_overlay(switch, BRIDGE, take_out("farm/ns3", "drain"))
    with pytest.raises(UnwrittenError):
        switch.record_kept(BRIDGE)
    leave(farm.switch, None)
    assert switch.record_kept(BRIDGE)
    names = [entry["backend"] for entry in overlay(farm.switch)]
    assert names == (["ns2", "ns1"] if step[1] == "commit" else ["ns1"])
    assert on(farm.switch)("verify", farm.spec).code == 0
    switch.memory.close()


def test_without_the_record_only_health_changes_slots(farm: Farm) -> None:
    """Maintenance of people does not end with it, though its time has passed."""
    switch = HeldSwitch(farm.switch.database)
    change_overlay(switch, BRIDGE, take_out("farm/ns2", "drain", lasts=0.001))
    leave(farm.switch, 0)

    def fail(overlay: Overlay, *_: object) -> Overlay:
        return overlay.put(Maintenance("farm", "ns1", "health", stamp(now()), "agent"))

    change = change_overlay(switch, BRIDGE, fail, unrecorded=True)
    assert [entry.backend for entry in change.after] == ["ns2", "ns1"]
    with pytest.raises(UnwrittenError):
        change_overlay(switch, BRIDGE, advance)
    leave(farm.switch, None)
    switch.memory.close()


def test_maintenance_that_cannot_end_yet_is_reported_once(farm: Farm, tmp_path: Path) -> None:
    """Not as a switch that fails and works in turns; it ends as soon as it can be recorded."""
    with agent(farm.switch, tmp_path) as running:
        assert on(farm.switch)("drain", "spare/sp1", "--for", "2s", "--yes").code == 0
        leave(farm.switch, 0)
        running.waits_for("maintenance whose time has come does not end or go on, since it cannot be recorded: ")
        turns = now() + timedelta(seconds=3)
        wait(lambda: now() > turns, running.said)
        leave(farm.switch, None)
        running.waits_for("maintenance ends and goes on as it should")
        assert overlay(farm.switch) == []
        assert running.said().count("maintenance whose time has come") == 1
        assert "the switch stays as it is" not in running.said()


def test_foreign_changes_are_repaired_without_the_record(farm: Farm, tmp_path: Path) -> None:
    """The switch loses its tables, or somebody alters them: they come back with the dead server out."""
    with agent(farm.switch, tmp_path) as running:
        out = farm.tables_with("ns1")
        leave(farm.switch, 0)
        (farm.marks / "ns1").unlink()
        wait(lambda: farm.switch.tables() == out, running.said)
        farm.switch.ofctl("del-flows", SLOT_TABLE)
        running.waits_for("repaired: missing flow")
        wait(lambda: farm.switch.tables() == out, running.said)
        farm.switch.kill_switch()
        PrivateSwitch.start_switch(farm.switch)
        running.waits_for("the switch has lost its tables")
        wait(lambda: farm.switch.tables() == out, running.said)
        leave(farm.switch, None)
        wait(lambda: as_recorded(farm, ["ns1"]), running.said)
        (farm.marks / "ns1").touch()
        wait(lambda: farm.out() == [], running.said)


def test_a_record_that_others_have_written_counts(farm: Farm, tmp_path: Path) -> None:
    """By a verb of another machine, which knows nothing of the dead server: its slots leave it again."""
    with agent(farm.switch, tmp_path) as running:
        leave(farm.switch, 0)
        (farm.marks / "ns1").unlink()
        running.waits_for(WITHOUT)
        running.hang(farm.switch)
        leave(farm.switch, None)
        done = on(farm.switch)("drain", "spare/sp1", "--yes")
        os.kill(running.process.pid, signal.SIGCONT)
        assert done.code == 0 and "this is done without it" in done.err, done
        running.waits_for(AGAIN)
        wait(lambda: as_recorded(farm, ["ns1"]), running.said)
        assert {entry["backend"] for entry in overlay(farm.switch)} == {"ns1", "sp1"}
        (farm.marks / "ns1").touch()
        wait(lambda: farm.out() == [], running.said)


STEPS = {
    "before it is kept": "patch(unrecorded_overlay.UnrecordedOverlay, 'keep', before=True)",
    "before the bundle": "patch(unrecorded_overlay.UnrecordedOverlay, 'keep')",
    "after the bundle": "patch(openflow.OpenFlow, 'bundle')",
    "before it is recorded": "patch(session.Session, 'put_overlay', before=True)",
    "after it is recorded": "patch(session.Session, 'put_overlay')",
}
KILLED = """\
import os, signal
from dnsteer.agent import unrecorded_overlay
from dnsteer.switch import openflow, session

armed = os.environ["ARMED"]

def patch(owner, name, before=False):
    original = getattr(owner, name)
    def stepped(*args, **more):
        if before and os.path.exists(armed):
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(*args, **more)
        if os.path.exists(armed):
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(owner, name, stepped)

STEP
from dnsteer.cli.main import run
run()
"""


class KilledAgent(Agent):
    """An agent that is killed at a step, once there is a file."""

    def __init__(self, switch: Switch, log: Path, step: str, armed: Path) -> None:
        self.log = log
        argv = [sys.executable, "-c", KILLED.replace("STEP", STEPS[step]), "agent", "--db", switch.database]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path), "ARMED": str(armed)}
        with log.open("w") as file:
            self.process = subprocess.Popen(argv, stdout=file, stderr=file, env=environ)


@pytest.mark.parametrize("step", STEPS)
def test_an_agent_killed_at_any_step_loses_no_decision(step: str, farm: Farm, tmp_path: Path) -> None:
    """The one that comes next never gives a dead server its slots back, whether the disk is still full or not."""
    armed = tmp_path / "armed"
    first = KilledAgent(farm.switch, tmp_path / "first.log", step, armed)
    try:
        first.waits_for("pools with health checks")
        all_in, out = farm.switch.tables(), farm.tables_with("ns1")
        leave(farm.switch, 0)
        records = "recorded" in step
        if not records:
            armed.touch()
        (farm.marks / "ns1").unlink()
        if records:
            wait(lambda: farm.switch.tables() == out, first.said)
            armed.touch()
            leave(farm.switch, None)
        assert first.process.wait(20) == -signal.SIGKILL
    finally:
        first.end(signal.SIGKILL)
    moved = step not in ("before it is kept", "before the bundle")
    assert farm.switch.tables() == (out if moved else all_in)
    with agent(farm.switch, tmp_path) as running:
        wait(lambda: farm.switch.tables() == out, running.said)
        if not records:
            running.waits_for(WITHOUT)
            assert farm.out() == []
            leave(farm.switch, None)
        wait(lambda: as_recorded(farm, ["ns1"]), running.said)
        assert farm.switch.tables() == out
        assert "comes back" not in running.said()
        assert not moved or "repaired: " not in running.said()
        assert [*farm.switch.dir.rglob("*.unrecorded")] == []
        (farm.marks / "ns1").touch()
        wait(lambda: farm.out() == [] and farm.switch.tables() == all_in, running.said)
