"""Bring to the record what was decided while it could not be written, and tell of it until that is done."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from dnsteer.agent.adoption import Work
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.metrics.observer import AgentObserver
from dnsteer.switch.state import BusyError
from dnsteer.switch.tools import UnwrittenError


async def record_kept(switch: HeldSwitch, bridge: str, work: Work, observer: AgentObserver) -> bool:
    """Record what is kept, if something is and OVSDB can be written. Return whether it still counts: others may have written
    the record meanwhile. Raises SwitchError."""
    kept, counts = switch.memory.unrecorded, True
    if kept.why:
        with suppress(BusyError, UnwrittenError):
            counts = await work(partial(switch.record_kept, bridge))
    left = f"; nor can it be kept for the next agent: {kept.unsaved}" if kept.unsaved else ""
    text = f"backends go out and come back without the record, which follows once it can be written: {kept.why}{left}"
    observer.unrecorded(text if kept.why else "")
    return counts
