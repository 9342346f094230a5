# SPDX-License-Identifier: Apache-2.0
"""Defaults of a spec that depend on other fields, in one place, and limits of flavors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_network
from typing import Literal

from dnsteer.spec.announced import announced_prefixes, announced_vips
from dnsteer.spec.model.client_prefix import ClientPrefix
from dnsteer.spec.model.families import Family, Reach
from dnsteer.spec.model.limits import MAX_COPIES
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import (
    MAX_SLOTS,
    SHORTHANDS,
    Backend,
    Flavor,
    Forwarding,
    Pool,
    Protocol,
    Selection,
    ServiceEntry,
    Spec,
    Switch,
    Vip,
)
from dnsteer.spec.model.tracking import Tracking
from dnsteer.spec.model.types import Address, Network


@dataclass(frozen=True)
class Endpoint:
    """One protocol and port of a VIP, shorthands resolved. *index* is the entry's place in the spec's list."""

    protocol: Protocol
    port: int
    target_port: int
    index: int


@dataclass(frozen=True)
class FlavorLimits:
    """What a flavor can do. *why_no_dp_hash* says why dp-hash is refused; empty where it works."""

    max_dp_hash_slots: int
    why_no_dp_hash: str = ""


SOURCE_PORT_SLOTS = 256
"""Slots of a pool that names none, unless the switch's hash selects. A constant: a number that followed the members would
change with them, and then most slots move. A change moves 3 % more slots than it must; with 1024 slots it is 2 %, for four
times the hardware rules (docs/slots.md)."""

FEWER_SLOTS = ((128, 64), (64, 128))
"""Slots of a pool that names none, and the number of services that share it above which it has so many. With 64 services
256 slots make 16,384 rules, and with 64 slots a change moves 5 % more slots than it must (docs/slots.md)."""
SLOTS_OF_BACKEND = 4
"""Slots that each backend has at least where fewer than SOURCE_PORT_SLOTS are chosen."""
RULES = 100_000
"""The budget of hardware rules where the spec names none: half of Open vSwitch's flow-limit. The cards of which it is
published how many entries they have hold 4,000,000 (ovs/hardware), so that their limit is never the lower one."""

PROBE_PORTS = 16
"""Source ports of the probes of one backend."""
MAX_PROBED = 2047
"""Backends of a pool that can be probed through the bridge: the upper half of the ports, 16 for each."""

MAX_PORTS = 65_279
"""OpenFlow numbers the ports of a bridge from 1 to 0xfeff."""
MAX_POOLS = 32_767
"""Pools of each family are numbered in 16 bits."""
MAX_SERVICES = 1_000_000
"""Services in all (addresses times protocols and ports): each is a flow."""
MAX_TRANSLATIONS = 2_000_000
"""Services of NAT VIPs times their backends: each is a flow for the answers."""
MAX_BACKEND_ADDRESSES = 65_535
"""Every backend address has a zone of the connection tracker, and zones have 16 bits."""

IPV4_HEADER, IPV6_HEADER = 20, 40
"""Bytes that a tunnel adds (RFC 2003, RFC 2473)."""

INTERFACE_TYPE: dict[Flavor, str] = {
    Flavor.OVS_DOCA: "dpdk",
    Flavor.OVS_DPDK: "dpdk",
    Flavor.OVS_NETDEV: "system",
    Flavor.OVS_KERNEL: "system",
}
"""The type in OVSDB of a port that names none."""

FLAVOR_LIMITS: dict[Flavor, FlavorLimits] = {
    # A 2024 source snapshot of NVIDIA's fork has a hash field of 4 bits; later widths are not published.
    Flavor.OVS_DOCA: FlavorLimits(16),
    Flavor.OVS_DPDK: FlavorLimits(0, "its rte_flow offload takes no recirculated flow, so the CPU would forward all"),
    Flavor.OVS_KERNEL: FlavorLimits(0, "its TC flower offload takes no dp_hash match, so the CPU would forward all"),
    Flavor.OVS_NETDEV: FlavorLimits(256),  # above 256 OVS falls back to one megaflow per client
}


def family_of(address: Address) -> Family:
    """The family of *address*."""
    return "ipv4" if address.version == 4 else "ipv6"


def tracking(spec: Spec) -> Tracking:
    """How the connections of VIPs that keep them are remembered."""
    return spec.switch.tracking or Tracking()


def keeps_connections(spec: Spec) -> bool:
    """Whether the connections of any VIP are kept."""
    return any(map(keeps, spec.vips.values()))


def keeps(vip: Vip) -> bool:
    """Whether the tracker keeps the TCP connections of a VIP."""
    return vip.keep is not None or tracks_answers(vip)


def tracks_answers(vip: Vip) -> bool:
    """Whether the tracker sees the answers of a VIP's TCP connections too."""
    return vip.forwarding is Forwarding.CT_NAT


