# SPDX-License-Identifier: Apache-2.0
"""ICMP errors to VIPs: those that say that a packet was too big go to each backend (docs/icmp.md)."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.proof.reference.outcome import Expectation, Frame, expect_drop
from dnsteer.proof.reference.service import ModeReference, TargetBackend
from dnsteer.proof.reference.spec_services import target_backends
from dnsteer.proof.reference.topology import SwitchTopology
from dnsteer.proof.reference.wire import ICMP, ICMPV6, IPV4, Fragment, Packet, rewritten
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

    def __init__(self, spec: Spec, topology: SwitchTopology, modes: Mapping[Forwarding, ModeReference]) -> None:
        self._topology = topology
        self._receivers: dict[bytes, dict[TargetBackend, None]] = {}
        for vip in spec.vips.values():
            pool, mode = spec.pools[vip.pool], modes[vip.forwarding]
            usual = not mode.addresses_backend and len(pool.backends) <= MAX_COPIES
            if vip.errors == "copy" or (vip.errors is None and usual):
                for address in vip.addresses:
                    found = target_backends(pool, mode, address.version)
                    self._receivers.setdefault(address.packed, {}).update(dict.fromkeys(found))

    def expect(self, port: str, packet: Packet) -> Expectation:
        """Return the copies of an error that came in by an uplink: one for each backend, changed in nothing but the MACs."""
        receivers = self._receivers.get(packet.destination)
        if receivers is None:
            return expect_drop("ICMP error for no VIP whose backends get them")
        uplinks, frames = self._topology.uplinks, set()
        for target in receivers:
            leaves = port if target.port is None else target.port
            from_mac = self._topology.mac if leaves in uplinks else packet.data[6:12]
            if target.mac:  # else it has not answered yet
                frames.add(Frame(leaves, rewritten(packet, target.mac, from_mac)))
        return Expectation(frozenset(frames), "ICMP error, a copy for each backend", every=True)
