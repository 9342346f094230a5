# SPDX-License-Identifier: Apache-2.0
"""The zone of the connection tracker for connections that are kept: what it must have, and how a shell sets it."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.spec import derived
from dnsteer.spec.model.spec import Spec

OWNER = "dnsteer-bridge"
"""The key of external_ids by which a zone is known to be dnsteer's: the bridge that it is for."""
_ONE_WAY, _BOTH_WAYS = ("tcp_syn_sent", "tcp_syn_recv"), ("tcp_established", "tcp_fin_wait")


@dataclass(frozen=True)
class ZoneSettings:
    """What a zone is to have: a number of *connections* at most, and an *idle* time of connections in seconds.

    *states* are those in which connections are idle, by the names that OVSDB has for their time-outs.
    """

    zone: int
    connections: int
    idle: int
    states: tuple[str, ...] = _ONE_WAY

    @property
    def timeouts(self) -> dict[str, int]:
        """The time-outs that make the idle time, in seconds, by the names that OVSDB has for them."""
        return dict.fromkeys(self.states, self.idle)


def zone_settings(spec: Spec) -> ZoneSettings | None:
    """What the zone of a spec's connections must have; None where none are kept."""
    if not derived.keeps_connections(spec):
        return None
    tracking = derived.tracking(spec)
    both_ways = {derived.tracks_answers(vip) for vip in spec.vips.values() if derived.keeps(vip)}
    states = (*(_BOTH_WAYS if True in both_ways else ()), *(_ONE_WAY if False in both_ways else ()))
    return ZoneSettings(tracking.zone, tracking.connections, round(tracking.idle), states)
