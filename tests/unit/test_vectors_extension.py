# SPDX-License-Identifier: Apache-2.0
"""Vectors for what the extension serves: queries of one hash key, spread groups, and frames that it drops."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache

import pytest

from dnsteer.checks.load import check_document
from dnsteer.proof.reference.outcome import Expectation, Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.wire import Packet, parse
from dnsteer.proof.traffic.senders import Vector
from dnsteer.proof.traffic.unpredicted_slots import ObservedBackends, enough_queries
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.read import parse_document
from tests.unit.extension_cases import SPEC

LOADED = check_document(parse_document("spec.yaml", SPEC))
REFERENCE = Reference(LOADED.spec)
SAME_FIELDS = "same hash fields as "


@cache
def checked() -> list[tuple[Vector, Expectation]]:
    """All vectors, and what is expected of each."""
    return [(v, REFERENCE.expect(v.port, v.data)) for v in vectors(LOADED.spec, REFERENCE)]


def values(packet: Packet) -> dict[str, object]:
    return {
        "src_ip": packet.source,
        "dst_ip": packet.destination,
        "src_port": packet.sport,
        "dst_port": packet.dport,
    }


def test_every_query_for_a_client_pool_is_sent_again_with_the_same_hash_fields() -> None:
    """It has the fields in common that are hashed, and no other that it could have for its own."""
    by_name = {v.name: (v, e) for v, e in checked()}
    seen = Counter[str]()
    for name, (vector, expectation) in by_name.items():
        if not name.startswith(SAME_FIELDS):
            continue
        first, expected = by_name[name.removeprefix(SAME_FIELDS)]
        assert expectation.hash_key == expected.hash_key is not None
        one, other = parse(first.data), parse(vector.data)
        service = REFERENCE.services[one.destination, one.protocol, one.dport]
        alike = {key for key in ("src_ip", "src_port") if values(one)[key] == values(other)[key]}
        assert alike == {"src_ip", "src_port"} & set(service.hash_fields)
        seen[service.label] += 1
    clients = [s for s in REFERENCE.services.values() if s.hash_fields]
    assert seen == {s.label: len(s.slots) for s in clients}


def test_repeated_hash_fields_meet_other_services_and_uplinks() -> None:
    by_name = {v.name: v for v, _ in checked()}
    pairs = [(by_name[v.name.removeprefix(SAME_FIELDS)], v) for v, _ in checked() if v.name.startswith(SAME_FIELDS)]
    assert all(one.port != other.port for one, other in pairs)
    protocols = Counter((parse(one.data).protocol, parse(other.data).protocol) for one, other in pairs)
    assert set(protocols) == {(6, 6), (6, 17), (17, 6), (17, 17)}


def test_spread_groups_vary_one_field() -> None:
    found: dict[str, list[Packet]] = defaultdict(list)
    for vector, expectation in checked():
        if vector.spread_group:
            assert len(expectation.options) > 1
            found[vector.spread_group].append(parse(vector.data))
    one_field = {name: packets for name, packets in found.items() if " that differ in " in name}
    for name, packets in one_field.items():
        varied = name.rpartition(" ")[2]
        for key in ("src_ip", "dst_ip", "src_port", "dst_port"):
            assert len({values(packet)[key] for packet in packets}) == (len(packets) if key == varied else 1), name
        assert len(packets) >= 30
    labels = {name.partition(" that ")[0]: name.rpartition(" ")[2] for name in one_field}
    assert {label.split()[2] for label, field in labels.items() if field == "nothing"} == {"sprayed", "spread"}
    ported = [name for name in one_field if name.startswith("queries for ported")]
    assert {name.rpartition(" ")[2] for name in ported} == {"src_ip", "src_port"}


@pytest.mark.parametrize(("field", "bits"), [("src_ip", 12), ("src_port", 12)])
def test_values_that_differ_are_scattered(field: str, bits: int) -> None:
    """A CRC of values in a row, which differ in a few bits, may name slots of one backend alone."""
    found: dict[str, list[int]] = defaultdict(list)
    for vector, _ in checked():
        if vector.spread_group.endswith(f" that differ in {field}"):
            packet = parse(vector.data)
            found[vector.spread_group].append(
                int.from_bytes(packet.source, "big") if field == "src_ip" else packet.sport
            )
    assert found
    for group in found.values():
        differing = 0
        for value in group:
            differing |= value ^ group[0]
        assert differing.bit_count() >= bits


def test_chance_is_not_taken_for_a_mistake() -> None:
    service = next(s for s in REFERENCE.services.values() if s.vip == "near")
    shares = Counter(each.name for each in service.slots)
    assert shares == {"n1": 8, "n2": 8}
    assert [enough_queries(service, n) for n in (1, 30, 31, 100)] == [False, False, True, True]  # 2 * 2**-31 < 1e-9


DROPPED_BY_EXTENSION = [
    "query with a wrong header checksum for tunnels",
    "query as an atomic fragment for tunnels",
    "query as an atomic fragment with a reserved bit for tunnels",
    "query of UDP length 7 for translated",
    "query of a TCP header of 15 words for near",
    "query of a TCP header of 4 words for near",
    "udp answer without checksum for translated",
    "udp answer to another prefix for translated",
    "tcp answer to a client over IPv6 for translated",
    "query for near",
    "neighbour request for near",
]


@pytest.mark.parametrize("words", DROPPED_BY_EXTENSION)
def test_packets_that_the_extension_refuses_are_sent(words: str) -> None:
    assert any(v.name.startswith(words) for v, _ in checked())


def test_both_extension_ports_send_unexpected_packets() -> None:
    ports = Counter((v.port, bool(e.options)) for v, e in checked() if v.port.startswith("ext-"))
    assert ports["ext-out", False] > 10  # for nobody
    assert ports["ext-in", True] > 10  # taken for answers
    assert ("ext-out", True) not in ports


def test_every_backend_of_a_translated_vip_answers_and_sends_fragments() -> None:
    names = [v.name for v, _ in checked()]
    for backend in ("s1", "s2", "s3"):
        pieces = [
            n for n in names if n.startswith("large") and "for translated 192.0.2.3" in n and f"from {backend}" in n
        ]
        assert len(pieces) > 3
    kept = [v.kind for v, _ in checked() if "for translated 192.0.2.3" in v.name and v.name.startswith("large")]
    assert set(kept) == {"drop"}


def test_services_of_empty_pools_are_queried() -> None:
    asked = [v.name.split(",")[0] for v, _ in checked() if "has no backend left" in v.name]
    assert asked == [f"query for {service.label}" for service in REFERENCE.unserved.values()]
    assert {service.vip for service in REFERENCE.unserved.values()} == {"gone", "lost"}


def expected(hash_key: object, *names: str) -> Expectation:
    backends = tuple((Frame(name, b""), name) for name in names)
    return Expectation(frozenset(frame for frame, _ in backends), "", hash_key=hash_key, backends=backends)  # type: ignore[arg-type]


def problems(*went: tuple[str, object, str, str]) -> list[tuple[str, str]]:
    """What is said when queries of a name, hash key and spread group went to backends."""
    observed = ObservedBackends()
    for name, hash_key, group, backend in went:
        observed.add(Vector(name, "p0", b"", "query", group), expected(hash_key, "a", "b", "c"), Frame(backend, b""))
    return list(observed.problems())


def test_one_hash_key_and_two_backends_is_a_problem() -> None:
    assert problems(("one", 1, "", "a"), ("two", 1, "", "a"), ("three", 2, "", "b")) == []
    found = problems(("one", 1, "", "a"), ("two", 2, "", "b"), ("three", 1, "", "c"))
    assert found == [("three", "went to c, but one, which has the same hash fields, to a")]


def test_a_spread_group_with_one_backend_is_a_problem() -> None:
    assert problems(("one", None, "all", "a"), ("two", None, "all", "b")) == []
    found = problems(("one", None, "all", "a"), ("two", None, "all", "a"), ("three", None, "", "b"))
    assert found == [("all", "all 2 went to a")]


def test_frames_that_were_not_expected_say_nothing() -> None:
    assert problems(("one", 1, "all", "z"), ("two", 1, "all", "z")) == []
