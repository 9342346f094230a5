# SPDX-License-Identifier: Apache-2.0
"""Which frames the switch serves by their VLAN, and the tag with which they leave (docs/vlans.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from dnsteer.spec.model.spec import Backend, Interfaces, Spec

_TAGS = (b"\x81\x00", b"\x88\xa8")
_PRIORITY = 0xE000


class VlanReference:
    """The VLANs of a spec. ID 0 stands for frames without a tag, or with one that has a priority alone."""

    def __init__(self, spec: Spec) -> None:
        switch = spec.switch
        ports: dict[str, Interfaces] = {**switch.ports, **switch.uplinks}
        backends = [backend for pool in spec.pools.values() for backend in pool.backends]
        self._uplinks = tuple(switch.uplinks)
        self._passes = switch.own_traffic is not None
        self._any = switch.vlans == "any"
        said = [*(port.vlan for port in ports.values()), *(backend.vlan for backend in backends)]
        self.named = any(vlan is not None for vlan in said)
        """Whether the spec says of some network which VLAN it is."""
        self._own = {name: _number(port.vlan) for name, port in ports.items()}
        self._behind: dict[str, set[int]] = {name: set() for name in ports}
        for backend in directly_reached(spec):
            for name in self._uplinks if backend.port is None else (backend.port,):
                self._behind[name].add(self._own[name] if backend.vlan is None else _number(backend.vlan))

    def own(self, port: str) -> int:
        """The VLAN of a port itself."""
        return self._own.get(port, 0)

    def of_backend(self, backend: Backend) -> int:
        """The VLAN of a backend; of one without a port that says none, the uplinks' own."""
        return self.own(backend.port or self._uplinks[0]) if backend.vlan is None else _number(backend.vlan)

    def has_vips(self, port: str, vlan: int) -> bool:
        """Whether frames of a VLAN at a port are for VIPs: those of an uplink's own."""
        return port in self._uplinks and (self._any or vlan == self.own(port))

    def has_gateways(self, port: str, vlan: int) -> bool:
        """Whether they are for gateways: those of backends behind the port, or its own where there are none; and those from
        outside, where traffic of backends' own passes."""
        behind = self._behind.get(port)
        if behind is None:
            return False
        return self._any or vlan in (behind or {self.own(port)}) or self.is_outside(port, vlan)

    def is_outside(self, port: str, vlan: int) -> bool:
        """Whether routers send there what is for backends' own addresses: in an uplink's own VLAN without backends."""
        return self._passes and self.has_vips(port, vlan) and self.own(port) not in self._behind[port]

    def is_served(self, port: str, vlan: int) -> bool:
        """Whether the switch serves frames of a VLAN at a port at all."""
        return self.has_vips(port, vlan) or self.has_gateways(port, vlan)

    def served(self, port: str) -> list[int]:
        """The VLANs that are served at a port, for a spec that names some."""
        return sorted({self.own(port), *self._behind[port]}, key=lambda vlan: (vlan != self.own(port), vlan))

    def tagged(self, data: bytes, vlan: int, *, priority: bool = True) -> bytes:
        """The frame *data* as it leaves into a VLAN; with its own tag where the spec names no VLAN. *priority*: it stays."""
        if not self.named:
            return data
        is_tagged = data[12:14] in _TAGS
        if not vlan:
            return data[:12] + data[16:] if is_tagged else data
        if not is_tagged:
            return data[:12] + _TAGS[0] + struct.pack("!H", vlan) + data[12:]
        if not priority:
            return data[:14] + struct.pack("!H", vlan) + data[16:]
        control = int.from_bytes(data[14:16], "big")
        if control & 0xFFF == vlan:
            return data
        return data[:14] + struct.pack("!H", control & _PRIORITY | vlan) + data[16:]

    def leaving(self, frames: Iterable[bytes], vlan: int, *, priority: bool = True) -> frozenset[bytes]:
        """The same of several frames."""
        return frozenset(self.tagged(data, vlan, priority=priority) for data in frames)


def directly_reached(spec: Spec) -> list[Backend]:
    """The backends in the switch's networks: all but those at the ends of its tunnels, which are behind routers."""
    kinds: dict[str, set[bool]] = {}
    for vip in spec.vips.values():
        kinds.setdefault(vip.pool, set()).add(vip.forwarding.value in ("vxlan", "geneve", "gre"))
    for name, pool in spec.pools.items():  # a backup that no VIP names is reached as the pools that it stands by for
        if pool.backup is not None and True in kinds.get(name, ()):
            kinds.setdefault(pool.backup.pool, {True})
    return [b for name, pool in spec.pools.items() if True not in kinds.get(name, ()) for b in pool.backends]


def _number(vlan: int | str | None) -> int:
    return vlan if isinstance(vlan, int) else 0
