# SPDX-License-Identifier: Apache-2.0
"""What is asked: every VIP of a pool, by the path of its clients, at a cost that does not grow with their number."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from dnsteer.agent.backend_health import Health
from dnsteer.agent.health import CheckState, Result
from dnsteer.agent.probes.schedule import MAX_OTHERS, MAX_UNTESTED, ProbeSchedule
from dnsteer.agent.probes.targets import ProbeSource, ProbeTarget, group_targets, probe_targets
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.spec.derived import PROBE_PORTS
from dnsteer.tables.slot import probe_numbers
from tests.unit.spec_text import load

SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  probe: {addresses: [192.0.2.9/24, '2001:db8::9/64']}
pools:
  ns:
    backends:
      - {name: a, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: b, ipv4: 192.0.2.12, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02'}
    health: [HEALTH]
  other:
    backends:
      - {name: c, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}
vips:
  one:
    addresses: [198.51.100.1, '2001:db8:1::1', 198.51.100.2]
    services: [dns, dot, doq, doh]
    pool: ns
  two:
    addresses: [198.51.100.3]
    services: [dns]
    pool: ns
  three:
    addresses: [198.51.100.4]
    services: [{protocol: udp, port: 5353}, {protocol: tcp, port: 5353}]
    pool: ns
  elsewhere:
    addresses: [198.51.100.5]
    services: [dns]
    pool: other
"""
ONE = ["198.51.100.1", "198.51.100.2", "2001:db8:1::1"]


@pytest.mark.parametrize(
    ("serves", "check", "seconds"),
    [
        ("", "{query: {name: example.org}}", 0.5),
        ("", "{query: {name: example.org}, interval: 200ms}", 0.2),
        ("serves: resolver", "{}", 1.0),
        ("serves: resolver", "{interval: 500ms}", 0.5),
        ("serves: resolver", "{timeout: 300ms}", 0.3),
        ("serves: authoritative", "{query: {name: example.org}}", 0.5),
    ],
)
def test_the_default_timeout_fits_the_service(serves: str, check: str, seconds: float) -> None:
    text = SPEC.replace("    health: [HEALTH]\n", f"    {serves}\n    health: [{check}]\n")
    assert {target.timeout for target in probe_targets(load(text).spec)} == {seconds}


def asked(health: str, text: str = SPEC) -> list[ProbeTarget]:
    return list(probe_targets(load(text.replace("HEALTH", health)).spec))


@pytest.mark.parametrize(
    ("health", "addresses", "port"),
    [
        ("{check: dns, port: 53}", [*ONE, "198.51.100.3"], 53),
        ("{check: tcp, port: 53}", [*ONE, "198.51.100.3"], 53),
        ("{check: tls}", ONE, 853),
        ("{check: quic}", ONE, 853),
        ("{check: https}", ONE, 443),
        ("{check: dns, port: 5353}", ["198.51.100.4"], 5353),
    ],
)
def test_each_vip_is_asked_by_the_service_that_speaks_it(health: str, addresses: list[str], port: int) -> None:
    found = [t for t in asked(health) if t.backend == "b" and t.source is not None]
    assert sorted(t.address for t in found) == sorted(addresses)
    assert {t.port for t in found} == {port}
    pool = load(SPEC.replace("HEALTH", health)).spec.pools["ns"]
    first = PROBE_PORTS * probe_numbers(pool)["b"]
    for target in found:
        assert target.source == ProbeSource(
            "2001:db8::9" if ":" in target.address else "192.0.2.9", range(first, first + PROBE_PORTS)
        )
    assert len({t.key for t in asked(health)}) == len(asked(health))


def test_a_vip_without_the_port_of_the_check_is_asked_by_its_own() -> None:
    assert {(t.address, t.port) for t in asked("{check: dns}") if t.backend == "a"} == {
        *((address, 53) for address in [*ONE, "198.51.100.3"]),
        ("198.51.100.4", 5353),
    }


