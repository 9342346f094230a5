"""How many hardware rules a flow takes: OVS-DOCA splits a match that is too wide for one rule."""

from __future__ import annotations

from dnsteer.offload.flow import Flow
from dnsteer.offload.profile import Profile

_SIZES = {
    "eth.src": 6,
    "eth.dst": 6,
    "eth_type": 2,
    "vlan.vid": 2,
    "vlan.pcp": 0,  # with vid one field of 16 bits
    "ipv4.src": 4,
    "ipv4.dst": 4,
    "ipv6.src": 16,
    "ipv6.dst": 16,
    "tcp_flags": 1,
    "in_port": 4,
    "ct_state": 4,
    "ct_zone": 0,
    "ct_mark": 4,
    "ct_label": 4,
}
_NO_BYTES = frozenset(["recirc_id", "packet_type", "vlan.tpid"])
"""What chooses the table or template and is no field of a rule."""


def match_bytes(flow: Flow) -> int:
    """Bytes that the flow's match takes: every field by its full size, whatever its mask."""
    return sum(size_of(f.key, f.bits) for f in flow.match)


def size_of(key: str, bits: int) -> int:
    """Bytes of a field in a hardware rule."""
    if key in _NO_BYTES:
        return 0
    return _SIZES.get(key, (bits + 7) // 8)


def rules_of(flow: Flow, profile: Profile) -> int:
    """Hardware rules that one flow takes: more than one where its match is too wide for one."""
    most = profile.limit("match_bytes_per_rule")
    if most is None:
        return 1
    return max(1, -(-match_bytes(flow) // most))
