# SPDX-License-Identifier: Apache-2.0
"""Compute what the extension does with a packet, from the spec alone (docs/forwarding.md, section 5)."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop, expect_frame
from dnsteer.proof.reference.selections import SELECTIONS
from dnsteer.proof.reference.service import AddressService, ModeReference, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology, packed_mac
from dnsteer.proof.reference.wire import Packet, header_damage
from dnsteer.spec.model.spec import Forwarding, Spec


class ExtensionReference:
    """The extension's part of the reference."""

    def __init__(self, spec: Spec, topology: SwitchTopology, modes: Mapping[Forwarding, ModeReference]) -> None:
        self._topology = topology
        self._uplink = topology.uplinks[0]
        self._gives_answers = False
        self._backend_ports: dict[bytes, str] = {}
        """Backend's MAC address -> port, for each backend that the extension forwards to."""
        for vip in spec.vips.values():
            pool = spec.pools[vip.pool]
            if modes[vip.forwarding].by_extension or SELECTIONS[pool.selection].by_extension:
                for backend in pool.backends:
                    self._backend_ports[packed_mac(backend.mac)] = backend.port or self._uplink

    def add(self, service: AddressService, targets: list[TargetBackend]) -> None:
        """Register a service and all backends that its queries can reach."""
        if service.mode.by_extension and service.mode.rewrites_answers and targets:
            self._gives_answers = True

    def query(self, packet: Packet, service: AddressService) -> Expectation:
        """Return what must leave for a query that the switch sends to the extension."""
        problem = header_damage(packet) or service.mode.why_refused(packet)
        if problem:
            return expect_drop(f"query for {service.label}, which the extension drops: {problem}")
        if service.selection.predicts_slot:
            slot = service.selection.slot(packet, service)
            target = service.slots[slot]
            why = f"query for {service.label}, slot {slot} of {len(service.slots)}: backend {target.name}, by the extension"
            return Expectation(frozenset(self._delivered(packet, service, target)), why, slot, target.name)
        backends = tuple((f, owner.name) for owner in service.owners for f in self._delivered(packet, service, owner))
        why = f"query for {service.label}, {service.selection.describe(service)}, by the extension"
        hash_key = service.selection.hash_key(packet, service)
        return Expectation(frozenset(f for f, _ in backends), why, hash_key=hash_key, backends=backends)

    def probe(self, packet: Packet, service: AddressService, target: TargetBackend) -> Expectation:
        """Return what must leave for a probe of a backend, which the source port names and no slot."""
        problem = header_damage(packet) or service.mode.why_refused(packet)
        if problem:
            return expect_drop(f"probe of {service.label}, which the extension drops: {problem}")
        why = f"probe of {service.label}: backend {target.name}, by the extension"
        return Expectation(frozenset(self._delivered(packet, service, target)), why, backend=target.name)

    def _delivered(self, packet: Packet, service: AddressService, target: TargetBackend) -> list[Frame]:
        port = target.port or self._uplink
        return [Frame(port, data) for data in service.mode.query(packet, service, target, self._topology.mac)]

    def emitted(self, port: str, data: bytes) -> Expectation:
        """Return what must leave for a frame from one of the extension's ports, even one that it would never send."""
        if port == self._topology.extension_ingress:
            leave = self._topology.first_exit()
            if not self._gives_answers or leave is None:
                return expect_drop("from the extension, which has no answers to send")
            if self._topology.probe_port is not None and data[:6] == self._topology.probe_mac:
                return expect_frame(self._topology.probe_port, data, "an answer to a probe from the extension")
            return expect_frame(leave.uplink, data, "an answer from the extension")
        ports = set(self._backend_ports.values())
        leaves = ports.pop() if len(ports) == 1 else self._backend_ports.get(data[:6])
        if leaves is None:
            return expect_drop("from the extension, for no backend")
        return expect_frame(leaves, data, "a query from the extension")