@pytest.mark.parametrize(
    "health",
    [
        "{check: tls, port: 8853}",
        "{check: https, port: 44}",
        "{check: quic, via: network}",
        "{check: command, command: [x]}",
    ],
)
def test_without_such_a_service_the_backend_itself_is_asked(health: str) -> None:
    found = asked(health)
    assert [(t.backend, t.address, t.source) for t in found] == [
        ("a", "192.0.2.11", None),
        ("a", "2001:db8::11", None),
        ("b", "192.0.2.12", None),
        ("b", "2001:db8::12", None),
    ]


EXTENDED = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: ['2001:db8::1']
  uplinks:
    p0: {next_hop: 02:00:00:00:00:fe}
  probe: {addresses: [203.0.113.9/24, 192.0.2.9/24, '2001:db8::9/64']}
  extension: {ingress: {port: ext-in}, egress: {port: ext-out}, ipv4: 192.0.2.2, ipv6: '2001:db8::2'}
  bringup: {mtu: 1600}
pools:
  ns:
    SELECT
    backends:
      - {name: a, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}
      - {name: six, ipv6: '2001:db8::12', mac: '02:00:00:00:01:02'}
    health: {check: dns}
vips:
  one: {addresses: [ADDRESSES], services: [{protocol: udp, port: 53}], pool: ns, forwarding: MODE}
"""
FOUR, SIX = "198.51.100.1", "2001:db8:1::1"


@pytest.mark.parametrize(
    ("select", "mode", "addresses", "wanted"),
    [
        (
            "",
            "ipip",
            [FOUR, SIX],
            {
                ("a", FOUR, "192.0.2.9"),
                ("a", SIX, "2001:db8::9"),
                ("six", FOUR, "203.0.113.9"),
                ("six", SIX, "2001:db8::9"),
            },
        ),
        (
            "",
            "ipip",
            [FOUR],
            {
                ("a", FOUR, "192.0.2.9"),
                ("a", "2001:db8::11", None),
                ("six", FOUR, "203.0.113.9"),
            },
        ),
        # answers are translated to the first IPv4 address alone
        (
            "",
            "siit",
            [FOUR],
            {
                ("a", FOUR, "203.0.113.9"),
                ("a", "192.0.2.11", None),
                ("six", FOUR, "203.0.113.9"),
            },
        ),
        (
            "selection: spray",
            "dsr",
            [FOUR, SIX],
            {
                ("a", FOUR, "192.0.2.9"),
                ("a", SIX, "2001:db8::9"),
                ("six", SIX, "2001:db8::9"),
            },
        ),
        (
            "selection: client",
            "dsr",
            [FOUR],
            {
                ("a", FOUR, "192.0.2.9"),
                ("a", "2001:db8::11", None),
                ("six", "2001:db8::12", None),
            },
        ),
    ],
)
def test_vips_of_the_extension_are_asked(
    select: str, mode: str, addresses: list[str], wanted: set[tuple[str, str, str | None]]
) -> None:
    """Also in a family in which a backend has no address; what no VIP reaches is asked at its own addresses."""
    text = EXTENDED.replace("SELECT", select).replace("MODE", mode)
    found = list(probe_targets(load(text.replace("ADDRESSES", ", ".join(f"'{a}'" for a in addresses))).spec))
    assert {(t.backend, t.address, t.source and t.source.address) for t in found} == wanted
    assert len(found) == len(wanted)


def test_without_an_address_for_translated_answers_the_backend_itself_is_asked() -> None:
    text = EXTENDED.replace("SELECT", "").replace("MODE", "siit").replace("ADDRESSES", FOUR)
    found = probe_targets(load(text.replace("203.0.113.9/24, 192.0.2.9/24, ", "")).spec)
    assert {(t.backend, t.address, t.source) for t in found} == {
        ("a", "192.0.2.11", None),
        ("a", "2001:db8::11", None),
        ("six", "2001:db8::12", None),
    }


@pytest.mark.parametrize("number", [1, 2, 3, 5, 16, 17])
def test_checks_share_the_ports_of_a_backend(number: int) -> None:
    """Else two checks of one VIP could have the same source port, and one of them would get both answers."""
    found = {
        t.number: t.source.ports for t in asked(", ".join(["{check: dns}"] * number)) if t.backend == "a" and t.source
    }
    ports = [port for each in found.values() for port in each]
    assert len(found) == number and all(found.values())
    assert len(set(ports)) == PROBE_PORTS and len({port // PROBE_PORTS for port in ports}) == 1
    assert (len(ports) == len(set(ports))) == (number <= PROBE_PORTS)


def test_a_reason_names_the_vip() -> None:
    names = {t.name for t in asked("{check: quic}")}
    assert names == {
        "quic 198.51.100.1:853 (VIP one) through the bridge",
        "quic 198.51.100.2:853 (VIP one) through the bridge",
        "quic [2001:db8:1::1]:853 (VIP one) through the bridge",
    }
    assert "dns 198.51.100.3:53 (VIP two) through the bridge" in {t.name for t in asked("{check: dns}")}
    assert asked("{check: dns, via: network}")[0].name == "dns 192.0.2.11:53"


def test_targets_form_one_round_for_each_backend_check_and_family() -> None:
    groups = group_targets(asked("{check: dns}, {check: tls}"))
    assert [len(group) for group in groups] == [4, 1, 4, 1, 2, 1, 2, 1]
    assert groups[0][0].address == "198.51.100.1"


class Asked:
    """A probe that counts."""

    def __init__(self, target: ProbeTarget, said: list[str]) -> None:
        self.target, self._said = target, said

    def ask(self) -> None:
        self._said.append(self.target.address)

    def stop(self) -> None:
        self._said.append("stop")


class Clock(asyncio.SelectorEventLoop):
    """A loop whose timers the test runs."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.time_passed = 0.0

    def call_later(self, delay, callback, *args, context=None):  # type: ignore[no-untyped-def]
        self.timers.append((delay, callback))
        return super().call_later(3600, callback)

    def step(self) -> None:
        _, callback = self.timers.pop(0)
        callback()


