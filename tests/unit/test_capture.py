# SPDX-License-Identifier: Apache-2.0
"""Whose packet a frame is, in every forwarding mode; the kernel's filter; pcap files and lines."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6PacketTooBig,
    IPv6,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import rdpcap

from dnsteer.capture.readers import MAX_ADDRESSES, CapturedFrame, attach_filter, filter_program
from dnsteer.capture.selection import PacketSelection, select_packets
from dnsteer.capture.sinks import PcapFile, line
from dnsteer.checks.load import check_document, load_spec
from dnsteer.proof.reference.packets import Reference
from dnsteer.spec.read import parse_document
from dnsteer.switch.captures import Capture, mirror_port
from dnsteer.switch.tools import SwitchError
from tests.packet.command import FARM
from tests.packet.switches import EXAMPLES, LARGE, spec_of

CLIENT, CLIENT6 = "198.51.100.7", "2001:db8:99::7"
ROUTER, SWITCH, NS1, NS2 = (f"02:00:00:00:{n}" for n in ("00:fe", "00:53", "01:01", "01:02"))


def ends(source: str, destination: str, **more: int) -> Packet:
    kind = IPv6 if ":" in source else IP
    return kind(src=source, dst=destination, **more)


def udp(source: str, destination: str, sport: int = 4000, dport: int = 53) -> Packet:
    return ends(source, destination) / UDP(sport=sport, dport=dport) / Raw(b"x" * 20)


def takes(selection: PacketSelection, packet: Packet, src: str = ROUTER, dst: str = SWITCH) -> bool:
    return selection.matches(bytes(Ether(src=src, dst=dst) / packet))


VIP = select_packets(spec_of(FARM).spec, "dns")


@pytest.mark.parametrize(
    ("packet", "own"),
    [
        (udp(CLIENT, "192.0.2.53"), True),
        (udp(CLIENT6, "2001:db8::53"), True),
        (udp("192.0.2.53", CLIENT, 53, 4000), True),
        (udp("2001:db8::53", CLIENT6, 53, 4000), True),
        (ends(CLIENT, "192.0.2.53") / TCP(sport=4000, dport=53), True),
        (Dot1Q(vlan=7) / udp(CLIENT, "192.0.2.53"), True),
        (Dot1Q(vlan=7, type=0x8100) / Dot1Q(vlan=8) / udp(CLIENT, "192.0.2.53"), True),
        (udp(CLIENT, "192.0.2.54"), False),
        (udp(CLIENT, "192.0.2.53", dport=853), False),
        (udp(CLIENT, "192.0.2.53", 53, 4000), False),
        (ends(CLIENT, "192.0.2.53") / TCP(dport=853), False),
        (ends(CLIENT, "192.0.2.53") / ICMP(), False),
        (ends(CLIENT6, "2001:db8::53") / ICMPv6EchoRequest(), False),
        (ARP(pdst="192.0.2.53"), False),
        (Raw(b"\0" * 40), False),
        (IP(src=CLIENT, dst="192.0.2.53", proto=17, frag=185) / Raw(b"y" * 30), True),
        (IP(src=CLIENT, dst="192.0.2.54", proto=17, frag=185) / Raw(b"y" * 30), False),
        (IP(src=CLIENT, dst="192.0.2.53", proto=132, frag=185) / Raw(b"y" * 30), False),
        (ends(CLIENT6, "2001:db8::53") / IPv6ExtHdrHopByHop() / UDP(sport=1, dport=53), True),
        (ends(CLIENT6, "2001:db8::53") / IPv6ExtHdrFragment(nh=17, offset=0, m=1) / UDP(sport=1, dport=53), True),
        (ends(CLIENT6, "2001:db8::53") / IPv6ExtHdrFragment(nh=17, offset=0, m=1) / UDP(sport=1, dport=54), False),
        (ends(CLIENT6, "2001:db8::53") / IPv6ExtHdrFragment(nh=17, offset=9) / Raw(b"y" * 8), True),
        (ends("203.0.113.1", "192.0.2.53") / ICMP(type=3, code=4) / udp("192.0.2.53", CLIENT, 53, 4000), True),
        (ends("203.0.113.1", "192.0.2.53") / ICMP(type=11) / udp("192.0.2.53", CLIENT, 853, 4000), False),
        (ends(CLIENT6, "2001:db8::53") / ICMPv6PacketTooBig() / udp("2001:db8::53", CLIENT6, 53, 4000), True),
        (ends("203.0.113.1", "192.0.2.53") / ICMP(type=8) / udp("192.0.2.53", CLIENT, 53, 4000), False),
    ],
)
def test_a_packet_is_assigned_to_its_vip(packet: Packet, own: bool) -> None:
    assert takes(VIP, packet) is own
    assert VIP.addresses == {ip_address(a).packed for a in ("192.0.2.53", "2001:db8::53")}


def test_truncated_frames_belong_to_no_vip() -> None:
    frame = bytes(Ether(src=ROUTER, dst=SWITCH) / udp(CLIENT6, "2001:db8::53"))
    assert not any(VIP.matches(frame[:n]) for n in range(14 + 40))
    quoting = bytes(Ether() / ends("203.0.113.1", "192.0.2.53") / ICMP(type=3) / udp("192.0.2.53", CLIENT, 53, 4000))
    assert [VIP.matches(quoting[:n]) for n in (14 + 28, 14 + 28 + 19, 14 + 28 + 24)] == [False, False, True]


def test_a_dsr_backend_is_told_by_its_mac() -> None:
    one = select_packets(spec_of(FARM).spec, "farm/ns1")
    query, answer = udp(CLIENT, "192.0.2.53"), udp("192.0.2.53", CLIENT, 53, 4000)
    assert takes(one, query, SWITCH, NS1) and takes(one, answer, NS1, SWITCH)
    assert not any((takes(one, query), takes(one, query, SWITCH, NS2), takes(one, answer, NS2, SWITCH)))
    assert not takes(one, udp(CLIENT, "192.0.2.54"), SWITCH, NS1)  # a VIP of another pool
    assert one.ports == ("p0", "p1")


def test_nat_is_seen_before_and_after() -> None:
    spec = spec_of(LARGE).spec
    vip, backend = select_packets(spec, "nat"), select_packets(spec, "hashed/a")
    before, after = udp(CLIENT, "198.51.100.53"), udp(CLIENT, "10.53.0.11", dport=5353)
    answer = udp("2001:db8:53::12", CLIENT6, 5353, 4000)
    assert takes(vip, before) and takes(vip, after) and takes(vip, answer)
    assert takes(backend, after) and not takes(backend, before) and not takes(backend, answer)
    assert not takes(vip, udp(CLIENT, "10.53.0.11", dport=53))
    assert (vip.ports, backend.ports) == (("p0", "vf0", "vf1"), ("vf0",))
    assert not takes(select_packets(spec, "straight"), after)


def test_tunneled_packets_are_matched_by_their_inner_header() -> None:
    spec = load_spec(EXAMPLES / "ipip.yaml").spec
    vip, one, three = (select_packets(spec, name) for name in ("dns", "authoritative/ns1", "authoritative/ns3"))
    inner = udp(CLIENT, "198.51.100.53")
    to_one, to_three = ends("192.0.2.2", "192.0.2.11") / inner, ends("2001:db8::2", "2001:db8::13") / inner
    other = ends("192.0.2.2", "192.0.2.11") / udp(CLIENT, "198.51.100.99")
    assert [takes(s, p) for s in (vip, one, three) for p in (inner, to_one, to_three, other)] == [
        *(True, True, True, False),
        *(False, True, False, False),
        *(False, False, True, False),
    ]
    assert vip.extended and one.extended and not VIP.extended
    assert {ip_address(a).packed for a in ("198.51.100.53", "192.0.2.11", "192.0.2.12", "2001:db8::13")} < vip.addresses


@pytest.mark.parametrize("size", [14 + 28 + 20 + n for n in (0, 8, 20, 28, 60)])
def test_errors_about_tunnels_and_fragments_of_them_are_taken(size: int) -> None:
    spec = load_spec(EXAMPLES / "ipip.yaml").spec
    vip, one, two = (select_packets(spec, name) for name in ("dns", "authoritative/ns1", "authoritative/ns2"))
    error = ends("192.0.2.1", "192.0.2.2") / ICMP(type=3, code=4)
    about = ends("192.0.2.2", "192.0.2.11", proto=4) / udp(CLIENT, "198.51.100.53")
    frame = bytes(Ether() / error / about)[:size]
    assert (vip.matches(frame), one.matches(frame), two.matches(frame)) == (True, True, False)
    later = bytes(Ether() / ends("192.0.2.2", "192.0.2.11", proto=4, frag=185) / Raw(b"x" * 40))
    assert (vip.matches(later), one.matches(later), two.matches(later)) == (True, True, False)
    elsewhere = bytes(Ether() / error / ends("192.0.2.2", "192.0.2.99", proto=4) / udp(CLIENT, "198.51.100.99"))[:size]
    assert not vip.matches(elsewhere) and not one.matches(elsewhere)


@pytest.mark.parametrize("kind", ["vxlan", "geneve", "gre"])
def test_frames_in_tunnels_are_matched_by_the_packet_inside(kind: str) -> None:
    text = (EXAMPLES / "vxlan.yaml").read_text(encoding="utf-8").replace("forwarding: vxlan", f"forwarding: {kind}")
    spec = check_document(parse_document("spec.yaml", text)).spec
    ether = Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
    query = bytes(ether / IP(src="198.51.100.7", dst="192.0.2.53") / UDP(sport=20000, dport=53) / bytes(12))
    expected = Reference(spec).expect("p0", query)
    (left,) = expected.options
    taken = {name: select_packets(spec, f"authoritative/{name}").matches(left.data) for name in ("ns1", "ns2", "ns3")}
    assert taken == {name: name == expected.backend for name in taken}
    assert select_packets(spec, "dns").matches(left.data)


def test_translated_packets_are_told_by_their_prefix() -> None:
    spec = load_spec(EXAMPLES / "siit.yaml").spec
    four, six = select_packets(spec, "dns4"), select_packets(spec, "dns6")
    translated = udp("64:ff9b::c633:6407", "2001:db8:53::11")
    assert [
        takes(s, translated) for s in (four, select_packets(spec, "v6only/s1"), select_packets(spec, "v6only/s2"))
    ] == [
        True,
        True,
        False,
    ]
    assert takes(six, udp(CLIENT6, "2001:db8:53::11")) and not takes(four, udp(CLIENT6, "2001:db8:53::11"))


SPARE = """  spare:
    backends:
      - {name: z, ipv4: 10.53.0.99, mac: '02:00:00:00:03:99', port: vf1}
      - {name: y, ipv6: '2001:db8:53::98', mac: '02:00:00:00:03:98', port: vf1}
