# SPDX-License-Identifier: Apache-2.0
"""The bridge and ports that OVSDB must have for a plan, as one value that scripts and apply both use, and their MTU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dnsteer.spec.bonds import is_lag, uplink_ports
from dnsteer.spec.derived import INTERFACE_TYPE, probe_mac
from dnsteer.spec.model.part import Device
from dnsteer.spec.model.spec import Flavor, Spec, Switch
from dnsteer.spec.tunnels import TUNNELS, tunnel_kinds
from dnsteer.tables.order import TABLES

DATAPATH_TYPE = {
    Flavor.OVS_DOCA: "netdev",
    Flavor.OVS_DPDK: "netdev",
    Flavor.OVS_NETDEV: "netdev",
    Flavor.OVS_KERNEL: "system",
}


@dataclass(frozen=True)
class WantedPort:
    """A wanted interface."""

    name: str
    title: str
    type: str
    options: Mapping[str, str]
    mac: str = ""
    """The MAC address that OVSDB gives it; empty where it has its own."""

    @property
    def is_tunnel(self) -> bool:
        """Whether it makes tunnels, and is no device."""
        return self.name in TUNNEL_PORTS


@dataclass(frozen=True)
class WantedLag:
    """A bond by LACP that is wanted, with its *members*: `switch/lags.py` says what becomes of it.

    *name* is that of the uplink, and of the patch port of the balancer's bridge.
    """

    name: str
    members: tuple[WantedPort, ...]


@dataclass(frozen=True)
class WantedBridge:
    """A wanted bridge, and the bonds by LACP beside it."""

    name: str
    datapath_type: str
    ports: tuple[WantedPort, ...]
    table_names: Mapping[int, str]
    hwaddr: str = ""
    """The MAC address of the bridge's own port, from which tunnels leave; empty where it does not matter."""
    lags: tuple[WantedLag, ...] = ()
    mtu: int | None = None
    """The MTU, in bytes, that members of bonds by LACP are made with; bring-up gives the other ports theirs."""

    @property
    def devices(self) -> tuple[WantedPort, ...]:
        """The ports of the bridge and the members of bonds beside it."""
        return (*self.ports, *(member for lag in self.lags for member in lag.members))


TUNNEL_PORTS = frozenset(kind.port for kind in TUNNELS.values())
TUNNEL_OPTIONS: Mapping[str, str] = {"key": "flow", "remote_ip": "flow"}
"""Flows say where each tunnel ends and what its key is."""


def ports_of(switch: Switch) -> dict[str, Device]:
    """All ports of the bridge by name."""
    part = switch.extension
    own = [] if part is None else [part.ingress, part.egress]
    return {**uplink_ports(switch), **switch.ports, **{port.port: port for port in own}}


def wanted_bridge(spec: Spec) -> WantedBridge:
    """The bridge of a spec."""
    switch = spec.switch
    uplinks = uplink_ports(switch)

    def wanted(name: str, port: Device, title: str) -> WantedPort:
        kind = port.type if port.type is not None else INTERFACE_TYPE[switch.flavor]
        return WantedPort(name, title, kind, dict(sorted(port.options.items())))

    ports = tuple(
        wanted(
            name,
            port,
            "uplink" if name in uplinks else "port of backends" if name in switch.ports else "port of the extension",
        )
        for name, port in ports_of(switch).items()
    )
    lags = tuple(
        WantedLag(name, tuple(wanted(m, port, f"member of {name}") for m, port in (uplink.members or {}).items()))
        for name, uplink in switch.uplinks.items()
        if is_lag(uplink)
    )
    if switch.probe is not None:
        mac = probe_mac(switch, switch.probe)
        ports += (WantedPort(switch.probe.port, "port for probes", "internal", {}, mac),)
    found = tunnel_kinds(spec)
    ports += tuple(WantedPort(k.port, "port of tunnels", k.type, TUNNEL_OPTIONS) for k in found.values())
    kind = switch.datapath_type or DATAPATH_TYPE[switch.flavor]
    return WantedBridge(
        switch.bridge,
        kind,
        ports,
        {t.number: t.name for t in TABLES},
        switch.mac if found else "",
        lags,
        switch.bringup.mtu if switch.bringup is not None else None,
    )


LEAST_MTU = 1280
"""What every link of IPv6 must carry (RFC 8200, 5); an answer of 1232 bytes, the usual limit over UDP, just fits."""
_USUAL = 1500


def full_mtu(spec: Spec, port: str) -> int:
    """Return the MTU of a port, in bytes, with which full TCP segments of clients and servers on usual links pass, or more
    where the spec itself gives the interfaces more. Tunnels of Open vSwitch leave by uplinks alone."""
    from dnsteer.modes import MODES  # here, since the quick verbs do without

    vips = [vip for vip in spec.vips.values() if port not in spec.switch.ports or vip.forwarding not in TUNNELS]
    longer = [MODES[vip.forwarding].mtu_excess(vip, spec.pools[vip.pool]) for vip in vips]
    part = spec.switch.bringup
    return max((part.mtu if part is not None else None) or 0, _USUAL + max(longer, default=0))
