# SPDX-License-Identifier: Apache-2.0
"""The reference, held against packets that scapy builds from scratch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.compat import raw
from scapy.layers.inet import TCP, UDP, fragment
from scapy.layers.inet6 import IPv6ExtHdrFragment, IPv6ExtHdrRouting, IPv6ExtHdrSegmentRouting, fragment6
from scapy.packet import Packet, Raw

from dnsteer.checks.load import check_document
from dnsteer.proof.reference.modes import MODES
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.reference.selections import SELECTIONS
from dnsteer.proof.reference.wire import checksum, updated_checksum
from dnsteer.slots.assignment import assign
from dnsteer.slots.takeover import with_members_down
from dnsteer.spec.model.spec import Forwarding, Selection, Spec
from dnsteer.spec.read import parse_document
from tests.unit.neighbor_cases import ECHOES, NEIGHBORS, echo4, reply4
from tests.unit.reference_cases import (
    ANSWERS,
    B4,
    B6,
    C4,
    C6,
    FAR,
    GATEWAY,
    HOP1,
    QUERIES,
    ROUTER,
    SPEC,
    V4_HASHED,
    V4_NAT,
    V4_OWN,
    V6_HASHED,
    V6_NAT,
    V6_OWN,
    VIPS,
    Body,
    Case,
    ether,
    over,
    udp,
)


def load(text: str) -> Spec:
    return check_document(parse_document("spec.yaml", text)).spec


REFERENCE = Reference(load(SPEC))


def outcome(port: str, frame: Packet | bytes) -> set[tuple[str, bytes]]:
    return {(option.port, option.data) for option in REFERENCE.expect(port, raw(frame)).options}


PASSING = [case for case in [*QUERIES, *ANSWERS, *NEIGHBORS, *ECHOES] if case.leaves and "tag" not in case.what]
ANY_VLAN = Reference(load(SPEC.replace("  uplinks:", "  vlans: any\n  uplinks:", 1)))
VLAN_100, INNER = bytes.fromhex("8100a064"), bytes.fromhex("81000007")


@pytest.mark.parametrize("case", PASSING, ids=lambda case: f"{case.port} {case.what}")
def test_only_untagged_frames_are_served(case: Case) -> None:
    """Queries, answers, ARP, solicitations and echo alike; where the spec wants any VLAN, each keeps its tag."""

    def tagged(data: bytes, tags: bytes = VLAN_100) -> bytes:
        return data[:12] + tags + data[12:]

    comes = raw(case.comes)
    assert outcome(case.port, comes) != set()
    assert outcome(case.port, tagged(comes)) == set()
    expectation = ANY_VLAN.expect(case.port, tagged(comes))
    found = {(option.port, option.data) for option in expectation.options}
    assert found == {(port, tagged(raw(frame))) for port, frame in case.leaves}
    for reference in (REFERENCE, ANY_VLAN):
        assert not reference.expect(case.port, tagged(comes, VLAN_100 + INNER)).options


def in_snap(data: bytes, organisation: bytes = bytes(3)) -> bytes:
    """An untagged frame as IEEE 802.2 SNAP."""
    length = len(data) - 12 + 6
    return data[:12] + length.to_bytes(2, "big") + b"\xaa\xaa\x03" + organisation + data[12:]


@pytest.mark.parametrize("case", PASSING, ids=lambda case: f"{case.port} {case.what}")
def test_packets_in_snap_are_those_of_their_type(case: Case) -> None:
    """Open vSwitch cannot tell them apart. What belongs to another organisation is no packet of the type."""
    comes = raw(case.comes)
    assert outcome(case.port, in_snap(comes)) == {(port, in_snap(raw(frame))) for port, frame in case.leaves}
    assert outcome(case.port, in_snap(comes, b"\0\0\x0c")) == set()
    assert outcome(case.port, in_snap(comes)[:20]) == set()


WAYS = {
    "of type 0": IPv6ExtHdrRouting(addresses=["2001:db8:ffff::1", "2001:db8:ffff::2"], segleft=2),
    "of segments": IPv6ExtHdrSegmentRouting(addresses=["2001:db8:ffff::2", "2001:db8:ffff::1"], segleft=1, lastentry=1),
    "that is done": IPv6ExtHdrRouting(addresses=["2001:db8:ffff::2"], segleft=0),
}


def through(way: str, to_mac: str, from_mac: str, source: str, destination: str, **ports: int) -> bytes:
    """A packet with a routing header: scapy computes its checksum with the last destination."""
    return raw(ether(to_mac, from_mac) / over(source, destination) / WAYS[way].copy() / UDP(**ports) / Body)


@pytest.mark.parametrize("way", WAYS)
def test_the_checksum_of_a_query_has_its_last_destination(way: str) -> None:
    comes = through(way, VIPS, ROUTER, C6, V6_NAT, sport=4000, dport=53)
    [(port, data)] = outcome("p2", comes)
    assert (port, data) == ("p1", through(way, FAR, VIPS, C6, B6, sport=4000, dport=5353))


@pytest.mark.parametrize("way", WAYS)
def test_the_checksum_of_an_answer_may_lack_its_source(way: str) -> None:
    comes = through(way, GATEWAY, FAR, B6, C6, sport=5353, dport=4000)
    right = through(way, HOP1, VIPS, V6_NAT, C6, sport=53, dport=4000)
    found = {data for _, data in outcome("p1", comes)}
    assert right in found
    assert len(found) == (1 if way == "that is done" else 2)
    at = len(right) - len(raw(Body)) - 2  # of the checksum: all else is the same
    assert {data[:at] + data[at + 2 :] for data in found} == {right[:at] + right[at + 2 :]}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{group}: {case.what}")
        for group, cases in {"query": QUERIES, "answer": ANSWERS, "neighbor": NEIGHBORS, "echo": ECHOES}.items()
        for case in cases
    ],
)
def test_the_reference_forwards_each_case(case: Case) -> None:
    assert outcome(case.port, case.comes) == {(port, raw(frame)) for port, frame in case.leaves}


def pieces(
    mac: str, src_mac: str, source: str, sport: int, whole: int, protocol: Callable[..., Packet] = UDP
) -> list[bytes]:
    """The fragments of an answer, cut by scapy from a whole whose checksum scapy has computed."""
    dst = C6 if ":" in source else C4
    payload = Raw(bytes(i * 7 % 251 for i in range(whole)))
    packet = over(source, dst) / protocol(sport=sport, dport=4000) / payload
    number = 17 if protocol is UDP else 6
    if dst == C4:
        cut = over(source, dst, id=99, proto=number) / Raw(raw(packet)[20:])
        return [raw(piece) for piece in fragment(ether(mac, src_mac) / cut, 1480)]
    cut = over(source, dst) / IPv6ExtHdrFragment(id=99, nh=number) / Raw(raw(packet)[40:])
    return [raw(piece) for piece in fragment6(ether(mac, src_mac) / cut, 1294)]


@pytest.mark.parametrize(
    ("backend", "from_port", "vip", "port"),
    [
        pytest.param(B4, 5353, V4_NAT, 53, id="IPv4, other port"),
        pytest.param(B6, 5353, V6_NAT, 53, id="IPv6, other port"),
        pytest.param("10.0.0.15", 853, V4_HASHED, 853, id="IPv4, second service"),
        pytest.param("2001:db8:a::14", 53, V6_HASHED, 53, id="IPv6, first service"),
        pytest.param(V4_OWN, 53, V4_OWN, 53, id="IPv4, dsr"),
        pytest.param(V6_OWN, 53, V6_OWN, 53, id="IPv6, dsr"),
    ],
)
@pytest.mark.parametrize("length", [1500, 4001])
def test_fragments_become_those_of_the_translated_answer(
    backend: str, from_port: int, vip: str, port: int, length: int
) -> None:
    come = pieces(GATEWAY, FAR, backend, from_port, length)
    leave = pieces(HOP1, VIPS, vip, port, length)
    assert len(come) == len(leave) > 1
    for piece, wanted in zip(come, leave, strict=True):
        assert outcome("p1", piece) == {("p1", wanted)}


def test_a_fragment_without_checksum_stays_without() -> None:
    comes = ether(GATEWAY) / over(B4, C4, flags="MF") / UDP(sport=5353, dport=9, chksum=0) / Raw(bytes(1480))
    leaves = ether(HOP1, VIPS) / over(V4_NAT, C4, flags="MF") / UDP(sport=53, dport=9, chksum=0) / Raw(bytes(1480))
    assert outcome("p1", comes) == {("p1", raw(leaves))}


SLOTS = """
apiVersion: dnsteer/v1
switch: {flavor: ovs-netdev, bridge: br-dns, mac: 02:00:00:00:00:53, uplinks: {p0: }}
pools:
  some:
    backends:
      - {name: a, ipv4: 10.0.0.11, ipv6: 2001:db8:a::11, mac: 02:00:00:00:0b:01}
      - {name: b, ipv4: 10.0.0.12, mac: 02:00:00:00:0b:02, weight: 3}
      - {name: c, ipv4: 10.0.0.13, ipv6: 2001:db8:a::13, mac: 02:00:00:00:0b:03, weight: 2STATE}