vips:
"""


def test_backups_are_selected_with_their_pool() -> None:
    health = "    backup: spare\n    health: {check: dns, query: {name: example.com}}\n"
    text = LARGE.replace("    slots: 32\n", f"    slots: 32\n{health}").replace("vips:\n", SPARE)
    spec = check_document(parse_document("spec.yaml", text)).spec
    assert select_packets(spec, "straight").ports == ("p0", "vf0", "vf2", "vf1")
    assert takes(select_packets(spec, "spare/z"), udp(CLIENT, "198.51.100.54"), SWITCH, "02:00:00:00:03:99")


@pytest.mark.parametrize("name", ["", "/", "dns/", "/ns1", "farm", "farm/ns1/x", "dns "])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(SwitchError, match="found"):
        select_packets(spec_of(FARM).spec, name)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, two:
        two.setblocking(False)
        yield one, two


def passes(pair: tuple[socket.socket, socket.socket], packet: Packet) -> bool:
    """Whether the kernel's filter lets a frame through."""
    frame = bytes(Ether(src=ROUTER, dst=SWITCH) / packet)
    pair[0].send(frame)
    try:
        return pair[1].recv(1 << 17) == frame
    except BlockingIOError:
        return False


@pytest.mark.parametrize("number", [1, 10, MAX_ADDRESSES, MAX_ADDRESSES + 1])
def test_the_kernel_runs_the_filter(number: int, pair: tuple[socket.socket, socket.socket]) -> None:
    four = [str(ip_address("192.0.2.0") + n) for n in range(number)]
    six = [str(ip_address("2001:db8:5:3::") + (n << 40)) for n in range(number)]
    attach_filter(pair[1], filter_program({ip_address(a).packed for a in (*four, *six)}))
    for address in (four[0], four[-1], six[0], six[-1]):
        other = CLIENT6 if ":" in address else CLIENT
        assert passes(pair, udp(other, address)) and passes(pair, udp(address, other))
    many = number > MAX_ADDRESSES
    assert passes(pair, udp(CLIENT, "203.0.113.9")) is many
    assert passes(pair, udp(CLIENT6, str(ip_address(six[0]) + 1))) is many
    assert passes(pair, ends(CLIENT, "203.0.113.9") / ICMP(type=3))
    assert passes(pair, ends(CLIENT6, "2001:db8::9") / ICMPv6PacketTooBig())
    assert not passes(pair, ARP(pdst=four[0]))


