# SPDX-License-Identifier: Apache-2.0
"""A mask of the datapath: the bits of a packet that a megaflow matches, by field of Open vSwitch's classifier.

Two megaflows with the same mask share one hash table of the datapath (a subtable), each further mask costs every packet one
more look. Fields that share bits in the switch share a name here: an ARP packet's sender address is `nw_src`, its operation
and an IP protocol are `nw_proto`, ICMP type and code are `tp_src` and `tp_dst`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from dnsteer.switch.megaflow_fields import Field

Mask = frozenset[tuple[str, int]]
"""Matched bits by field; fields without any are left out."""

# fmt: off
WIDTHS: dict[str, int] = {
    "dp_hash": 32, "ct_state": 8, "ct_zone": 16, "ct_mark": 32, "ct_label": 128, "pkt_mark": 32, "skb_priority": 32,
    "dl_dst": 48, "dl_src": 48, "vlan_pcp": 3,
    "nw_src": 32, "nw_dst": 32, "ipv6_src": 128, "ipv6_dst": 128, "ipv6_label": 20, "nw_frag": 2, "nw_tos": 8, "nw_ttl": 8,
    "nw_proto": 8,
    "nd_target": 128, "arp_sha": 48, "arp_tha": 48, "tcp_flags": 16, "tp_src": 16, "tp_dst": 16, "igmp_group_ip4": 32,
}
# fmt: on
"""Bits of each field that may differ between masks. What every megaflow matches wholly (recirculation, port, packet type,
ethertype, VLAN identifier or its absence) makes no difference and is left out."""

# fmt: off
_NAMES = {
    "eth.src": "dl_src", "eth.dst": "dl_dst", "vlan.pcp": "vlan_pcp",
    "ipv4.src": "nw_src", "ipv4.dst": "nw_dst", "ipv4.proto": "nw_proto", "ipv4.tos": "nw_tos", "ipv4.ttl": "nw_ttl",
    "ipv4.frag": "nw_frag",
    "ipv6.src": "ipv6_src", "ipv6.dst": "ipv6_dst", "ipv6.label": "ipv6_label", "ipv6.proto": "nw_proto",
    "ipv6.tclass": "nw_tos", "ipv6.hlimit": "nw_ttl", "ipv6.frag": "nw_frag",
    "arp.sip": "nw_src", "arp.tip": "nw_dst", "arp.op": "nw_proto", "arp.sha": "arp_sha", "arp.tha": "arp_tha",
    "nd.target": "nd_target", "nd.sll": "arp_sha", "nd.tll": "arp_tha",
    "nd_ext.nd_options_type": "tcp_flags", "nd_ext.nd_reserved": "igmp_group_ip4", "skb_mark": "pkt_mark",
    "icmp.type": "tp_src", "icmp.code": "tp_dst", "icmpv6.type": "tp_src", "icmpv6.code": "tp_dst",
    **{f"{p}.{end}": f"tp_{end}" for p in ("udp", "tcp", "sctp") for end in ("src", "dst")},
}
# fmt: on
_NARROW = {"arp.op": 0xFF, "vlan.pcp": 7}
"""Bits of fields that Open vSwitch's library has wider."""
_ALWAYS = frozenset(("recirc_id", "in_port", "packet_type", "eth_type", "vlan.tpid", "vlan.vid"))


def mask_of(bits: Mapping[str, int] | Iterable[tuple[str, int]]) -> Mask:
    """A mask from the bits of its fields."""
    return frozenset((name, value) for name, value in dict(bits).items() if value)


def mask_of_match(match: Iterable[Field]) -> Mask:
    """Return the mask of a match. Fields that no table matches, such as those of tunnels, keep the dump's name."""
    bits: dict[str, int] = {}
    for each in match:
        if each.key in _ALWAYS:
            continue
        name = _NAMES.get(each.key, each.key)
        bits[name] = bits.get(name, 0) | each.mask & _NARROW.get(each.key, -1)
    return mask_of(bits)


@lru_cache(maxsize=4096)
def show_mask(mask: Mask) -> str:
    """Return a mask as text: `nw_dst/24`, `tp_src/0xfe`, or the name alone for all bits."""
    order = {name: i for i, name in enumerate(WIDTHS)}
    return (
        " ".join(_show(*part) for part in sorted(mask, key=lambda part: order.get(part[0], len(order))))
        or "nothing else"
    )


def _show(name: str, bits: int) -> str:
    width = WIDTHS.get(name, 0)
    ones = bits.bit_count()
    if ones == width:
        return name
    if width >= 32 and bits == prefix(width, ones):
        return f"{name}/{ones}"
    return f"{name}/0x{bits:x}"


def prefix(width: int, length: int) -> int:
    """The mask of the first *length* bits of a field."""
    return (1 << width) - (1 << width - length)