vips:
  v: {addresses: [192.0.2.1, 2001:db8::1], services: [dns], pool: some}
"""
WEIGHTS = {"a": 1, "b": 3, "c": 2}


@cache
def query_from(source: str, port: int, vip: str) -> bytes:
    """A query's frame, laid out once for all tests."""
    return raw(ether(VIPS) / udp(source, port, vip, 53))


def owners(down: str, spec: str = SLOTS) -> tuple[list[str | None], list[str | None]]:
    """The backend of each slot, by IPv4 and by IPv6, told from the packets."""
    reference = Reference(load(spec.replace("STATE", ", state: down" if down else "")))
    macs = {b"\x02\0\0\0\x0b" + bytes((n,)): name for n, name in ((1, "a"), (2, "b"), (3, "c"))}
    found: tuple[list[str | None], list[str | None]] = [], []
    count = 256
    for family, (source, vip) in enumerate(((C4, "192.0.2.1"), (C6, "2001:db8::1"))):
        for slot in range(count):
            told = set()
            for port in (2 * slot, 2 * slot + 1, 2 * (slot + count), 2 * (slot + 32768 - count) + 1):
                expectation = reference.expect("p0", query_from(source, port % 65536, vip))
                (option,) = expectation.options
                assert expectation.slot == slot
                assert expectation.backend == macs[option.data[:6]]
                told.add(expectation.backend)
            (name,) = told
            found[family].append(name)
    return found


