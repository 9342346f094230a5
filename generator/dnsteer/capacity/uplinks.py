# SPDX-License-Identifier: Apache-2.0
"""Which uplinks a VIP's packets pass, and in which direction: each uplink is a separate link with its own limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from dnsteer.modes import MODES
from dnsteer.offload.packet_path import PacketPath
from dnsteer.spec import derived
from dnsteer.spec.model.families import Family
from dnsteer.spec.model.spec import Backend, Spec, Vip

UplinkUse = tuple[str, Literal["in", "out"]]
"""An uplink's name and a direction."""


def uplink_shares(spec: Spec, path: PacketPath) -> Mapping[UplinkUse, float]:
    """Return the share of a path's packets, 0 to 1, by uplink and direction; all clients come in by one uplink."""
    switch, vip = spec.switch, spec.vips[path.vip]
    entry = entry_of(spec, path.vip, path.family)
    first_exit = next((name for name, up in switch.uplinks.items() if up.next_hop is not None), None)
    found: dict[UplinkUse, float] = {}
    for backend, share in _shares(spec, vip, path.family):
        behind = backend.port or entry
        if path.direction == "query":
            uses: list[tuple[str | None, Literal["in", "out"]]] = [(entry, "in"), (behind, "out")]
        else:
            # Answers that the extension translates leave by the first uplink with a next hop.
            leave = first_exit if path.hops else derived.answers_leave_by(switch, behind)
            uses = [(behind, "in"), (leave, "out")]
        for port, direction in uses:
            if port in switch.uplinks and share:
                found[port, direction] = found.get((port, direction), 0.0) + share
    return found


def entry_of(spec: Spec, name: str, family: Family) -> str:
    """Return the uplink by which a VIP's clients come in: the one most answers leave by, else one without backends."""
    switch, vip = spec.switch, spec.vips[name]
    left: dict[str, float] = {}
    for backend, share in _shares(spec, vip, family):
        if backend.port is not None and MODES[vip.forwarding].answers_pass(switch, backend):
            uplink = derived.answers_leave_by(switch, backend.port)
            if uplink is not None:
                left[uplink] = left.get(uplink, 0.0) + share
    if left:
        return max(left, key=lambda name: left[name])
    used = {b.port for b in spec.pools[vip.pool].backends}
    uplinks = sorted(switch.uplinks, key=lambda u: (u in used, switch.uplinks[u].next_hop is None))
    return uplinks[0]


def can_spread_load(spec: Spec) -> bool:
    """Whether more uplinks add bandwidth for all packets: each packet leaves by the uplink of its clients."""
    switch = spec.switch
    return all(
        backend.port is None
        and (
            not MODES[vip.forwarding].answers_pass(switch, backend)
            or all(derived.answers_leave_by(switch, uplink) == uplink for uplink in switch.uplinks)
        )
        for vip in spec.vips.values()
        for backend in spec.pools[vip.pool].backends
    )


def _shares(spec: Spec, vip: Vip, family: Family) -> Iterator[tuple[Backend, float]]:
    """Yield the backends of a VIP with their shares of its packets, 0 to 1, by weight."""
    backends = derived.members(spec.pools[vip.pool], MODES[vip.forwarding].reach(family))
    weights = sum(b.weight for b in backends)
    for backend in backends:
        yield backend, backend.weight / weights if weights else 1 / len(backends)
