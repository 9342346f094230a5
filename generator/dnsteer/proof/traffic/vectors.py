# SPDX-License-Identifier: Apache-2.0
"""The frames that prove a switch: every address, service, slot and backend of a spec, and what must be dropped.

No two expected frames are alike, so a frame that leaves is identified by its bytes. Fragments come in complete sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.service import PROTOCOLS, AddressService
from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.proof.traffic import (
    access,
    buckets,
    craft,
    drops,
    extension_drops,
    followed,
    icmp_errors,
    neighbor_requests,
    own_traffic,
    probes,
    unpredicted_slots,
    unusual,
    vlans,
)
from dnsteer.proof.traffic.coverage import HASH_TRIES
from dnsteer.proof.traffic.senders import Responder, Senders, Vector, answer_to
from dnsteer.spec.model.spec import Spec

__all__ = ["Vector", "batches", "vectors"]

_LARGE_ANSWER = 3601
"""Bytes of payload of an answer that needs fragments: an odd number, three of IPv4 and three of IPv6."""


def vectors(spec: Spec, reference: Reference, per_service: int | None = None) -> Iterator[Vector]:
    """Yield the frames to send, the same ones for the same spec.

    *per_service* limits the slots tried per service, the backends that send fragments per VIP's address, and the
    uplinks at which neighbours ask, for specs so large that trying all of them takes too long.
    """
    return chain.from_iterable(batches(Senders(spec, reference, per_service)))


def batches(senders: Senders) -> Iterator[Iterator[Vector]]:
    """Yield the frames to send, in batches that must stay together.

    Such are the fragments of a datagram, and all queries of a pool whose slots are hashed: its services may share megaflows
    of a later pass.
    """
    yield neighbor_requests.neighbors(senders)
    yield neighbor_requests.echoes(senders)
    yield icmp_errors.frames(senders)
    unpredicted: dict[str, list[tuple[int, AddressService]]] = defaultdict(list)
    for number, service in enumerate(senders.reference.services.values()):
        if service.selection.predicts_slot:
            yield _queries(senders, service, number)
        else:
            unpredicted[senders.spec.vips[service.vip].pool].append((number, service))
    for services in unpredicted.values():
        yield chain.from_iterable(_queries(senders, service, number) for number, service in services)
    for number, responder in enumerate(senders.responders()):
        yield _large_answers(senders, responder, number)
    yield unusual.queries(senders)
    yield unusual.answers(senders)
    yield probes.frames(senders)
    yield followed.frames(senders)
    yield vlans.frames(senders)
    yield own_traffic.frames(senders)
    yield access.frames(senders)
    yield buckets.frames(senders)
    yield extension_drops.frames(senders)
    yield drops.frames(senders)


def _queries(senders: Senders, service: AddressService, number: int) -> Iterator[Vector]:
    """A query for each slot, and the answer if it passes the switch; *number* makes services start at different uplinks."""
    count = len(service.slots)
    predicted = service.selection.predicts_slot
    tries = 1 if predicted or service.selection.by_extension else HASH_TRIES
    slots = senders.coverage.slots[service.key]
    spread = senders.has_many_clients(service)
    group = unpredicted_slots.group_of(service) if spread and unpredicted_slots.are_spread(service, len(slots)) else ""
    for nth, slot in enumerate(slots):
        for attempt in range(tries):
            turn = number + nth * tries + attempt
            uplink = senders.uplinks[turn % len(senders.uplinks)]
            headers = senders.query_headers(service, uplink)
            which = f"hash {slot}.{attempt}"
            if predicted:
                headers = craft.aimed(headers, slot, count, service.client_prefix)
                which = f"slot {slot}"
            name = f"{service.label} {which} by {uplink}"
            vector = Vector(name, uplink, craft.query(headers, service.protocol), "query", group)
            yield vector
            yield from unpredicted_slots.same_hash_query(senders, service, headers, turn, vector)
            yield from answer_to(senders, headers, service.protocol, vector, turn)
    if spread:
        yield from unpredicted_slots.varied_queries(senders, service)


def _large_answers(senders: Senders, responder: Responder, number: int) -> Iterator[Vector]:
    """An answer in fragments (IPv4: every second one last fragment first), and one without a UDP checksum."""
    sport = responder.answer_port(UDP)
    if sport is not None:
        headers = senders.answer_headers(responder, sport)
        fragments = list(enumerate(craft.fragments(headers, UDP, _LARGE_ANSWER), 1))
        port = senders.ingress(responder)
        for nth, fragment in fragments if number % 2 == 0 else reversed(fragments):
            name = f"{_from(responder, UDP)} fragment {nth} of {len(fragments)} by {port}"
            yield senders.vector(name, port, fragment, "fragment")
        if responder.version == 4 and responder.mode.rewrites_answers:
            headers = senders.answer_headers(responder, sport)
            data = craft.without_checksum(
                craft.segment(headers, UDP, craft.dns_message(headers.serial, UDP, answer=True))
            )
            yield senders.vector(f"{_from(responder, UDP)} without checksum by {port}", port, data, "answer")
    if responder.version == 6:
        # IPv6 fragments after the first do not reveal their protocol: those of other protocols pass too.
        headers = senders.answer_headers(responder, responder.answer_port(TCP) or senders.unused_port)
        port = senders.ingress(responder)
        for nth, fragment in enumerate(craft.fragments(headers, TCP, _LARGE_ANSWER)[1:], 2):
            name = f"{_from(responder, TCP)} fragment {nth} by {port}"
            yield senders.vector(name, port, fragment, "fragment")


def _from(responder: Responder, protocol: int) -> str:
    return f"large {PROTOCOLS[protocol]} answer for {responder.label} from {responder.backend.name}"
