# SPDX-License-Identifier: Apache-2.0
"""The reference against scapy: tunnels, translation and choices of the extension, and what it does not take."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.compat import raw
from scapy.layers.inet import IP, TCP, UDP, IPOption_Router_Alert
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from dnsteer.checks.load import check_document
from dnsteer.proof.reference.outcome import Expectation, Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.slots.assignment import assign
from dnsteer.spec.read import parse_document
from tests.unit.extension_cases import SPEC
from tests.unit.reference_cases import C4, C6, GATEWAY, HOP1, VIPS, ether, over, tag, tcp, udp

REFERENCE = Reference(check_document(parse_document("spec.yaml", SPEC)).spec)
ENDS = {4: "10.0.9.4", 6: "2001:db8:a::9:4"}
FAR = {"four": ("p1", "0b:01"), "six": ("vf0", "0b:02"), "both": ("vf1", "0b:03")}
OF = {"four": "10.0.0.11", "six": "2001:db8:a::12"}
BOTH = {4: "10.0.0.13", 6: "2001:db8:a::13"}
MAPPED = "64:ff9b::c612:7"  # 198.18.0.7
S1, S2 = "2001:db8:a::21", "2001:db8:a::22"
S1_MAC, S2_MAC = "02:00:00:00:0b:21", "02:00:00:00:0b:22"


def expect(port: str, frame: Packet | bytes) -> Expectation:
    return REFERENCE.expect(port, frame if isinstance(frame, bytes) else raw(frame))


def left(expectation: Expectation) -> set[tuple[str, bytes]]:
    return {(frame.port, frame.data) for frame in expectation.options}


def in_tunnel(to_mac: str, end: str, inner: Packet) -> Packet:
    protocol = 4 if isinstance(inner, IP) else 41
    outer = (
        IPv6(src=ENDS[6], dst=end, nh=protocol)
        if ":" in end
        else IP(src=ENDS[4], dst=end, proto=protocol, id=0, flags="DF")
    )
    return Ether(dst=to_mac, src=VIPS, type=0x86DD if ":" in end else 0x0800) / outer / inner


@pytest.mark.parametrize("vip", ["192.0.2.1", "2001:db8::1"])
@pytest.mark.parametrize("kind", [udp, tcp])
def test_queries_are_tunneled_in_all_four_combinations(vip: str, kind: object) -> None:
    """All four combinations, slot by slot."""
    version = ip_address(vip).version
    slots = assign({"four": 1, "six": 2, "both": 2, "away": 1}, 16)
    seen = set()
    for slot in range(16):
        inner = kind(C4 if version == 4 else C6, 1024 + 2 * slot + slot % 2, vip, 53)  # type: ignore[operator]
        expectation = expect("p2", ether(VIPS) / inner)
        assert expectation.slot == slot
        assert expectation.backend is not None
        assert slots[slot] in (expectation.backend, "away")  # which is down
        port, mac = FAR[expectation.backend]
        end = OF.get(expectation.backend) or BOTH[version]
        assert left(expectation) == {(port, raw(in_tunnel(f"02:00:00:00:{mac}", end, inner)))}
        seen.add((version, ip_address(end).version))
    assert seen == {(version, 4), (version, 6)}


PLAIN = over(C4, "192.0.2.1") / UDP(sport=1024, dport=53)
STRANGE = over(C4, "192.0.2.1", options=[IPOption_Router_Alert()], tos=0xBB, ttl=1, flags="DF") / TCP(
    sport=1024, dport=53
)


@pytest.mark.parametrize(
    ("frame", "inner"),
    [
        pytest.param(raw(ether(VIPS) / tag / PLAIN), raw(PLAIN), id="a tag goes"),
        pytest.param(raw(ether(VIPS) / STRANGE), raw(STRANGE), id="options stay"),
        pytest.param(raw(ether(VIPS) / PLAIN) + bytes(18), raw(PLAIN) + bytes(18), id="padding goes with it"),
    ],
)
def test_tunnels_carry_the_inner_packet_with_its_tos(frame: bytes, inner: bytes) -> None:
    expectation = expect("p0", frame)
    assert expectation.backend is not None
    port, mac = FAR[expectation.backend]
    end = OF.get(expectation.backend) or BOTH[4]
    head = IPv6(src=ENDS[6], dst=end, nh=4) if ":" in end else IP(src=ENDS[4], dst=end, proto=4, id=0, flags="DF")
    assert left(expectation) == {(port, raw(Ether(dst=f"02:00:00:00:{mac}", src=VIPS) / head / Raw(inner)))}


def sport_of(backend: str, vip: str = "192.0.2.3") -> int:
    return next(p for p in range(1024, 1056) if expect("p0", ether(VIPS) / udp(C4, p, vip, 53)).backend == backend)


@pytest.mark.parametrize(("name", "mac", "address", "port"), [("s1", S1_MAC, S1, "vf0"), ("s2", S2_MAC, S2, "p2")])
def test_queries_are_translated(name: str, mac: str, address: str, port: str) -> None:
    query = UDP(sport=sport_of(name), dport=53) / Raw(b"some payload")
    comes = over(C4, "192.0.2.3", tos=0xBB, ttl=7, flags="DF", id=77) / query
    leaves = over(MAPPED, address, tc=0xBB, hlim=64) / query
    assert left(expect("p1", ether(VIPS) / comes)) == {(port, raw(ether(mac, VIPS) / leaves))}
    assert left(expect("p1", ether(VIPS) / tag / comes)) == {(port, raw(ether(mac, VIPS) / tag / leaves))}
    padded = raw(ether(VIPS) / comes) + bytes(9)
    assert left(expect("p1", padded)) == {(port, raw(ether(mac, VIPS) / leaves) + bytes(9))}


@pytest.mark.parametrize("port", ["p0", "p2", "vf0", "vf1"])
def test_answers_are_translated_and_leave_by_the_first_next_hop(port: str) -> None:
    comes = ether(GATEWAY, S1_MAC) / udp(S1, 53, MAPPED, 4000, tc=0x28, hlim=3, fl=0xABCDE)
    leaves = ether(HOP1, VIPS) / over("192.0.2.3", C4, tos=0x28, ttl=64, id=0) / udp(C4, 53, C4, 4000).payload
    assert left(expect(port, comes)) == {("p1", raw(leaves))}


@settings(max_examples=200, deadline=None)
@given(
    payload=st.binary(max_size=900),
    port=st.integers(0, 65535),
    over_udp=st.booleans(),
    client=st.integers(1, 2**32 - 1),
)
def test_translated_checksums_are_those_that_scapy_computes(
    payload: bytes, port: int, over_udp: bool, client: int
) -> None:
    kind = UDP if over_udp else TCP
    four = str(ip_address(client.to_bytes(4, "big")))
    six = str(ip_address(bytes.fromhex("0064ff9b") + bytes(8) + client.to_bytes(4, "big")))
    body = kind(sport=port, dport=53) / Raw(payload)
    expectation = expect("p0", ether(VIPS) / over(four, "192.0.2.3") / body)
    mac, server, out = {"s1": (S1_MAC, S1, "vf0"), "s2": (S2_MAC, S2, "p2")}[str(expectation.backend)]
    assert left(expectation) == {(out, raw(ether(mac, VIPS) / over(six, server) / body))}
    body = kind(sport=53, dport=port) / Raw(payload)
    leaves = ether(HOP1, VIPS) / over("192.0.2.3", four, id=0) / body
    assert left(expect("p0", ether(GATEWAY, mac) / over(server, six) / body)) == {("p1", raw(leaves))}


def without_sum(packet: Packet) -> Packet:
    packet[UDP].chksum = 0
    return packet


whole = IPv6ExtHdrFragment()  # of a packet that is whole
padding = {"options": [PadN(optdata=bytes(4))]}
DROPPED = {
    "no checksum": ("p0", ether(VIPS) / without_sum(udp(C4, 9, "192.0.2.3", 53))),
    "options": ("p0", ether(VIPS) / udp(C4, 9, "192.0.2.3", 53, options=[IPOption_Router_Alert()])),
    "fragment": ("p0", ether(VIPS) / udp(C4, 9, "192.0.2.3", 53, flags="MF")),
    "wrong header checksum": ("p0", ether(VIPS) / udp(C4, 9, "192.0.2.1", 53, chksum=1)),
    "whole, with a fragment header": ("p0", ether(VIPS) / over(C6, "2001:db8::1") / whole / UDP(sport=9, dport=53)),
    "UDP too long": ("p0", ether(VIPS) / over(C4, "192.0.2.4") / UDP(sport=9, dport=53, len=9)),
    "UDP too short": ("p0", ether(VIPS) / over(C4, "192.0.2.4") / UDP(sport=9, dport=53, len=7)),
    "TCP header too long": ("p0", ether(VIPS) / over(C6, "2001:db8::4") / TCP(sport=9, dport=53, dataofs=15)),
    "TCP header too short": ("p0", ether(VIPS) / over(C6, "2001:db8::4") / TCP(sport=9, dport=53, dataofs=4)),
    "TCP to spray": ("p0", ether(VIPS) / tcp(C4, 9, "192.0.2.6", 53)),
    "at a port": ("vf0", ether(VIPS) / udp(C4, 9, "192.0.2.4", 53)),
    "nobody left": ("p0", ether(VIPS) / udp(C4, 9, "192.0.2.9", 53)),
    "nobody left to translate to": ("p0", ether(VIPS) / udp(C4, 9, "192.0.2.10", 853)),
    "answer of nobody left": ("p0", ether(GATEWAY) / udp("2001:db8:a::41", 853, MAPPED, 9)),
    "answer of a backend that is down": ("p0", ether(GATEWAY) / udp("2001:db8:a::23", 53, MAPPED, 9)),
    "answer to another prefix": ("p0", ether(GATEWAY) / udp("2001:db8:a::41", 853, "64:ff9b:1::1", 9)),
    "answer without checksum": ("p0", ether(GATEWAY) / without_sum(udp(S1, 53, MAPPED, 9))),
    "answer with options": ("p0", ether(GATEWAY) / over(S1, MAPPED) / IPv6ExtHdrHopByHop(**padding) / UDP(sport=53)),
    "answer with others": ("p0", ether(GATEWAY) / over(S1, MAPPED) / IPv6ExtHdrDestOpt(**padding) / UDP(sport=53)),
    "whole answer with a fragment header": ("p0", ether(GATEWAY) / over(S1, MAPPED) / whole / UDP(sport=53, dport=9)),
    "fragment of an answer": (
        "p0",
        ether(GATEWAY) / over(S1, MAPPED) / IPv6ExtHdrFragment(m=1) / UDP(sport=53, dport=9),
    ),
    "later fragment": ("p0", ether(GATEWAY) / over(S1, MAPPED) / IPv6ExtHdrFragment(offset=9, nh=17) / Raw(bytes(40))),
    "answer to the VIPs' MAC": ("p0", ether(VIPS) / udp(S1, 53, MAPPED, 9)),
    "a tunnel to the switch": (
        "p0",
        ether(VIPS) / over("10.0.0.11", "10.0.9.4") / over(C4, "192.0.2.1") / UDP(dport=53),
    ),
    "from the extension for nobody": ("ext-out", ether(VIPS) / udp(C4, 9, "192.0.2.4", 53)),
    "ARP from the extension": ("ext-out", Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="192.0.2.4")),
}


@pytest.mark.parametrize("what", DROPPED)
def test_unsupported_packets_are_dropped(what: str) -> None:
    port, frame = DROPPED[what]
    assert left(expect(port, frame)) == set()


def test_answers_to_clients_over_ipv6_are_nats() -> None:
    comes = ether(GATEWAY, S1_MAC) / udp(S1, 53, C6, 4000)
    assert left(expect("p2", comes)) == {
        ("p2", raw(ether("02:00:00:00:02:fe", VIPS) / udp("2001:db8::3", 53, C6, 4000)))
    }
    other = ether(GATEWAY, S1_MAC) / tcp(S1, 853, MAPPED, 4000)  # a port that is not translated
    assert left(expect("p1", other)) == {("p1", raw(ether(HOP1, VIPS) / tcp("2001:db8::3", 853, MAPPED, 4000)))}


def test_answers_of_tunnels_ends_on_ports_pass() -> None:
    comes = ether(GATEWAY, "02:00:00:00:0b:03") / udp("192.0.2.1", 53, C4, 9)
    assert left(expect("vf1", comes)) == {("p2", raw(ether("02:00:00:00:02:fe", VIPS) / udp("192.0.2.1", 53, C4, 9)))}


def test_clients_reach_any_owner_and_always_the_same() -> None:
    query = ether(VIPS) / udp(C4, 9, "192.0.2.4", 53)
    expectation = expect("p0", query)
    n1, n2 = "02:00:00:00:0b:31", "02:00:00:00:0b:32"
    wanted = {("p1", raw(ether(n1, VIPS) / query.payload)), ("vf0", raw(ether(n2, VIPS) / query.payload))}
    assert left(expectation) == wanted
    assert (expectation.slot, expectation.backend) == (None, None)
    assert {(frame.port, name) for frame, name in expectation.backends} == {("p1", "n1"), ("vf0", "n2")}
    same = [udp(C4, 77, "192.0.2.4", 53), tcp(C4, 5, "192.0.2.4", 53)]
    other = [udp("198.18.0.8", 9, "192.0.2.4", 53), udp(C6, 9, "2001:db8::4", 53)]
    assert {expect("p1", ether(VIPS) / packet).hash_key for packet in same} == {expectation.hash_key}
    assert all(expect("p1", ether(VIPS) / packet).hash_key != expectation.hash_key for packet in other)


def test_ports_among_the_fields() -> None:
    keys = [
        expect("p0", ether(VIPS) / packet).hash_key
        for packet in (
            udp(C4, 9, "192.0.2.5", 53),
            udp(C4, 9, "192.0.2.5", 53, ttl=9),
            udp(C4, 10, "192.0.2.5", 53),
            tcp(C4, 9, "192.0.2.5", 53),
            udp(C4, 9, "192.0.2.5", 853),
        )
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_spray_reaches_any_owner_that_is_reached() -> None:
    assert {port for port, _ in left(expect("p0", ether(VIPS) / udp(C4, 9, "192.0.2.6", 53)))} == {"p1", "vf1"}
    assert {port for port, _ in left(expect("p0", ether(VIPS) / udp(C6, 9, "2001:db8::6", 53)))} == {"p1"}
    in_tunnels = expect("p0", ether(VIPS) / udp(C4, 9, "192.0.2.8", 5353))
    inner = udp(C4, 9, "192.0.2.8", 5353)
    ends = {("p1", "02:00:00:00:0b:31", "10.0.0.31"), ("vf1", "02:00:00:00:0b:33", "10.0.0.33")}
    assert left(in_tunnels) == {(port, raw(in_tunnel(mac, end, inner))) for port, mac, end in ends}
    assert in_tunnels.hash_key is None


def test_packets_from_the_extension_leave_by_their_exit() -> None:
    frame = raw(ether("02:00:00:00:0b:21", VIPS) / udp(MAPPED, 9, S1, 53))
    assert expect("ext-out", frame).options == frozenset((Frame("vf0", frame),))
    assert expect("ext-in", frame).options == frozenset((Frame("p1", frame),))


ONE_PLACE = """
apiVersion: dnsteer/v1
switch:
  {flavor: ovs-netdev, bridge: b, mac: 02:00:00:00:00:53, uplinks: {p0: },
   extension: {ingress: {port: i}, egress: {port: o}}}
pools: {some: {selection: client, backends: [{name: a, ipv4: 10.0.0.11, mac: 02:00:00:00:0b:01}]}}
vips: {v: {addresses: [192.0.2.1], services: [dns], pool: some}}
"""


def test_with_one_place_all_packets_leave_by_it() -> None:
    reference = Reference(check_document(parse_document("spec.yaml", ONE_PLACE)).spec)
    frame = raw(Ether(dst="02:00:00:00:0c:99") / Raw(bytes(50)))
    assert reference.expect("o", frame).options == frozenset((Frame("p0", frame),))
    assert not reference.expect("i", frame).options
    (option,) = reference.expect("p0", raw(ether(VIPS) / udp(C4, 9, "192.0.2.1", 53))).options
    assert option == Frame("p0", raw(ether("02:00:00:00:0b:01", VIPS) / udp(C4, 9, "192.0.2.1", 53)))
