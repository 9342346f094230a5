# SPDX-License-Identifier: Apache-2.0
"""Frames that the switch sends to the extension and that it drops; and frames from its ports that it would never send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dnsteer.proof.reference import wire
from dnsteer.proof.reference.service import PROTOCOLS, AddressService
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Headers, address_text
from dnsteer.proof.traffic.neighbor_requests import arp, echo, solicitation
from dnsteer.proof.traffic.senders import Senders, Vector

_UNKNOWN_MAC = bytes.fromhex("02fcfd000001")
_OTHER_PREFIX = bytes.fromhex("0064ff9b0001") + bytes(6)
"""64:ff9b:1::/96, from the local-use prefix (RFC 8215), which is not the prefix of the translation."""


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield such frames, if the extension serves anything."""
    for service in senders.example_services():
        if service.by_extension:
            yield from _queries(senders, service)
            yield from _from_extension_ports(senders, service)
    yield from _answers(senders)


def _patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def _damaged(headers: Headers, protocol: int) -> Iterator[tuple[str, bytes]]:
    """Packets whose headers contradict their contents."""
    data = craft.query(headers, protocol)
    packet = wire.parse(data)
    if headers.version == 4:
        yield "with a wrong header checksum", _patched(data, packet.l3 + 10, bytes((data[24] ^ 1,)))
    if protocol == wire.UDP:
        length = packet.end - packet.l4
        for number in (length + 1, 7):
            yield f"of UDP length {number}", _patched(data, packet.l4 + 4, number.to_bytes(2, "big"))
    else:
        for words in (15, 4):  # a query is shorter than 15 words would be, and a header never has 4
            short = craft.segment(headers, protocol, b"")
            yield f"of a TCP header of {words} words", _patched(short, packet.l4 + 12, bytes((words << 4,)))


def _queries(senders: Senders, service: AddressService) -> Iterator[Vector]:
    uplink = senders.next_uplink()
    for name, data in _damaged(senders.query_headers(service, uplink), service.protocol):
        yield senders.vector(f"query {name} for {service.label} by {uplink}", uplink, data, "unusual")


def _answers(senders: Senders) -> Iterator[Vector]:
    """Packets that resemble answers to translate, but that the extension must drop."""
    for responder in senders.example_responders():
        if not (responder.mode.rewrites_answers and responder.mode.by_extension):
            continue
        for protocol in (wire.UDP, wire.TCP):
            sport = responder.answer_port(protocol)
            if sport is None:
                continue
            port = senders.ingress(responder)
            label = f"for {responder.label} from {responder.backend.name} by {port}"
            found = dict(_damaged(senders.answer_headers(responder, sport), protocol))
            if protocol == wire.UDP:
                answer = craft.query(senders.answer_headers(responder, sport), protocol)
                found["without checksum"] = craft.without_checksum(answer)
            client = senders.clients.next(4)[1]
            headers = replace(senders.answer_headers(responder, sport), destination=_OTHER_PREFIX + client)
            found["to another prefix"] = craft.query(headers, protocol)
            headers = replace(senders.answer_headers(responder, sport), destination=senders.clients.next(6)[1])
            found["to a client over IPv6"] = craft.query(headers, protocol)
            for name, data in found.items():
                yield senders.vector(f"{PROTOCOLS[protocol]} answer {name} {label}", port, data, "unusual")


def _from_extension_ports(senders: Senders, service: AddressService) -> Iterator[Vector]:
    """Frames from the extension's ports that it would never send."""
    for port in senders.reference.topology.extension_ports:
        headers = senders.query_headers(service, port)
        label = f"for {service.label} from {port}"
        found = {
            f"query {label}": craft.query(headers, service.protocol),
            f"query to the gateways' MAC {label}": craft.query(
                replace(senders.query_headers(service, port), to_mac=senders.gateway_mac), service.protocol
            ),
            f"query to another MAC {label}": craft.query(
                replace(senders.query_headers(service, port), to_mac=_UNKNOWN_MAC), service.protocol
            ),
            f"echo request to {address_text(service.address)} {label}": echo(
                senders, port, service.address, senders.mac
            ),
        }
        ask = arp if headers.version == 4 else solicitation
        found[f"neighbour request {label}"] = ask(senders, port, service.address)
        for name, data in found.items():
            yield senders.vector(name, port, data, "unusual")