def zone_of(spec: Spec, vip: Vip) -> int:
    """The zone of the tracker that keeps the TCP connections of a VIP; 0: they are not kept."""
    return tracking(spec).zone if keeps(vip) else 0


def address_of(backend: Backend, family: Family) -> Address | None:
    """The backend's address in *family*, if it has one."""
    return backend.ipv4 if family == "ipv4" else backend.ipv6


def endpoints(vip: Vip) -> tuple[Endpoint, ...]:
    """The VIP's protocols and ports in the order of the spec."""
    return _endpoints(tuple(vip.services))


@lru_cache(1024)  # most VIPs have the same services, and many ask for them
def _endpoints(services: tuple[ServiceEntry, ...]) -> tuple[Endpoint, ...]:
    found: list[Endpoint] = []
    for index, entry in enumerate(services):
        if isinstance(entry, str):
            found += (Endpoint(protocol, port, port, index) for protocol, port in SHORTHANDS[entry])
        else:
            found.append(Endpoint(entry.protocol, entry.port, entry.target_port or entry.port, index))
    return tuple(found)


def dns_transport(endpoint: Endpoint) -> Literal["dns", "dot", "doq", "doh", "doh3"]:
    """What clients speak at a service, by its port: 853 is that of DoT and DoQ, 443 that of DoH, any other plain DNS's."""
    if endpoint.port == 853:
        return "dot" if endpoint.protocol is Protocol.TCP else "doq"
    if endpoint.port == 443:
        return "doh" if endpoint.protocol is Protocol.TCP else "doh3"
    return "dns"


def is_quic(endpoint: Endpoint) -> bool:
    """Whether clients speak QUIC at a service: DoQ, or DoH by HTTP/3."""
    return dns_transport(endpoint) in ("doq", "doh3")


def gateway_mac(switch: Switch) -> str:
    """MAC address of the virtual gateways."""
    if switch.gateway_mac is not None:
        return switch.gateway_mac
    return f"{switch.mac[:-2]}{int(switch.mac[-2:], 16) ^ 1:02x}"


def probe_mac(switch: Switch, probe: Probe) -> str:
    """MAC address of the port for probes."""
    return probe.mac or f"{switch.mac[:-2]}{int(switch.mac[-2:], 16) ^ 2:02x}"


def translated_probe(probe: Probe) -> str:
    """The first IPv4 address of probes, from which VIPs are probed whose answers are translated; empty for none."""
    return next((str(a.ip) for a in probe.addresses if a.ip.version == 4), "")


def probe_uplink(switch: Switch, probe: Probe) -> str:
    """The uplink by which probes reach backends without a port."""
    return probe.uplink or next(iter(switch.uplinks))


def members(pool: Pool, reached: Reach) -> list[Backend]:
    """Backends that have an address by which they are reached, in the order of the spec."""
    if reached == "any":
        return [b for b in pool.backends if b.ipv4 is not None or b.ipv6 is not None]
    return [b for b in pool.backends if address_of(b, reached) is not None]


def copies_errors(vip: Vip, pool: Pool) -> bool:
    """Whether each backend of a VIP's pool gets a copy of ICMP errors to it."""
    if vip.errors is not None:
        return vip.errors == "copy"
    return vip.forwarding is Forwarding.DSR and len(pool.backends) <= MAX_COPIES


def pools_of_kept_errors(spec: Spec) -> set[str]:
    """The pools to whose backends ICMP errors about connections go that the tracker keeps, each to its own."""
    return {vip.pool for vip in spec.vips.values() if keeps(vip) and copies_errors(vip, spec.pools[vip.pool])}


def tunnel_end(backend: Backend, family: Family) -> Address | None:
    """Where a tunnel for packets in *family* ends: at the backend's address in that family, or else at its other one."""
    own, other = (backend.ipv4, backend.ipv6) if family == "ipv4" else (backend.ipv6, backend.ipv4)
    return own if own is not None else other


def hash_fields(pool: Pool) -> list[str]:
    """What `client` hashes."""
    return pool.hash_fields or ["src_ip"]


def client_prefix(pool: Pool, family: Family) -> int:
    """Length of the prefix of clients whose lowest bits are the slot, with selection source-address."""
    prefix = pool.client_prefix or ClientPrefix()
    return prefix.ipv4 if family == "ipv4" else prefix.ipv6


