"""The frames that prove a switch: every address, service, slot and backend of a spec, and what must not get through.

No two expected frames are alike, so a frame that leaves can be told by its bytes. Fragments come in complete sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.services import Service
from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.proof.traffic import craft, extension_rejects, neighbor_requests, refused, slot_choice, unusual
from dnsteer.proof.traffic.coverage import HASH_TRIES
from dnsteer.proof.traffic.senders import PROTOCOLS, Post, Scene, Vector, port_of, reply
from dnsteer.spec.model.spec import Forwarding, Selection, Spec

__all__ = ["Vector", "batches", "vectors"]

_LARGE_ANSWER = 3601
"""Bytes of payload of an answer that needs fragments: an odd number, three of IPv4 and three of IPv6."""


def vectors(spec: Spec, reference: Reference, per_service: int | None = None) -> Iterator[Vector]:
    """Yield the frames to send, the same ones for the same spec.

    *per_service* limits the slots tried per service, the backends that send fragments per VIP's address, and the
    uplinks at which neighbours ask, for specs so large that trying all of them takes too long.
    """
    return chain.from_iterable(batches(Scene(spec, reference, per_service)))


def batches(scene: Scene) -> Iterator[Iterator[Vector]]:
    """Yield the frames to send, those together that must not be apart.

    That are the fragments of a datagram, and all queries of a hashed pool: its services may share megaflows of a later pass.
    """
    yield neighbor_requests.neighbors(scene)
    yield neighbor_requests.echoes(scene)
    hashed: dict[str, list[tuple[int, Service]]] = defaultdict(list)
    for number, service in enumerate(scene.reference.services.values()):
        if service.hashed:
            hashed[scene.spec.vips[service.vip].pool].append((number, service))
        else:
            yield _queries(scene, service, number)
    for services in hashed.values():
        yield chain.from_iterable(_queries(scene, service, number) for number, service in services)
    for number, post in enumerate(scene.posts()):
        yield _large_answers(scene, post, number)
    yield unusual.queries(scene)
    yield unusual.answers(scene)
    yield extension_rejects.frames(scene)
    yield refused.frames(scene)


def _queries(scene: Scene, service: Service, number: int) -> Iterator[Vector]:
    """A query for each slot, and the answer where it comes back; *number* makes services start at other uplinks."""
    count = len(service.slots)
    tries = HASH_TRIES if service.selection is Selection.DP_HASH else 1
    slots = scene.coverage.slots[service.address, service.protocol, service.port]
    chosen = service.extended and service.hashed and slot_choice.spreads(service, len(slots))
    for nth, slot in enumerate(slots):
        for attempt in range(tries):
            turn = number + nth * tries + attempt
            uplink = scene.uplinks[turn % len(scene.uplinks)]
            talk = scene.asks(service, uplink)
            which = f"hash {slot}.{attempt}"
            if not service.hashed:
                talk = craft.from_port(talk, craft.source_port(slot, count, talk.serial))
                which = f"slot {slot}"
            name = f"{service.label} {which} by {uplink}"
            spread = slot_choice.name_of(service) if chosen else ""
            vector = Vector(name, uplink, craft.query(talk, service.protocol), "query", spread)
            yield vector
            yield from slot_choice.twin(scene, service, talk, turn, vector)
            yield from reply(scene, talk, service.protocol, vector, turn)
    yield from slot_choice.fans(scene, service)


def _large_answers(scene: Scene, post: Post, number: int) -> Iterator[Vector]:
    """An answer in fragments (IPv4: every second one last fragment first), and one without a UDP checksum."""
    sport = port_of(post, UDP)
    if sport is not None:
        talk = scene.answers(post, sport)
        pieces = list(enumerate(craft.in_pieces(talk, UDP, _LARGE_ANSWER), 1))
        port = scene.ingress(post)
        for nth, piece in pieces if number % 2 == 0 else reversed(pieces):
            name = f"{_from(post, UDP)} fragment {nth} of {len(pieces)} by {port}"
            yield scene.judged(name, port, piece, "fragment")
        if post.version == 4 and post.vip.forwarding is Forwarding.NAT:
            talk = scene.answers(post, sport)
            data = craft.without_checksum(craft.segment(talk, UDP, craft.dns(talk.serial, UDP, answer=True)))
            yield scene.judged(f"{_from(post, UDP)} without checksum by {port}", port, data, "answer")
    if post.version == 6:
        # Later fragments of IPv6 do not tell their protocol: those of other protocols pass too.
        talk = scene.answers(post, port_of(post, TCP) or scene.unused_port)
        port = scene.ingress(post)
        for nth, piece in enumerate(craft.in_pieces(talk, TCP, _LARGE_ANSWER)[1:], 2):
            name = f"{_from(post, TCP)} fragment {nth} by {port}"
            yield scene.judged(name, port, piece, "fragment")


def _from(post: Post, protocol: int) -> str:
    return f"large {PROTOCOLS[protocol]} answer for {post.label} from {post.backend.name}"