@pytest.mark.parametrize("down", ["", "c"])
def test_slots_by_source_port(down: str) -> None:
    four, six = owners(down)
    slots = len(four)
    both = {"a": 1, "c": 2}
    assert slots == len(six) == 256
    assert tuple(four) == with_members_down(assign(WEIGHTS, slots), WEIGHTS, [down] if down else [])
    assert tuple(six) == with_members_down(assign(both, slots), both, [down] if down else [])
    assert ("c" in four, "c" in six) == (not down, not down)


def test_a_pool_that_is_down_keeps_its_slots() -> None:
    spec = SLOTS.replace("weight: 3}", "weight: 3, state: down}").replace("0b:01}", "0b:01, state: down}")
    four, six = owners("c", spec)
    assert tuple(four) == assign(WEIGHTS, len(four))
    assert tuple(six) == assign({"a": 1, "c": 2}, len(six))


def test_a_pool_that_is_down_and_drops_is_not_served() -> None:
    spec = SLOTS.replace("  some:\n", "  some:\n    on_all_down: drop\n").replace(
        "weight: 3}", "weight: 3, state: down}"
    )
    query = raw(ether(VIPS) / udp(C6, 9, "2001:db8::1", 53)), raw(ether(VIPS) / udp(C4, 9, "192.0.2.1", 53))
    some = Reference(load(spec.replace("STATE", ", state: down")))
    assert all(some.expect("p0", data).options for data in query)  # a is left
    none = Reference(load(spec.replace("STATE", ", state: down").replace("0b:01}", "0b:01, state: down}")))
    assert [none.expect("p0", data).options for data in query] == [frozenset(), frozenset()]
    assert "no backend left" in none.expect("p0", query[0]).why


def test_answers_of_servers_behind_an_uplink_do_not_pass() -> None:
    answer = ether("02:00:00:00:00:52") / udp("192.0.2.1", 53, C4, 9)
    assert not Reference(load(SLOTS.replace("STATE", ""))).expect("p0", raw(answer)).options


def test_without_next_hop_no_answer_leaves() -> None:
    own_port = SLOTS.replace("uplinks: {p0: }", "uplinks: {p0: }, ports: {vf0: }").replace(
        "name: b,", "name: b, port: vf0,"
    )
    document = parse_document("spec.yaml", own_port.replace("STATE", ""))
    reference = Reference(Spec.model_validate(document.value))  # the rules would refuse it
    answer = ether("02:00:00:00:00:52") / udp("192.0.2.1", 53, C4, 9)
    expectation = reference.expect("p0", raw(answer))
    assert not expectation.options
    assert "next hop" in expectation.why


def test_the_gateways_mac_is_the_balancers_with_its_lowest_bit_flipped() -> None:
    text = SLOTS.replace("STATE", "").replace("uplinks:", "gateways: [10.0.0.1], uplinks:")
    frame = ether("02:00:00:00:00:52") / over(C4, "10.0.0.1") / echo4
    (option,) = Reference(load(text)).expect("p0", raw(frame)).options
    assert option == Frame("p0", raw(ether(ROUTER, "02:00:00:00:00:52") / over("10.0.0.1", C4) / reply4))


