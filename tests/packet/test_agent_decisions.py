# SPDX-License-Identifier: Apache-2.0
"""A running agent beside backends that fail: nobody dead serves while another one may, people are left alone, and named."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packet.agents import Agent, agent, wait
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import BRIDGE, Switch

EXPECTED = [*SLOW, "Connection reset by peer", "connection dropped", "Broken pipe", "receive error"]
CHECK = "check: command, command: [test, -e, '{}/{{backend}}'], interval: 300ms, timeout: 290ms, rise: 1"
NAMES = ("ns1", "ns2", "ns3", "ns4")  # the last one is down by the spec


@pytest.fixture
def judged(shared: Switch, tmp_path: Path) -> Switch:
    """The module's switch with the pool farm, whose backends are healthy while there is a file of their name."""
    fresh(shared)
    for name in NAMES:
        (tmp_path / name).touch()
    health = f"    health: {{{CHECK.format(tmp_path)}}}\n    on_all_down: drop\n    hold_max: 1h\n"
    assert on(shared)("apply", spec_file(tmp_path, FARM.replace("  farm:\n", f"  farm:\n{health}")), "--yes").code == 0
    return shared


@pytest.fixture
def running(judged: Switch, tmp_path: Path) -> Iterator[Agent]:
    with agent(judged, tmp_path) as found:
        yield found


def out(switch: Switch) -> dict[str, str]:
    """Who is out, or at another weight, and by whom."""
    return {entry["backend"]: entry["by"] for entry in overlay(switch)}


def test_a_dead_backend_stays_out_and_the_agent_signs_its_entries(
    judged: Switch, running: Agent, tmp_path: Path
) -> None:
    by = f"agent@{socket.gethostname()}"
    (tmp_path / "ns1").unlink()
    wait(lambda: out(judged) == {"ns1": by}, running.said)
    (tmp_path / "ns2").unlink()
    wait(lambda: out(judged) == {"ns1": by, "ns2": by}, running.said)
    (tmp_path / "ns3").unlink()
    running.waits_for(
        "PANIC: pool farm: no backend in service passes its checks (ns1, ns2, ns3); these stay in service: ns3"
    )
    assert out(judged) == {"ns1": by, "ns2": by}
    (tmp_path / "ns2").touch()
    wait(lambda: out(judged) == {"ns1": by, "ns3": by}, running.said)
    running.waits_for("pool farm: the panic is over")


def test_the_last_backend_left_by_operators_stays_and_passing_ones_are_named(
    judged: Switch, running: Agent, tmp_path: Path
) -> None:
    for name in ("ns1", "ns2"):
        assert on(judged)("weight", f"farm/{name}", "0", "--yes").code == 0
    served = judged.tables()
    (tmp_path / "ns3").unlink()
    running.waits_for("these stay in service: ns3; these pass, but people have them out: ns1, ns2")
    assert judged.tables() == served and {*out(judged)} == {"ns1", "ns2"}
    assert on(judged)("weight", "farm/ns1", "--undo", "--yes").code == 0
    wait(lambda: {*out(judged)} == {"ns2", "ns3"}, running.said)


def test_a_hold_outlives_the_agent(judged: Switch, tmp_path: Path) -> None:
    def recorded() -> list[list[object]]:
        found = judged.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-failures").strip()
        rows: list[list[object]] = json.loads(json.loads(found)) if found else []
        return rows

    def hold(row: list[object]) -> float:
        return float(str(row[6])) - float(str(row[5]))

    with agent(judged, tmp_path, "pools with health checks", "first") as running:
        (tmp_path / "ns1").unlink()
        wait(lambda: out(judged), running.said)
        (tmp_path / "ns1").touch()
        wait(lambda: not out(judged), running.said)
        (tmp_path / "ns1").unlink()
        wait(lambda: out(judged) and recorded(), running.said)
        running.end(signal.SIGKILL)
        running.process.returncode = 0
    (*about, failures, at, _held) = recorded()[0]
    assert about[:2] == ["farm", "ns1"]
    assert isinstance(failures, float) and 1.5 < failures <= 2
    judged.vsctl(
        "set", "Bridge", BRIDGE, f"external_ids:dnsteer-failures={json.dumps(json.dumps([[*about, 9.5, at, 0]]))}"
    )
    (tmp_path / "ns1").touch()
    with agent(judged, tmp_path, "pools with health checks", "second") as running:
        wait(lambda: not out(judged), running.said)
        (tmp_path / "ns1").unlink()
        wait(lambda: out(judged) and any(hold(row) > 500 for row in recorded()), running.said)
