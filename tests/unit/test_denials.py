# SPDX-License-Identifier: Apache-2.0
"""Denials by hand: in the record, what begins and ends, and what they cut besides."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dnsteer.deploy.denial_effects import denial_effects
from dnsteer.deploy.denials import clients_of, deny_clients
from dnsteer.deploy.maintenance_text import altered, begun_and_ended
from dnsteer.deploy.times import expire
from dnsteer.lint.access_lists import exceeded_bounds
from dnsteer.plan.build import build_plan
from dnsteer.slots.denial import MAX_DENIALS, Denial
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay, decisions_between, marker
from dnsteer.spec.model.access import AccessEntry
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError
from tests.unit.test_access import by_hand, spec_with

TIME = datetime(2026, 11, 29, 3, 0, tzinfo=timezone.utc)
DENIAL = Denial("203.0.113.0/24", "2026-11-29T03:00:00+00:00", "alice@noc", 53, "dns", "floods", decision="d1")
DRAIN = Maintenance("farm", "ns1", "drain", "2026-11-29T02:00:00+00:00", "bob@noc", decision="d0")


def by_hand_of(prefixes: Iterable[str]) -> tuple[Denial, ...]:
    return by_hand(AccessEntry(prefix=prefix) for prefix in prefixes)


STATE = AppliedState("spec.yaml", "", "", "", "", "", (), {"dns": "farm"})


def test_the_record_keeps_them_beside_maintenance() -> None:
    overlay = Overlay((DRAIN,), (DENIAL, replace(DENIAL, prefix="2001:db8:bad::/48", port=0, vip="", note="")))
    assert Overlay.from_json(overlay.to_json()) == overlay
    again = Overlay.from_json(overlay.to_json()).with_decisions(overlay.decisions())
    assert [a.decision for a in (*again, *again.denials)] == ["d0", "d1", "d1"]
    assert json.loads(overlay.to_json())[-1] == {
        "prefix": "2001:db8:bad::/48",
        "since": "2026-11-29T03:00:00+00:00",
        "by": "alice@noc",
    }
    assert [overlay.put(DRAIN).denials, overlay.without([DRAIN]).denials] == [overlay.denials] * 2
    assert overlay.without([DENIAL]).denied == {("2001:db8:bad::/48", 0, "")}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prefix": "203.0.113.1/24"}, "has host bits set"),
        ({"prefix": "0203.0.113.0/24"}, "does not appear to be"),
        ({"port": 70000}, "and the port 70000"),
        ({"port": True}, "a denial has 'port' with True"),
        ({"until": "tomorrow"}, "Invalid isoformat"),
        ({"until": "2026-11-29T03:00:00"}, "lacks its offset"),
        ({"backend": "ns1"}, "a denial has 'backend'"),
        ({"by": None}, "a denial has 'by' with None"),
    ],
)
def test_a_damaged_one_is_found(change: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Overlay.from_json(json.dumps([{**DENIAL.to_value(), **change}]))
    with pytest.raises(ValueError, match="a denial lacks by, since"):
        Overlay.from_json('[{"prefix": "10.0.0.0/8"}]')


def test_the_tables_depend_on_what_is_denied_alone() -> None:
    """A note or another time moves no table, and a switch without denials has the number that it had."""
    one, noted = Overlay(denials=(DENIAL,)), Overlay(denials=(replace(DENIAL, note="x", until=DENIAL.since),))
    assert marker("d", one) == marker("d", noted) != marker("d", NO_OVERLAY)
    assert NO_OVERLAY.tables_key() == "[]"
    assert marker("d", Overlay(denials=(replace(DENIAL, port=0),))) != marker("d", one)


def test_they_begin_and_end_in_words_and_by_decisions() -> None:
    one, none = Overlay((DRAIN,), (DENIAL,)), Overlay((DRAIN,))
    assert begun_and_ended(none, one) == ["203.0.113.0/24 port 53 to VIP dns is denied"]
    assert begun_and_ended(one, none) == ["denial of 203.0.113.0/24 port 53 to VIP dns ends"]
    noted = one.with_denials([replace(DENIAL, note="a botnet", until="2026-11-29T04:00:00+00:00", decision="d2")])
    assert altered(one, noted) == [
        "denial of 203.0.113.0/24 port 53 to VIP dns: until it is ended -> 2026-11-29 04:00:00 UTC, "
        "note 'floods' -> 'a botnet'"
    ]
    assert decisions_between(none, one) == ("d1",)
    assert decisions_between(one, noted) == ("d2",)
    assert decisions_between(one, none, "d9") == ("d9",)
    later = TIME + timedelta(hours=1)
    assert expire(noted, later - timedelta(seconds=1)) == noted
    assert expire(noted, later) == none
    assert noted.denials[0].seconds_left(TIME) == 3600
    assert DENIAL.text == ("203.0.113.0/24 port 53 to VIP dns denied by alice@noc since 2026-11-29 03:00 UTC: floods")


def test_who_is_denied_again_keeps_the_start() -> None:
    deny = deny_clients([clients_of("203.0.113.0/24")], lasts=3600, note="one")
    first = deny(NO_OVERLAY, STATE, TIME)
    again = deny_clients([clients_of("203.0.113.0/24")])(first, STATE, TIME + timedelta(minutes=5))
    assert again == first
    longer = deny(first, STATE, TIME + timedelta(minutes=5)).denials[0]
    assert (longer.since, longer.until, longer.note) == (
        first.denials[0].since,
        "2026-11-29T04:05:00+00:00",
        "one",
    )


def test_there_are_not_too_many_for_the_record() -> None:
    many = [clients_of(f"10.{n >> 8}.{n & 255}.0/24") for n in range(MAX_DENIALS)]
    full = deny_clients(many)(NO_OVERLAY, STATE, TIME)
    with pytest.raises(SwitchError, match="1,001 prefixes denied by hand; at most 1,000 can be: join those"):
        deny_clients([clients_of("203.0.113.0/24")])(full, STATE, TIME)
    loaded = spec_with("{deny: [" + ", ".join(f"11.{n >> 8}.{n & 255}.0/24" for n in range(19_001)) + "]}")
    with pytest.raises(SwitchError, match="20,001 entries in all access lists; at most 20,000 can be"):
        denial_effects(loaded, NO_OVERLAY, full)


def test_what_they_cost_is_told_where_it_matters() -> None:
    loaded = spec_with("{deny: [203.0.113.0/24]}")
    assert exceeded_bounds(loaded.spec, build_plan(loaded)) == {}
    deep = Overlay(denials=by_hand_of(f"2001:db8:{n:x}::{n:x}/128" for n in range(1, 9)))
    found = exceeded_bounds(loaded.spec, build_plan(loaded, deep))
    assert list(found) == ["masks"]
    assert "more than lint.masks: " in found["masks"]
    wide = Overlay(denials=by_hand_of(f"{n}.{n}.{m}.0/24" for n in range(1, 200) for m in range(5)))
    assert "flows" in exceeded_bounds(loaded.spec, build_plan(loaded, wide))
