# SPDX-License-Identifier: Apache-2.0
"""Which packets are those of a VIP or of a backend: from the spec alone, for every forwarding mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dnsteer.capture.frames import TCP, TUNNELS, UDP, CapturedPacket, read_frame
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.bonds import bond_members, uplink_ports
from dnsteer.spec.errors import near
from dnsteer.spec.model.spec import Backend, Pool, Protocol, Spec, Switch, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.workers import named
from dnsteer.switch.tools import SwitchError

_NUMBERS = {Protocol.TCP: TCP, Protocol.UDP: UDP}


@dataclass(frozen=True)
class PacketCondition:
    """What must hold besides protocol, address and port; empty: nothing.

    *mac* is that of the same end, *peer* the first bytes of the other end's address, *tunnel* where the tunnel leads.
    """

    mac: bytes = b""
    peer: bytes = b""
    tunnel: bytes = b""


ANY = PacketCondition()


@dataclass
class PacketSelection:
    """The packets of a VIP or backend (*title*). *ports* of the bridge are those that they pass.

    *addresses* are those that the outer IP header of each packet has one of, but for ICMP errors. *extended*: the
    extension serves it.
    """

    title: str
    ports: tuple[str, ...]
    extended: bool = False
    addresses: set[bytes] = field(default_factory=set)
    _ends: dict[tuple[int, bytes], dict[int, list[PacketCondition]]] = field(default_factory=dict)
    _tunnels: set[bytes] = field(default_factory=set)

    def add(self, protocol: Protocol, address: Address, port: int, condition: PacketCondition = ANY) -> None:
        """Count packets from and to this protocol, address and port."""
        ports = self._ends.setdefault((_NUMBERS[protocol], address.packed), {})
        ports.setdefault(port, []).append(condition)
        if condition.tunnel:
            self._tunnels.add(condition.tunnel)

    def matches(self, frame: bytes) -> bool:
        """Whether a frame is one of them; also fragments, tunnelled packets, and ICMP errors about them."""
        packet = read_frame(frame)
        return packet is not None and self._matches_packet(packet, packet, b"")

    def _matches_packet(self, packet: CapturedPacket, outer: CapturedPacket, tunnel: bytes) -> bool:
        if packet.inner is not None:
            return self._matches_packet(packet.inner, outer, b"" if packet.quoted else packet.destination)
        if packet.protocol in TUNNELS:  # a later fragment, or quoted without what it carries
            return packet.destination in self._tunnels
        return self._matches_end(
            packet, packet.source, packet.source_port, packet.destination, outer.source_mac, tunnel
        ) or self._matches_end(
            packet, packet.destination, packet.destination_port, packet.source, outer.destination_mac, tunnel
        )

    def _matches_end(
        self, packet: CapturedPacket, address: bytes, port: int | None, peer: bytes, mac: bytes, tunnel: bytes
    ) -> bool:
        ports = self._ends.get((packet.protocol, address))
        if ports is None:
            return False
        found = ports.get(port, ()) if port is not None else [c for each in ports.values() for c in each]
        return any(
            mac.startswith(c.mac) and peer.startswith(c.peer) and (not c.tunnel or tunnel == c.tunnel) for c in found
        )


def select_packets(spec: Spec, name: str) -> PacketSelection:
    """The packets of the VIP or POOL/BACKEND *name*. Raises SwitchError if there is none."""
    pool, slash, backend = name.partition("/")
    if not slash:
        if name not in spec.vips:
            raise SwitchError(
                f"found {name!r}; expected a VIP or POOL/BACKEND of the applied spec: {near(name, spec.vips)}"
            )
        return _of_vip(spec, name, spec.vips[name])
    if pool not in spec.pools:
        raise SwitchError(f"found the pool {pool!r}; expected one of the applied spec: {near(pool, spec.pools)}")
    found = named(spec.pools[pool], backend)
    if found:
        return _of_backends(spec, name, pool, found)
    names = dict.fromkeys(word for b in spec.pools[pool].backends for word in (b.host, b.name))
    raise SwitchError(f"found {backend!r}; expected a backend of pool {pool}: {near(backend, names)}")


def _of_vip(spec: Spec, name: str, vip: Vip) -> PacketSelection:
    pool = spec.pools[vip.pool]
    backends = [b for _, each in _serving(spec, vip.pool, pool) for b in each.backends]
    behind = dict.fromkeys(b.port for b in backends if b.port is not None)
    ports = [port for place in behind for port in _ports_at(spec.switch, place)]
    out = PacketSelection(f"VIP {name}", tuple(dict.fromkeys([*uplink_ports(spec.switch), *ports])))
    out.extended = MODES[vip.forwarding].uses_extension(pool)
    for address in vip.addresses:
        out.addresses.add(address.packed)
        for endpoint in derived.endpoints(vip):
            out.add(endpoint.protocol, address, endpoint.port)
    for backend in backends:
        _add_backend(out, vip, backend)
    return out


def _ports_at(switch: Switch, port: str | None) -> tuple[str, ...]:
    """The ports of the bridge by which backends at *port* are, the members of a bond; without one all of uplinks."""
    if port is None:
        return tuple(uplink_ports(switch))
    return bond_members(switch, port) or (port,)


def _of_backends(spec: Spec, title: str, pool: str, backends: Sequence[Backend]) -> PacketSelection:
    """The packets of one backend, or of all workers of one host."""
    port = backends[0].port
    out = PacketSelection(f"backend {title}", _ports_at(spec.switch, port))
    for vip in spec.vips.values():
        if pool in [name for name, _ in _serving(spec, vip.pool, spec.pools[vip.pool])]:
            out.extended |= MODES[vip.forwarding].uses_extension(spec.pools[vip.pool])
            for backend in backends:
                _add_backend(out, vip, backend)
    return out


def _add_backend(out: PacketSelection, vip: Vip, backend: Backend) -> None:
    """Add the packets of a VIP between the switch and a backend."""
    for address in vip.addresses:
        end = MODES[vip.forwarding].backend_end(backend, address)
        if end is None:
            continue
        condition = PacketCondition(
            bytes.fromhex(end.mac.replace(":", "")), end.client, end.tunnel.packed if end.tunnel is not None else b""
        )
        for endpoint in derived.endpoints(vip):
            out.add(endpoint.protocol, end.address, endpoint.target_port + backend.port_offset, condition)
        out.addresses.add((end.tunnel or end.address).packed)


def _serving(spec: Spec, name: str, pool: Pool) -> Iterator[tuple[str, Pool]]:
    """The pool and its backup, whose backends may serve the pool's VIPs too."""
    yield name, pool
    if pool.backup is not None:
        yield pool.backup.pool, spec.pools[pool.backup.pool]
