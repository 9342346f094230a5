# SPDX-License-Identifier: Apache-2.0
"""What tests of announcing need: a spec with health checks by files, and what BIRD must have."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packet.agents import Agent, agent, wait
from tests.packet.birds import Bird, bird
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.switches import Switch

EXPECTED = [*SLOW, "connection dropped", "Broken pipe", "could not open network device"]
READY = "state 1"
DNS, OTHER = {"192.0.2.53", "2001:db8::53"}, {"192.0.2.54"}


def spec(folder: Path, more: str = ", hold_max: 0s", of_dns: str = "") -> str:
    """FARM with announcing; the backends of `farm` are healthy while there are files of their names in *folder*."""
    rules = f"  announce: {{via: bird, include: {folder}/dnsteer.conf, control: {folder}/bird.ctl{more}}}\n"
    text = FARM.replace("  uplinks:\n", f"{rules}  uplinks:\n")
    command = (
        f"{{check: command, command: [test, -e, '{folder}/{{backend}}'], interval: 500ms, timeout: 490ms, fall: 2}}"
    )
    text = text.replace("    slots: 32\n", f"    slots: 32\n    hold_max: 0s\n    health: {command}\n")
    return text.replace("pool: farm}", f"pool: farm{of_dns}}}")


def healthy(folder: Path, *names: str) -> None:
    """These backends are healthy from now on, and no others."""
    for name in ("ns1", "ns2", "ns3", "ns4"):
        (folder / name).unlink(missing_ok=True)
    for name in names:
        (folder / name).touch()


def applied(switch: Switch, folder: Path, text: str) -> None:
    fresh(switch)
    done = on(switch)("apply", spec_file(folder, text), "--yes")
    assert done.code == 0, done.err


def announces(own: Bird, addresses: set[str]) -> None:
    wait(lambda: own.routes() == addresses, lambda: f"BIRD has {own.routes()}, not {addresses}")


@contextmanager
def announced(switch: Switch, folder: Path, text: str) -> Iterator[tuple[Bird, Agent]]:
    """A BIRD that has the routes of both VIPs of a spec, and the agent that announces them."""
    applied(switch, folder, text)
    with bird(folder) as own, agent(switch, folder, READY) as running:
        announces(own, DNS | OTHER)
        yield own, running


def kill_database(switch: Switch) -> None:
    """Kill ovsdb-server."""
    process = switch._processes["ovsdb-server"]
    process.kill()
    process.wait()


def start_database(switch: Switch) -> None:
    """Start it again."""
    sock, log = switch.dir / "db.sock", f"--log-file={switch.dir}/ovsdb.log"
    switch._spawn(["ovsdb-server", str(switch.dir / "conf.db"), f"--remote=punix:{sock}", log], sock)


@contextmanager
def hung(switch: Switch, daemon: str = "ovs-vswitchd") -> Iterator[None]:
    """A daemon hangs."""
    process = switch._processes[daemon]
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    healthy(tmp_path, "ns1", "ns2", "ns3")
    yield tmp_path
