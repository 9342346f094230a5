# SPDX-License-Identifier: Apache-2.0
"""The size of a match in hardware, and how OVS-DOCA splits one that is too wide for a rule.

OVS first tries the full match in one rule. If the library refuses it because of its size, the first rule matches the fields
that flows of one direction have in common (destinations of packets from the network, sources of packets to it) and sets a
number; the next rule matches that number and the remaining fields. Flows with the same first rule share it. A match on a
tunnel is always split. A field always counts with its full size, whatever its mask. (NVIDIA's fork of Open vSwitch,
lib/dpdk-offload-doca.c.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.switch.megaflow_fields import Field

_PORT = "in_port"
_REGISTER = 4  # bytes; port, recirc_id, hash, connection and the number that links the rules of a split match
_SIZES: dict[str, tuple[int, str]] = {
    "eth.src": (6, "src"),
    "eth.dst": (6, "dst"),
    "eth_type": (2, ""),
    "vlan.vid": (2, ""),
    "ipv4.src": (4, "src"),
    "ipv6.src": (16, "src"),
    "ipv4.dst": (4, "dst"),
    "ipv6.dst": (16, "dst"),
    "ipv4.tos": (1, ""),
    "ipv6.tclass": (1, ""),
    "ipv4.proto": (1, ""),
    "ipv6.proto": (1, ""),
    "ipv4.ttl": (1, ""),
    "ipv6.hlimit": (1, ""),
    "udp.src": (2, "src"),
    "tcp.src": (2, "src"),
    "udp.dst": (2, "dst"),
    "tcp.dst": (2, "dst"),
    "tcp_flags": (1, ""),
    "icmp.type": (1, ""),
    "icmpv6.type": (1, ""),
    "icmp.code": (1, ""),
    "icmpv6.code": (1, ""),
}
"""Size of a header field in a rule, in bytes, and its side (src, dst), in the order in which a first rule takes fields."""
_ORDER = {key: place for place, key in enumerate(_SIZES)}
_REGISTERS = {"dp_hash": "hash", "ct_state": "ct", "ct_zone": "ct", "ct_mark": "mark", "ct_label": "label"}
"""Fields held in registers. Fields in the same register cost its four bytes only once."""
_NOT_MATCHED = frozenset(["packet_type", "recirc_id", "vlan.tpid", "vlan.pcp", "ipv4.frag", "ipv6.frag"])
"""Fields that cost nothing: they select the table, are part of another field, or are parser bits."""


@dataclass(frozen=True)
class RulePart:
    """One rule of a split match: the fields that it matches, and its size in bytes including what OVS adds."""

    fields: tuple[Field, ...]
    size: int


def size_of(key: str, bits: int) -> int:
    """Return the bytes that field *key* of *bits* takes in a rule; a field in a register takes the full register."""
    if key in _NOT_MATCHED:
        return 0
    if key in _SIZES:
        return _SIZES[key][0]
    if key == _PORT or key in _REGISTERS:
        return _REGISTER
    return (bits + 7) // 8


def match_bytes(flow: DatapathFlow, *, conntrack: bool = False) -> int:
    """Return the bytes of the flow's match in one rule. Without connection tracking, recirculation costs a register."""
    return _registers(flow, conntrack) + _total([*_tunnel(flow), *_headers(flow)])


def parts_of(
    flow: DatapathFlow,
    profile: Profile,
    *,
    from_network: bool = True,
    conntrack: bool = False,
    wide_entries: bool = False,
) -> tuple[RulePart, ...]:
    """Return the hardware rules for the flow's match, first to last; one rule if the profile has no limit on the width.

    *from_network*: the flow's packets come in by an uplink. *wide_entries*: the wide entries of a BlueField-3 are used. A
    result with more rules than the profile's split_depth does not work in hardware.
    """
    most = profile.limit("match_bytes_per_rule")
    total = match_bytes(flow, conntrack=conntrack)
    if most is None:
        return (RulePart(flow.match, total),)
    fits = max(most, profile.limit("match_bytes_per_wide_rule") or 0) if wide_entries else most
    tunnel, rest = _tunnel(flow), _headers(flow)
    fixed = tuple(f for f in flow.match if not _is_header(f))  # in the first rule too: port, recirc_id, registers
    size = _registers(flow, conntrack)
    parts: list[RulePart] = []
    if tunnel:
        parts.append(RulePart((*fixed, *tunnel), size + _total(tunnel)))
        size = 2 * _REGISTER  # the port, and the number that the previous rule set
    avoided = "src" if from_network else "dst"
    depth = profile.limit("split_depth") or 1
    while size + _total(rest) > fits and len(parts) <= depth:
        taken = _take(rest, most - size, avoided)
        if not taken:
            break
        parts.append(RulePart((*(() if parts else fixed), *taken), size + _total(taken)))
        rest = [f for f in rest if f not in taken]
        size = 2 * _REGISTER
    return (*parts, RulePart(tuple(rest) if parts else flow.match, size + _total(rest)))


def shared_rules(split: Iterable[tuple[RulePart, ...]]) -> int:
    """Return the number of hardware rules of many flows together: identical first rules count once."""
    last = 0
    first: set[tuple[tuple[Field, ...], ...]] = set()
    for parts in split:
        last += 1
        for depth in range(1, len(parts)):
            first.add(tuple(part.fields for part in parts[:depth]))
    return last + len(first)


def _tunnel(flow: DatapathFlow) -> tuple[Field, ...]:
    """Return the outer headers; none for a recirculated flow, which matches a number in a register instead."""
    return () if flow.recirculated else tuple(f for f in flow.match if f.key.startswith("tunnel."))


def _headers(flow: DatapathFlow) -> list[Field]:
    """Return the inner headers, in the order in which a first rule takes them."""
    inner = (f for f in flow.match if _is_header(f) and not f.key.startswith("tunnel."))
    return sorted(inner, key=lambda f: _ORDER.get(f.key, len(_ORDER)))


def _is_header(field: Field) -> bool:
    return field.key != _PORT and field.key not in _REGISTERS and field.key not in _NOT_MATCHED


def _registers(flow: DatapathFlow, conntrack: bool) -> int:
    """Return the bytes of the registers used. The port always counts, since OVS always sets it."""
    used = {_REGISTERS[f.key] for f in flow.match if f.key in _REGISTERS}
    if flow.recirculated and not conntrack:
        used.add("mark")
    if flow.recirculated and any(f.key.startswith("tunnel.") for f in flow.match):
        used.add("ct")
    return _REGISTER * (1 + len(used))


def _total(fields: Collection[Field]) -> int:
    return sum(size_of(f.key, f.bits) for f in fields)


def _take(rest: Iterable[Field], room: int, avoided: str) -> list[Field]:
    """Return the fields of *rest* that a first rule takes: those that fit in *room* bytes and are not of side *avoided*."""
    out: list[Field] = []
    for field in rest:
        size, side = _SIZES.get(field.key, (size_of(field.key, field.bits), ""))
        if side != avoided and size <= room:
            out.append(field)
            room -= size
    return out
