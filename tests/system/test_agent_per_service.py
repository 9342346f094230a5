# SPDX-License-Identifier: Apache-2.0
"""A real name server whose DoT does not work, and whose UDP does: with `per: service` it is out of DoT alone."""

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
from tests.system.playbooks import CLIENT
from tests.system.test_agent import Agent, command, environment, out, wait

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  probe: {addresses: [192.0.2.9/24]}
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: ns2, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02}
    health:
      - {check: dns, query: {name: dnsteer.test}, interval: 500ms, timeout: 450ms, fall: 4}
      - {check: tls, per: service, query: {name: dnsteer.test}, interval: 500ms, timeout: 450ms}
    panic: 100%
vips:
  dns: {addresses: [192.0.2.53], services: [dns, dot], pool: farm}
"""


@pytest.fixture
def state(no_lab: None, tmp_path: Path) -> Iterator[lab.LabState]:
    (tmp_path / "spec.yaml").write_text(SPEC)
    built = lab.up(load_spec(tmp_path / "spec.yaml").spec)
    try:
        assert command(built, "apply", str(tmp_path / "spec.yaml")).code == 0
        yield built
    finally:
        lab.down()


def answered(*how: str) -> Counter[str]:
    """Who answers 24 queries to the VIP; each has a source port of its own."""
    found: Counter[str] = Counter()
    argv = ["kdig", "@192.0.2.53", "+short", "+retry=0", "+timeout=2", *how, "id.server", "CH", "TXT"]
    for _ in range(24):
        done = subprocess.run(
            netns_exec(CLIENT, argv), capture_output=True, text=True, timeout=10, check=False, env=environment()
        )
        found[done.stdout.strip().strip('"') or "nobody"] += 1
    return found


def test_only_the_failing_service_leaves_a_backend(state: lab.LabState, tmp_path: Path) -> None:
    server = next(s for s in state.servers if s.name == "ns2")
    config = nameserver.config_file(1)
    whole = config.read_text()
    agent = Agent(state, tmp_path / "agent.log")
    try:
        agent.waits_for("pools with health checks: 1, targets: 4")
        assert set(answered("+tls")) == {"ns1", "ns2"}, agent.said()

        nameserver.kill(1, server.namespace)
        config.write_text("".join(line for line in whole.splitlines(keepends=True) if "@853" not in line))
        nameserver.start(1, server.namespace)
        wait(lambda: [e["service"] for e in out(state).values()] == ["853/tcp"], agent.said())
        agent.waits_for("farm/ns2 is unhealthy (853/tcp): tls 192.0.2.53:853 (VIP dns) through the bridge: ")
        assert answered("+tls") == {"ns1": 24}
        assert set(answered()) == set(answered("+tcp")) == {"ns1", "ns2"}

        nameserver.kill(1, server.namespace)
        config.write_text(whole)
        nameserver.start(1, server.namespace)
        wait(lambda: not out(state), agent.said())
        assert set(answered("+tls")) == {"ns1", "ns2"}
        assert agent.end() == 0, agent.said()
    finally:
        agent.end(signal.SIGKILL)
