# SPDX-License-Identifier: Apache-2.0
"""Which packets two flows have in common, by their matches as ovs-ofctl prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

_IP, _IPV6, _ARP, _RARP = 0x0800, 0x86DD, 0x0806, 0x8035
_KINDS: dict[str, tuple[int, int | None]] = {
    "ip": (_IP, None),
    "ipv6": (_IPV6, None),
    "arp": (_ARP, None),
    "rarp": (_RARP, None),
    "icmp": (_IP, 1),
    "icmp6": (_IPV6, 58),
    "tcp": (_IP, 6),
    "udp": (_IP, 17),
    "tcp6": (_IPV6, 6),
    "udp6": (_IPV6, 17),
    "sctp": (_IP, 132),
    "sctp6": (_IPV6, 132),
}
_NAMES = {
    "eth_type": "dl_type",
    "ip_proto": "nw_proto",
    "tcp_src": "tp_src",
    "tcp_dst": "tp_dst",
    "udp_src": "tp_src",
    "udp_dst": "tp_dst",
    "eth_src": "dl_src",
    "eth_dst": "dl_dst",
    "ip_frag": "nw_frag",
    "ip_src": "nw_src",
    "ip_dst": "nw_dst",
}
_FRAGMENTS = {"no": (0, 3), "yes": (1, 1), "first": (1, 3), "later": (3, 3), "not_later": (0, 2)}
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)
_TAGGED = 0x1000
_ALL = -1
"""The mask of a field that is matched as a whole."""


class _Bits(NamedTuple):
    """The *value* of a field under *mask*; a text where the field is no number."""

    value: int | str
    mask: int = _ALL


Match = Mapping[str, _Bits]


def parse_match(text: str) -> Match:
    """Return what a match wants, by field."""
    found: dict[str, _Bits] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        name = _NAMES.get(name, name)
        if name in _KINDS and not equals:
            ethertype, protocol = _KINDS[name]
            found["dl_type"] = _Bits(ethertype)
            if protocol is not None:
                found["nw_proto"] = _Bits(protocol)
        elif name == "nw_frag" and value in _FRAGMENTS:
            found[name] = _Bits(*_FRAGMENTS[value])
        elif name == "dl_vlan" and value.isdecimal():
            tag = int(value)
            found["vlan_tci"] = _Bits(0) if tag == 0xFFFF else _Bits(_TAGGED | tag, _TAGGED | 0xFFF)
        else:
            found[name] = _bits(value)
    return found


def overlap(one: Match, other: Match) -> bool:
    """Whether a packet may match both. Yes where a field is spelt in a way that is not known here."""
    return not any(_contradict(bits, other[name]) for name, bits in one.items() if name in other)


def covers(wide: Match, narrow: Match) -> bool:
    """Whether every packet that matches *narrow* matches *wide*, for certain."""
    return all(name in narrow and _implied(bits, narrow[name]) for name, bits in wide.items())


def _contradict(one: _Bits, other: _Bits) -> bool:
    if isinstance(one.value, int) and isinstance(other.value, int):
        return bool((one.value ^ other.value) & one.mask & other.mask)
    texts = str(one.value), str(other.value)
    plain = all(text.replace("_", "").replace("-", "").replace(".", "").isalnum() for text in texts)
    return plain and texts[0] != texts[1]  # names, as of ports; of others, such as ct_state, nothing is known


def _implied(wide: _Bits, narrow: _Bits) -> bool:
    if isinstance(wide.value, int) and isinstance(narrow.value, int):
        return wide.mask & narrow.mask == wide.mask and not (wide.value ^ narrow.value) & wide.mask
    return wide == narrow


def _bits(text: str) -> _Bits:
    value, slash, mask = text.partition("/")
    number = _number(value)
    if number is None or not slash:
        return _Bits(text.strip('"') if number is None else number)
    width = 128 if ":" in value else 32 if "." in value else 0
    if width and mask.isdecimal():
        return _Bits(number, ~((1 << width - int(mask)) - 1))
    bits = _number(mask)
    return _Bits(text) if bits is None else _Bits(number, bits)


def _number(text: str) -> int | None:
    """The number that a field's value is: an address of any kind, or a number."""
    try:
        if _MAC.fullmatch(text):
            return int(text.replace(":", ""), 16)
        return int(ip_address(text)) if "." in text or ":" in text else int(text, 0)
    except ValueError:
        return None
