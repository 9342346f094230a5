# SPDX-License-Identifier: Apache-2.0
"""The edits of the overlay behind `deny` and `undeny`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic_core import PydanticCustomError

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.decision import decision_id
from dnsteer.deploy.denial_effects import denied_by_spec, overlap
from dnsteer.deploy.overlay_change import Edit
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.times import stamp
from dnsteer.slots.denial import MAX_DENIALS, Denial
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.errors import near, some_of
from dnsteer.spec.model.types import Network, parse_prefix
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError


def clients_of(text: str) -> Network:
    """The clients that a command names by a prefix or one address. Raises SwitchError."""
    try:
        found = parse_prefix(text)
    except PydanticCustomError as err:
        context = err.context or {}
        hint = f": {context['hint']}" if context.get("hint") else ""
        raise SwitchError(f"found {text!r}; expected {context.get('expected')}{hint}") from None
    if not found.prefixlen:
        raise SwitchError(
            f"{found} is every client over IPv{found.version}; to stop a VIP, take it out of the spec, or have routers "
            "send its queries elsewhere: dnsteer withdraw VIP"
        )
    return found


def deny_clients(clients: Sequence[Network], *, port: int = 0, vip: str = "", lasts: float = 0, note: str = "") -> Edit:
    """Return the edit that denies clients, for *lasts* seconds, 0: until it is ended.

    Who is denied already keeps the start, and the time and note that are not given anew.
    """

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        if vip and vip not in state.vips:
            raise SwitchError(f"there is no VIP {vip!r}; {near(vip, state.vips)}")
        until = stamp(time + timedelta(seconds=lasts)) if lasts else ""
        denials = {denial.key: denial for denial in overlay.denials}
        for network in clients:
            new = Denial(str(network), stamp(time), operator_name(), port, vip, note, until, decision_id())
            found = denials.get(new.key)
            if found is not None:
                again = replace(found, note=note or found.note, until=until or found.until)
                new = replace(again, by=new.by, decision=new.decision) if again != found else found
            denials[new.key] = new
        if len(denials) > MAX_DENIALS:
            raise SwitchError(
                f"{len(denials):,} prefixes denied by hand; at most {MAX_DENIALS:,} can be: join those that lie side by "
                "side, or put them into a file of the spec (switch.access.deny_file)"
            )
        return overlay.with_denials(denials.values())

    return edit


def admit_clients(clients: Sequence[Network], *, port: int = 0, vip: str = "") -> Edit:
    """Return the edit that ends denials. Raises SwitchError for what is not denied by hand."""

    def edit(overlay: Overlay, state: AppliedState, time: datetime) -> Overlay:
        denials = {denial.key: denial for denial in overlay.denials}
        for network in clients:
            wanted = Denial(str(network), "", "", port, vip)
            if denials.pop(wanted.key, None) is None:
                raise SwitchError(f"{wanted.name} is not denied by hand; {_denied_otherwise(wanted, overlay, state)}")
        return overlay.with_denials(denials.values())

    return edit


def _denied_otherwise(wanted: Denial, overlay: Overlay, state: AppliedState) -> str:
    """What is denied that somebody may mean who names *wanted*, which is not."""
    network = wanted.network
    alike = [a for a in overlay.denials if overlap(a.network, network)]
    if alike:
        return f"{some_of([a.name for a in alike])} is: dnsteer undeny {' '.join(alike[0].words)}"
    places = denied_by_spec(load_state(state), wanted)
    if places:
        return f"the spec denies it ({some_of(places)}): change the spec and apply it"
    return f"denied are {some_of([a.name for a in overlay.denials])}" if overlay.denials else "nobody is"
