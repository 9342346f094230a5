# SPDX-License-Identifier: Apache-2.0
"""Limits of clients and of TCP SYN in the plan: numbers of meters, bits of addresses, sizes, and the digest of a spec."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from dnsteer.console.page_data import PageHistory
from dnsteer.deploy.times import now
from dnsteer.lint.masks.flow_syntax import FieldBits, parse_match
from dnsteer.lint.masks.list_flows import all_flows_of_lists
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import client_flows, sizes_of
from dnsteer.proof.reference.clients import ClientReference
from dnsteer.render.meters import parse_meters
from dnsteer.spec.model.limits import BUCKET_NUMBERS, ClientLimits
from dnsteer.status.limit_drops import bucket_sources
from dnsteer.switch.meter_messages import MeterChange, MeterCommand, _meter_mod
from dnsteer.tables.client_limits import client_limits
from dnsteer.tables.cookies import BUCKET_METERS, METER_BASE, METER_LAST
from dnsteer.tables.meter_rows import MeterRow, limits_by_meter
from dnsteer.view.snapshot import SnapshotRecorder
from tests.packet.switches import SMALL, spec_of
from tests.packet.test_access import PROBED

CLIENTS = SMALL.replace("pool: farm}", "pool: farm, limits: {clients: {rate: 100/s, buckets: 64}}}")
OTHER = (
    "  other: {addresses: [192.0.2.54], services: [dns], pool: farm, limits: {clients: {rate: 100/s, buckets: 64}}}\n"
)


def numbers(text: str) -> dict[tuple[str, str, int], int]:
    rows = build_plan(spec_of(text)).rows.of(MeterRow)
    return {(row.limited.vip, row.limited.kind, row.bucket): row.number for row in rows}


def test_what_may_be_left_out() -> None:
    (short,) = client_limits(spec_of(CLIENTS.replace(", buckets: 64", "")).spec)
    assert (short.clients.buckets, short.clients.prefix.ipv4, short.clients.prefix.ipv6) == (1024, 24, 56)
    assert {row.burst for row in build_plan(spec_of(CLIENTS)).rows.of(MeterRow) if row.limited.vip} == {10}


def test_a_limit_that_comes_or_goes_moves_the_number_of_no_other() -> None:
    before = numbers(CLIENTS)
    more = (
        CLIENTS
        + OTHER.replace("100/s", "300/s")
        + OTHER.replace("other", "third")
        .replace("clients", "tcp_syn")
        .replace("{rate: 100/s, buckets: 64}", "5/s")
        .replace("192.0.2.54", "192.0.2.55")
    )
    after = numbers(more)
    assert {key: after[key] for key in before} == before
    assert len(set(after.values())) == len(after) == 3 + 64 + 64
    assert all(METER_BASE < number <= METER_LAST for number in after.values())
    assert {number >= BUCKET_METERS for (_, kind, _), number in after.items() if kind == "clients"} == {True}


def test_vips_with_the_same_limit_share_buckets_and_a_change_makes_new_ones() -> None:
    assert numbers(CLIENTS + OTHER) == numbers(CLIENTS)
    assert [limit.vips for limit in client_limits(spec_of(CLIENTS + OTHER).spec)] == [("dns", "other")]
    assert not {*numbers(CLIENTS).values()} & {
        number for (_, kind, _), number in numbers(CLIENTS.replace("100/s", "101/s")).items() if kind == "clients"
    }
    assert {of.vip for of in limits_by_meter(spec_of(CLIENTS + OTHER).spec).values()} == {"", "dns"}


@given(
    bits=st.integers(0, len(BUCKET_NUMBERS) - 1),
    ipv4=st.integers(12, 32),
    ipv6=st.integers(12, 128),
    client=st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)),
)
def test_the_bits_of_the_table_are_the_bucket_of_the_reference(bits: int, ipv4: int, ipv6: int, client: object) -> None:
    given_ = f"{{rate: 9/s, buckets: {BUCKET_NUMBERS[bits]}, prefix: {{ipv4: {ipv4}, ipv6: {ipv6}}}}}"
    spec = spec_of(CLIENTS.replace("{rate: 100/s, buckets: 64}", given_)).spec
    (limit,) = client_limits(spec)
    address = ip_address(str(client))
    low = limit.clients.lowest_bit("ipv4" if address.version == 4 else "ipv6")
    bucket = int(address) >> low & (1 << limit.clients.bits) - 1
    assert bucket == ClientReference(spec).bucket("dns", address.packed)
    value, mask = bucket_sources(limit, bucket)[address.version == 6].split("/")
    assert int(address) & int(ip_address(mask)) == int(ip_address(value))


def test_sizes_count_buckets_once_for_each_service_or_behind_a_list_once() -> None:
    plan = build_plan(spec_of(CLIENTS))
    assert client_flows(plan) == {"ipv4": 2 * 64}  # UDP and TCP
    assert sizes_of(spec_of(CLIENTS).spec, plan).rules["queries by their clients", "ipv4"] == 2 * 64
    listed = build_plan(spec_of(CLIENTS.replace("limits:", "access: {deny: [198.51.100.0/24]}, limits:")))
    assert client_flows(listed) == {"ipv4": 64}
    assert all_flows_of_lists(listed) > 0


def test_sizes_count_the_flags_of_tcp() -> None:
    plain, limited = (
        sizes_of(loaded.spec, build_plan(loaded)).rules["queries", "ipv4"]
        for loaded in map(spec_of, (SMALL, SMALL.replace("pool: farm}", "pool: farm, limits: {tcp_syn: 9/s}}")))
    )
    assert (plain, limited) == (2 * 16, 16 + 3 * 16)


def test_the_digest_of_a_spec_without_them_is_what_it_was() -> None:
    text = SMALL.replace("pool: farm}", "pool: farm, limits: {queries: 5k/s}}")
    assert spec_of(text).digest == "ecef207bd30d17dfd94cf0e07c2ee62f658416dbf979cd30588bc16c5424881e"
    assert len({spec_of(each).digest for each in (text, CLIENTS, CLIENTS.replace("64", "32"))}) == 3


def test_flags_of_tcp_are_known_to_lint() -> None:
    assert parse_match("tcp,tcp_flags=+syn-ack")["tcp_flags"] == FieldBits(0x002, 0x012)
    assert parse_match("tcp,tcp_flags=0x2/0x12")["tcp_flags"] == FieldBits(0x002, 0x012)


def test_meters_of_others_are_spelt_as_messages_too() -> None:
    """Those that a refused change takes back are as somebody else left them."""
    dumped = "meter=7 kbps stats bands=\ntype=dscp_remark rate=5 burst_size=2 prec_level=1\ntype=drop rate=9\n"
    (meter,) = parse_meters(dumped).values()
    message = _meter_mod(3, MeterChange(MeterCommand.MODIFY, meter))
    assert message.hex() == (
        "061d0030000000030001000900000007"  # version, METER_MOD, length, number; modify, flags, meter
        "00020010000000050000000201000000"  # a band that remarks
        "00010010000000090000000000000000"  # one that drops
    )


def test_a_probe_or_an_answer_has_no_bucket() -> None:
    assert client_limits(spec_of(PROBED).spec) == []
    assert ClientReference(spec_of(PROBED).spec).bucket("dns", b"\1\2\3\4") is None


def test_the_console_notes_what_limits_drop_now_and_not_what_they_dropped() -> None:
    history = PageHistory()

    def titles(time: float, dropped: float) -> list[str]:
        limited = CounterMetricFamily("dnsteer_limited_packets", "", labels=["vip", "service", "kind"])
        limited.add_metric(["dns", "", "clients"], dropped)
        limited.add_metric(["", "vips", "echo"], 10 * time)
        served = CounterMetricFamily("dnsteer_service_packets", "", labels=["vip", "service", "pool"])
        served.add_metric(["dns", "53/udp", "farm"], 5 * time)
        up = GaugeMetricFamily("dnsteer_switch_up", "", value=1)
        history.read([limited, served, up], time)
        items = history.page_data(SnapshotRecorder().snapshot(), [], now()).items
        return [item.line for item in items if "limit" in item.title]

    assert titles(0, 7000) == []
    assert titles(4, 7000) == []
    assert titles(8, 11_000) == [
        "VIP dns drops what comes faster than its limits: about 1,000 packets/s are dropped by the limit of its clients."
    ]
    assert titles(12, 11_000) == []


@pytest.mark.parametrize(("family", "low"), [("ipv4", 8), ("ipv6", 72)])
def test_the_last_bits_of_the_prefix_are_next_to_those_of_the_host(family: str, low: int) -> None:
    assert ClientLimits(rate="5/s").lowest_bit(family) == low  # type: ignore[arg-type]
