# SPDX-License-Identifier: Apache-2.0
"""The states that each server is brought into, and the checks that ask it then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode

from tests.servers import authoritative, network, resolvers
from tests.servers.asking import PATIENCE, ask
from tests.servers.expected import Row, matches, row_of
from tests.servers.network import ADDRESS, FAR, NEAR, NETWORK, PRIMARY, PROBE
from tests.servers.server import NameServer, Setting, running
from tests.servers.upstream import primary
from tests.servers.zones import ZONE, Root, zone_text

AUTHORITATIVE: tuple[type[NameServer], ...] = (
    authoritative.Nsd,
    authoritative.Bind,
    authoritative.Knot,
    authoritative.PowerDns,
)
RESOLVERS: tuple[type[NameServer], ...] = (
    resolvers.BindResolver,
    resolvers.Unbound,
    resolvers.Recursor,
    resolvers.KnotResolver,
    resolvers.Dnsmasq,
)
CHECKS = {
    "left out": "health: {}",
    "authoritative": "serves: authoritative\nhealth: {query: {name: example.org}}",
    "resolver": "serves: resolver\nhealth: {}",
    "random name": 'serves: resolver\nhealth: {query: {name: "*.check.example.org"}, interval: 10s, timeout: 3s}',
    "local name": "serves: resolver\nhealth: {query: {name: localhost}}",
}
"""Keys of a pool: the default check of each kind; for resolvers one that no cache answers, for dnsmasq one that it does."""


class Bench:
    """Where servers are brought into their states."""

    def __init__(self, folder: Path, root: Root) -> None:
        self._folder, self.root, self._made = folder, root, 0

    def folder(self) -> Path:
        """A new one."""
        self._made += 1
        return self._folder / str(self._made)

    def running(self, of: type[NameServer], setting: Setting | None = None) -> AbstractContextManager[NameServer]:
        """A server of a kind."""
        return running(of(self.folder(), self.root, setting))


_ROUNDS = 5
"""How often a server is asked again that has not settled, such as one that begins with an empty cache."""
Bring = Callable[[Bench, type[NameServer]], AbstractContextManager[None]]


@dataclass(frozen=True)
class State:
    """A state of a server, as tables call it. One that is *brief* is asked once, as each answer changes it."""

    name: str
    bring: Bring
    brief: bool = False


@contextmanager
def _up(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of):
        _answers(f"warm.check.{ZONE}")
        yield


@contextmanager
def _killed(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of) as server:
        server.kill()
        yield


@contextmanager
def _hung(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of) as server:
        server.hang()
        yield


@contextmanager
def _refused(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of, Setting(allows=NETWORK)):
        _answers(f"warm.check.{ZONE}")
        network.probe_from(FAR)
        try:
            yield
        finally:
            network.probe_from(NEAR)


@contextmanager
def _not_configured(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of, Setting(serves_zone=False)):
        yield


@contextmanager
def _no_file(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of, Setting(zone="")):
        yield


@contextmanager
def _expired(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    zone = zone_text(refresh=1, retry=1, expire=3)
    with primary(bench.folder(), bench.root, zone) as first, bench.running(of, Setting(primary=PRIMARY)):
        _answers(ZONE)
        first.kill()
        expired = time.monotonic() + 6
        while _good(ZONE) and time.monotonic() < expired:  # PowerDNS goes on to serve it
            time.sleep(0.1)
        yield


def _upstream(state: str) -> Bring:
    @contextmanager
    def bring(bench: Bench, of: type[NameServer]) -> Iterator[None]:
        network.set_upstream(state)
        try:
            with bench.running(of):
                yield
        finally:
            network.set_upstream("works")

    return bring


@contextmanager
def _lost(bench: Bench, of: type[NameServer]) -> Iterator[None]:
    with bench.running(of):
        _answers(f"warm.check.{ZONE}")
        assert ask({"": CHECKS["resolver"]}) == {"": ""}
        network.set_upstream("dropped")
        try:
            yield
        finally:
            network.set_upstream("works")


COMMON = State("up", _up), State("killed", _killed), State("hung", _hung), State("address refused", _refused)
STATES = {
    **dict.fromkeys(
        AUTHORITATIVE,
        (
            *COMMON,
            State("zone not configured", _not_configured),
            State("zone file missing", _no_file),
            State("zone expired", _expired),
        ),
    ),
    **dict.fromkeys(
        RESOLVERS,
        (
            *COMMON,
            State("upstream dead", _upstream("dropped"), brief=True),
            State("no upstream", _upstream("none"), brief=True),
            State("upstream lost, cache warm", _lost, brief=True),
        ),
    ),
}


def _good(name: str) -> bool:
    """Whether the server answers a name of the zone, asked as a client of a resolver."""
    try:
        answer = network.inside(PROBE, lambda: dns.query.udp(dns.message.make_query(name, "SOA"), ADDRESS, timeout=1))
    except (OSError, dns.exception.DNSException):
        return False
    return answer.rcode() == dns.rcode.NOERROR and bool(answer.flags & (dns.flags.AA | dns.flags.RA))


def _answers(name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _good(name):
        assert time.monotonic() < deadline, f"no good answer for {name}"
        time.sleep(0.02)


def checks_of(of: type[NameServer]) -> dict[str, str]:
    """The checks that a kind of server is asked by."""
    only = {"random name": of in RESOLVERS, "local name": of is resolvers.Dnsmasq}
    return {name: keys for name, keys in CHECKS.items() if only.get(name, True)}


def seen(bench: Bench, of: type[NameServer], state: State, wanted: Row | None) -> Row:
    """What each check says of a server in a state.

    It is asked until it says what is *wanted*, a few times at most; with None, until it says the same twice.
    """
    with state.bring(bench, of):
        row = row_of(ask(checks_of(of)))
        for _ in range(0 if state.brief else _ROUNDS):
            if wanted is not None and matches(row, wanted):
                break
            before, row = row, row_of(ask(checks_of(of)))
            if wanted is None and row == before:
                break
        return row
