# SPDX-License-Identifier: Apache-2.0
"""Lint advises another number of slots where a pool would gain by it."""

from __future__ import annotations

import pytest

from dnsteer.lint.finding import LintFinding
from dnsteer.lint.run import run_finders
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from tests.packet.switches import spec_of

SPEC = """apiVersion: dnsteer/v1
switch: {{flavor: ovs-doca, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {{p0: {{next_hop: 02:00:00:00:00:fe}}}}}}
pools:
{pools}
vips:
{vips}
"""


def spec(pools: int, weights: list[int], slots: int | None, vips: int, services: str = "[dns]") -> str:
    named = f"    slots: {slots}\n" if slots else ""
    made = "\n".join(
        f"  pool{p}:\n{named}    backends:\n"
        + "\n".join(
            f"      - {{name: ns{b}, ipv4: 192.0.{p}.{b + 1}, ipv6: '2001:db8:{p}::{b + 1}', "
            f"mac: '02:00:00:{p:02x}:01:{b:02x}', weight: {w}}}"
            for b, w in enumerate(weights)
        )
        for p in range(pools)
    )
    served = "\n".join(
        f"  vip{v}: {{addresses: [198.51.100.{v + 1}, '2001:db8:ff::{v + 1}'], services: {services}, pool: pool{v % pools}}}"
        for v in range(vips)
    )
    return SPEC.format(pools=made, vips=served)


def advice(text: str) -> list[LintFinding]:
    loaded = spec_of(text)
    found = run_finders(examine(loaded, profile("ovs-doca"), queries=1)).findings
    return [f for f in found if f.code.code in ("DNS033", "DNS034")]


def test_uneven_shares_advise_more_slots() -> None:
    """Weights 1 to 7 of 16 slots: 16/28 of a slot each."""
    (found,) = advice(spec(1, [1, 2, 3, 4, 5, 6, 7], 16, 1))
    assert found.code.code == "DNS033" and found.path == ("pools", "pool0")
    assert found.text == (
        "pool pool0: 16 slots give backend ns0 +75.0 % against its weight and take 64 hardware rules; "
        "256 give ns2 -1.6 % at most and take 1,024"
    )
    assert found.advice == "set slots: 256 if this is worth moving many of a pool's clients once"


def test_too_many_rules_with_even_shares_advise_fewer_slots() -> None:
    (found,) = advice(spec(1, [1, 1, 1, 1], 1024, 4))
    assert found.code.code == "DNS034"
    assert "take 16,384 hardware rules; 64 give" in found.text and "take 1,024" in found.text


@pytest.mark.parametrize(
    ("weights", "slots", "vips"),
    [([1, 1, 1, 1], 256, 4), ([1, 2, 2, 3], 64, 1), ([1, 1, 1, 1], None, 1), ([1, 2, 3], 4096, 1), ([1], None, 1)],
)
def test_no_advice_where_no_slot_count_gains(weights: list[int], slots: int | None, vips: int) -> None:
    found = advice(spec(1, weights, slots, vips))
    assert [f for f in found if f.code.code == "DNS033"] == []
    assert all("4096 slots" in f.text for f in found)


def test_pools_of_the_same_advice_are_one_finding() -> None:
    (found,) = advice(spec(5, [1, 2, 3, 4, 5, 6, 7], 16, 5))
    assert found.text.startswith("pools pool0, pool1, pool2 and 2 more: 16 slots give")
    assert "take 320 hardware rules" in found.text


def test_followed_advice_gives_no_further_advice() -> None:
    assert advice(spec(1, [1, 2, 3, 4, 5, 6, 7], 256, 1)) == []
    assert advice(spec(1, [1, 1, 1, 1], 64, 4)) == []
