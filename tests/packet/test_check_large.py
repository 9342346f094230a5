# SPDX-License-Identifier: Apache-2.0
"""`check` of specs with many slots: more megaflows than the switch takes at once, and as good a proof by fewer queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.specs import many_vips

from dnsteer.checks.load import load_spec
from dnsteer.modes import MODES
from dnsteer.proof import check as check_module
from dnsteer.proof.check import prove
from dnsteer.proof.check_report import CheckReport
from dnsteer.proof.harness import switch
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.traffic import coverage
from dnsteer.proof.traffic.coverage import sufficient_slots
from dnsteer.spec.derived import keeps_connections
from dnsteer.tables.passes import passes_of
from tests.packet.switches import spec_of
from tests.packet.test_check import BREAKS, EXAMPLES, ROOT, break_flows

SLOTS = 1024
FOUR = (
    many_vips(4, pools=1, backends=4)
    .replace("    backends:", f"    slots: {SLOTS}\n    backends:")
    .replace("[dns, dot, doq, doh]", "[dns]")
)


def counted(report: CheckReport) -> tuple[object, ...]:
    return report.packets, report.megaflows, report.masks, report.recirculations, report.failed


def test_four_vips_of_both_families_with_1024_slots() -> None:
    """16,384 megaflows: more than the limit of 12,000 that the switch gives itself, and counted in two portions."""
    report = prove(spec_of(FOUR))
    assert report.ok, (report.failures[:1], report.complaints)
    assert report.megaflows == 4 * 2 * 2 * SLOTS and report.masks == 2
    assert report.packets["query"] == report.megaflows
    assert report.coverage == "every slot of each service"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_packet_counts_do_not_depend_on_portions(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_spec(file)
    whole = prove(loaded)
    # Of a pool of two passes all VIPs share the megaflows of the second, as long as the switch keeps them; so do queries of
    # connections that are kept, by their mark.
    twice = 2 in passes_of(loaded.spec, MODES).values() or keeps_connections(loaded.spec)
    monkeypatch.setattr(check_module, "_PORTION", 4000 if twice else 50)
    parts = prove(loaded)
    assert parts.ok, (parts.failures[:1], parts.complaints)
    hashed = any(pool.selection.value in ("dp-hash", "client", "spray") for pool in loaded.spec.pools.values())
    if hashed:  # which slot a query gets depends on the run
        assert abs(parts.megaflows - whole.megaflows) <= 0.1 * whole.megaflows
        assert counted(parts)[2:] == counted(whole)[2:]
    else:
        assert counted(parts) == counted(whole)


def test_megaflows_of_further_portions_are_in_the_switch_when_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch never holds more than a portion's, and what it held in all is what is reported."""
    monkeypatch.setattr(check_module, "_PORTION", 1500)
    held: list[int] = []
    forget = switch.Harness.forget_megaflows

    def noted(self: switch.Harness) -> None:
        held.append(len(self.megaflows()))
        forget(self)
        assert self.megaflows() == []

    monkeypatch.setattr(switch.Harness, "forget_megaflows", noted)
    report = prove(spec_of(FOUR))
    assert report.ok and len(held) > 8
    assert max(held) < 3000 and report.megaflows == 16 * SLOTS


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_examples_are_proven_by_fewer_queries(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "ALL_SLOTS", 0)
    report = prove(load_spec(file))
    assert report.ok, (report.failures[:1], report.complaints)
    assert report.coverage.startswith("every slot once for each pool, family and protocol")


@pytest.mark.parametrize("what", BREAKS)
def test_broken_flows_are_seen_by_fewer_queries(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "ALL_SLOTS", 0)
    example, touches, change = BREAKS[what]
    touched = break_flows(monkeypatch, touches, change)
    report = prove(load_spec(ROOT / "examples" / f"{example}.yaml"))
    assert touched and not report.ok


MANY = """apiVersion: dnsteer/v1
switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: {next_hop: 02:00:00:00:00:fe}}}
pools:
  farm:
    slots: 64
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: ns2, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02, weight: 3}
      - {name: ns3, ipv4: 192.0.2.13, mac: 02:00:00:00:01:03}
vips:
  one: {addresses: [198.51.100.1], services: [dns], pool: farm}
  two: {addresses: [198.51.100.2, 198.51.100.3], services: [dns], pool: farm}
"""


@pytest.mark.parametrize("bit", range(6))
@pytest.mark.parametrize("address", ["198.51.100.2", "198.51.100.3"])
def test_each_slot_bit_of_every_further_service_counts(bit: int, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One flow of one service that copies one bit less is seen."""
    monkeypatch.setattr(coverage, "ALL_SLOTS", 0)

    def bits(first: int, last: int) -> str:
        return f"[{first}]" if first == last else f"[{first}..{last}]"

    def without(actions: str) -> str:
        """Copy the bits below and above the one, which stays 0."""
        parts = [part for part in actions.split(",") if "UDP_SRC" not in part]
        copied = [(first, last) for first, last in ((0, bit - 1), (bit + 1, 5)) if first <= last]
        moves = [f"move:NXM_OF_UDP_SRC{bits(a + 1, b + 1)}->NXM_NX_REG1{bits(a, b)}" for a, b in copied]
        return ",".join([*parts[:-1], *moves, parts[-1]])

    touched = break_flows(
        monkeypatch,
        lambda f: f.match == f"udp,nw_dst={address},tp_dst=53",
        lambda f: replace(f, actions=without(f.actions)),
    )
    report = prove(spec_of(MANY))
    assert touched and not report.complaints
    assert report.failed and all(address in failure.vector for failure in report.failures if failure.vector[0] != "(")


def test_further_services_are_asked_for_each_bit_and_each_backend() -> None:
    loaded = spec_of(MANY)
    reference = Reference(loaded.spec)
    for service in reference.services.values():
        asked = sufficient_slots(service)
        assert {service.slots[slot].name for slot in asked} == {"ns1", "ns2", "ns3"}
        assert {1 << bit for bit in range(6)} | {0, 63} <= set(asked)


def test_300_vips_over_50_pools_of_default_slots_send_every_slot_of_a_pool_and_few_more() -> None:
    """What is sent, without sending it: `make test` has no time for what `make bench-check` does."""
    loaded = spec_of(many_vips(300, pools=50, backends=8))
    services = Reference(loaded.spec).services
    found = coverage.coverage(loaded.spec, services, None)
    slots = len(next(iter(services.values())).slots)
    sets = 50 * 2 * 2  # pools, families, protocols
    assert sum(len(s) == slots for s in found.slots.values()) == sets
    assert sets * slots < found.queries < 2 * sets * slots
