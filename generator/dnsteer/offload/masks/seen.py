"""The masks of a running datapath, read from its dump of flows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ovs.flow.odp import ODPFlow

from dnsteer.offload.masks.mask import Mask, mask_of
from dnsteer.switch.fields import Field, fields_of

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
    **{name: name for name in (
        "dp_hash", "ct_state", "ct_zone", "ct_mark", "ct_label", "skb_priority", "tcp_flags",
    )},
}  # fmt: skip
_ALWAYS = frozenset(("recirc_id", "in_port", "packet_type", "eth_type", "vlan.tpid", "vlan.vid"))
_OPAQUE = (",mpls(", ",nsh(")
_VALUE = re.compile(r"(?:=|(?<=recirc_id\()|(?<=dp_hash\()|(?<=in_port\()|(?<=eth_type\())[^=,()/]+")


@dataclass
class Seen:
    """What dumps of datapath flows showed: how many flows each mask had, and the first flow of each."""

    flows: Counter[Mask] = field(default_factory=Counter)
    examples: dict[Mask, str] = field(default_factory=dict)
    _masks: dict[str, Mask] = field(default_factory=dict)

    def add(self, lines: Iterable[str]) -> int:
        """Read the lines of `dpctl/dump-flows -m` and return the number of flows. Raises ValueError as read_mask does."""
        count = 0
        for line in lines:
            if "recirc_id(" not in line:
                continue
            count += 1
            match = line.partition(", packets:")[0].partition(", ")[2]
            if any(header in match for header in _OPAQUE):
                match = _without(match)
            shape = _VALUE.sub("", match)
            mask = self._masks.get(shape)
            if mask is None:
                mask = self._masks[shape] = read_mask(match)
            self.flows[mask] += 1
            self.examples.setdefault(mask, line)
        return count


def _without(match: str) -> str:
    """A match without MPLS and NSH headers: no table of ours looks at them, and broken ones are printed beyond parsing."""
    end = min(at for header in _OPAQUE if (at := match.find(header)) >= 0)
    return match[:end] + ")" * (match.count("(", 0, end) - match.count(")", 0, end))


def read_mask(match: str) -> Mask:
    """The mask of a datapath flow's match. Raises ValueError for a field that is not known here."""
    return mask_of_fields(fields_of(dict(ODPFlow(f"{match}, packets:0, bytes:0, used:never, actions:drop").match)))


def mask_of_fields(match: Iterable[Field]) -> Mask:
    """The mask of a match that is read already. Raises ValueError for a field that is not known here."""
    bits: dict[str, int] = {}
    for each in match:
        if each.key in _ALWAYS:
            continue
        name = _NAMES.get(each.key)
        if name is None:
            raise ValueError(f"datapath field {each.key} is not known")
        bits[name] = bits.get(name, 0) | (each.mask & 0xFF if each.key == "arp.op" else each.mask)
    return mask_of(bits)