class Round:
    """The VIPs of one backend, what is known of them, and who is asked at each interval."""

    def __init__(self, number: int, **check: str) -> None:
        health = ", ".join(["check: dns", *(f"{k}: {v}" for k, v in check.items())])
        first = next(t for t in asked(f"{{{health}}}"))
        self.names = [str(i) for i in range(number)]
        self.said: list[str] = []
        made = [ProbeTarget(**{**first.__dict__, "address": name}) for name in self.names]
        self.keys = {t.address: t.key for t in made}
        self.states = {t.key: CheckState() for t in made}
        self.clock = Clock()
        self.untested: set[str] = set()
        self.awaited: set[str] = set()
        self.turns = ProbeSchedule([Asked(t, self.said) for t in made], self, self.clock)
        self.turns.start(0.5)
        assert [delay for delay, _ in self.clock.timers] == [0.5]

    def is_untested(self, target: ProbeTarget) -> bool:
        return target.address in self.untested

    def is_awaited(self, target: ProbeTarget) -> bool:
        return target.address in self.awaited

    def step(self) -> list[str]:
        self.said.clear()
        self.clock.step()
        return sorted(self.said)

    def fails(self, name: str, streak: int = 0, healthy: bool = False) -> None:
        self.states[self.keys[name]] = CheckState(healthy=healthy, streak=streak)

    def close(self) -> None:
        self.turns.stop()
        self.clock.close()


@pytest.mark.parametrize(("number", "each"), [(1, 1), (2, 2), (3, 2), (50, 2)])
def test_the_first_target_is_probed_each_time_and_others_in_turn(number: int, each: int) -> None:
    of = Round(number)
    for _ in range(3):
        counts = Counter[str]()
        for _ in range(max(1, number - 1)):
            said = of.step()
            assert len(said) == each and "0" in said
            counts.update(said)
        assert set(counts) == set(of.names) and all(counts[name] == 1 for name in of.names[1:])
    of.close()


