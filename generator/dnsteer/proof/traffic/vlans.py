# SPDX-License-Identifier: Apache-2.0
"""Queries, answers, echo and neighbour requests in each VLAN of each port, in wrong ones, and with other tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.packet import Packet

from dnsteer.proof.reference.service import PROTOCOLS
from dnsteer.proof.reference.wire import UDP
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.neighbor_requests import arp, echo, solicitation
from dnsteer.proof.traffic.senders import Senders, Vector

_NOWHERE = 4094
_PRIORITY = 5


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield them all; nothing where the spec names no VLAN."""
    if not senders.vlans.named:
        return
    for port in [*senders.uplinks, *senders.ports]:
        for name, tag in _tags(senders, port):
            yield from _at(senders, port, f"{name} by {port}", tag)


def _tags(senders: Senders, port: str) -> Iterator[tuple[str, Packet | None]]:
    served = senders.vlans.served(port)
    everywhere = {vlan for each in [*senders.uplinks, *senders.ports] for vlan in senders.vlans.served(each)}
    for vlan in sorted({*everywhere, _NOWHERE}):
        if vlan:
            yield f"in VLAN {vlan}", Dot1Q(vlan=vlan)
    yield "without a tag", None
    yield "with a priority tag", Dot1Q(vlan=0, prio=_PRIORITY)
    for vlan in served:
        yield f"in VLAN {vlan} of priority {_PRIORITY}", Dot1Q(vlan=vlan, prio=_PRIORITY)
        yield f"in VLAN {vlan} that may be dropped", Dot1Q(vlan=vlan, dei=1)
        yield f"in VLAN {vlan} of a provider", Dot1AD(vlan=vlan, prio=1)
        yield f"in VLAN {vlan} within VLAN {_NOWHERE}", Dot1Q(vlan=_NOWHERE) / Dot1Q(vlan=vlan)
        yield f"in VLAN {_NOWHERE} within VLAN {vlan}", Dot1Q(vlan=vlan) / Dot1Q(vlan=_NOWHERE)
        yield f"in VLAN {vlan} within that of a provider", Dot1AD(vlan=vlan) / Dot1Q(vlan=vlan)


def _at(senders: Senders, port: str, name: str, tag: Packet | None) -> Iterator[Vector]:
    def put(what: str, data: bytes) -> Vector:
        """The frame with this tag, whatever tag it had."""
        plain = data[:12] + data[16:] if data[12:14] == b"\x81\x00" else data
        headers = b"" if tag is None else bytes(tag.copy())
        kinds = b"" if tag is None else (b"\x88\xa8" if isinstance(tag, Dot1AD) else b"\x81\x00")
        whole = plain[:12] + kinds + headers[:-2] + plain[12:] if tag is not None else plain
        return senders.vector(f"{what} {name}", port, whole, "unusual")

    for service in senders.example_services():
        query = craft.query(senders.query_headers(service, port), service.protocol)
        yield put(f"query for {service.label}", query)
    for responder in senders.example_responders():
        for protocol in PROTOCOLS:
            sport = responder.answer_port(protocol)
            if sport is None:
                continue
            headers = senders.answer_headers(responder, sport)
            message = craft.dns_message(headers.serial, protocol, answer=True)
            about = f"for {responder.label} from {responder.backend.name}"
            yield put(f"{PROTOCOLS[protocol]} answer {about}", craft.segment(headers, protocol, message))
            if protocol == UDP and not isinstance(
                tag, Dot1AD
            ):  # the tracker of Open vSwitch does not put those together
                headers = replace(senders.answer_headers(responder, sport), vlan=0)
                for nth, fragment in enumerate(craft.fragments(headers, UDP, 2601), 1):
                    yield put(f"fragment {nth} {about}", fragment)
    topology = senders.reference.topology
    first = {len(own.packed): own.packed for vip in senders.spec.vips.values() for own in reversed(vip.addresses)}
    for address in (*first.values(), *senders.gateways, *sorted(topology.probe_addresses)):
        label, ask = craft.address_text(address), arp if len(address) == 4 else solicitation
        yield put(f"request for {label}", ask(senders, port, address))
        mac = senders.gateway_mac if address in senders.gateways else senders.mac
        yield put(f"echo request to {label}", echo(senders, port, address, mac))
