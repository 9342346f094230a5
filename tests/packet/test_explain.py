"""`explain` against the slots: the backend it names is the one that a packet really goes to."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from dnsteer.plan.build import build_plan
from dnsteer.plan.selection import slots_of
from dnsteer.proof.explain import explain_cookie, explain_query
from dnsteer.render.flows import flows_of
from dnsteer.spec.load import load_spec
from dnsteer.spec.model import Protocol

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("sport", [1, 40001, 65535])
def test_source_port_by_hand(sport: int) -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")
    way = explain_query(
        loaded, ip_address("198.51.100.7"), sport, ip_address("192.0.2.53"), 53, Protocol.UDP, "p0"
    )  # fmt: skip
    slots = slots_of(loaded.spec, loaded.spec.pools["authoritative"], "ipv4")
    assert way.as_expected
    assert way.slot == (sport >> 1) % len(slots)
    assert way.backend == slots[way.slot]
    assert [s.table for s in way.steps] == ["ingress", "protect", "vip", "slot", "forward", "egress"]
    assert all(s.line for s in way.steps)
    assert way.passes == 1
    assert len(way.out) == 1


def test_dp_hash_takes_two_passes() -> None:
    loaded = load_spec(EXAMPLES / "own-ports.yaml")
    way = explain_query(
        loaded, ip_address("2001:db8::7"), 40001, ip_address("2001:db8:1::53"), 53, Protocol.TCP, "p0"
    )  # fmt: skip
    assert way.passes == 2
    assert way.slot is None
    assert way.backend in {"a", "b"}


def test_not_a_service_is_dropped() -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")
    way = explain_query(loaded, ip_address("198.51.100.7"), 9, ip_address("192.0.2.53"), 80, Protocol.TCP, "p0")
    assert way.out == ()
    assert way.backend is None
    assert way.as_expected


def test_every_cookie_is_named() -> None:
    loaded = load_spec(EXAMPLES / "own-ports.yaml")
    for flow in flows_of(build_plan(loaded)):
        subject = explain_cookie(loaded, flow.cookie)
        assert subject is not None
        assert subject.line > 0
    assert explain_cookie(loaded, 0xD453_0F_0000000000) is None
