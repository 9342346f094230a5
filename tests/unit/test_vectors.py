# SPDX-License-Identifier: Apache-2.0
"""The vectors: they cover the spec, are well-formed, and no two expected frames are alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from ipaddress import ip_address

import dns.flags
import dns.message
import pytest
import scapy.route6  # noqa: F401  # makes conf.route6
from scapy.config import conf

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import SlotSelection
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic.vectors import vectors
from tests.unit.vector_cases import (
    CLIENTS,
    KINDS,
    NAMES,
    as_served,
    checked,
    client_of,
    every_spec,
    first_queries,
    of_kind,
    spec_of,
)


@every_spec
def test_expected_frames_are_unique(name: str) -> None:
    count = Counter(frame for _, expectation in checked(name) for frame in expectation.options)
    assert [frame for frame, times in count.items() if times > 1] == []


@every_spec
def test_names_and_frames_sent_are_unique(name: str) -> None:
    for values in ([v.name for v, _ in checked(name)], [(v.port, v.data) for v, _ in checked(name)]):
        assert [value for value, times in Counter(values).items() if times > 1] == []


@every_spec
def test_only_drop_vectors_expect_no_frame(name: str) -> None:
    wrong = [(v.name, e.why) for v, e in checked(name) if (v.kind == "drop") == bool(e.options)]
    assert wrong == []
    assert {v.kind for v, _ in checked(name)} <= KINDS | {"probe", "own"}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("quickstart", KINDS - {"answer", "fragment"}),
        ("one-armed-nat", KINDS - {"error"}),
        ("two-uplinks", KINDS - {"error"}),
        ("own-ports", KINDS),
        ("ipip", KINDS - {"answer", "error", "fragment"}),
        ("spray", KINDS - {"answer", "fragment"}),
        ("siit", KINDS - {"error"}),
        ("everything", KINDS),
        ("extension", KINDS),
        ("authoritative", KINDS | {"probe"}),
        ("resolvers-nat", KINDS - {"error"} | {"own"}),
        ("resolvers", KINDS - {"answer", "fragment"} | {"probe"}),
    ],
)
def test_examples_have_their_kinds_of_vectors(name: str, kinds: set[str]) -> None:
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
def test_source_ports_have_both_lowest_bits(name: str) -> None:
    odd = [parse(v.data).sport & 1 for v, _ in of_kind(name, "query")]
    assert 0.3 < sum(odd) / len(odd) < 0.7


@every_spec
def test_clients_are_of_the_benchmark_networks_and_differ(name: str) -> None:
    clients = [ip_address(parse(v.data).source) for v, _ in first_queries(name)]
    assert len(set(clients)) == len(clients)
    assert all(client in CLIENTS[client.version == 6] for client in clients)


@every_spec
def test_payloads_are_dns_messages(name: str) -> None:
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


def test_no_answers_of_dsr_backends_behind_an_uplink_are_sent() -> None:
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


@every_spec
def test_neighbours_are_asked_for_every_address_everywhere(name: str) -> None:
    spec = spec_of(name)
    asked = Counter((v.name.split(" for ")[-1].split(" of ")[-1]) for v, _ in of_kind(name, "neighbor"))
    vips = [(address, port) for vip in spec.vips.values() for address in vip.addresses for port in spec.switch.uplinks]
    gateways = [(a, port) for a in spec.switch.gateways for port in [*spec.switch.uplinks, *spec.switch.ports]]
    own = [a.ip for a in spec.switch.probe.addresses] if spec.switch.probe is not None else []
    probes = [(a, port) for a in own for port in [*spec.switch.uplinks, *spec.switch.ports]]
    assert asked == {f"{a} at {port}": 1 if a.version == 4 else 4 for a, port in [*vips, *gateways, *probes]}


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
def test_packets_that_must_be_dropped_are_sent(name: str) -> None:
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
def test_the_same_spec_gives_the_same_vectors_on_every_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a route, from which scapy takes addresses that are left out."""
    expected = [vector for vector, _ in checked(name)]
    for routes in (conf.route, conf.route6):
        monkeypatch.setattr(routes, "routes", [])
        monkeypatch.setattr(routes, "cache", {})
    assert list(vectors(spec_of(name), Reference(spec_of(name)))) == expected


@every_spec
def test_a_sample_takes_slots_evenly(name: str) -> None:
    slots: dict[str, list[int]] = defaultdict(list)
    for vector, expectation in checked(name, 2):
        if vector.kind == "query" and expectation.slot is not None:
            slots[vector.name.split(" slot ")[0]].append(expectation.slot)
    count = {s.label: len(s.slots) for s in Reference(spec_of(name)).services.values() if s.selection.predicts_slot}
    assert slots == {label: [0, number // 2] for label, number in count.items()}
    assert len(checked(name, 2)) < len(checked(name))


@pytest.mark.parametrize("attributes", [{"predicts_slot": True}, {"slot": lambda *_: 0}])
def test_a_selection_that_predicts_has_a_slot_of_its_own(attributes: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="Wrong: predicts_slot is"):
        type("Wrong", (SlotSelection,), attributes)
