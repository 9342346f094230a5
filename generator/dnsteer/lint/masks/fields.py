# SPDX-License-Identifier: Apache-2.0
"""OpenFlow's field names, and the fields of Open vSwitch's classifier that they refer to."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import cache

from dnsteer.switch.masks import WIDTHS

REGISTERS = 16
STAGES = 4
"""Lookup stages: the classifier checks metadata, then layers 2, 3 and 4, and stops at the first that excludes a match."""

_L2 = ("dl_dst", "dl_src", "dl_type", "vlan_pcp", "vlan_tci")
_L4 = ("nd_target", "arp_sha", "arp_tha", "tcp_flags", "tp_src", "tp_dst", "igmp_group_ip4")
_L3 = (
    "nw_src",
    "nw_dst",
    "ipv6_src",
    "ipv6_dst",
    "ipv6_label",
    "nw_frag",
    "nw_tos",
    "nw_ttl",
    "nw_proto",
)
PREFIX_TREES = ("nw_dst", "nw_src", "ipv6_dst", "ipv6_src")
"""Fields where a miss unwildcards only a prefix: IPv4 in every release, IPv6 since 3.5. Ports have a separate trie."""
PORTS = ("tp_src", "tp_dst")
_TUNNEL = {"tun_dst": 32, "tun_ipv6_dst": 128, "tun_id": 64}
"""What queries that go into tunnels get on their way: no fields of a packet that comes in, and their widths in bits."""
TUNNEL_ENDS = ("tun_dst", "tun_ipv6_dst")

ARP, IPV4, IPV6, RARP = 0x0806, 0x0800, 0x86DD, 0x8035
ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
SOLICITATION, ADVERTISEMENT = 135, 136


class UnknownError(ValueError):
    """Something in a flow that this model of the classifier does not cover."""


@cache
def stage(field: str) -> int:
    """Return the lookup stage that checks the field, 0 to 3."""
    return 1 if field in _L2 else 2 if field in _L3 else 3 if field in _L4 else 0


@cache
def width(field: str) -> int:
    """Return a field's width in bits."""
    if field.startswith("reg"):
        return 32
    return {"in_port": 32, "dl_type": 16, "vlan_tci": 16, **_TUNNEL}.get(field) or WIDTHS[field]


@cache
def full_mask(field: str) -> int:
    """Return the mask with all bits of a field."""
    return (1 << width(field)) - 1


def is_packet_field(field: str) -> bool:
    """Whether matching the field adds to the datapath's mask. Registers and always-matched fields do not."""
    return field in WIDTHS


def _spellings() -> dict[str, str]:
    nxm_of = {
        "ETH_DST": "dl_dst",
        "ETH_SRC": "dl_src",
        "ETH_TYPE": "dl_type",
        "IN_PORT": "in_port",
        "IP_SRC": "nw_src",
        "IP_DST": "nw_dst",
        "IP_PROTO": "nw_proto",
        "IP_TOS": "nw_tos",
        "TCP_SRC": "tp_src",
        "TCP_DST": "tp_dst",
        "UDP_SRC": "tp_src",
        "UDP_DST": "tp_dst",
        "ICMP_TYPE": "tp_src",
        "ICMP_CODE": "tp_dst",
        "ARP_OP": "nw_proto",
        "ARP_SPA": "nw_src",
        "ARP_TPA": "nw_dst",
    }
    nxm_nx = {
        "IPV6_SRC": "ipv6_src",
        "IPV6_DST": "ipv6_dst",
        "IPV6_LABEL": "ipv6_label",
        "IP_TTL": "nw_ttl",
        "IP_FRAG": "nw_frag",
        "TCP_FLAGS": "tcp_flags",
        "ARP_SHA": "arp_sha",
        "ARP_THA": "arp_tha",
        "ICMPV6_TYPE": "tp_src",
        "ICMPV6_CODE": "tp_dst",
        "ND_TARGET": "nd_target",
        "ND_SLL": "arp_sha",
        "ND_TLL": "arp_tha",
        "PKT_MARK": "pkt_mark",
        "CT_STATE": "ct_state",
        "CT_ZONE": "ct_zone",
        "CT_MARK": "ct_mark",
        "CT_LABEL": "ct_label",
        "DP_HASH": "dp_hash",
    }
    # Of a VLAN tag flows match the ID alone, and it is in no mask: the datapath always matches it, whatever flows match.
    # What writes a tag unwildcards its priority (traversal.py).
    plain = {
        "in_port": "in_port",
        "vlan_tci": "vlan_tci",
        "dl_type": "dl_type",
        "eth_type": "dl_type",
        "eth_dst": "dl_dst",
        "eth_src": "dl_src",
        "ip_src": "nw_src",
        "ip_dst": "nw_dst",
        "arp_spa": "nw_src",
        "arp_tpa": "nw_dst",
        "arp_op": "nw_proto",
        "ip_frag": "nw_frag",
        "nd_sll": "arp_sha",
        "nd_tll": "arp_tha",
        "icmp_type": "tp_src",
        "icmp_code": "tp_dst",
        "icmpv6_type": "tp_src",
        "icmpv6_code": "tp_dst",
        "tcp_src": "tp_src",
        "tcp_dst": "tp_dst",
        "udp_src": "tp_src",
        "udp_dst": "tp_dst",
        "nd_reserved": "igmp_group_ip4",
        "nd_options_type": "tcp_flags",
        "ip_dscp": "nw_tos",
        "ip_ecn": "nw_tos",
        "nw_ecn": "nw_tos",
        "OXM_OF_IP_DSCP": "nw_tos",
        "NXM_NX_IP_ECN": "nw_tos",
    }
    return {
        **{f"NXM_OF_{k}": v for k, v in nxm_of.items()},
        **{f"NXM_NX_{k}": v for k, v in nxm_nx.items()},
        **{name: name for name in WIDTHS if name != "vlan_pcp"},
        **{name: name for name in _TUNNEL},
        **plain,
        **{f"NXM_NX_REG{n}": f"reg{n}" for n in range(REGISTERS)},
        **{f"reg{n}": f"reg{n}" for n in range(REGISTERS)},
    }


