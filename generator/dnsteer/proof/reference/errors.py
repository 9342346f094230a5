# SPDX-License-Identifier: Apache-2.0
"""ICMP errors to VIPs: those about packets that were too big go to each backend, or to that of a kept connection."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.proof.reference.connections import ConnectionReference
from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop
from dnsteer.proof.reference.service import ModeReference, TargetBackend
from dnsteer.proof.reference.spec_services import target_backends
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import ICMP, ICMPV6, IPV4, Fragment, Packet, rewritten
from dnsteer.spec.derived import endpoints
from dnsteer.spec.model.limits import MAX_COPIES
from dnsteer.spec.model.spec import Forwarding, Spec

_UNREACHABLE, _TOO_BIG_CODE = 3, 4
_PACKET_TOO_BIG = 2


def is_of_path_mtu(packet: Packet) -> bool:
    """Whether a packet is an ICMP error that says that another one was too big (RFC 1191, section 4; RFC 4443, 3.2)."""
    if packet.fragment is not Fragment.NONE:
        return False
    kind, code = packet.data[packet.l4], packet.data[packet.l4 + 1]
    if packet.ethertype == IPV4:
        return packet.protocol == ICMP and (kind, code) == (_UNREACHABLE, _TOO_BIG_CODE)
    return packet.protocol == ICMPV6 and kind == _PACKET_TOO_BIG


class ErrorReference:
    """Who gets the errors to each address of the VIPs."""

    def __init__(
        self,
        spec: Spec,
        topology: SwitchTopology,
        modes: Mapping[Forwarding, ModeReference],
        connections: ConnectionReference,
    ) -> None:
        self._topology, self._connections = topology, connections
        self._receivers: dict[bytes, dict[TargetBackend, None]] = {}
        self._kept: dict[tuple[bytes, int], tuple[TargetBackend, ...]] = {}
        """The backends of services whose connections are kept, by address and port."""
        for vip in spec.vips.values():
            pool, mode = spec.pools[vip.pool], modes[vip.forwarding]
            usual = not mode.addresses_backend and len(pool.backends) <= MAX_COPIES
            if vip.errors == "copy" or (vip.errors is None and usual):
                for address in vip.addresses:
                    found = target_backends(pool, mode, address.version)
                    self._receivers.setdefault(address.packed, {}).update(dict.fromkeys(found))
                    if vip.keep is not None:
                        self._kept |= {(address.packed, e.port): tuple(found) for e in endpoints(vip)}

    def expect(self, port: str, packet: Packet) -> Expectation:
        """Return the copies of an error that came in by an uplink: one for each backend, changed in nothing but the MACs."""
        receivers = self._receivers.get(packet.destination)
        if receivers is None:
            return expect_drop("ICMP error for no VIP whose backends get them")
        uplinks, frames = self._topology.uplinks, set()
        own = self._of_connection(packet)
        for target in own or receivers:
            leaves = port if target.port is None else target.port
            from_mac = self._topology.mac if leaves in uplinks else packet.data[6:12]
            if target.mac:  # else it has not answered yet
                copy = rewritten(packet, target.mac, from_mac)
                frames |= {
                    Frame(leaves, data) for data in self._topology.vlans.leaving((copy,), target.vlan, priority=False)
                }
        why = "about a connection that is kept, for its backend" if own else "a copy for each backend"
        return Expectation(frozenset(frames), f"ICMP error, {why}", every=True)

    def _of_connection(self, error: Packet) -> list[TargetBackend]:
        """The backend of the connection that an error is about; none where that is not kept."""
        port, name = self._connections.named_in(error) or (0, "")
        return [target for target in self._kept.get((error.destination, port), ()) if target.name == name]
