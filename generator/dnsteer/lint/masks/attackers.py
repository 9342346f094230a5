# SPDX-License-Identifier: Apache-2.0
"""Who sends the traffic: which ports, and which values of each field, somebody can choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.fields import ICMP, ICMPV6, IPV4, IPV6, TCP, UDP
from dnsteer.spec.bonds import bond_members, uplink_ports
from dnsteer.spec.derived import gateway_mac, routed_prefixes
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.model.types import Network
from dnsteer.spec.networks import NO_VLAN, networks_of, own_vlan
from dnsteer.spec.own_traffic import own_prefixes
from dnsteer.switch.masks import prefix

_BY_EXTENSION = (ICMP, 4, TCP, UDP, 41, 44, ICMPV6)
"""Protocols that the extension sends: 4 and 41 are tunnels, 44 is a later fragment of IPv6 in Open vSwitch."""


@dataclass(frozen=True)
class FieldChoice:
    """The values of a field's bits *mask* that somebody can send: *values*, or *count* that are not known if it is None."""

    mask: int
    values: frozenset[int] | None
    count: int

    @classmethod
    def of(cls, name: str, *values: int) -> FieldChoice:
        """These values of a whole field."""
        return cls(fields.full_mask(name), frozenset(values), len(set(values)))

    @classmethod
    def unknown(cls, name: str, count: int) -> FieldChoice:
        """This many values of a whole field."""
        return cls(fields.full_mask(name), None, count)


@dataclass(frozen=True)
class Sender:
    """What somebody can send. A field that *choices* leaves out can have any value, but for those that *never* has.

    *ports*: where the packets come in. *ethertypes*: None for any. *fragments*: values of nw_frag. *vlans*: the VLANs of
    their tags, 0 for frames without one; None for any tag, or none.
    """

    ports: tuple[str, ...]
    ethertypes: frozenset[int] | None = None
    fragments: tuple[int, ...] = (0, 1, 3)
    vlans: frozenset[int] | None = None
    choices: Mapping[str, FieldChoice] = field(default_factory=dict)
    never: Mapping[str, frozenset[int]] = field(default_factory=dict)


_UNTAGGED = frozenset((NO_VLAN,))
_LINK_VALUES = 1 << 48 + 16
"""Source MAC addresses times VLAN tags: the destination is one."""


@dataclass(frozen=True)
class Attacker:
    """Somebody who wants many megaflows, and what they can have others send.

    *link_values*: how many values the fields of Ethernet have in packets that are alike above it.
    """

    name: str
    senders: tuple[Sender, ...]
    link_values: int = 1


def routed_attacker(spec: Spec) -> Attacker:
    """Somebody behind a router, who reaches the routed prefixes from any address. MACs are the router's and the balancer's.

    One router of each uplink is counted. It puts the tag of the uplink's VLAN on, with a priority that may be of the packet.
    """
    choices = {
        "dl_dst": FieldChoice.of("dl_dst", _mac(spec.switch.mac)),
        "dl_src": FieldChoice.unknown("dl_src", 1),
        **_destinations(routed_prefixes(spec)),
    }
    kinds = frozenset(kind for name, kind in (("nw_dst", IPV4), ("ipv6_dst", IPV6)) if name in choices)
    never = {"nw_ttl": frozenset((0, 255))}  # the router has taken one, and forwards none that it took to zero
    by_vlan: dict[int, tuple[str, ...]] = {}
    for name in spec.switch.uplinks:
        vlan, ports = own_vlan(spec.switch, name), bond_members(spec.switch, name) or (name,)
        by_vlan[vlan] = (*by_vlan.get(vlan, ()), *ports)
    senders = [
        Sender(uplinks, kinds, vlans=frozenset((vlan,)), choices=choices, never=never)
        for vlan, uplinks in by_vlan.items()
    ]
    senders += _to_backends(spec, never)
    return Attacker("behind a router", (*senders, *_extension(spec)))


def _to_backends(spec: Spec, never: Mapping[str, frozenset[int]]) -> Iterator[Sender]:
    """What comes for backends' own addresses, to the gateways' MAC address."""
    destinations = _destinations(own_prefixes(spec))
    kinds = frozenset(kind for name, kind in (("nw_dst", IPV4), ("ipv6_dst", IPV6)) if name in destinations)
    choices = {
        "dl_dst": FieldChoice.of("dl_dst", _mac(gateway_mac(spec.switch))),
        "dl_src": FieldChoice.unknown("dl_src", 1),
        **destinations,
    }
    for network in networks_of(spec):
        if network.outside:
            ports = bond_members(spec.switch, network.port) or (network.port,)
            yield Sender(ports, kinds, vlans=frozenset((network.vlan,)), choices=choices, never=never)


def network_attacker(spec: Spec) -> Attacker:
    """Somebody on the network itself: any frame at any port."""
    ports = (*uplink_ports(spec.switch), *spec.switch.ports)
    return Attacker("on the network itself", (Sender(ports), *_extension(spec)), _LINK_VALUES)


def _destinations(prefixes: Iterable[Network]) -> Mapping[str, FieldChoice]:
    found: dict[str, FieldChoice] = {}
    for name, version in (("nw_dst", 4), ("ipv6_dst", 6)):
        here = [each for each in prefixes if each.version == version]
        if here:
            mask = prefix(fields.width(name), min(each.prefixlen for each in here))
            values = frozenset(int(each.network_address) & mask for each in here)
            found[name] = FieldChoice(mask, values, len(values))
    return found


def _extension(spec: Spec) -> tuple[Sender, ...]:
    """What the extension sends: queries, answers, tunnels and ICMP's errors, to backends and next hops, whoever asked."""
    if spec.switch.extension is None:
        return ()
    part = spec.switch.extension
    macs = sum(len(pool.backends) for pool in spec.pools.values()) + len(spec.switch.uplinks)
    choices = {name: FieldChoice.unknown(name, macs) for name in ("dl_dst", "dl_src")}
    choices["nw_proto"] = FieldChoice.of("nw_proto", *_BY_EXTENSION)
    return (Sender((part.ingress.port, part.egress.port), frozenset((IPV4, IPV6)), vlans=_UNTAGGED, choices=choices),)


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)