_SPELLINGS = _spellings()
_NARROW = {
    "NXM_OF_ARP_OP": 16,
    "arp_op": 16,
    "nd_options_type": 8,
    "ip_dscp": 6,
    "OXM_OF_IP_DSCP": 6,
    "ip_ecn": 2,
    "nw_ecn": 2,
    "NXM_NX_IP_ECN": 2,
}
"""Fields whose width in OpenFlow differs from the classifier's, in bits."""
_FIRST_BIT = {"ip_dscp": 2, "OXM_OF_IP_DSCP": 2}
"""Fields that are higher bits of a field of the classifier, and the first of these."""
_WIDE = ("NXM_NX_XXREG", "xxreg")


@dataclass(frozen=True)
class BitRange:
    """A range of a field's bits: *bits* bits, starting at bit *low*."""

    field: str
    low: int
    bits: int

    @property
    def mask(self) -> int:
        """The range as a mask of the field."""
        return (1 << self.bits) - 1 << self.low & full_mask(self.field)


def bit_ranges(name: str, low: int | None = None, high: int | None = None) -> list[BitRange]:
    """Return the classifier's bits for bits *low* to *high* of an OpenFlow field; by default all of the field.

    Raises UnknownError for a field that the model does not know.
    """
    for prefix in _WIDE:
        if name.startswith(prefix):
            return _registers(int(name.removeprefix(prefix)), low or 0, 127 if high is None else high)
    field = _SPELLINGS.get(name)
    if field is None:
        raise UnknownError(f"field {name} is not in the model of the classifier (lint/masks/fields.py)")
    low = low or 0
    high = _NARROW.get(name, width(field)) - 1 if high is None else high
    return [BitRange(field, low + _FIRST_BIT.get(name, 0), high - low + 1)]


def _registers(number: int, low: int, high: int) -> list[BitRange]:
    """Return the ranges in 32-bit registers of a 128-bit register, lowest bits first; its first register is the highest."""
    found = []
    for part in range(4):
        first, last = max(low, 32 * part), min(high, 32 * part + 31)
        if first <= last:
            found.append(BitRange(f"reg{4 * number + 3 - part}", first - 32 * part, last - first + 1))
    return found


def field_number(field: str, text: str) -> int:
    """Parse a field's value (address, MAC or number). Raises UnknownError if it is none of these."""
    try:
        if field.startswith("ipv6") or field in ("nd_target", "nw_src", "nw_dst"):
            return int(ipaddress.ip_address(text)) if not text.isdecimal() else int(text)
        return int(text.replace(":", ""), 16) if ":" in text else int(text, 0)
    except ValueError:
        raise UnknownError(f"{field}={text} is not a number that the model understands") from None
