# SPDX-License-Identifier: Apache-2.0
"""Workers of one host that are real name servers: each answers for its slots, and the agent takes out the one that fails."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import nameserver
from dnsteer.lab.command import netns_exec
from dnsteer.lab.zone import LARGE, WHOAMI
from tests.system.playbooks import CLIENT
from tests.system.test_agent import Agent, command, environment, out, wait

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  probe: {addresses: [10.53.0.9/24]}
pools:
  farm:
    slots: 16
    backends:
      - {name: h1, ipv4: 10.53.0.11, mac: 02:00:00:00:01:01, workers: 3}
      - {name: h2, ipv4: 10.53.0.12, mac: 02:00:00:00:01:02}
    health:
      - {check: dns, query: {name: dnsteer.test}, interval: 500ms, timeout: 450ms}
    panic: 100%
vips:
  dns:
    addresses: [192.0.2.53]
    services: [{protocol: udp, port: 53, target_port: 5300}, {protocol: tcp, port: 53, target_port: 5300}]
    pool: farm
    forwarding: nat
"""
SERVERS = {"h1.0", "h1.1", "h1.2", "h2"}


@pytest.fixture
def state(no_lab: None, tmp_path: Path) -> Iterator[lab.LabState]:
    (tmp_path / "spec.yaml").write_text(SPEC)
    built = lab.up(load_spec(tmp_path / "spec.yaml").spec)
    try:
        assert command(built, "apply", str(tmp_path / "spec.yaml")).code == 0
        yield built
    finally:
        lab.down()


def dig(*how: str) -> str:
    argv = ["kdig", "@192.0.2.53", "+short", "+retry=0", "+timeout=2", *how]
    done = subprocess.run(
        netns_exec(CLIENT, argv), capture_output=True, text=True, timeout=10, check=False, env=environment()
    )
    return done.stdout.strip()


def answered(*how: str) -> Counter[str]:
    """Who answers 40 queries to the VIP; each has a source port of its own."""
    return Counter(dig(*how, WHOAMI, "TXT").strip('"') or "nobody" for _ in range(40))


def test_each_worker_answers_and_a_failing_one_is_out_alone(state: lab.LabState, tmp_path: Path) -> None:
    assert {s.name for s in state.servers} == SERVERS
    assert set(answered()) == set(answered("+tcp")) == SERVERS
    large = {len(dig("+bufsize=4096", "+ignore", LARGE, "TXT")) for _ in range(12)}
    assert len(large) == 1 and large.pop() > 3000, "whole, in fragments, from whichever worker"

    index, victim = next((n, s) for n, s in enumerate(state.servers) if s.name == "h1.1")
    agent = Agent(state, tmp_path / "agent.log")
    try:
        agent.waits_for("pools with health checks: 1, targets: 4")
        nameserver.kill(index, victim.namespace)
        wait(lambda: list(out(state)) == ["farm/h1.1"], agent.said())
        agent.waits_for("farm/h1.1 is unhealthy: dns 192.0.2.53:53 (VIP dns) through the bridge: ")
        assert set(answered()) == SERVERS - {"h1.1"}

        nameserver.start(index, victim.namespace)
        wait(lambda: not out(state), agent.said())
        assert set(answered()) == SERVERS
        assert agent.end() == 0, agent.said()
    finally:
        agent.end(signal.SIGKILL)
    assert command(state, "drain", "farm/h1", "--yes").code == 0
    assert answered() == {"h2": 40}