def slot_count(spec: Spec, pool: Pool) -> int:
    """Number of slots of *pool*, the same for both families; for dp-hash that names none, the most the flavor has."""
    if pool.slots is not None:
        return pool.slots
    if pool.selection is Selection.DP_HASH:
        return FLAVOR_LIMITS[spec.switch.flavor].max_dp_hash_slots
    if not pool.selection.by_bits or pool.passes == 2:
        return SOURCE_PORT_SLOTS
    services = services_of_pool(spec, pool)
    slots = next((few for few, above in reversed(FEWER_SLOTS) if services > above), SOURCE_PORT_SLOTS)
    least = 1 << (SLOTS_OF_BACKEND * len(pool.backends) - 1).bit_length()
    return min(SOURCE_PORT_SLOTS, max(slots, least))


@dataclass(frozen=True)
class _SharedPools:
    """How many services share the pools of a spec that has these *vips* and *pools*, by the identity of the pool."""

    vips: Mapping[str, Vip]
    pools: Mapping[str, Pool]
    services: Mapping[int, int]


_last = _SharedPools({}, {}, {})
"""What was counted last: each of many VIPs asks for the number of slots of its pool."""


def services_of_pool(spec: Spec, pool: Pool) -> int:
    """How many services, addresses times protocols and ports, share a pool of the spec. KeyError: it is not of the spec."""
    global _last
    shared = _last
    if shared.vips is not spec.vips or shared.pools is not spec.pools:
        numbers = Counter[str]()
        for vip in spec.vips.values():
            numbers[vip.pool] += len(vip.addresses) * len(endpoints(vip))
        shared = _SharedPools(spec.vips, spec.pools, {id(each): numbers[name] for name, each in spec.pools.items()})
        _last = shared
    return shared.services[id(pool)]


def most_slots(spec: Spec, pool: Pool) -> int:
    """The most slots that *pool* can name."""
    hashed = pool.selection is Selection.DP_HASH
    return FLAVOR_LIMITS[spec.switch.flavor].max_dp_hash_slots if hashed else MAX_SLOTS


def answers_leave_by(switch: Switch, ingress: str) -> str | None:
    """The uplink by which answers that come in by port *ingress* leave; None when no uplink has a next hop."""
    own = switch.uplinks.get(ingress) or switch.ports.get(ingress)
    if own is not None and own.answers is not None:
        return own.answers
    uplink = switch.uplinks.get(ingress)
    if uplink is not None and uplink.next_hop is not None:
        return ingress
    return next((name for name, up in switch.uplinks.items() if up.next_hop is not None), None)


def routed_prefixes(spec: Spec) -> list[Network]:
    """What routers send here: `switch.routed`; left out, what is announced, and of other VIPs their /24 and /64."""
    if spec.switch.routed is not None:
        return list(spec.switch.routed)
    announced = announced_vips(spec)
    found: dict[Network, None] = {one.prefix: None for one in announced_prefixes(spec)}
    for name, vip in spec.vips.items():
        for address in vip.addresses:
            length = address.max_prefixlen if name in announced else 24 if address.version == 4 else 64
            found[ip_network((address, length), strict=False)] = None
    # A route within another one adds nothing that somebody could choose.
    return [own for own in found if not any(own != other and contains(other, own) for other in found)]


def contains(outer: Network, inner: Network) -> bool:
    """Whether *inner* is within *outer*, or the same."""
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type] # of one family


def routed_bits(spec: Spec) -> dict[Family, int]:
    """By family, the length of the shortest prefix that is routed here: nobody behind a router chooses these bits."""
    return shortest(routed_prefixes(spec))


def shortest(prefixes: Iterable[Network]) -> dict[Family, int]:
    """By family, the length of the shortest of some prefixes; that of a whole address where there is none."""
    found: dict[Family, int] = {"ipv4": 32, "ipv6": 128}
    for prefix in prefixes:
        family: Family = "ipv4" if prefix.version == 4 else "ipv6"
        found[family] = min(found[family], prefix.prefixlen)
    return found


def leads_to_backends(spec: Spec, mac: str) -> bool:
    """Whether a router's *mac* is also that of a backend: then answers of backends behind it come from there."""
    return any(backend.mac == mac for pool in spec.pools.values() for backend in pool.backends)


def probes_are_on_link(spec: Spec) -> bool:
    """Whether backends answer probes without a router: each has its addresses in networks of the port for probes."""
    if spec.switch.probe is None:
        return False
    networks = [own.network for own in spec.switch.probe.addresses]
    addresses = [a for pool in spec.pools.values() for b in pool.backends for a in (b.ipv4, b.ipv6) if a is not None]
    return all(any(a.version == n.version and a in n for n in networks) for a in addresses)


def pair_name(spec: Spec) -> str:
    """What switches that stand in for each other have in common: `switch.pair`, else the lowest address of the VIPs.

    Empty without VIPs.
    """
    if spec.switch.pair is not None:
        return spec.switch.pair
    addresses = [address for vip in spec.vips.values() for address in vip.addresses]
    return str(min(addresses, key=lambda a: (a.version, int(a)))) if addresses else ""
