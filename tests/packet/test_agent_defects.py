# SPDX-License-Identifier: Apache-2.0
"""A real agent with a defect in one part: failover goes on, the part is named and counted, and works again afterwards."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.packet.agents import Agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

EXPECTED = [*SLOW, "connection dropped", "Broken pipe"]
DEFECTS = """\
import os
from dnsteer.agent import state_follower, supervise
from dnsteer.agent.balance.balancer import Balancer
from dnsteer.console import live

supervise.STEADY, supervise.LONGEST_STEADY, supervise.FIRST_PAUSE = 2.0, 3.0, 0.1

def defect(owner, name, when):
    original = getattr(owner, name)
    def stepped(*args):
        if os.path.exists(f"{os.environ['FAULTS']}/{name}") and when(*args):
            raise UnicodeError("label empty or too long")
        return original(*args)
    setattr(owner, name, stepped)

defect(state_follower, "read_followed_state", lambda _, record: record.number == 2)
defect(Balancer, "_find_moves", lambda *_: True)
defect(live, "_cpu", lambda: True)
from dnsteer.cli.main import run
run()
"""


class BrokenAgent(Agent):
    """An agent with defects, each while there is a file of the function's name."""

    program = ("-c", DEFECTS)

    def defects(self) -> dict[str, float]:
        """What it has counted, by part."""
        address = self.said().partition("metrics at http://")[2].partition("/")[0]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            found = re.findall(r'^dnsteer_agent_defects_total\{.*part="([^"]+)".*\} (\S+)$', page.read().decode(), re.M)
        return {name: float(value) for name, value in found}


@contextmanager
def broken(switch: Switch, folder: Path, text: str, *options: str) -> Iterator[BrokenAgent]:
    """The spec applied, with an agent that ends in order."""
    fresh(switch)
    assert on(switch)("apply", spec_file(folder, text), "--yes").code == 0
    running = BrokenAgent(switch, folder / "agent.log", "--metrics", "127.0.0.1:0", *options, FAULTS=str(folder))
    try:
        running.waits_for("pools with health checks")
        yield running
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)


def checked(folder: Path, text: str = FARM) -> str:
    """With checks that pass while there is a file of the backend's name."""
    for name in ("ns1", "ns2", "ns3"):
        (folder / name).touch()
    times = "interval: 200ms, timeout: 190ms, fall: 1, rise: 1"
    check = f"{{check: command, command: [test, -e, '{folder}/{{backend}}'], {times}}}"
    return text.replace("  farm:\n", f"  farm:\n    health: {check}\n    hold_max: 1s\n")


def fails_over(switch: Switch, folder: Path, running: Agent) -> None:
    (folder / "ns1").unlink()
    wait(lambda: [entry["backend"] for entry in overlay(switch)] == ["ns1"], running.said)
    (folder / "ns1").touch()
    wait(lambda: overlay(switch) == [], running.said)


def test_a_state_that_cannot_be_adopted_keeps_the_previous_one(shared: Switch, tmp_path: Path) -> None:
    text = checked(tmp_path)
    with broken(shared, tmp_path, text) as running:
        (tmp_path / "read_followed_state").touch()
        assert (
            on(shared)("apply", spec_file(tmp_path, text.replace("    slots: 16\n", "    slots: 32\n")), "--yes").code
            == 0
        )
        running.waits_for("state 2 cannot be followed, and is tried again: UnicodeError: label empty or too long (")
        running.waits_for("the checks of the state before go on for farm, and all others stay as they are")
        fails_over(shared, tmp_path, running)
        assert running.defects()["adopting a state"] >= 1
        (tmp_path / "read_followed_state").unlink()
        running.waits_for("state 2 is followed now")
        fails_over(shared, tmp_path, running)
        assert on(shared)("verify", tmp_path / "spec.yaml").code == 0


def test_a_defect_in_balancing_does_not_stop_failover(shared: Switch, tmp_path: Path) -> None:
    text = checked(tmp_path).replace("  farm:\n", "  farm:\n    balance: {by: slots, interval: 1s}\n")
    with broken(shared, tmp_path, text) as running:
        (tmp_path / "_find_moves").touch()
        running.waits_for("a defect in the balance, which is tried again while all else goes on: UnicodeError: ")
        fails_over(shared, tmp_path, running)
        wait(lambda: running.defects().get("balance", 0) >= 2, running.said)
        assert running.said().count("a defect in the balance") == 1
        (tmp_path / "_find_moves").unlink()
        running.waits_for("the balance works again")


def test_a_console_task_that_ends_is_restarted(shared: Switch, tmp_path: Path) -> None:
    """Readings of counters end by a defect: the whole console is started again, and nothing else notices."""
    with broken(shared, tmp_path, checked(tmp_path), "--console", "127.0.0.2:0") as running:
        running.waits_for("console at http://")
        (tmp_path / "_cpu").touch()
        running.waits_for("a defect in console, which is tried again while all else goes on: UnicodeError: ")
        fails_over(shared, tmp_path, running)
        wait(lambda: running.defects().get("console", 0) >= 1, running.said)
        (tmp_path / "_cpu").unlink()
        running.waits_for("console works again")
        address = running.said().rpartition("console at ")[2].split()[0]
        with urllib.request.urlopen(address, timeout=10) as page:
            assert page.status == 200
