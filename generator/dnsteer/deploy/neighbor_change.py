# SPDX-License-Identifier: Apache-2.0
"""Change the MAC addresses of neighbours on a running switch: the record and all flows that have them, in one bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from dnsteer.deploy.apply import apply_state
from dnsteer.deploy.neighbors import with_found
from dnsteer.deploy.settle import settle_or_keep
from dnsteer.deploy.target_switch import Progress, TargetSwitch, silent
from dnsteer.deploy.times import now
from dnsteer.slots.maintenance import FoundNeighbor
from dnsteer.spec.neighbors import followed_addresses
from dnsteer.switch.tools import SwitchError


def change_neighbors(
    switch: TargetSwitch, bridge: str, macs: Mapping[str, str], progress: Progress = silent
) -> list[FoundNeighbor]:
    """Bring the switch to the MAC addresses of neighbours, given by their addresses; return those that are others now.

    Addresses that the applied spec does not follow are passed over: it may have changed meanwhile. Raises SwitchError, or
    UnavailableError when the switch cannot be reached.
    """
    with switch.session() as session:
        session.lock(bridge)
        record = session.record_of(bridge)
        if record.pending is not None:
            record = settle_or_keep(switch, session, record, progress)
        record.refuse_other_format()
        if not record.number:
            raise SwitchError(f"no spec was applied to bridge {bridge} by this version; apply one first")
        state, before = session.state(record, record.number), record.overlay
        spec = switch.wanted(state, before).loaded.spec
        found = with_found(before, followed_addresses(spec), macs, now())
        changed = [each for each in found if each not in (before.neighbors or ())]
        if changed:
            after = replace(before, neighbors=found)
            keep = partial(switch.keep_overlay, session, bridge, after)
            # without grace: no backend leaves
            apply_state(switch, session, state, after, progress, needs_extension=False, grace=0, keep=keep)
        return changed
