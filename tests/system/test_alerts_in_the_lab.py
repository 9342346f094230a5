# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with the rules scrapes the agent of a lab: a name server dies, a link has too small an MTU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import agent, nameserver
from dnsteer.lab.command import netns_exec
from dnsteer.lab.command import run as run_program
from dnsteer.spec.read import parse_document
from tests.packet.prometheus import Prometheus, fires, needs_prometheus, wait
from tests.system.lab_specs import apply_in_lab
from tests.system.playbooks import CLIENT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.root("network namespaces and raw sockets"),
    needs_prometheus,
]
SPEC = (Path(__file__).parents[2] / "examples" / "own-ports.yaml").read_text(encoding="utf-8")
CHECK = "    health: {query: {name: dnsteer.test, type: SOA}, interval: 500ms, timeout: 450ms}\n    panic: 100%\n"
CHECKED = SPEC.replace("  ports:\n", "  probe: {addresses: [10.53.0.9/24, '2001:db8:53::9/64']}\n  ports:\n").replace(
    "    slots: 64\n", f"    slots: 64\n{CHECK}"
)
_SEND = """
import socket, time
for n in range(4000):  # each from a port of its own, so that both backends get some
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.sendto(bytes(1400), ("198.51.100.54", 53))
    time.sleep(0.02)
"""


@pytest.fixture
def state(no_lab: None) -> Iterator[lab.LabState]:
    loaded = check_document(parse_document("spec.yaml", CHECKED))
    built = lab.up(loaded.spec)
    try:
        apply_in_lab(loaded)
        yield built
    finally:
        lab.down()


@contextmanager
def small_mtu(namespace: str) -> Iterator[None]:
    """A server's interface takes frames of 1280 bytes meanwhile, and a client sends longer ones."""
    link = ["ip", "-n", namespace, "link", "set", "eth0", "mtu"]
    run_program([*link, "1280"])
    with subprocess.Popen(netns_exec(CLIENT, [sys.executable, "-c", _SEND])) as sender:
        try:
            yield
        finally:
            sender.kill()
            run_program([*link, "1500"])


def test_faults_of_servers_and_links_fire_their_alerts(state: lab.LabState, tmp_path: Path) -> None:
    console = agent.start(lambda _: None).console
    prometheus = Prometheus(tmp_path, console.removeprefix("http://").rstrip("/"))
    server = next(s for s in state.servers if s.name == "c")
    try:
        wait(lambda: prometheus.value('min(dnsteer_check_healthy{pool="direct"})') == 1, prometheus.log.read_text)
        prometheus.is_silent()
        nameserver.kill(server.index, server.namespace)
        fires(prometheus, "DnsteerBackendUnhealthy", {"pool": "direct", "backend": "c"})
        nameserver.start(server.index, server.namespace)
        prometheus.is_silent()
        with small_mtu(server.namespace):
            fires(prometheus, "DnsteerPortErrors", {"port": "vf2"})
        prometheus.is_silent()
    finally:
        prometheus.end()
