# SPDX-License-Identifier: Apache-2.0
"""A flow's match and its actions, parsed from ovs-ofctl's syntax into the bits of fields.

Actions are parsed by Open vSwitch's own library (ovs.flow), matches are not: nearly every flow has a different match (27,000
with 100 VIPs), ovs.flow takes four times as long for each (29 us, 0.8 s in all), and its result would still have to be
mapped to these fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from ovs.flow.decoders import EthMask, IPMask
from ovs.flow.ofp import OFPFlow

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6, RARP, TCP, UDP, BitRange, UnknownError
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
        elif name in _FLAGS and value[:1] in "+-":
            found[name] = _flags(value, _FLAGS[name])
        else:
            _add(found, name, value)
    return found


def _add(found: dict[str, FieldBits], name: str, text: str) -> None:
    if name == "dl_vlan":
        found["vlan_tci"] = FieldBits(int(text), _VLAN_ID)
        return
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
_FLAGS = {
    "ct_state": ("new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"),
    "tcp_flags": ("fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"),
}
"""The flags of a field from bit 0 on."""


def _flags(text: str, names: Sequence[str]) -> FieldBits:
    value = mask = 0
    for sign, name in _SIGNED.findall(text):
        bit = 1 << names.index(name)
        mask |= bit
        value |= bit if sign == "+" else 0
    return FieldBits(value, mask)


@dataclass(frozen=True)
class SetField:
    """Write *value* to some bits. This unwildcards them too, since the switch checks whether they change."""

    field: str
    mask: int
    value: int


@dataclass(frozen=True)
class MoveBits:
    """Copy bits, which unwildcards source and target. The target's value is then known only if the source's was."""

    source: BitRange
    target: BitRange


@dataclass(frozen=True)
class GotoTable:
    """Continue the lookup in a table."""

    table: int


@dataclass(frozen=True)
class Conntrack:
    """Send to the connection tracker and recirculate into a table. *rewrites*: NAT may change addresses and ports."""

    table: int
    rewrites: bool


@dataclass(frozen=True)
class SelectBucket:
    """Recirculate and let the datapath's hash select a bucket of a group."""

    group: int


@dataclass(frozen=True)
class Output:
    """Send out of a port."""


@dataclass(frozen=True)
class ApplyMeter:
    """Drop what comes faster than a meter allows. This looks at no field."""

    number: int


@dataclass(frozen=True)
class CommitConnection:
    """Have the connection tracker remember the packet's connection, and go on with it. This looks at no field."""


FlowAction = CommitConnection | SetField | MoveBits | GotoTable | Conntrack | SelectBucket | Output | ApplyMeter


_ACTIVE_MEMBER = re.compile(r"bundle_load\(eth_src,0,active_backup,ofport,NXM_OF_IN_PORT\[\],members:[^)]*\),")
"""The action by which another member of a bond becomes the ingress port. It looks at no field but the ingress port, which
each datapath flow matches anyway; and flows that match it have one for each member."""

_RESERVED_PORTS = ("IN_PORT", "LOCAL")


@lru_cache(maxsize=100_000)
def parse_actions(text: str) -> tuple[FlowAction, ...]:
    """Parse actions as ovs-ofctl prints them. Raises UnknownError for actions that the model does not cover."""
    try:
        parsed = OFPFlow(f"actions={_ACTIVE_MEMBER.sub('', text)}").actions
    except Exception as err:
        raise UnknownError(f"actions {text} cannot be read: {err}") from err
    return tuple(action for each in parsed for name, value in each.items() for action in _action(name, value, text))


def _action(name: str, value: Any, text: str) -> Iterator[FlowAction]:
    if name == "drop":
        return
    if name == "set_field":
        yield _set_field(value, text)
    elif name == "move":
        yield from _move(value)
    elif name == "goto_table":
        yield GotoTable(value)
    elif name == "resubmit" and not value["port"] and "table" in value and not value.get("ct"):
        yield GotoTable(value["table"])
    elif name == "group":
        yield SelectBucket(int(value))
    elif name == "ct" and "table" in value:
        yield Conntrack(int(value["table"]), "nat" in value)
    elif name == "ct" and "nat" not in value:
        yield CommitConnection()
    elif name == "meter":
        yield ApplyMeter(int(value))
    elif name == "output" and _is_output(value, text):
        yield Output()
    else:
        raise UnknownError(f"action {name} of {text} is not in the model of the classifier (lint/masks/flow_syntax.py)")


def _is_output(parsed: Mapping[str, Any], text: str) -> bool:
    """Whether this is a real output to a port: ovs.flow also parses unknown words, such as NORMAL, as an output."""
    port = str(parsed.get("port", ""))
    return port.upper() in _RESERVED_PORTS or f"output:{port}" in text.replace('"', "")


def _set_field(parsed: Mapping[str, Any], text: str) -> SetField:
    ((name, written),) = parsed["value"].items()
    ranges = fields.bit_ranges(name)
    if len(ranges) != 1:
        raise UnknownError(f"action set_field of {text} writes more than one field")
    value, mask = _value_and_mask(written)
    return SetField(ranges[0].field, ranges[0].mask if mask is None else mask & ranges[0].mask, value)


def _value_and_mask(written: Any) -> tuple[int, int | None]:
    """Return a value that ovs.flow decoded and its mask; mask None means all bits. Raises UnknownError for other types."""
    if isinstance(written, IPMask):
        return int(written.ip), int(written.mask)
    if isinstance(written, EthMask):
        return int(written.eth), None if written.mask is None else int(written.mask)
    if isinstance(written, int):
        return written, None
    if hasattr(written, "value") and hasattr(written, "mask"):
        return int(written.value), int(written.mask)
    raise UnknownError(f"{written} is not a number that the model understands")


def _move(parsed: Mapping[str, Any]) -> Iterator[MoveBits]:
    sources, targets = _bit_ranges(parsed["src"]), _bit_ranges(parsed["dst"])
    while sources and targets:  # between a wide field and several registers it takes several parts
        source, target = sources.pop(0), targets.pop(0)
        bits = min(source.bits, target.bits)
        yield MoveBits(BitRange(source.field, source.low, bits), BitRange(target.field, target.low, bits))
        for left, ranges in ((source, sources), (target, targets)):
            if left.bits > bits:
                ranges.insert(0, BitRange(left.field, left.low + bits, left.bits - bits))


def _bit_ranges(parsed: Mapping[str, Any]) -> list[BitRange]:
    return fields.bit_ranges(parsed["field"], parsed.get("start"), parsed.get("end"))
