# SPDX-License-Identifier: Apache-2.0
"""The bound on megaflows, of tables small enough to count by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.attackers import Attacker, FieldChoice, Sender, network_attacker, routed_attacker
from dnsteer.lint.masks.bound import foreign_flows
from dnsteer.lint.masks.choices import Choices, NoneOf, OneOf, joined
from dnsteer.lint.masks.fields import IPV4, IPV6, UDP, BitRange
from dnsteer.lint.masks.list_flows import all_flows_of_lists
from dnsteer.lint.masks.megaflows import MegaflowBound, bounds_of, megaflow_bounds, show_count
from dnsteer.lint.masks.value_sources import ValueSources, packet_bits, whole_field
from dnsteer.plan.build import build_plan
from dnsteer.render.flows import groups_of, parse_flow
from dnsteer.spec.loaded import Loaded
from dnsteer.tables.meter_rows import MeterRow
from dnsteer.tables.order import TABLES

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
QUERIES = Sender(
    ("p0",),
    frozenset((IPV4,)),
    fragments=(0,),
    vlans=frozenset((0,)),
    choices={
        "dl_dst": FieldChoice.of("dl_dst", 1),
        "dl_src": FieldChoice.unknown("dl_src", 1),
        "nw_proto": FieldChoice.of("nw_proto", UDP),
    },
)
ALL_DROPPED = "table=9, priority=0 actions=drop"


def bound(
    *lines: str, sender: Sender = QUERIES, groups: tuple[str, ...] = (), passed: Mapping[int, int] | None = None
) -> MegaflowBound:
    flows = [parse_flow(f"cookie=0xd453010000000000, {line}") for line in (*lines, ALL_DROPPED)]
    return bounds_of(flows, (), [Attacker("in a test", (sender,))], passed)[0]


def test_what_no_flow_looks_at_makes_one_megaflow() -> None:
    assert bound("table=0, priority=0 actions=drop").total == 1


def test_a_window_counts_its_values_once() -> None:
    """4 bits of the port: one goes on and 15 are dropped; of those that go on 2 more bits: one on, 3 dropped."""
    found = bound(
        "table=0, priority=9,udp,tp_dst=0x5/0xf actions=goto_table:1",
        "table=0, priority=1,udp actions=move:NXM_OF_UDP_DST[0..3]->NXM_NX_REG12[0..3]",
        "table=1, priority=9,udp,tp_dst=0x15/0x3f actions=IN_PORT",
        "table=1, priority=1,udp actions=move:NXM_OF_UDP_DST[0..5]->NXM_NX_REG12[0..5]",
    )
    first, second = TABLES[:2]
    assert {(kind.table, kind.megaflows) for kind in found.kinds} == {(first.name, 15), (second.name, 1 + 3)}


def test_a_register_that_is_matched_counts_as_the_bits_that_were_copied() -> None:
    """8 slots, three of one backend and five of another: 8 megaflows, not 8 for each backend."""
    slots = [f"table=1, priority=9,reg1={n} actions=set_field:{1 if n < 3 else 2}->reg2,goto_table:2" for n in range(8)]
    found = bound(
        "table=0, priority=9,udp actions=move:NXM_OF_UDP_SRC[1..3]->NXM_NX_REG1[0..2],goto_table:1",
        *slots,
        "table=1, priority=0 actions=drop",
        "table=2, priority=9,reg2=1 actions=IN_PORT",
        "table=2, priority=9,reg2=2 actions=IN_PORT",
        "table=2, priority=0 actions=drop",
    )
    assert found.total == 8


def test_without_a_flow_for_a_slot_its_queries_are_counted_as_dropped() -> None:
    found = bound(
        "table=0, priority=9,udp actions=move:NXM_OF_UDP_SRC[1..3]->NXM_NX_REG1[0..2],goto_table:1",
        *(f"table=1, priority=9,reg1={n} actions=IN_PORT" for n in range(5)),
        "table=1, priority=0 actions=drop",
    )
    assert found.total == 8


def test_what_a_sender_cannot_choose_is_not_counted() -> None:
    lines = ["table=0, priority=9,udp actions=move:NXM_OF_IP_DST[]->NXM_NX_REG12[],goto_table:9"]
    assert bound(*lines).total == 1 << 32
    prefix = FieldChoice(0xFFFFFF00, frozenset((0xC0000200,)), 1)
    routed = replace(QUERIES, choices={**QUERIES.choices, "nw_dst": prefix})
    assert bound(*lines, sender=routed).total == 256
    one = replace(QUERIES, never={"nw_dst": frozenset((1, 2))})
    assert bound(*lines, sender=one).total == (1 << 32) - 2


def test_values_that_earlier_flows_took_do_not_come_to_later_ones() -> None:
    addresses = [f"table=0, priority=9,udp,nw_dst=192.0.2.{n} actions=IN_PORT" for n in (1, 2, 3)]
    rest = "table=0, priority=1,udp actions=move:NXM_OF_IP_DST[]->NXM_NX_REG12[]"
    assert bound(*addresses, rest).total == 1 << 32
    few = replace(
        QUERIES, choices={**QUERIES.choices, "nw_dst": FieldChoice.of("nw_dst", *range(0xC0000201, 0xC0000206))}
    )
    assert bound(*addresses, rest, sender=few).total == 5
    assert bound(*addresses, sender=few).total >= 5


def test_a_field_that_was_written_is_no_longer_the_packets() -> None:
    found = bound(
        "table=0, priority=9,udp actions=set_field:192.0.2.1->ip_dst,goto_table:1",
        "table=1, priority=9,udp,nw_dst=192.0.2.1 actions=IN_PORT",
        "table=1, priority=0 actions=drop",
    )
    assert found.total == 1 << 32, "what is written is looked at, whichever address the packet has"


def test_registers_that_are_held_multiply_the_second_pass() -> None:
    """The first pass has 16 values of 4 bits; each has a recirculation of its own, in which 2 other bits are looked at."""
    first = "table=0, priority=9,udp actions=move:NXM_OF_UDP_DST[0..3]->NXM_NX_REG12[0..3],{}ct(table=1)"
    second = [
        "table=1, priority=9,udp actions=move:NXM_OF_UDP_SRC[0..1]->NXM_NX_REG12[0..1]",
        "table=1, priority=0 actions=drop",
    ]
    assert {kind.kind: kind.megaflows for kind in bound(first.format(""), *second).kinds} == {
        "IPv4 UDP": 16,
        "IPv4 UDP after the connection tracker": 16 * 4,
    }
    cleared = bound(first.format("set_field:0->reg12,"), *second)
    assert cleared.total == 16 + 4


def test_a_meter_bounds_what_comes_behind_a_recirculation() -> None:
    lines = [
        "table=0, priority=9,udp actions=meter:7,ct(table=1)",
        "table=1, priority=9,udp actions=move:NXM_OF_IP_DST[]->NXM_NX_REG12[]",
        "table=1, priority=0 actions=drop",
    ]
    assert bound(*lines).total == 1 + (1 << 32)
    assert bound(*lines, passed={8: 5}).total == 1 + (1 << 32)
    limited = bound(*lines, passed={7: 10_100})
    assert limited.total == 1 + 10_100
    assert "as meter 7 lets pass" in limited.kinds[0].kind
    few = FieldChoice.of("nw_dst", 1, 2, 3)
    sender = replace(QUERIES, choices={**QUERIES.choices, "nw_dst": few})
    assert bound(*lines, sender=sender, passed={7: 10_100}).total == 1 + 3


def test_a_loop_of_recirculations_is_refused() -> None:
    with pytest.raises(ValueError, match="recirculates packets more than 8 times"):
        bound("table=0, priority=9,udp actions=ct(table=0)")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_who_is_on_the_network_makes_no_fewer_than_who_is_behind_a_router(file: Path) -> None:
    loaded = load_spec(file)
    routed, local = bounds(loaded)
    assert 0 < routed.beyond < routed.total < local.total
    assert not any(kind.kind.startswith(("ARP", "other ethertypes")) for kind in routed.kinds)
    assert any(kind.kind.startswith("ARP") for kind in local.kinds)
    assert "dl_src" not in {name for kind in routed.kinds if "extension" not in kind.table for name, _ in kind.many}


def bounds(loaded: Loaded) -> list[MegaflowBound]:
    return megaflow_bounds(build_plan(loaded), (routed_attacker(loaded.spec), network_attacker(loaded.spec)))


def test_good_traffic_is_a_megaflow_for_each_slot_and_service() -> None:
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "quickstart"))
    routed = bounds(loaded)[0]
    assert routed.total - routed.beyond == 4 * 64, "each slot by UDP and TCP over IPv4 and IPv6"


def test_a_first_pass_of_queries_is_good_traffic() -> None:
    """40 VIPs of one pool by two passes: one megaflow each by UDP and TCP over IPv4 and IPv6, then the slots."""
    loaded = load_spec(next(file for file in EXAMPLES if file.stem == "many-vips"))
    routed = bounds(loaded)[0]
    assert routed.total - routed.beyond == 4 * 40 + 4 * 256


def test_large_numbers_are_shown_as_powers_of_two() -> None:
    assert show_count(60_000) == "60,000"
    assert show_count(1 << 40) == "2^40"
    assert show_count((1 << 40) + 1) == "2^41"


def test_choices_join_where_they_differ_in_the_same_bits() -> None:
    one, two, three = (Choices(frozenset((OneOf(0xF, frozenset((n,)), 1),))) for n in (1, 2, 3))
    (together,) = joined({one: 2, two: 2}).items()
    assert together == (Choices(frozenset((OneOf(0xF, frozenset((1, 2)), 2),))), 2)
    assert len(joined({one: 2, two: 2, three: 1})) == 2, "what counts differently stays apart"


def test_choices_that_exclude_each_other_leave_nothing() -> None:
    some = Choices().with_one_of(0xF, frozenset((1, 2)))
    assert some is not None
    assert some.with_one_of(0xFF, frozenset((0x13,))) is None
    assert some.with_none_of(0xF, frozenset((1, 2))) is None
    left = some.with_none_of(0x3, frozenset((1,)))
    assert left is not None and left.count(0xFF) == 16
    assert Choices(excluded=frozenset((NoneOf(0x3, frozenset((0, 1, 2))),))).count(0xF) == 4


def test_sources_follow_what_is_copied_and_written() -> None:
    sources = ValueSources().moved(BitRange("nw_dst", 8, 8), BitRange("reg1", 4, 8))
    assert sources.origin("reg1", 0xFFF).mask == packet_bits("nw_dst", 0xFF00)
    assert sources.origin("reg1", 0xFFF).whole, "the lowest bits are 0"
    cut = sources.written("reg1", 0x3F0, 0x150)
    assert cut.origin("reg1", 0xFFF).mask == packet_bits("nw_dst", 0xC000)
    assert cut.origin("reg1", 0xFFF).value == 0x150
    assert cut.held() == packet_bits("nw_dst", 0xC000)
    hashed = cut.chosen_by_switch(("dp_hash",))
    assert hashed.origin("dp_hash", 0xF).mask & whole_field("dp_hash") != packet_bits("dp_hash", 0xF)
    assert not sources.written("nw_dst", 0xFF, None).origin("nw_dst", 0x1FF).whole


def test_ipv6_headers_that_the_switch_reads_past_are_no_protocols() -> None:
    line = "table=0, priority=9,ipv6 actions=move:NXM_OF_IP_PROTO[]->NXM_NX_REG12[0..7]"
    macs = {name: QUERIES.choices[name] for name in ("dl_dst", "dl_src")}
    for fragments, protocols in (((0,), 252), ((3,), 1), ((0, 1, 3), 252 + 252 + 1)):
        sender = replace(QUERIES, ethertypes=frozenset((IPV6,)), choices=macs, fragments=fragments)
        assert bound(line, sender=sender).total == protocols


def test_lists_are_counted_as_no_less_than_by_following_their_prefixes() -> None:
    loaded = load_spec(EXAMPLES[0].with_name("access.yaml"))
    plan, spec = build_plan(loaded), loaded.spec
    attackers = (routed_attacker(spec), network_attacker(spec))
    passed = {meter.number: 10 * meter.rate + meter.burst for meter in plan.rows.of(MeterRow)}
    followed = bounds_of(foreign_flows(plan), groups_of(plan), attackers, passed)
    counted = megaflow_bounds(plan, attackers)
    for one, other in zip(followed, counted, strict=True):
        assert 0 < one.total <= other.total
    assert all_flows_of_lists(plan) == 14_035 + 5_104
    assert counted[0].total < 2 * followed[0].total, "as near as that"
