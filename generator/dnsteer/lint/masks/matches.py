"""Parse the match of an OpenFlow flow into the classifier's fields.

Unlike actions, matches are not parsed by ovs.flow: nearly every flow has a different match (27,000 with 100 VIPs), ovs.flow
takes four times as long for each (29 us, 0.8 s in all), and its result would still have to be mapped to these fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, RARP, TCP, UDP, UnknownError
from dnsteer.switch.masks import prefix


class FieldBits(NamedTuple):
    """The value of a field's bits under *mask*. For in_port, *value* is the port's name."""

    value: int | str
    mask: int


Match = Mapping[str, FieldBits]
"""What a flow matches, by field."""

_VLAN_ID = 0x0FFF
_KINDS: dict[str, tuple[int, int | None]] = {
    "ip": (IPV4, None),
    "ipv6": (IPV6, None),
    "arp": (ARP, None),
    "rarp": (RARP, None),
    "icmp": (IPV4, ICMP),
    "icmp6": (IPV6, ICMPV6),
    "tcp": (IPV4, TCP),
    "udp": (IPV4, UDP),
    "tcp6": (IPV6, TCP),
    "udp6": (IPV6, UDP),
    "sctp": (IPV4, 132),
    "sctp6": (IPV6, 132),
}
_FRAGMENTS = {"no": (0, 3), "yes": (1, 1), "first": (1, 3), "later": (3, 3), "not_later": (0, 2)}


def parse_match(text: str) -> Match:
    """Parse a match as ovs-ofctl prints it. Raises UnknownError for fields that the model does not cover."""
    found: dict[str, FieldBits] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            if name not in _KINDS:
                raise UnknownError(f"match {part} is not in the model of the classifier")
            ethertype, protocol = _KINDS[name]
            found["dl_type"] = FieldBits(ethertype, 0xFFFF)
            if protocol is not None:
                found["nw_proto"] = FieldBits(protocol, 0xFF)
        elif name in ("nw_frag", "ip_frag"):
            if value not in _FRAGMENTS:
                raise UnknownError(f"match {part} is not in the model of the classifier")
            found["nw_frag"] = FieldBits(*_FRAGMENTS[value])
        elif name == "in_port":
            found["in_port"] = FieldBits(value.strip('"'), fields.full_mask("in_port"))
        elif name == "ct_state":
            found["ct_state"] = _flags(value)
        else:
            _add(found, name, value)
    return found


def _add(found: dict[str, FieldBits], name: str, text: str) -> None:
    value, slash, mask = text.partition("/")
    for place in fields.bit_ranges(name):
        if place.bits > fields.width(place.field) and name != "arp_op":
            raise UnknownError(f"match {name} is wider than the model has it")
        width = fields.width(place.field)
        bits = fields.full_mask(place.field)
        if slash:
            bits = (
                prefix(width, int(mask)) if mask.isdecimal() and width >= 32 else fields.field_number(place.field, mask)
            )
        if place.field == "vlan_tci" and bits & ~_VLAN_ID:
            raise UnknownError(
                f"match {name}={text} is not in the model of the classifier: it looks at more than the VLAN ID"
            )
        found[place.field] = FieldBits(fields.field_number(place.field, value) & bits, bits)


_SIGNED = re.compile(r"([+-])([a-z]+)")
_STATES = ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat")


def _flags(text: str) -> FieldBits:
    value = mask = 0
    for sign, name in _SIGNED.findall(text):
        bit = 1 << _STATES.index(name)
        mask |= bit
        value |= bit if sign == "+" else 0
    return FieldBits(value, mask)
