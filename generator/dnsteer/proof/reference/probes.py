# SPDX-License-Identifier: Apache-2.0
"""Probes of the agent: what its source port names, and what comes back (docs/agent.md, section 4)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop, expect_frame
from dnsteer.proof.reference.service import AddressService, ModeReference, ServiceKey, TargetBackend
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import TCP, UDP, Fragment, Packet, checksum_variants, rewritten

_PORTS = 16
"""Source ports that name one backend."""
_NUMBERS = 2048


def first_ports(names: Collection[str]) -> dict[str, int]:
    """The first of the 16 source ports that name each backend of a pool.

    A backend's number is the hash of its name (the first 8 bytes of BLAKE2b) modulo 2048; it is never 0, and one that is
    taken by a name before it in the alphabet is counted on. Its ports begin at 32768 + 16 times the number.
    """
    taken, out = {0}, {}
    for name in sorted(names):
        number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % _NUMBERS
        while number in taken:
            number = (number + 1) % _NUMBERS
        taken.add(number)
        out[name] = 32768 + _PORTS * number
    return out


class ProbeReference:
    """Where probes go and what of their answers arrives."""

    def __init__(self, topology: SwitchTopology, modes: Iterable[ModeReference]) -> None:
        self._topology = topology
        self._modes = tuple(modes)
        self._services: dict[ServiceKey, tuple[AddressService, dict[int, TargetBackend]]] = {}
        self._first_ports: dict[str, dict[str, int]] = {}
        self._answer_as_vip: set[bytes] = set()

    def number(self, names_of_pool: dict[str, Collection[str]]) -> None:
        """Number the backends of every pool, by the pool's name."""
        self._first_ports = {pool: first_ports(names) for pool, names in names_of_pool.items()}

    def add(self, service: AddressService, pool: str, targets: Sequence[TargetBackend]) -> None:
        """Know a service of a pool, and the backends that its queries can reach."""
        if service.mode.by_extension and service.mode.rewrites_answers and self._topology.translated_probe is None:
            return  # answers could not come back
        ports = self._first_ports[pool]
        self._services[service.key] = service, {ports[target.name]: target for target in targets}
        if not service.mode.rewrites_answers:
            self._answer_as_vip.add(service.address)

    def can_be_probed(self, service: AddressService) -> bool:
        """Whether a service can be probed."""
        return service.key in self._services

    def first_port(self, service: AddressService, target: TargetBackend) -> int | None:
        """The first source port of probes of a backend of a service; None for a service that cannot be probed so."""
        _, targets = self._services.get(service.key, (service, {}))
        return next((port for port, each in targets.items() if each == target), None)

    def target_of(self, packet: Packet) -> tuple[AddressService, TargetBackend] | None:
        """The service and backend of a probe; None where the source port names no backend, or it is no probe."""
        if packet.data[0:6] != self._topology.mac or packet.fragment is not Fragment.NONE:
            return None
        found = self._services.get((packet.destination, packet.protocol, packet.dport))
        target = found[1].get(packet.sport // _PORTS * _PORTS) if found is not None else None
        return None if found is None or target is None else (found[0], target)

    def answer(self, packet: Packet) -> Expectation:
        """What must leave for a packet to the MAC address of the port for probes."""
        topology = self._topology
        port = topology.probe_port
        assert port is not None
        if packet.protocol not in (UDP, TCP) or packet.fragment is not Fragment.NONE:
            return expect_drop("to the port for probes, but no answer to a probe")
        if packet.destination not in topology.probe_addresses:
            return expect_drop("to the port for probes, but to none of its addresses")
        macs = topology.probe_mac, packet.data[6:12]
        for mode in self._modes:
            service = mode.service_of_answer(packet)
            if service is not None:
                source = service.address, service.port
                frames = {rewritten(packet, *macs, source=source, stale_checksum=s) for s in checksum_variants(packet)}
                left = topology.vlans.leaving(frames, 0)
                return Expectation(frozenset(Frame(port, f) for f in left), f"answer to a probe of {service.label}")
        if packet.source in self._answer_as_vip:
            return expect_frame(port, topology.vlans.tagged(packet.data, 0), "answer to a probe of a VIP")
        return expect_drop("to the port for probes, but from no VIP or backend")
