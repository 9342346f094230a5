# SPDX-License-Identifier: Apache-2.0
"""The agent where the extension forwards: tunnels that nobody takes out, and servers without their route back, are found."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import decap, names, traffic
from dnsteer.lab.command import netns_exec, run
from dnsteer.lab.topology import plan_network
from dnsteer.lab.zone import WHOAMI
from dnsteer.spec.loaded import Loaded
from tests.system.test_agent import Agent, becomes, command, out

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
EXAMPLES = Path(__file__).parents[2] / "examples"
HEALTH = """\
    health:
      - {check: dns, query: {name: dnsteer.test, type: SOA}, interval: 300ms, timeout: 250ms}
      - {check: tcp, query: {name: dnsteer.test, type: SOA}, interval: 400ms, timeout: 300ms}
    slow_start: 1s
    slots: 64
"""


@contextmanager
def watched(name: str, addresses: str, tmp_path: Path, **changes: str) -> Iterator[tuple[lab.LabState, Agent, Loaded]]:
    """A lab with an example whose servers an agent asks through the bridge."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    for old, new in {
        "  extension:\n": f"  probe: {{addresses: [{addresses}]}}\n  extension:\n",
        "    slots: 64\n": HEALTH,
        **changes,
    }.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / f"{name}.yaml"
    file.write_text(text)
    loaded = load_spec(file)
    state = lab.up(loaded.spec)
    try:
        os.environ["DNSTEER_EXTENSION_SOCKET"] = str(names.EXTENSION_SOCKET)
        done = command(state, "apply", str(file))
        assert done.code == 0, done
        running = Agent(state, tmp_path / "agent.log")
        try:
            running.waits_for("state 1, pools with health checks: 1")
            yield state, running, loaded
            assert running.end() == 0, running.said()
        finally:
            running.end(signal.SIGKILL)
    finally:
        del os.environ["DNSTEER_EXTENSION_SOCKET"]
        lab.down()


@pytest.fixture(autouse=True)
def _alone(no_lab: None) -> None:
    """Nobody else's lab is up."""


def answers_directly(state: lab.LabState, namespace: str, address: str) -> bool:
    """Whether a server answers at its own address, asked on its own machine."""
    argv = ["kdig", f"@{address}", WHOAMI, "TXT", "+retry=0", "+timeout=1"]
    return "status: NOERROR" in run(netns_exec(namespace, argv))


@pytest.mark.parametrize(("server", "own"), [("ns2", "192.0.2.12"), ("ns3", "2001:db8::13")])
def test_a_server_that_does_not_decapsulate_is_found(tmp_path: Path, server: str, own: str) -> None:
    with watched("ipip", "192.0.2.9/24, 2001:db8::9/64", tmp_path) as (state, running, loaded):
        host = plan_network(loaded.spec).find(server)[0]
        becomes(state)
        run(["ip", "-n", host.namespace, "link", "set", "dev", host.device("p0"), "xdp", "off"])
        assert answers_directly(state, host.namespace, own)
        becomes(state, f"authoritative/{server}")
        note = out(state)[f"authoritative/{server}"]["note"]
        assert "(VIP dns) through the bridge: no answer within" in note
        said = [traffic.ask(state, "198.51.100.53", WHOAMI, "TXT", timeout=1) for _ in range(20)]
        assert {a.nsid for a in said if a is not None} <= {"ns1", "ns2", "ns3", "ns4"} - {server}
        assert None not in said
        decap.attach_decap(plan_network(loaded.spec), lambda _: None)
        becomes(state)
        running.waits_for(f"authoritative/{server} is healthy")


def test_a_server_without_its_route_back_is_found(tmp_path: Path) -> None:
    """What it answers to other addresses still arrives: those of the IPv6 VIP, and its own."""
    back = ["route", "add", "blackhole", "64:ff9b::/96"]
    with watched("siit", "192.0.2.9/24, 2001:db8:53::9/64", tmp_path) as (state, running, loaded):
        host = plan_network(loaded.spec).find("s1")[0]
        becomes(state)
        run(["ip", "-6", "-n", host.namespace, *back])
        becomes(state, "v6only/s1")
        note = out(state)["v6only/s1"]["note"]
        assert "198.51.100.53:53 (VIP dns4) through the bridge: no answer within" in note
        assert "VIP dns6" not in running.said()
        assert answers_directly(state, host.namespace, "2001:db8:53::11")
        run(["ip", "-6", "-n", host.namespace, "route", "del", *back[2:]])
        becomes(state)
        running.waits_for("v6only/s1 is healthy")


def test_a_server_without_its_vip_is_found(tmp_path: Path) -> None:
    """By a hash of the client the extension alone knows who is asked; a probe names the server."""
    with watched("client-hash", "192.0.2.9/24, 2001:db8::9/64", tmp_path) as (state, running, loaded):
        host = plan_network(loaded.spec).find("r1")[0]
        becomes(state)
        run(netns_exec(host.namespace, ["ip", "address", "del", "192.0.2.53/32", "dev", "lo"]))
        becomes(state, "resolvers/r1")
        assert "192.0.2.53:53" in out(state)["resolvers/r1"]["note"]
        run(netns_exec(host.namespace, ["ip", "address", "add", "192.0.2.53/32", "dev", "lo"]))
        becomes(state)
        running.waits_for("resolvers/r1 is healthy")
