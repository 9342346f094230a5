# SPDX-License-Identifier: Apache-2.0
"""How pools stand, by their record and what was taken out."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dnsteer.slots.maintenance import Kind, Maintenance, Overlay
from dnsteer.slots.membership import Member, Membership
from dnsteer.status.counters import BackendKey
from dnsteer.status.pools import BackendView, view_pools
from dnsteer.status.rates import Rate, Rates

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
A, B, C = Member("a", 1, 1, False), Member("b", 2, 2, False), Member("c", 3, 1, True)


def pool(*members: Member) -> Membership:
    return Membership("farm", "pool farm", 7, "source-port", 64, "keep", members)


def entry(backend: str, kind: Kind = "drain", gone: int = 1000, until: int = 0) -> Maintenance:
    end = (NOW + timedelta(seconds=until)).isoformat() if until else ""
    return Maintenance("farm", backend, kind, NOW.isoformat(), "me@here", until=end, gone=gone)


def backends(members: Membership, *maintenance: Maintenance) -> dict[str, BackendView]:
    (found,) = view_pools([members], Overlay(maintenance), Rates(), NOW)
    return {b.name: b for b in found.backends}


def test_with_none_out_each_backend_has_its_own_slots() -> None:
    assert {n: (b.state, b.slots, b.own) for n, b in backends(pool(A, B)).items()} == {
        "a": ("up", 21, 21),
        "b": ("up", 43, 43),
    }


def test_a_backend_down_in_the_spec_holds_no_slots() -> None:
    found = backends(pool(A, B, C))
    assert (found["c"].state, found["c"].in_spec, found["c"].slots, found["c"].own) == ("down", True, 0, 16)
    assert (found["a"].slots or 0) + (found["b"].slots or 0) == 64


def test_a_backend_of_weight_0_is_up_without_slots() -> None:
    found = backends(pool(A, B._replace(weight=0)))
    assert (found["b"].state, found["b"].slots, found["b"].own) == ("up", 0, 0)
    nobody = backends(pool(A._replace(weight=0)))
    assert (nobody["a"].state, nobody["a"].slots, nobody["a"].own) == ("up", 0, 0)


@pytest.mark.parametrize(("gone", "state"), [(0, "draining"), (400, "draining"), (1000, "drained")])
def test_a_drain_says_how_far_it_is(gone: int, state: str) -> None:
    found = backends(pool(A, B), entry("b", gone=gone))["b"]
    assert (found.state, found.drained, found.slots) == (state, gone / 1000, 43 - -(-43 * gone // 1000))


def test_down_overrides_drained_and_either_may_be_overdue() -> None:
    found = backends(pool(A, B), entry("b", until=-5), entry("b", "down"))["b"]
    assert (found.state, found.overdue, found.entry) == ("down", True, entry("b", "down"))
    assert backends(pool(A, B), entry("b", until=5))["b"].overdue is False


def test_without_a_readable_overlay_only_certain_states_are_shown() -> None:
    rates = Rates({BackendKey(7, 1, "udp"): 3.0, BackendKey(7, 1, "tcp"): 1.0})
    (found,) = view_pools([pool(A, C)], None, rates, NOW)
    assert [(b.state, b.slots, b.own) for b in found.backends] == [("unknown", None, 32), ("down", None, 32)]
    assert (found.backends[0].rate, found.backends[1].rate) == (Rate(4.0, 3.0), Rate())
    assert found.rate == Rate(None, None)
