# SPDX-License-Identifier: Apache-2.0
"""The agent asks by every service and at every VIP, through the bridge: DoQ and DoH, by DSR and NAT, IPv4 and IPv6."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab.command import netns_exec, run
from tests.system import doh_doq
from tests.system.test_agent import HEALTH, Agent, becomes, command, environment, out, wait
from tests.unit.agent_probing import certificate
from tests.unit.spec_text import changed

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
CHECKS = """\
    health:
      - {check: dns, query: {name: dnsteer.test}, interval: 500ms, timeout: 450ms}
      - {check: quic, query: {name: dnsteer.test}, interval: 2s, timeout: 2s}
      - {check: https, query: {name: dnsteer.test}, interval: 2s, timeout: 2s}
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with DoQ and DoH and a second VIP for DSR; without DoT, since NSD takes udp/853 with tcp/853."""
    text = HEALTH.read_text()
    text, pools = re.subn(r"    health:.*\n(?:      - .*\n)+", CHECKS, text)
    assert pools == 2
    text = changed(
        (
            "  secondary:\n",
            "  second: {addresses: [192.0.2.54, '2001:db8::54'], services: [dns], pool: authoritative}\n  secondary:\n",
        ),
        text=text,
    ).replace("services: [dns]\n", "services: [dns, doq, doh]\n")
    file = tmp_path_factory.mktemp("agent") / "services.yaml"
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


@contextmanager
def front(state: lab.LabState, server: str, kind: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """DoH or DoQ of one server, at its own addresses and at its VIPs."""
    found = next(s for s in state.servers if s.name == server)
    vips = ["192.0.2.53", "2001:db8::53"] if server.startswith("ns") else []
    own = [a.partition("/")[0] for a in found.addresses]
    argv = [sys.executable, doh_doq.__file__, str(folder / "cert.pem"), str(folder / "key.pem")]
    with (folder / f"{server}-{kind}.log").open("w") as log:
        process = subprocess.Popen(
            netns_exec(found.namespace, [*argv, own[0], kind, *own, *vips]), stderr=log, env=environment()
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def fronts(
    state: lab.LabState, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], subprocess.Popen[bytes]]]:
    folder = tmp_path_factory.mktemp("fronts")
    certificate(folder)
    with ExitStack() as stack:
        started = {
            (server.name, kind): stack.enter_context(front(state, server.name, kind, folder))
            for server in state.servers
            for kind in ("https", "quic")
        }
        time.sleep(3)
        logs = "".join(file.read_text() for file in folder.glob("*.log"))
        assert all(process.poll() is None for process in started.values()), logs
        yield started


@pytest.fixture
def running(state: lab.LabState, fronts: object, tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(state, tmp_path / "agent.log")
    try:
        # 3 servers at 2 VIPs by DNS and 1 by two other services, 2 servers at one VIP by three; both families.
        agent.waits_for("pools with health checks: 2, targets: 36")
        becomes(state)
        yield agent
        becomes(state)
        assert agent.end() == 0, agent.said()
    finally:
        agent.end(signal.SIGKILL)


def test_every_backend_passes_by_every_service(state: lab.LabState, running: Agent) -> None:
    """Through the bridge: whatever comes to the servers from the addresses of probes came by its port."""
    time.sleep(8)
    assert "unhealthy" not in running.said(), running.said()
    assert out(state) == {}


@pytest.mark.parametrize("kind", ["https", "quic"])
@pytest.mark.parametrize(("server", "vip"), [("ns2", "VIP dns"), ("s1", "VIP secondary")], ids=["dsr", "nat"])
def test_a_service_that_hangs_is_found(
    state: lab.LabState,
    running: Agent,
    fronts: dict[tuple[str, str], subprocess.Popen[bytes]],
    kind: str,
    server: str,
    vip: str,
) -> None:
    pool = "authoritative" if server.startswith("ns") else "secondaries"
    os.kill(fronts[server, kind].pid, signal.SIGSTOP)
    try:
        becomes(state, f"{pool}/{server}")
        note = out(state)[f"{pool}/{server}"]["note"]
        assert note.startswith(f"{kind} ") and f"({vip}) through the bridge: no answer within 2 s" in note, note
    finally:
        os.kill(fronts[server, kind].pid, signal.SIGCONT)
    wait(lambda: f"{pool}/{server} is healthy" in running.said(), running.said())


@pytest.mark.parametrize("vip", ["192.0.2.53", "192.0.2.54", "2001:db8::54"])
def test_a_server_that_lacks_one_vip_is_found(state: lab.LabState, running: Agent, vip: str) -> None:
    """Its other VIP answers, and so does its own address."""
    space = next(s.namespace for s in state.servers if s.name == "ns3")
    length = 128 if ":" in vip else 32
    run(netns_exec(space, ["ip", "address", "del", f"{vip}/{length}", "dev", "lo"]))
    try:
        becomes(state, "authoritative/ns3")
        note = out(state)["authoritative/ns3"]["note"]
        assert vip in note and f"(VIP {'dns' if vip.endswith('.53') else 'second'}) through the bridge" in note, note
    finally:
        run(netns_exec(space, ["ip", "address", "add", f"{vip}/{length}", "dev", "lo"]))
    wait(lambda: "authoritative/ns3 is healthy" in running.said(), running.said())
