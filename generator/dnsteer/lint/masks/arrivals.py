# SPDX-License-Identifier: Apache-2.0
"""The packets that somebody can send, as they arrive at the first table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.attackers import Sender
from dnsteer.lint.masks.choices import Choices, NoneOf, OneOf
from dnsteer.lint.masks.classifier import Lookups
from dnsteer.lint.masks.fields import ARP, ICMP, ICMPV6, IPV4, IPV6
from dnsteer.lint.masks.flow_syntax import FieldBits
from dnsteer.lint.masks.traversal import LATER, OTHER, PacketKind
from dnsteer.lint.masks.value_sources import packet_bits
from dnsteer.switch.masks import WIDTHS

_ETHERTYPES = (1 << 16) - 0x600 + 1
"""Values of an ethertype: those from 0x600 on, and one for frames that have a length instead (0x05ff in Open vSwitch)."""
_TAGS = 2
"""Tags with one VLAN identifier that every megaflow tells apart: two tag protocols (0x8100, 0x88a8)."""
_VLANS = 1 << 12
_FRAGMENT_HEADER = 44
_SKIPPED_HEADERS = (43, _FRAGMENT_HEADER, 51, 60)
"""Routing, fragment, authentication and destination options; 0, hop-by-hop options, is also what broken packets have."""
_BY_SWITCH = ("ct_state", "ct_zone", "ct_mark", "ct_label", "dp_hash", "pkt_mark", "skb_priority")


class Arrival(NamedTuple):
    """Packets as they arrive, of one kind: what is known of their fields, and of their values.

    *times*: how many values the fields have that every megaflow matches: port, ethertype, and VLAN tag but for its priority.
    """

    kind: PacketKind
    known: frozenset[tuple[str, FieldBits]]
    choices: Choices
    times: int


def arrivals(tables: Lookups, sender: Sender) -> Iterator[Arrival]:
    """Yield a sender's packets, told apart by fields that decide which others there are."""
    named: dict[str, set[int | str]] = defaultdict(set)
    partial: set[str] = set()
    for name, bits in tables.named():
        named[name].add(bits.value)
        if bits.mask != fields.full_mask(name):
            partial.add(name)
    zero = {f"reg{n}": FieldBits(0, fields.full_mask(f"reg{n}")) for n in range(fields.REGISTERS)}
    at_first = _first_choices(sender)
    for (port, ports), (ethertype, types), (vlan, tags) in product(
        _ports(sender, named["in_port"]), _ethertypes(sender, named["dl_type"]), _vlans(sender, named["vlan_tci"])
    ):
        ip = ethertype in (IPV4, IPV6)
        macs = [None] if "dl_dst" in partial else [*named["dl_dst"], OTHER]
        protocols = [None] if "nw_proto" in partial or not ip else [*named["nw_proto"], OTHER]
        for mac, protocol, fragment in product(macs, protocols, sender.fragments if ip else [None]):
            known = {**zero, "in_port": FieldBits(port, fields.full_mask("in_port"))}
            choices: Choices | None = at_first
            told_apart: dict[str, int | str | None] = {
                "dl_type": ethertype,
                "vlan_tci": vlan,
                "dl_dst": mac,
                "nw_proto": protocol,
                "nw_frag": fragment,
            }
            for name, value in told_apart.items():
                if value is not None and choices is not None:
                    known[name] = FieldBits(value, fields.full_mask(name))
                    choices = _told_apart(choices, name, value, named[name])
            if choices is not None and (ethertype, protocol) in ((IPV4, ICMP), (IPV6, ICMPV6)):
                choices = _type_and_code(choices)
            if choices is not None and ethertype == IPV6:
                choices = _next_headers(choices, fragment or 0)
            if choices is not None:
                kind = PacketKind(ethertype, int(protocol or 0), fragment or 0)
                yield Arrival(kind, frozenset(known.items()), choices, ports * types * tags)


def _told_apart(choices: Choices, name: str, value: int | str, named: set[int | str]) -> Choices | None:
    """Packets whose field has a *value*, or, for OTHER, none of those that flows name. None if there are none."""
    if name not in WIDTHS:
        return choices
    mask = packet_bits(name, fields.full_mask(name))
    if value == OTHER:
        return choices.with_none_of(mask, frozenset(packet_bits(name, int(each)) for each in named))
    return choices.with_one_of(mask, frozenset((packet_bits(name, int(value)),)))


def _type_and_code(choices: Choices) -> Choices | None:
    """Packets of ICMP, whose type and code take 8 bits of the fields of ports."""
    return choices.with_one_of(sum(packet_bits(port, 0xFF00) for port in fields.PORTS), frozenset((0,)))


def _next_headers(choices: Choices, fragment: int) -> Choices | None:
    """Packets over IPv6: the switch reads past extension headers, but for that of a later fragment."""
    mask = packet_bits("nw_proto", fields.full_mask("nw_proto"))
    if fragment == LATER:
        return choices.with_one_of(mask, frozenset((packet_bits("nw_proto", _FRAGMENT_HEADER),)))
    return choices.with_none_of(mask, frozenset(packet_bits("nw_proto", each) for each in _SKIPPED_HEADERS))


def _first_choices(sender: Sender) -> Choices:
    """What the sender chooses. What only the switch sets has one value in the first pass."""
    allowed = {OneOf(packet_bits(name, fields.full_mask(name)), None, 1) for name in _BY_SWITCH}
    if sender.vlans == frozenset((0,)):
        allowed.add(OneOf(packet_bits("vlan_pcp", fields.full_mask("vlan_pcp")), frozenset((0,)), 1))
    for name, choice in sender.choices.items():
        values = choice.values
        known = None if values is None else frozenset(packet_bits(name, value) for value in values)
        allowed.add(OneOf(packet_bits(name, choice.mask), known, choice.count))
    excluded = {
        NoneOf(packet_bits(name, fields.full_mask(name)), frozenset(packet_bits(name, value) for value in values))
        for name, values in sender.never.items()
    }
    return Choices(frozenset(allowed), frozenset(excluded))


def _ports(sender: Sender, named: set[int | str]) -> Iterator[tuple[str, int]]:
    yield from ((port, 1) for port in sender.ports if port in named)
    others = sum(port not in named for port in sender.ports)
    if others:
        yield "", others


def _ethertypes(sender: Sender, named: set[int | str]) -> Iterator[tuple[int, int]]:
    known = {ARP, IPV4, IPV6, *(int(each) for each in named)}
    wanted = sender.ethertypes
    yield from ((each, 1) for each in sorted(known) if wanted is None or each in wanted)
    others = _ETHERTYPES - len(known) if wanted is None else len(wanted - known)
    if others:
        yield OTHER, others


def _vlans(sender: Sender, named: set[int | str]) -> Iterator[tuple[int | None, int]]:
    """Yield VLAN identifiers that flows tell apart, and how many tags have each; none counts as a tag."""
    sent, known = sender.vlans, sorted(map(int, named))
    if sent is not None:
        yield from ((each, 1) for each in sorted(sent) if each in named)
        others = sum(each not in named for each in sent)
    else:
        yield from ((each, _TAGS + (each == 0)) for each in known)
        others = _TAGS * (_VLANS - len(named)) + (0 not in named)
    if others:
        yield (OTHER if named else None), others