def test_failed_targets_are_probed_each_time() -> None:
    of = Round(10)
    of.fails("4", streak=1, healthy=True)  # one failure, which the next probe must confirm
    of.fails("7")
    for _ in range(20):
        assert {"0", "4", "7"} <= set(of.step())
    of.fails("4", healthy=True)
    of.fails("7", streak=2)  # answers again, and is healthy with one more
    assert "7" in of.step()
    of.close()


def test_many_failed_targets_are_probed_within_the_limit() -> None:
    of = Round(50)
    for name in of.names[1:]:
        of.fails(name)
    seen = set[str]()
    for _ in range(20):
        said = of.step()
        assert len(said) == 1 + MAX_OTHERS
        seen |= set(said)
    assert seen == set(of.names)
    of.close()


def test_unknown_targets_are_probed_many_at_a_time() -> None:
    of = Round(50)
    of.untested = {*of.names}
    sizes = []
    while of.untested:
        said = of.step()
        of.untested -= {*said}
        sizes.append(len(said))
    assert sizes == [1 + MAX_UNTESTED] * 4 + [1 + 9]
    assert len(of.step()) == 2
    of.untested = {*of.names}
    of.fails("0", streak=1, healthy=True)
    assert len(of.step()) == 2, "one that does not answer is not asked more"
    of.close()


def test_targets_failed_by_another_backend_are_probed_at_once() -> None:
    of = Round(50)
    of.awaited = {"17"}
    for _ in range(5):
        assert "17" in of.step()
    of.fails("4", streak=1, healthy=True)
    of.awaited = {*of.names[1:]}
    for _ in range(5):
        assert len(said := of.step()) == 1 + MAX_OTHERS and "4" in said, "its own failures come first"
    of.close()


@pytest.mark.parametrize("seed", range(3))
def test_one_missing_vip_of_many_takes_the_backend_out_soon(seed: int) -> None:
    """Whichever it is: another backend is asked for it as soon as it fails. After a start all are known soon."""
    first = next(t for t in asked("{check: dns}"))
    names = [f"192.0.2.{i}" for i in range(100)]
    lacking = random.Random(seed).choice(names[1:])
    health, said, clock = Health(), list[str](), Clock()
    of = {
        backend: [ProbeTarget(**{**first.__dict__, "backend": backend, "address": a, "vip": a}) for a in names]
        for backend in ("a", "b")
    }
    health.adopt([*of["a"], *of["b"]], NO_OVERLAY, 0.0)
    turns = {
        backend: ProbeSchedule([Asked(t, said) for t in targets], health, clock) for backend, targets in of.items()
    }

    def interval(lacks: str, *backends: str) -> None:
        for backend in backends or turns:
            clock.time_passed += 0.5
            said.clear()
            turns[backend]._next()
            for target in (t for t in of[backend] if t.address in said):
                bad = backend == "a" and target.address == lacks
                health.add(target, Result(clock.time_passed, "no answer" if bad else ""))

    for _ in range(10):
        interval("")
    slots = first.slots[0]
    assert health.untested(slots) == {}, "100 VIPs, 10 at a time"
    for _ in range(20 + 30 * seed):
        interval("", "b")  # the order in which VIPs are asked becomes another one
    failed = 0
    for _ in range(len(names) + 5):
        interval(lacking)
        failed += not health.states[next(t.key for t in of["a"] if t.address == lacking)].steady
        if "a" in health.unhealthy(slots) and not health.of(slots).unproven:
            break
    assert failed <= 4, f"intervals from its first failure until it is known: {failed}"
    for each in turns.values():
        each.stop()
    clock.close()


def test_a_dead_backend_is_probed_no_more_than_a_healthy_one() -> None:
    of = Round(50)
    for name in of.names:
        of.fails(name)
    assert [len(of.step()) for _ in range(5)] == [2] * 5
    of.fails("0", streak=1)
    assert len(of.step()) == 1 + MAX_OTHERS, "the first answers again"
    of.close()


def test_the_next_probe_waits_for_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the jitter, the next one does not begin before the time-out."""
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    of = Round(1, interval="1s", timeout="800ms", jitter="100%")
    of.step()
    assert of.clock.timers[0][0] == 0.8
    of.close()
    assert of.said == ["0", "stop"]
