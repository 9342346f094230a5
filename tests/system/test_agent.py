# SPDX-License-Identifier: Apache-2.0
"""The agent beside a real switch and real name servers: who fails is out, who works is in, and people's drains stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names, openvswitch
from dnsteer.lab.command import netns_exec, run
from tests.packet import command as cli

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
HEALTH = Path(__file__).parents[2] / "examples" / "authoritative.yaml"
PATIENCE = 60.0
"""Seconds until something that takes two on a core of its own must have happened."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with shorter times."""
    text = HEALTH.read_text()
    for old, new in (
        ("slow_start: 10s", "slow_start: 1s"),
        ("interval: 5s", "interval: 400ms, timeout: 300ms"),
        ("serial_at_least: 2026010100}}}", "serial_at_least: 2026010100}}, interval: 300ms, timeout: 250ms}"),
        ("serial_lag: 30m}}}", "serial_lag: 30m}}, interval: 300ms, timeout: 250ms}"),
    ):
        assert old in text
        text = text.replace(old, new)
    file = tmp_path_factory.mktemp("agent") / "authoritative.yaml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def state(spec: Path, no_lab: None) -> Iterator[lab.LabState]:
    built = lab.up(load_spec(spec).spec)
    try:
        assert command(built, "apply", str(spec)).code == 0
        yield built
    finally:
        lab.down()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}


def command(state: lab.LabState, *words: str) -> cli.Ran:
    """The command, in this process: the tests look at the status hundreds of times."""
    return cli.run(*words, "--db", state.db)


class Agent:
    """A running agent, and what it said."""

    def __init__(self, state: lab.LabState, log: Path) -> None:
        self.log = log
        argv = netns_exec(names.SWITCH_NAMESPACE, [sys.executable, "-m", "dnsteer", "agent", "--db", state.db])
        with log.open("w") as file:
            self.process = subprocess.Popen(argv, stdout=file, stderr=file, env=environment())

    def said(self) -> str:
        return self.log.read_text()

    def waits_for(self, text: str) -> None:
        wait(lambda: text in self.said(), f"the agent did not say {text!r}: {self.said()}")

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(20)


@contextmanager
def agent(state: lab.LabState, tmp_path: Path) -> Iterator[Agent]:
    running = Agent(state, tmp_path / "agent.log")
    try:
        running.waits_for("state 1, pools with health checks: 2, targets: 16")
        yield running
        assert running.end() == 0, running.said()
    finally:
        running.end(signal.SIGKILL)


def wait(until: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)


def out(state: lab.LabState) -> dict[str, dict[str, Any]]:
    """Who is out, with the record's entry."""
    value = command(state, "status", "--json", "--no-rates", "--no-verify").json
    return {f"{e['pool']}/{e['backend']}": e for e in value["overlay"]}


def becomes(state: lab.LabState, *backends: str) -> None:
    wait(lambda: set(out(state)) == set(backends), f"expected out: {backends}")


@contextmanager
def stopped(state: lab.LabState, *servers: str) -> Iterator[None]:
    """Name servers that hang, from one moment on."""
    found = [p for p in state.processes if p.server in servers]
    pids = [int(pid) for p in found for pid in run(["ip", "netns", "pids", p.namespace]).split()]
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("server", "name", "why"),
    [
        ("ns2", "authoritative/ns2", "through the bridge: no answer within 0.25 s"),
        ("s1", "secondaries/s1", "through the bridge: no answer within 0.25 s"),
    ],
    ids=["dsr", "nat"],
)
def test_a_server_that_hangs_is_out_until_it_answers(
    state: lab.LabState, tmp_path: Path, server: str, name: str, why: str
) -> None:
    with agent(state, tmp_path) as running:
        with stopped(state, server):
            becomes(state, name)
            entry = out(state)[name]
            assert (entry["kind"], entry["by"].split("@")[0]) == ("health", "agent")
            assert why in entry["note"] or "no answer within 0.3 s" in entry["note"]
            running.waits_for(f"{name} is unhealthy: ")
        becomes(state)
        running.waits_for(f"{name} is healthy")


def test_a_server_without_its_vip_is_found(state: lab.LabState, tmp_path: Path) -> None:
    """Its own address answers: only a probe by the path of the clients finds it."""
    space = next(s.namespace for s in state.servers if s.name == "ns3")
    with agent(state, tmp_path):
        run(netns_exec(space, ["ip", "address", "del", "192.0.2.53/32", "dev", "lo"]))
        try:
            becomes(state, "authoritative/ns3")
            assert "192.0.2.53:53" in out(state)["authoritative/ns3"]["note"]
        finally:
            run(netns_exec(space, ["ip", "address", "add", "192.0.2.53/32", "dev", "lo"]))
        becomes(state)


def test_a_killed_agent_changes_nothing_and_the_next_continues(state: lab.LabState, tmp_path: Path) -> None:
    with stopped(state, "ns1"):
        with agent(state, tmp_path) as running:
            becomes(state, "authoritative/ns1")
            running.end(signal.SIGKILL)
            running.process.returncode = 0
        assert set(out(state)) == {"authoritative/ns1"}
        with agent(state, tmp_path) as running:
            time.sleep(2)
            assert set(out(state)) == {"authoritative/ns1"}, "no wave of changes"
            assert "slots" not in running.said()
    with agent(state, tmp_path):
        becomes(state)


def test_maintenance_by_operators_is_kept(state: lab.LabState, tmp_path: Path) -> None:
    assert command(state, "drain", "authoritative/ns3", "--note", "kernel").code == 0
    with agent(state, tmp_path), stopped(state, "ns2"):
        becomes(state, "authoritative/ns2", "authoritative/ns3")
        assert out(state)["authoritative/ns3"]["kind"] == "drain"
    with agent(state, tmp_path):
        becomes(state, "authoritative/ns3")
        assert command(state, "undrain", "authoritative/ns3").code == 0
        becomes(state)


def test_when_all_backends_fail_all_stay(state: lab.LabState, tmp_path: Path) -> None:
    with agent(state, tmp_path) as running, stopped(state, "s1", "s2"):
        running.waits_for("PANIC: pool secondaries: no backend in service passes its checks")
        becomes(state)


def test_a_restart_of_ovsdb_server_takes_no_backend_out(state: lab.LabState, tmp_path: Path) -> None:
    """Here the switch forwards nothing meanwhile, and some servers fail more probes than others."""
    with agent(state, tmp_path) as running:
        running.waits_for("control socket")
        for seconds in (1.2, 4.0):
            said = len(running.said())
            openvswitch.crash("ovsdb-server")
            time.sleep(seconds)
            openvswitch.start_database()
            wait(lambda begin=said: "the switch can be reached again" in running.said()[begin:], running.said())
            time.sleep(5)
        assert "goes out of service" not in running.said()
        assert set(out(state)) == set()
