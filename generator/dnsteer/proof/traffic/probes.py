# SPDX-License-Identifier: Apache-2.0
"""Probes of the agent and the answers to them, for every backend, and similar packets that must be dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dnsteer.proof.reference.service import PROTOCOLS, AddressService, TargetBackend
from dnsteer.proof.reference.spec_services import target_backends
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.coverage import evenly_spaced
from dnsteer.proof.traffic.senders import Senders, Vector, mac_of

_PORTS = 16


def frames(senders: Senders) -> Iterator[Vector]:
    """Yield probes of every backend by the first service of each sort of its pool, and of one backend by each other service.

    Nothing without a port for probes.
    """
    topology = senders.reference.topology
    if topology.probe_port is None:
        return
    seen = set()
    for turn, service in enumerate([*senders.reference.services.values(), *senders.reference.unserved.values()]):
        vip = senders.spec.vips[service.vip]
        sort = vip.pool, service.mode, service.version, service.protocol
        reached = evenly_spaced(
            target_backends(senders.spec.pools[vip.pool], service.mode, service.version), senders.per_service
        )
        for nth, backend in enumerate(reached if sort not in seen else reached[turn % len(reached) :][:1]):
            yield from _probe(senders, service, backend, topology.probe_port, turn + nth)
        seen.add(sort)
    yield from _others(senders, topology.probe_port)


def _probe(senders: Senders, service: AddressService, backend: TargetBackend, port: str, turn: int) -> Iterator[Vector]:
    headers = senders.query_headers(service, senders.uplinks[0])
    first = senders.reference.probes.first_port(service, backend)
    if first is not None:
        headers = replace(headers, sport=first + turn % _PORTS)
    name = f"probe of {backend.name} as {service.label} by {port}"
    query = craft.query(replace(headers, vlan=0), service.protocol)
    yield senders.vector(name, port, query, "probe")
    uplink = senders.next_uplink()
    client = senders.query_headers(service, uplink)
    label = f"query for {service.label} from the source port of probes of {backend.name} by {uplink}"
    yield senders.vector(label, uplink, craft.query(replace(client, sport=headers.sport), service.protocol), "probe")
    client = replace(senders.query_headers(service, uplink), to_mac=senders.reference.topology.probe_mac)
    label = f"query for {service.label} to the MAC of probes of {backend.name} by {uplink}"
    yield senders.vector(label, uplink, craft.query(replace(client, sport=headers.sport), service.protocol), "probe")
    yield from _answers(senders, service, backend, headers.sport, name)


def _answers(
    senders: Senders, service: AddressService, backend: TargetBackend, sport: int, name: str
) -> Iterator[Vector]:
    topology = senders.reference.topology
    own = next((a for a in topology.probe_addresses if len(a) == len(service.address)), None)
    if own is None:
        return
    if service.mode.by_extension and service.mode.rewrites_answers:
        yield from _translated(senders, service, backend, sport, name)
        return
    query = senders.query_headers(service, senders.uplinks[0])
    rewrites = service.mode.rewrites_answers
    answer = replace(
        query,
        to_mac=topology.probe_mac,
        from_mac=mac_of(backend),
        source=backend.address if rewrites else service.address,
        destination=own,
        sport=service.target_port + backend.worker if rewrites else service.port,
        dport=sport,
        vlan=backend.vlan,
    )
    ingress = backend.port or senders.next_uplink()

    def frame(**changes: object) -> bytes:
        headers = replace(answer, **changes)  # type: ignore[arg-type]
        return craft.segment(
            headers, service.protocol, craft.dns_message(headers.serial, service.protocol, answer=True)
        )

    yield senders.vector(f"answer to {name}", ingress, frame(), "probe")
    unknown = senders.clients.unused_address(service.version)
    yield senders.vector(f"answer to {name} from an unknown address", ingress, frame(source=unknown), "probe")
    yield senders.vector(f"answer to {name} to another address", ingress, frame(destination=unknown), "probe")


def _translated(
    senders: Senders, service: AddressService, backend: TargetBackend, sport: int, name: str
) -> Iterator[Vector]:
    """The answer that the extension translates, and what resembles it."""
    own = senders.reference.topology.translated_probe
    if own is None:
        return
    query = senders.query_headers(service, senders.uplinks[0])
    answer = replace(
        query,
        to_mac=senders.gateway_mac,
        from_mac=mac_of(backend),
        source=backend.address,
        destination=service.mode.client_as_served(own),
        sport=service.port,
        dport=sport,
    )
    other = own[:-1] + bytes((own[-1] ^ 1,))
    for label, headers in (
        (f"answer to {name}", answer),
        (
            f"answer to {name} to a neighbouring address",
            replace(answer, destination=service.mode.client_as_served(other)),
        ),
        (f"answer to {name} from an unknown address", replace(answer, source=senders.clients.unused_address(6))),
        (f"answer to {name} to the MAC of probes", replace(answer, to_mac=senders.reference.topology.probe_mac)),
    ):
        message = craft.dns_message(headers.serial, service.protocol, answer=True)
        ingress = backend.port or senders.next_uplink()
        yield senders.vector(label, ingress, craft.segment(headers, service.protocol, message), "probe")


def _others(senders: Senders, port: str) -> Iterator[Vector]:
    """What comes by the port for probes and is none, and a query that comes by an uplink from a port of probes."""
    for service in senders.example_services():
        headers = replace(senders.query_headers(service, senders.uplinks[0]), vlan=0)
        protocol, label = service.protocol, f"{PROTOCOLS[service.protocol]} query for {service.label}"
        for name, changed in (
            ("from a port that names no backend", replace(headers, sport=1024 + headers.serial % 16384)),
            ("to the gateways' MAC", replace(headers, to_mac=senders.gateway_mac)),
            ("to another service", replace(headers, dport=senders.unused_port)),
        ):
            yield senders.vector(f"{label} {name} by {port}", port, craft.query(changed, protocol), "probe")
        for nth, data in enumerate(craft.fragments(headers, protocol, 1601), 1):
            yield senders.vector(f"{label} in fragments, {nth}, by {port}", port, data, "probe")