def test_ambiguous_answers_are_refused() -> None:
    text = SLOTS.replace("STATE", "").replace("[192.0.2.1, 2001:db8::1]", "[192.0.2.1, 192.0.2.2]")
    spec = Spec.model_validate(parse_document("x", text.replace("pool: some}", "pool: some, forwarding: nat}")).value)
    with pytest.raises(ValueError, match="answers of a"):
        Reference(spec)


payloads = st.binary(max_size=1200)
ports = st.integers(0, 65535)


@settings(max_examples=300, deadline=None)
@given(payload=payloads, port=ports, wide=st.booleans(), udp_=st.booleans(), answer=st.booleans(), ident=ports)
def test_checksums_are_those_that_scapy_computes(
    payload: bytes, port: int, wide: bool, udp_: bool, answer: bool, ident: int
) -> None:
    kind, target, service = (UDP, 5353, 53) if udp_ else (TCP, 8853, 853)
    client, vip, backend = (C6, V6_NAT, B6) if wide else (C4, V4_NAT, B4)
    fields = {} if wide else {"id": ident}
    if answer:
        comes = ether(GATEWAY) / over(backend, client, **fields) / kind(sport=target, dport=port) / Raw(payload)
        leaves = ether(HOP1, VIPS) / over(vip, client, **fields) / kind(sport=service, dport=port) / Raw(payload)
    else:
        comes = ether(VIPS) / over(client, vip, **fields) / kind(sport=port, dport=service) / Raw(payload)
        leaves = ether(FAR, VIPS) / over(client, backend, **fields) / kind(sport=port, dport=target) / Raw(payload)
    assert outcome("p1", comes) == {("p1", raw(leaves))}


@pytest.mark.parametrize(("client", "vip", "backend"), [(C4, V4_NAT, B4), (C6, V6_NAT, B6)])
def test_a_udp_checksum_that_comes_to_zero_is_written_as_ones(client: str, vip: str, backend: str) -> None:
    leaves = over(client, backend) / UDP(sport=9, dport=5353) / Raw(bytes(8))
    value = int.from_bytes(raw(leaves)[-10:-8], "big")
    payload = Raw(value.to_bytes(2, "big") + bytes(6))
    (option,) = REFERENCE.expect("p0", raw(ether(VIPS) / over(client, vip) / UDP(sport=9, dport=53) / payload)).options
    wanted = ether(FAR, VIPS) / over(client, backend) / UDP(sport=9, dport=5353) / payload
    assert option.data == raw(wanted)
    assert option.data[-10:-8] == b"\xff\xff"


def test_checksums_of_the_rfcs() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D  # RFC 1071, section 3
    assert updated_checksum(0xDD2F, b"\x55\x55", b"\x32\x85") == 0  # RFC 1624, section 4
    assert checksum(b"\xff\xff") == 0
    assert checksum(b"\0\0") == 0xFFFF
    assert checksum(b"\x12\x34\x56") == 0xFFFF - 0x1234 - 0x5600


@pytest.mark.parametrize(("client", "vip", "backend"), [(C4, V4_NAT, B4), (C6, V6_NAT, B6)])
def test_a_tcp_checksum_that_comes_to_zero_is_written_as_zero(client: str, vip: str, backend: str) -> None:
    leaves = over(client, backend) / TCP(sport=9, dport=8853) / Raw(bytes(8))
    payload = Raw(raw(leaves)[-12:-10] + bytes(6))
    (option,) = REFERENCE.expect("p0", raw(ether(VIPS) / over(client, vip) / TCP(sport=9, dport=853) / payload)).options
    assert option.data == raw(ether(FAR, VIPS) / over(client, backend) / TCP(sport=9, dport=8853) / payload)
    assert option.data[-12:-10] == b"\0\0"


words = st.one_of(st.sampled_from([b"\0\0", b"\xff\xff"]), st.binary(min_size=2, max_size=2))


@given(fixed=st.lists(words, max_size=4), old=st.lists(words, min_size=1, max_size=4), data=st.data())
def test_an_updated_checksum_is_the_one_computed_anew(
    fixed: list[bytes], old: list[bytes], data: st.DataObject
) -> None:
    new = data.draw(st.lists(words, min_size=len(old), max_size=len(old)))
    rest = b"".join([b"\x45\x00", *fixed])  # like every real header, not all zero
    before, after = b"".join(old), b"".join(new)
    assert updated_checksum(checksum(rest + before), before, after) == checksum(rest + after)


def test_every_mode_and_selection_of_the_spec_has_its_reference() -> None:
    assert set(MODES) == set(Forwarding)
    assert set(SELECTIONS) == set(Selection)
