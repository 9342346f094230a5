# SPDX-License-Identifier: Apache-2.0
"""Withdraw VIPs from routing, and let them be announced again: the record says so, and `dnsteer agent` follows it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dnsteer.deploy.caller import operator_name
from dnsteer.deploy.recorded_spec import spec_of
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now, stamp
from dnsteer.spec.announced import announced_vips
from dnsteer.spec.errors import near
from dnsteer.spec.model.announce import Announce
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.withdrawals import Withdrawal, WithdrawalSession, withdrawals_of

Withdrawals = dict[str, Withdrawal]
Edit = Callable[[Withdrawals, datetime], Withdrawals]
"""The withdrawals that are wanted, given those that there are and the time."""


@dataclass(frozen=True)
class WithdrawalChange:
    """What was or would be changed on *bridge*. *vips* are those that were named, *announce* is who announces them."""

    bridge: str
    spec: Spec
    announce: Announce
    vips: tuple[str, ...]
    before: Withdrawals
    after: Withdrawals

    @property
    def changed(self) -> list[str]:
        """The VIPs of which something changes."""
        return [name for name in self.vips if self.before.get(name) != self.after.get(name)]


def withdraw_edit(vips: Collection[str], note: str, lasts: float) -> Edit:
    """The edit that withdraws VIPs, for *lasts* seconds; 0: until they are announced again."""

    def edit(found: Withdrawals, time: datetime) -> Withdrawals:
        until = stamp(time + timedelta(seconds=lasts)) if lasts else ""
        wanted = Withdrawal(stamp(time), operator_name(), note, until)
        same = {name: replace(found[name], note=note, until=until) for name in vips if name in found}
        return {**found, **dict.fromkeys(vips, wanted), **same}

    return edit


def announce_edit(vips: Collection[str]) -> Edit:
    """The edit that lets VIPs be announced again."""
    return lambda found, _: {name: one for name, one in found.items() if name not in vips}


def change_withdrawals(
    switch: TargetSwitch,
    bridge: str | None,
    vips: Collection[str],
    edit: Callable[[Collection[str]], Edit],
    *,
    dry_run: bool,
) -> WithdrawalChange:
    """Change what is withdrawn of the VIPs that are named, or of all where none is. Raises SwitchError."""
    with WithdrawalSession(switch.remote, switch.timeout) as session:
        record = session.record_of(bridge)
        if not dry_run:
            session.lock(record.bridge)
            record = session.record_of(record.bridge)
        if not record.number:
            raise SwitchError(f"no spec was applied to bridge {record.bridge} by this version; apply one first")
        spec = spec_of(session.state(record, record.number))
        names = _checked(record, spec, vips)
        time, before = now(), withdrawals_of(record)
        # What is over, or of VIPs that are gone, goes with the next change.
        kept = {name: one for name, one in before.items() if name in spec.vips and not one.is_over(time)}
        after = edit(names)(kept, time)
        if after != before and not dry_run:
            session.record_withdrawals(record, after)
        assert spec.switch.announce is not None
        return WithdrawalChange(record.bridge, spec, spec.switch.announce, names, kept, after)


def _checked(record: BridgeRecord, spec: Spec, vips: Collection[str]) -> tuple[str, ...]:
    """The VIPs that are named, or all that are announced. Raises SwitchError."""
    if spec.switch.announce is None:
        raise SwitchError(
            f"the spec that is applied to bridge {record.bridge} announces no VIPs: it has no switch.announce"
        )
    known = announced_vips(spec)
    for name in vips:
        if name not in spec.vips:
            raise SwitchError(f"found {name!r}; expected a VIP of the applied spec; {near(name, spec.vips)}")
        if name not in known:
            raise SwitchError(f"VIP {name} is not announced at all: its announce is never")
    return tuple(dict.fromkeys(vips or known))
