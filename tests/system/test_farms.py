# SPDX-License-Identifier: Apache-2.0
"""The examples of farms with the servers that people run: resolvers with Unbound, authoritative servers with BIND.

A real agent asks them through the bridge, and takes out those that fail.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import nameserver
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from tests.servers import network
from tests.servers.authoritative import Bind
from tests.servers.resolvers import Unbound
from tests.servers.server import NameServer, running
from tests.servers.upstream import internet
from tests.servers.zones import ZONE, Root, signed_root, zone_text
from tests.system.lab_specs import apply_in_lab
from tests.system.test_agent import Agent, becomes, out

pytestmark = [pytest.mark.system, pytest.mark.root("network namespaces and raw sockets")]
EXAMPLES = Path(__file__).parents[2] / "examples"


def quick(name: str, *pairs: tuple[str, str]) -> Loaded:
    """An example with shorter times."""
    text = (EXAMPLES / name).read_text()
    for old, new in (("slow_start: 10s", "slow_start: 1s"), *pairs):
        assert old in text
        text = text.replace(old, new)
    return check_document(parse_document(name, text))


@contextmanager
def lab_of(loaded: Loaded) -> Iterator[lab.LabState]:
    """A lab with the spec applied, without its own name servers."""
    state = lab.up(loaded.spec)
    try:
        apply_in_lab(loaded)
        for server in state.servers:
            nameserver.kill(server.index, server.namespace)
        yield state
    finally:
        lab.down()


@contextmanager
def agent(state: lab.LabState, folder: Path) -> Iterator[Agent]:
    """An agent that ends in order."""
    running_ = Agent(state, folder / "agent.log")
    try:
        running_.waits_for("pools with health checks")
        yield running_
        assert running_.end() == 0, running_.said()
    finally:
        running_.end(signal.SIGKILL)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For servers, whose users must reach it."""
    made = Path(tempfile.mkdtemp(prefix="farm-"))
    yield made
    shutil.rmtree(made)


@dataclass(frozen=True)
class Place:
    """Where a server of a farm runs: its namespace, its own addresses, and the VIPs that it owns."""

    space: str
    own: tuple[str, ...]
    vips: tuple[str, ...] = ()


class FarmUnbound(Unbound):
    """An Unbound that answers from the VIP, by DSR; *allowed* are the networks that it answers."""

    def __init__(self, folder: Path, root: Root, place: Place, allowed: tuple[str, ...]) -> None:
        super().__init__(folder, root, space=place.space)
        self.place, self.allowed = place, allowed

    def added(self) -> tuple[str, str]:
        lines = [f"    interface: {address}" for address in (*self.place.own, *self.place.vips)]
        lines += [f"    access-control: {network} allow" for network in self.allowed]
        return "/etc/unbound/unbound.conf.d/network.conf", "\n".join(["server:", *lines, ""])

    def _own_address(self) -> str:
        return self.place.own[0]


class FarmBind(Bind):
    """A BIND with some zones."""

    def __init__(self, folder: Path, root: Root, place: Place, zones: Mapping[str, str]) -> None:
        super().__init__(folder, root, space=place.space)
        self.place, self.zones = place, zones

    def added(self) -> tuple[str, str]:
        lines = [f'zone "{zone}" {{ type primary; file "/etc/bind/{zone}.zone"; }};\n' for zone in self.zones]
        return "/etc/bind/named.conf.local", "".join(lines)

    def prepare(self) -> None:
        super().prepare()
        for zone, text in self.zones.items():
            self.copy(f"/etc/bind/{zone}.zone").write_text(text)

    def _own_address(self) -> str:
        return self.place.own[0]


PROBES = ("192.0.2.0/24", "2001:db8::/64")


def test_a_farm_of_resolvers_answers(no_lab: None, folder: Path, tmp_path: Path) -> None:
    loaded = quick(
        "resolvers.yaml",
        ("- {}", "- {interval: 500ms}"),
        ("interval: 10s, timeout: 3s", "interval: 500ms, timeout: 500ms"),
    )
    vips = tuple(str(address) for address in loaded.spec.vips["resolver"].addresses)
    root = signed_root()
    with lab_of(loaded) as state, network.upstream_network(), internet(folder / "internet", root), ExitStack() as stack:
        places = {s.name: Place(s.namespace, s.addresses, vips) for s in state.servers}
        links = {name: f"{network.GATEWAY.rpartition('.')[0]}.{n}" for n, name in enumerate(places, 11)}
        for name, place in places.items():
            network.attach(place.space, links[name])
        servers = {
            name: stack.enter_context(running(FarmUnbound(folder / name, root, place, PROBES)))
            for name, place in places.items()
        }
        with agent(state, tmp_path) as asking:
            servers["r2"].kill()
            becomes(state, "resolvers/r2")
            servers["r2"].start()
            becomes(state)

            servers["r3"].kill()
            with running(FarmUnbound(folder / "closed", root, places["r3"], ())):
                becomes(state, "resolvers/r3")
                asking.waits_for("answered REFUSED without the question: is the probe's address allowed?")
            servers["r3"].start()
            becomes(state)

            for name, place in places.items():
                network.set_upstream("dropped", place.space, links[name])
            for name in places:  # the name that no cache has: a warning, and nobody is out
                asking.waits_for(f"resolvers/{name} fails a check that only warns: dns {vips[0]}:53")
            assert out(state) == {}


def test_a_farm_of_authoritative_servers_answers(no_lab: None, folder: Path, tmp_path: Path) -> None:
    loaded = quick(
        "authoritative.yaml",
        ("serial_at_least: 2026010100}}}", "serial_at_least: 1}}, interval: 500ms}"),
        ("serial_lag: 30m}}}", "serial_lag: 30m}}, interval: 2s}"),
        ("interval: 5s", "interval: 500ms"),
    )
    root, other = signed_root(), "example.net"
    zones = {ZONE: zone_text(), other: zone_text().replace(ZONE, other)}
    with lab_of(loaded) as state, ExitStack() as stack:
        places = {s.name: Place(s.namespace, s.addresses) for s in state.servers}
        servers: dict[str, NameServer] = {
            name: stack.enter_context(running(FarmBind(folder / name, root, place, zones)))
            for name, place in places.items()
        }
        with agent(state, tmp_path) as asking:
            servers["ns2"].kill()
            becomes(state, "authoritative/ns2")
            servers["ns2"].start()
            becomes(state)

            servers["s1"].kill()
            with running(FarmBind(folder / "empty", root, places["s1"], {ZONE: zone_text()})):
                becomes(state, "secondaries/s1")
                asking.waits_for("answered REFUSED, not NOERROR: it serves no such zone")
            servers["s1"].start()
            becomes(state)
            assert "PANIC" not in asking.said()
