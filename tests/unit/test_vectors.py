"""The vectors: they cover the spec, are well-formed, and no two expected frames are alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import dns.flags
import dns.message
import pytest
from scapy.compat import raw
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, ICMPv6ND_NS, IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.checks.load import check_document, load_spec
from dnsteer.proof.reference.modes.nat import SMALLEST_FRAGMENT
from dnsteer.proof.reference.modes.siit import NAT64_PREFIX
from dnsteer.proof.reference.packets import Expectation, Reference
from dnsteer.proof.reference.wire import ARP, IPV6, Fragment, MalformedError, parse
from dnsteer.proof.traffic.vectors import Vector, vectors
from dnsteer.spec.document import parse_document
from dnsteer.spec.model.spec import Spec
from tests.unit.extension_cases import SPEC as EXTENSION
from tests.unit.reference_cases import SPEC

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
WRITTEN = {"everything": SPEC, "extension": EXTENSION}
NAMES = [*(example.stem for example in EXAMPLES), *WRITTEN]
KINDS = {"query", "answer", "fragment", "neighbor", "echo", "unusual", "drop"}
CLIENTS = ip_network("198.18.0.0/15"), ip_network("2001:2::/48")

Checked = list[tuple[Vector, Expectation]]


@cache
def spec_of(name: str) -> Spec:
    if name in WRITTEN:
        return check_document(parse_document("spec.yaml", WRITTEN[name])).spec
    (example,) = (example for example in EXAMPLES if example.stem == name)
    return load_spec(example).spec


@cache
def checked(name: str, per_service: int | None = None) -> Checked:
    reference = Reference(spec_of(name))
    made = vectors(spec_of(name), reference, per_service=per_service)
    return [(vector, reference.expect(vector.port, vector.data)) for vector in made]


@pytest.fixture(scope="module", autouse=True)
def drop_vectors() -> Iterator[None]:
    """Drop the vectors after these tests: they take 100 MB, which each process that is forked later would copy."""
    yield
    checked.cache_clear()


def of_kind(name: str, *kinds: str) -> Checked:
    return [item for item in checked(name) if item[0].kind in kinds]


def first_queries(name: str) -> Checked:
    """Queries for each slot, without those that show how a slot is chosen."""
    return [
        (v, e)
        for v, e in of_kind(name, "query")
        if not v.name.startswith("same hash fields as ") and " that differ in " not in v.name
    ]


def as_served(data: bytes) -> bytes:
    """What a frame brings to a server: that of a tunnel an inner packet, behind the same Ethernet addresses."""
    packet = parse(data)
    if packet.protocol not in (4, 41):
        return data
    return data[:12] + (b"\x08\0" if packet.protocol == 4 else b"\x86\xdd") + data[packet.l4 :]


def client_of(address: bytes) -> bytes:
    """A client as it is known where it asks."""
    return address[len(NAT64_PREFIX) :] if address.startswith(NAT64_PREFIX) else address


every_spec = pytest.mark.parametrize("name", NAMES)


@every_spec
def test_no_two_expected_frames_are_alike(name: str) -> None:
    count = Counter(frame for _, expectation in checked(name) for frame in expectation.options)
    assert [frame for frame, times in count.items() if times > 1] == []


@every_spec
def test_names_and_frames_sent_are_unique(name: str) -> None:
    for values in ([v.name for v, _ in checked(name)], [(v.port, v.data) for v, _ in checked(name)]):
        assert [value for value, times in Counter(values).items() if times > 1] == []


@every_spec
def test_only_what_must_be_dropped_has_nothing_to_leave(name: str) -> None:
    wrong = [(v.name, e.why) for v, e in checked(name) if (v.kind == "drop") == bool(e.options)]
    assert wrong == []
    assert {v.kind for v, _ in checked(name)} <= KINDS


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("quickstart", KINDS - {"answer", "fragment"}),
        ("one-armed-nat", KINDS),
        ("two-uplinks", KINDS),
        ("own-ports", KINDS),
        ("ipip", KINDS - {"answer", "fragment"}),
        ("spray", KINDS - {"answer", "fragment"}),
        ("siit", KINDS),
        ("everything", KINDS),
        ("extension", KINDS),
    ],
)
def test_kinds(name: str, kinds: set[str]) -> None:
    assert {v.kind for v, _ in checked(name)} == kinds


@every_spec
def test_every_slot_of_every_service_is_asked(name: str) -> None:
    reference = Reference(spec_of(name))
    asked: dict[tuple[bytes, int, int], list[int | None]] = defaultdict(list)
    for vector, expectation in first_queries(name):
        packet = parse(vector.data)
        asked[packet.destination, packet.protocol, packet.dport].append(expectation.slot)
    assert set(asked) == set(reference.services)
    for key, service in reference.services.items():
        count = len(service.slots)
        tries = 1 if service.by_extension else 4
        assert asked[key] == ([None] * tries * count if not service.selection.predicts_slot else list(range(count)))


@every_spec
def test_queries_come_in_by_every_uplink(name: str) -> None:
    uplinks: dict[tuple[bytes, int, int], Counter[str]] = defaultdict(Counter)
    for vector, _ in first_queries(name):
        packet = parse(vector.data)
        uplinks[packet.destination, packet.protocol, packet.dport][vector.port] += 1
    number = len(spec_of(name).switch.uplinks)
    assert number == len({port for count in uplinks.values() for port in count})
    for count in uplinks.values():
        assert len(count) == min(number, sum(count.values()))
        assert max(count.values()) - min(count.values()) <= 1


@every_spec
def test_both_values_of_the_lowest_port_bit_are_asked(name: str) -> None:
    odd = [parse(v.data).sport & 1 for v, _ in of_kind(name, "query")]
    assert 0.3 < sum(odd) / len(odd) < 0.7


@every_spec
def test_clients_are_of_the_benchmark_networks_and_differ(name: str) -> None:
    clients = [ip_address(parse(v.data).source) for v, _ in first_queries(name)]
    assert len(set(clients)) == len(clients)
    assert all(client in CLIENTS[client.version == 6] for client in clients)


@every_spec
def test_payloads_are_dns(name: str) -> None:
    names = []
    for vector, _ in of_kind(name, "query", "answer"):
        packet = parse(vector.data)
        message = dns.message.from_wire(packet.payload[2 if packet.protocol == 6 else 0 :])
        assert bool(message.flags & dns.flags.QR) == bool(message.answer) == (vector.kind == "answer")
        names.append((message.question[0].name, vector.kind))
    assert len(set(names)) == len(names)


def answered(name: str) -> tuple[set[bytes], set[bytes]]:
    """Clients that ask, and clients that backends answer."""
    asking = {parse(v.data).source for v, _ in of_kind(name, "query")}
    told = {parse(v.data).destination for v, _ in of_kind(name, "answer")}
    return asking, told


def test_every_query_by_nat_is_answered() -> None:
    for name in ("one-armed-nat", "two-uplinks", "own-ports"):
        asking, told = answered(name)
        assert asking <= told


def test_no_answer_of_direct_server_return_behind_an_uplink() -> None:
    assert answered("quickstart")[1] == set()
    vips = {address.packed for address in spec_of("quickstart").vips["dns"].addresses}
    sent = [parse(vector.data) for vector, _ in checked("quickstart")]
    assert not vips & {packet.source for packet in sent}


@pytest.mark.parametrize("name", NAMES)
def test_answers_come_from_where_the_query_went(name: str) -> None:
    sent = {(parse(v.data).source, parse(v.data).sport): e for v, e in of_kind(name, "query")}
    for vector, expectation in of_kind(name, "answer"):
        packet = parse(vector.data)
        asked = sent.get((client_of(packet.destination), packet.dport))
        if asked is None:
            assert "without checksum" in vector.name
            continue
        delivered = [parse(as_served(frame.data)) for frame in asked.options if frame.port == vector.port]
        assert (packet.source, packet.sport) in [(each.destination, each.dport) for each in delivered]
        assert vector.data[6:12] in [each.data[:6] for each in delivered]
        (leaves,) = expectation.options
        assert parse(leaves.data).destination == client_of(packet.destination)


@every_spec
def test_source_of_an_answer_is_the_address_asked(name: str) -> None:
    asked = {(p.source, p.sport): (p.destination, p.dport) for p in (parse(v.data) for v, _ in of_kind(name, "query"))}
    seen = 0
    for _, expectation in of_kind(name, "answer"):
        (leaves,) = expectation.options
        packet = parse(leaves.data)
        if (packet.destination, packet.dport) in asked:
            seen += 1
            assert (packet.source, packet.sport) == asked[packet.destination, packet.dport]
    assert seen or not spec_of(name).switch.gateways  # then all servers answer past the switch


def ip_of(data: bytes) -> Packet:
    packet = Ether(data)
    while not isinstance(packet, (IP, IPv6)):
        packet = packet.payload
    return packet


def checksums_right(data: bytes) -> bool:
    """Whether scapy computes the same checksums as the packet has."""
    packet = ip_of(data[: parse(data).end])  # over IPv6 scapy takes the padding for payload
    before = raw(packet)
    if isinstance(packet, IP):
        del packet.chksum
    for kind, field in ((UDP, "chksum"), (TCP, "chksum"), (ICMP, "chksum"), (ICMPv6EchoRequest, "cksum")):
        if kind in packet and (kind is not UDP or packet[kind].chksum):
            delattr(packet[kind], field)
            packet[kind].payload = Raw(raw(packet[kind].payload))
    return raw(packet) == before


@every_spec
def test_checksums_are_right_coming_and_going(name: str) -> None:
    for vector, expectation in of_kind(name, "query", "answer", "unusual", "echo"):
        leaving = [as_served(frame.data) for frame in expectation.options]
        packet = parse(vector.data)
        if packet.fragment_header or (packet.ethertype == IPV6 and packet.l4 > packet.l3 + 40):
            # One with a right checksum is always as good as one that Open vSwitch may leave wrong.
            assert not leaving or packet.fragment is not Fragment.NONE or any(map(checksums_right, leaving)), (
                vector.name
            )
            leaving = []
        for data in (vector.data, *leaving):
            if parse(data).ethertype != ARP and ICMPv6ND_NS not in ip_of(data):
                assert checksums_right(data), vector.name


def fragments(name: str) -> dict[tuple[int, bytes, bytes], Checked]:
    """Fragment vectors by datagram."""
    found: dict[tuple[int, bytes, bytes], Checked] = defaultdict(list)
    for vector, expectation in checked(name):
        try:
            packet = parse(vector.data)
        except MalformedError:
            continue
        if packet.fragment is not Fragment.NONE and "reserved bit" not in vector.name:
            layer = ip_of(vector.data)
            ident = layer[IPv6ExtHdrFragment].id if IPv6ExtHdrFragment in layer else layer.id
            found[ident, packet.source, packet.destination].append((vector, expectation))
    return found


@every_spec
def test_ipv4_fragments_come_in_complete_sets(name: str) -> None:
    for sets in fragments(name).values():
        pieces = [ip_of(vector.data) for vector, _ in sets]
        if isinstance(pieces[0], IPv6):
            continue
        assert len({vector.port for vector, _ in sets}) == 1
        pieces.sort(key=lambda piece: int(piece.frag))
        ends = [0, *(int(piece.frag) * 8 + piece.len - 20 for piece in pieces)]
        assert [int(piece.frag) * 8 for piece in pieces] == ends[:-1]
        assert all(piece.len <= 1500 for piece in pieces)
        more = [bool(piece.flags.MF) for piece in pieces]
        if all(more):  # the last one would wait for those that are too short, which are lost
            assert max(piece.len for piece in pieces) < SMALLEST_FRAGMENT
            assert not any(expectation.options for _, expectation in sets)
        else:
            assert more == [True] * (len(pieces) - 1) + [False]


def test_translated_ipv4_fragments_are_of_sizes_around_those_that_open_vswitch_takes() -> None:
    """1,200 bytes is its least by default, and 400 the least that it can be told."""
    passing, lost = set[int](), set[int]()
    for sets in fragments("one-armed-nat").values():
        for vector, expectation in sets:
            piece = ip_of(vector.data)
            if isinstance(piece, IP) and piece.flags.MF and piece.dst.startswith("198.18."):
                (passing if expectation.options else lost).add(piece.len)
    assert {404, 572, 1196, 1204, 1500} <= passing
    assert min(passing) >= SMALLEST_FRAGMENT
    assert {84, 396} <= lost


@every_spec
def test_translated_fragments_make_up_a_datagram_with_a_right_checksum(name: str) -> None:
    seen = 0
    for sets in fragments(name).values():
        frames = [frame.data for _, expectation in sets for frame in expectation.options]
        if len(frames) != len(sets) or not any(parse(frame).fragment is Fragment.FIRST for frame in frames):
            continue
        parts = sorted((place(frame), parse(frame)) for frame in frames)
        first = parts[0][1]
        body = b"".join(packet.data[packet.l4 : packet.end] for _, packet in parts)
        six = first.ethertype == IPV6
        header = (IPv6 if six else IP)(src=str(ip_address(first.source)), dst=str(ip_address(first.destination)))
        again = header / UDP(sport=first.sport, dport=first.dport) / Raw(body[8:])
        assert raw(again)[40 if six else 20 :] == body
        seen += 1
    assert seen or not spec_of(name).switch.gateways  # then all servers answer past the switch


def place(data: bytes) -> int:
    layer = ip_of(data)
    return int(layer[IPv6ExtHdrFragment].offset if IPv6ExtHdrFragment in layer else layer.frag)


@pytest.mark.parametrize("name", ["one-armed-nat", "two-uplinks", "own-ports"])
def test_every_backend_sends_fragments_and_answers_without_checksum(name: str) -> None:
    spec = spec_of(name)
    nat = [vip for vip in spec.vips.values() if vip.forwarding.value == "nat"]
    wanted = {b.ipv4.packed for vip in nat for b in spec.pools[vip.pool].backends if b.ipv4}
    wanted6 = {b.ipv6.packed for vip in nat for b in spec.pools[vip.pool].backends if b.ipv6}
    assert wanted | wanted6 <= {parse(v.data).source for v, _ in of_kind(name, "fragment")}
    bare = [p for p in (parse(v.data) for v, _ in of_kind(name, "answer")) if p.data[p.l4 + 6 : p.l4 + 8] == b"\0\0"]
    assert {packet.source for packet in bare if packet.protocol == 17} == wanted


@every_spec
def test_neighbours_are_asked_for_every_address_everywhere(name: str) -> None:
    spec = spec_of(name)
    asked = Counter((v.name.split(" for ")[-1].split(" of ")[-1]) for v, _ in of_kind(name, "neighbor"))
    vips = [(address, port) for vip in spec.vips.values() for address in vip.addresses for port in spec.switch.uplinks]
    gateways = [(a, port) for a in spec.switch.gateways for port in [*spec.switch.uplinks, *spec.switch.ports]]
    assert asked == {f"{a} at {port}": 1 if a.version == 4 else 4 for a, port in [*vips, *gateways]}


DROPS = [
    "query to another MAC",
    "query to the gateways' MAC",
    "query to another port",
    "query in protocol 132",
    "query to an address that is no VIP",
    "query in fragments, 1",
    "solicitation of hop limit 254",
    "ARP reply",
    "ARP request for an unknown address",
    "ethertype 0x88b5",
    "at another MAC",
    "echo reply",
]
OWN_PORT_DROPS = [
    "at backend port vf0",
    "answer from a wrong port",
    "answer to the VIPs' MAC",
    "answer from an unknown address",
    "echo request to gateway",
    "ICMP error",
    "TCP fragment 1",
]


@every_spec
def test_what_must_be_dropped_is_sent(name: str) -> None:
    names = [v.name for v, _ in of_kind(name, "drop")]
    wanted = DROPS + (OWN_PORT_DROPS if name in ("own-ports", "everything") else [])
    assert [words for words in wanted if not any(words in given for given in names)] == []


@every_spec
def test_checksums_that_come_to_zero_are_met(name: str) -> None:
    found = [e for v, e in checked(name) if "comes to zero" in v.name]
    assert found
    for expectation in found:
        leaving = [parse(as_served(frame.data)) for frame in expectation.options]
        sums = [(packet.data[packet.l4 + 6], packet.data[packet.l4 + 7]) for packet in leaving]
        assert (255, 255) in sums


@every_spec
def test_the_same_spec_gives_the_same_vectors(name: str) -> None:
    assert list(vectors(spec_of(name), Reference(spec_of(name)))) == [vector for vector, _ in checked(name)]


@every_spec
def test_a_sample_takes_slots_evenly(name: str) -> None:
    slots: dict[str, list[int]] = defaultdict(list)
    for vector, expectation in checked(name, 2):
        if vector.kind == "query" and expectation.slot is not None:
            slots[vector.name.split(" slot ")[0]].append(expectation.slot)
    count = {s.label: len(s.slots) for s in Reference(spec_of(name)).services.values() if s.selection.predicts_slot}
    assert slots == {label: [0, number // 2] for label, number in count.items()}
    assert len(checked(name, 2)) < len(checked(name))
