# SPDX-License-Identifier: Apache-2.0
"""A pool's backup beside a real switch and real name servers: it answers while the pool's own servers hang."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab.command import netns_exec
from tests.system.test_agent import Agent, command, out, stopped, wait

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  probe:
    addresses: [192.0.2.9/24]
pools:
  own:
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: ns2, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02}
    health: {query: {name: dnsteer.test, type: SOA}, interval: 300ms, timeout: 250ms}
    slow_start: 2s
    backup: spare
  spare:
    backends:
      - {name: sp1, ipv4: 192.0.2.21, mac: 02:00:00:00:02:01}
      - {name: sp2, ipv4: 192.0.2.22, mac: 02:00:00:00:02:02}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: own}
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory, no_lab: None) -> Iterator[lab.LabState]:
    file = tmp_path_factory.mktemp("backup") / "spec.yaml"
    file.write_text(SPEC)
    built = lab.up(load_spec(file).spec)
    try:
        assert command(built, "apply", str(file)).code == 0
        yield built
    finally:
        lab.down()


@pytest.fixture
def running(state: lab.LabState, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(state, tmp_path / "agent.log")
    try:
        agent.waits_for("state 1, pools with health checks: 1, targets: 4")
        yield agent
    finally:
        agent.end()


def in_use(state: lab.LabState) -> set[str]:
    return {name for name, entry in out(state).items() if entry["kind"] == "backup"}


def answers(state: lab.LabState, queries: int) -> Counter[bool]:
    """Whether queries from as many source ports are answered."""
    client = state.clients[0].namespace
    found: Counter[bool] = Counter()

    def ask(n: int) -> None:
        port = 20_000 + 37 * n
        argv = ["kdig", "@192.0.2.53", "-b", f"0.0.0.0#{port}", "h0.dnsteer.test", "A", "+retry=0", "+timeout=2"]
        done = subprocess.run(netns_exec(client, argv), capture_output=True, text=True, check=False)
        found["status: NOERROR" in done.stdout] += 1

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(queries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_the_backup_answers_while_the_pools_servers_hang(state: lab.LabState, running: Agent) -> None:
    assert answers(state, 16) == {True: 16}
    with stopped(state, "ns1"):
        wait(lambda: "own/ns1" in out(state), "ns1 is out")
        assert in_use(state) == set()
        with stopped(state, "ns2"):
            wait(lambda: in_use(state) == {"own/sp1", "own/sp2"}, f"the backup does not join: {running.said()}")
            assert answers(state, 16) == {True: 16}
            assert "PANIC" not in running.said()
            said = " ".join(command(state, "status", "--no-rates").out.split())
            assert "its backup is in use since" in said
    wait(lambda: out(state) == {}, f"the backup does not leave: {running.said()}")
    assert answers(state, 16) == {True: 16}


def test_a_drain_brings_the_backup_in_within_seconds(state: lab.LabState, running: Agent) -> None:
    assert command(state, "drain", "own/ns1", "--yes").code == 0
    assert command(state, "down", "own/ns2", "--yes").code == 0
    wait(lambda: in_use(state) == {"own/sp1", "own/sp2"}, f"the backup does not join: {running.said()}")
    with stopped(state, "sp1"):
        wait(lambda: in_use(state) == {"own/sp2"}, f"sp1 does not leave: {running.said()}")
        assert answers(state, 16) == {True: 16}
    assert command(state, "undrain", "own/ns1").code == 0
    wait(lambda: in_use(state) == set(), f"the backup does not leave: {running.said()}")
    assert command(state, "up", "own/ns2").code == 0
