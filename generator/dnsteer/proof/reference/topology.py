# SPDX-License-Identifier: Apache-2.0
"""The balancer between its ports: MAC addresses, uplinks, and where answers leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from dnsteer.proof.reference.vlans import VlanReference
from dnsteer.proof.reference.wire import IPV6
from dnsteer.spec.model.next_hop import RouterAddresses
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Pool, Spec, Switch


@dataclass(frozen=True)
class UplinkExit:
    """An uplink, and the packed MAC address of its next hop for IPv4 and for IPv6; empty where it is not known."""

    uplink: str
    next_hop: bytes
    next_hop6: bytes

    def to(self, ethertype: int) -> bytes:
        """The next hop of packets of an Ethernet type."""
        return self.next_hop6 if ethertype == IPV6 else self.next_hop


class SwitchTopology:
    """What the spec says of the switch. MAC and IP addresses are packed."""

    def __init__(self, spec: Spec) -> None:
        switch = spec.switch
        self.mac = packed_mac(switch.mac)
        """MAC address of the VIPs."""
        self.gateway_mac = _gateway_mac(switch)
        """MAC address of the virtual gateways."""
        self.uplinks = tuple(switch.uplinks)
        self.ports = tuple(switch.ports)
        self.gateways = frozenset(address.packed for address in switch.gateways)
        self.vlans = VlanReference(spec)
        part = switch.extension
        self.extension_ingress = part.ingress.port if part is not None else None
        self.extension_ports = (part.ingress.port, part.egress.port) if part is not None else ()
        """Ingress and egress port of the extension; empty without an extension."""
        self.tunnel_sources = tuple(_packed(part.ipv4, part.ipv6)) if part is not None else ()
        """The source addresses of tunnels, at most one per family."""
        own = switch.tunnel
        self.outer_sources = tuple(_packed(own.ipv4, own.ipv6)) if own is not None else ()
        """The source addresses of tunnels that the switch makes, at most one per family."""
        self.tunnel_key = own.key if own is not None else 0
        probe = switch.probe
        self.probe_port = probe.port if probe is not None else None
        self.probe_mac = _probe_mac(switch, probe) if probe is not None else b""
        """MAC address of the port for probes."""
        self.probe_addresses = tuple(a.ip.packed for a in probe.addresses) if probe is not None else ()
        ipv4 = [a.ip.packed for a in probe.addresses if a.ip.version == 4] if probe is not None else []
        self.translated_probe = ipv4[0] if ipv4 else None
        """The address of probes whose answers are translated: the first IPv4 address; None: there are no such probes."""
        self._probe_networks = [a.network for a in probe.addresses] if probe is not None else []
        self.probe_uplink = (probe.uplink if probe is not None else None) or self.uplinks[0]
        """Where backends without a port are probed."""
        self._next_hops = {
            name: UplinkExit(name, *_next_hop(uplink.next_hop))
            for name, uplink in switch.uplinks.items()
            if uplink.next_hop is not None
        }
        self._answers = {name: port.answers for name, port in [*switch.ports.items(), *switch.uplinks.items()]}

    def routers(self, pools: Iterable[Pool]) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """The MAC addresses of routers that send no answers of backends to gateways, and none to the port for probes.

        A next hop whose MAC address a backend has is its way here; and where a backend is in no network of the port for
        probes, its answers to probes come by a router.
        """
        backends = [backend for pool in pools for backend in pool.backends]
        hops = {mac for leave in self._next_hops.values() for mac in (leave.next_hop, leave.next_hop6) if mac}
        routers = frozenset(hops - {packed_mac(backend.mac) for backend in backends})
        addresses = [address for b in backends for address in (b.ipv4, b.ipv6) if address is not None]
        on_link = all(any(address in network for network in self._probe_networks) for address in addresses)
        return routers, routers if on_link else frozenset()

    def exit_of(self, ingress: str) -> UplinkExit | None:
        """The uplink and next hop for answers that come in by *ingress*; None when no uplink has a next hop."""
        named = self._answers[ingress]
        return self._exit_by([ingress, *self.uplinks] if named is None else [named])

    def first_exit(self) -> UplinkExit | None:
        """The first uplink with a next hop."""
        return self._exit_by(self.uplinks)

    def _exit_by(self, candidates: Sequence[str]) -> UplinkExit | None:
        return next((self._next_hops[name] for name in candidates if name in self._next_hops), None)


def asked_neighbors(spec: Spec, vlans: VlanReference) -> Iterator[tuple[str, int, IPv4Address | IPv6Address]]:
    """The neighbours whose MAC addresses are found out, each with the port by which it is asked, and its VLAN.

    An address of a router at its uplink, the first one where it has several; a backend's, which the port for probes is in
    one network with and whose MAC address the spec has as `auto`, or watches, at its port, or at the uplink of probes. It
    is asked by its IPv4 address, if it has both.
    """
    probe = spec.switch.probe
    if probe is None:
        return
    for name, uplink in spec.switch.uplinks.items():
        if isinstance(uplink.next_hop, RouterAddresses):
            yield from (
                (name, vlans.own(name), address)
                for address in (uplink.next_hop.ipv4, uplink.next_hop.ipv6)
                if address is not None
            )
    for pool in spec.pools.values():
        for backend in pool.backends:
            address = backend.ipv4 or backend.ipv6
            if address is None:
                continue
            watched = probe.watch and any(address in own.network for own in probe.addresses)
            if backend.follows_mac or watched:
                port = backend.port or probe.uplink or next(iter(spec.switch.uplinks))
                yield port, vlans.of_backend(backend), address


def packed_mac(text: str) -> bytes:
    """Pack a MAC address."""
    return bytes.fromhex(text.replace(":", ""))


def _next_hop(router: RouterAddresses | str) -> tuple[bytes, bytes]:
    """The MAC addresses of a router for IPv4 and IPv6."""
    if isinstance(router, str):
        return packed_mac(router), packed_mac(router)
    return packed_mac(router.mac_of("ipv4")), packed_mac(router.mac_of("ipv6"))


def _gateway_mac(switch: Switch) -> bytes:
    """The gateways' MAC address: by default the balancer's with its lowest bit inverted."""
    if switch.gateway_mac is not None:
        return packed_mac(switch.gateway_mac)
    mac = packed_mac(switch.mac)
    return mac[:5] + bytes((mac[5] ^ 1,))


def _probe_mac(switch: Switch, probe: Probe) -> bytes:
    """The MAC address of the port for probes: by default the balancer's with its second lowest bit inverted."""
    if probe.mac is not None:
        return packed_mac(probe.mac)
    mac = packed_mac(switch.mac)
    return mac[:5] + bytes((mac[5] ^ 2,))


def _packed(*addresses: IPv4Address | IPv6Address | None) -> list[bytes]:
    return [address.packed for address in addresses if address is not None]
