"""The size of a match in hardware, and how OVS-DOCA splits one that is too wide for a rule.

OVS first tries the whole match. Where the library refuses it for its size, the first rule takes the fields that flows of one
direction have in common (destinations of what comes from the network, sources of what goes there) and hands a number on to
the next rule, which matches that number and the rest. Flows with the same first rule share it. A match on a tunnel is always
split. Every field counts by its full size, whatever its mask. (NVIDIA's fork of Open vSwitch, lib/dpdk-offload-doca.c.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.switch.megaflow_fields import Field

_PORT = "in_port"
_REGISTER = 4  # bytes; port, further pass, hash, connection and the number that links the rules of a split
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
"""Bytes of a header field in a rule and the side that it is of, in the order in which a first rule takes them."""
_ORDER = {key: place for place, key in enumerate(_SIZES)}
_REGISTERS = {"dp_hash": "hash", "ct_state": "ct", "ct_zone": "ct", "ct_mark": "mark", "ct_label": "label"}
"""Fields that lie in registers. Those of one register cost its four bytes once."""
_NOT_MATCHED = frozenset(["packet_type", "recirc_id", "vlan.tpid", "vlan.pcp", "ipv4.frag", "ipv6.frag"])
"""What chooses the table, is part of another field, or are bits of the parser."""


@dataclass(frozen=True)
class RulePart:
    """One rule of a split match: the fields that it matches, and its size in bytes with everything that OVS adds."""

    fields: tuple[Field, ...]
    size: int


def size_of(key: str, bits: int) -> int:
    """Bytes of the field *key* of *bits* in a rule. Of several fields in one register each is said to take all of it."""
    if key in _NOT_MATCHED:
        return 0
    if key in _SIZES:
        return _SIZES[key][0]
    if key == _PORT or key in _REGISTERS:
        return _REGISTER
    return (bits + 7) // 8


def match_bytes(flow: DatapathFlow, *, conntrack: bool = False) -> int:
    """Bytes of the flow's match in one rule. Without connection tracking a further pass costs a register."""
    return _registers(flow, conntrack) + _total([*_tunnel(flow), *_headers(flow)])


def parts_of(
    flow: DatapathFlow,
    profile: Profile,
    *,
    from_network: bool = True,
    conntrack: bool = False,
    wide_entries: bool = False,
) -> tuple[RulePart, ...]:
    """The rules that hardware holds for the flow's match, first to last; one where the profile knows of no width.

    *from_network*: the flow is of packets that come in by an uplink. *wide_entries*: those of a BlueField-3 are used. More
    rules than the profile's split_depth allows do not work.
    """
    most = profile.limit("match_bytes_per_rule")
    total = match_bytes(flow, conntrack=conntrack)
    if most is None:
        return (RulePart(flow.match, total),)
    fits = max(most, profile.limit("match_bytes_per_wide_rule") or 0) if wide_entries else most
    tunnel, rest = _tunnel(flow), _headers(flow)
    fixed = tuple(f for f in flow.match if not _is_header(f))  # the first rule's as well: port, further pass, registers
    size = _registers(flow, conntrack)
    parts: list[RulePart] = []
    if tunnel:
        parts.append(RulePart((*fixed, *tunnel), size + _total(tunnel)))
        size = 2 * _REGISTER  # the port, and the number of the rule before
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
    """Hardware rules of many flows together: first rules that are the same are there once."""
    last = 0
    first: set[tuple[tuple[Field, ...], ...]] = set()
    for parts in split:
        last += 1
        for depth in range(1, len(parts)):
            first.add(tuple(part.fields for part in parts[:depth]))
    return last + len(first)


def _tunnel(flow: DatapathFlow) -> tuple[Field, ...]:
    """The outer headers. A further pass knows them by a number in a register."""
    return () if flow.recirculated else tuple(f for f in flow.match if f.key.startswith("tunnel."))


def _headers(flow: DatapathFlow) -> list[Field]:
    """The headers inside, in the order in which a first rule takes them."""
    inner = (f for f in flow.match if _is_header(f) and not f.key.startswith("tunnel."))
    return sorted(inner, key=lambda f: _ORDER.get(f.key, len(_ORDER)))


def _is_header(field: Field) -> bool:
    return field.key != _PORT and field.key not in _REGISTERS and field.key not in _NOT_MATCHED


def _registers(flow: DatapathFlow, conntrack: bool) -> int:
    """Bytes of what lies in registers. The port counts always, since OVS always sets it."""
    used = {_REGISTERS[f.key] for f in flow.match if f.key in _REGISTERS}
    if flow.recirculated and not conntrack:
        used.add("mark")
    if flow.recirculated and any(f.key.startswith("tunnel.") for f in flow.match):
        used.add("ct")
    return _REGISTER * (1 + len(used))


def _total(fields: Collection[Field]) -> int:
    return sum(size_of(f.key, f.bits) for f in fields)


def _take(rest: Iterable[Field], room: int, avoided: str) -> list[Field]:
    """The fields that a first rule takes of *rest*, into *room* bytes."""
    out: list[Field] = []
    for field in rest:
        size, side = _SIZES.get(field.key, (size_of(field.key, field.bits), ""))
        if side != avoided and size <= room:
            out.append(field)
            room -= size
    return out