def test_the_filter_lets_nothing_of_a_family_through_that_is_not_asked_for(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    attach_filter(pair[1], filter_program({ip_address("192.0.2.53").packed}))
    assert passes(pair, udp(CLIENT, "192.0.2.53")) and not passes(pair, udp(CLIENT6, "2001:db8::53"))


def captured(packet: Packet, time: int = 1_800_000_000_123_456_789, length: int = 0) -> CapturedFrame:
    data = bytes(Ether(src=ROUTER, dst=SWITCH) / packet)
    return CapturedFrame(time, "in", data, length or len(data))


def test_a_file_is_read_by_others(tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(b"old" * 1000)
    packets = [captured(udp(CLIENT, "192.0.2.53")), captured(udp(CLIENT6, "2001:db8::53"), length=9000)]
    with PcapFile(file) as sink:
        sink.open()
        assert file.read_bytes() == b"old" * 1000
        sink.begin()
        for packet in packets:
            sink.put(packet)
    found = list(rdpcap(str(file)))
    assert [bytes(p) for p in found] == [p.data for p in packets]
    assert [str(p.time) for p in found] == ["1800000000.123456"] * 2
    assert found[1].wirelen == 9000


def test_the_file_of_a_failed_start_is_removed(tmp_path: Path) -> None:
    with PcapFile(tmp_path / "x.pcap") as sink:
        sink.open()
    assert list(tmp_path.iterdir()) == []


def dns(**more: object) -> Packet:
    return DNS(id=7, qd=DNSQR(qname="a.example", qtype="AAAA"), **more)


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (
            ends(CLIENT, "192.0.2.53") / UDP(sport=4000, dport=53) / dns(),
            "198.51.100.7:4000 > 192.0.2.53:53 udp, query 7 a.example. AAAA, ",
        ),
        (
            ends("2001:db8::53", CLIENT6) / UDP(sport=53, dport=4000) / dns(qr=1, rcode=3, tc=1),
            "[2001:db8::53]:53 > [2001:db8:99::7]:4000 udp, answer 7 a.example. AAAA NXDOMAIN (0 records, truncated), ",
        ),
        (
            ends("192.0.2.53", CLIENT) / UDP(sport=53) / dns(qr=1, an=DNSRR(rrname="a.example", rdata="192.0.2.1")),
            "answer 7 a.example. AAAA NOERROR (1 records), ",
        ),
        (ends(CLIENT, "192.0.2.53") / TCP(sport=4000, dport=53, flags="S"), "192.0.2.53:53 tcp S, "),
        (
            ends(CLIENT, "192.0.2.53") / TCP(sport=4000, dport=53, flags="PA") / Raw(bytes([0, 27]) + bytes(dns())),
            "tcp PA, query 7 a.example. AAAA, ",
        ),
        (
            ends(CLIENT, "192.0.2.53") / TCP(dport=853, flags="PA") / Raw(b"\x16\3\1" + b"\0" * 40),
            "192.0.2.53:853 tcp PA, ",
        ),
        (ends(CLIENT, "192.0.2.53") / UDP(dport=53) / Raw(b"\xff" * 40), "192.0.2.53:53 udp"),
        (ends(CLIENT, "192.0.2.53") / UDP(dport=53) / DNS(qd=DNSQR(qname=b"\x1b[2J.example")), "\\x1b[2J.example."),
        (
            IP(src=CLIENT, dst="192.0.2.53", proto=17, frag=9) / Raw(b"y" * 30),
            "198.51.100.7 > 192.0.2.53 later fragment, ",
        ),
        (
            ends("203.0.113.1", "192.0.2.53") / ICMP(type=3) / udp("192.0.2.53", CLIENT, 53, 4000),
            "203.0.113.1 > 192.0.2.53 ICMP error about 192.0.2.53:53 > 198.51.100.7:4000 udp",
        ),
        (
            ends("192.0.2.2", "192.0.2.11") / udp(CLIENT, "198.51.100.53"),
            "192.0.2.2 > 192.0.2.11 tunnel with 198.51.100.7:4000 > 198.51.100.53:53 udp",
        ),
    ],
)
def test_a_packet_is_summarised_in_one_line(packet: Packet, said: str) -> None:
    found = line(captured(packet))
    assert found.startswith("08:00:00.123456 in  02:00:00:00:00:fe > 02:00:00:00:00:53 ")
    assert said in found
    assert found.isprintable()


def test_names_of_ports_differ_and_fit() -> None:
    bridges = ["br-dns", "br-dns2", "a", "b" * 15]
    names = {mirror_port(bridge, direction) for bridge in bridges for direction in ("in", "out")}
    assert len(names) == 8 and all(len(name) <= 15 for name in names)


def test_a_capture_states_its_end_time() -> None:
    note = Capture("VIP dns", "ann@a", 7, "2026-11-23T22:00:00+01:00")
    assert note.text == "capture of VIP dns by ann@a (process 7) until 2026-11-23 21:00:00 UTC"
    assert Capture("x", "y", 1, "").overdue
    assert "an unknown time" in Capture("x", "y", 1, "junk").text
