# SPDX-License-Identifier: Apache-2.0
"""The part of the agent that announces VIPs while they work, and withdraws those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from math import inf

from dnsteer.agent.announce.bird_routes import Publisher, PublishError, RouteOwner, Routes
from dnsteer.agent.announce.conditions import (
    FailedPoolVips,
    find_obstacles,
    vips_of_failed_pools,
    vips_withheld_by_people,
)
from dnsteer.agent.announce.stale_routes import FormerRoutes, RouteGuard
from dnsteer.agent.announce.vip_standing import Standing, VipStanding, VipStandings, VipVerdict
from dnsteer.agent.backend_health import Health
from dnsteer.agent.supervise import set_within
from dnsteer.deploy.times import now, stamp
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.announced import announced_prefixes, announced_vips, routes_of, vip_routes, vips_in
from dnsteer.spec.model.announce import Announce
from dnsteer.spec.model.spec import Spec
from dnsteer.status.agent_knowledge import UnannouncedPrefix, UnannouncedVip
from dnsteer.switch.agent_record import route_location
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.withdrawals import Withdrawal, withdrawals_of

_TICK = 0.5
"""Seconds after which it is looked whether a VIP's hold is over."""
_AGAIN = 1.0
"""Seconds after which what failed is tried again."""
_CHECK = 5.0
"""Seconds between two looks at what BIRD has."""
_MAX_TOLD = 3
_TROUBLE = "the announcement of VIPs"
_GUARD = "the guard"
_OF_SETTINGS = (_TROUBLE, _GUARD, "OpenFlow", "the withdrawn VIPs")
"""What can fail as long as the spec has VIPs announced."""
_OF_RECORD = ("the withdrawals", "the former routes")
"""What can fail as long as it is this agent that acts."""


@dataclass(frozen=True)
class Situation:
    """What decides about announcing. On *standby* nothing is announced.

    *fault* is what is wrong with the switch, None where that is not known; *doubt* why it is not, unless it is yet to be
    looked at. *silence* is what is to be said of a switch that forwards without answering.
    """

    bridge: str
    spec: Spec
    overlay: Overlay
    health: Health
    standby: bool
    fault: str | None
    doubt: str = ""
    silence: str = ""


@dataclass(frozen=True)
class _LastAnnouncement:
    """What was said of a VIP last."""

    announced: bool
    state: Standing


class Announcer:
    """Gives BIRD the routes of the VIPs that work, those of the bridge in the OVSDB at *remote*."""

    def __init__(self, remote: str, observer: AgentObserver) -> None:
        self._remote, self._observer = remote, observer
        self._wake = asyncio.Event()
        self._is_acting = True
        """Whether it is this agent that acts. Without OVSDB that is not known, and it stays as it was."""
        self._record: BridgeRecord | None = None
        self._adopted = False
        """Whether settings, or that there are none, are followed."""
        self._settings: tuple[RouteOwner, Announce] | None = None
        self._publisher: Publisher | None = None
        self._guard: RouteGuard | None = None
        self._former_routes = FormerRoutes()
        self._unsettled = inf
        """When routes of earlier specs that could not be withdrawn are tried again."""
        self._withdrawn: Mapping[str, Withdrawal] = {}
        """VIPs that people have withdrawn."""
        self._vips = VipStandings()
        self._followed: dict[str, VipStanding] = {}
        """Where they stood, BIRD left aside, when it was told last."""
        self._standings: dict[str, VipStanding] = {}
        self._lacking: dict[str, UnannouncedVip] = {}
        """VIPs that are to be announced and are not."""
        self._last_announced: dict[str, _LastAnnouncement] = {}
        self._prefixes: dict[str, UnannouncedPrefix | None] = {}
        """Of each prefix that the spec wants to be announced why it is not; None where it is."""
        self._given: Routes | None = None
        """What BIRD has been given; None where that is not known."""
        self._due = 0.0
        """When BIRD is asked again."""

    def record(self, record: BridgeRecord) -> None:
        """Take in the record of the bridge on which this agent acts: which VIPs people have withdrawn."""
        self._is_acting, self._record = True, record
        try:
            found = withdrawals_of(record)
        except DamagedError as err:  # those that were known stay withdrawn
            self._observer.report_trouble("the withdrawals", str(err))
            return
        self._observer.end_trouble("the withdrawals", "withdrawals can be read again")
        withdrawn = {name: one for name, one in found.items() if not one.is_over(now())}
        if withdrawn != self._withdrawn:
            self._withdrawn = withdrawn
            self.wake()

    def stand_by(self) -> None:
        """Leave what is announced to another agent, which acts now."""
        if self._is_acting:
            self._is_acting = False
            self.wake()

    def standings(self) -> Mapping[str, VipStanding]:
        """Where each VIP stands that the spec wants to be announced; empty while that is another agent's business."""
        return self._standings

    def wake(self) -> None:
        """Something has changed."""
        self._wake.set()

    async def run(self, situation: Callable[[], Situation | None]) -> None:
        """Announce and withdraw until cancelled. *situation* gives what is known; None: nothing."""
        clock = asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            if not self._is_acting:
                self._forget()
                self._former_routes.forget()
                self._observer.forget_troubles(*_OF_SETTINGS, *_OF_RECORD)
            elif (found := situation()) is not None:
                await self._follow(found, clock())
            await set_within(self._wake, _TICK)

    async def _follow(self, known: Situation, time: float) -> None:
        announce, owner = known.spec.switch.announce, RouteOwner(known.bridge, self._remote)
        settings = (owner, announce) if announce is not None else None
        try:
            if not self._adopted or settings != self._settings:
                await self._adopt(settings, owner, known.spec, time)
            elif time >= self._unsettled:
                await self._settle(owner, announce, time)
            if self._publisher is not None and announce is not None:
                await self._decide(known, announce, self._publisher, time)
        except PublishError as err:
            self._due, self._given = time + _AGAIN, None
            self._observer.report_trouble(_TROUBLE, f"VIPs are not announced as they should be: {err}", "error")
            self._tell(known.spec, self._publisher.has if self._publisher is not None else set())

    async def _adopt(
        self, settings: tuple[RouteOwner, Announce] | None, owner: RouteOwner, spec: Spec, time: float
    ) -> None:
        """Follow other settings. Where routes are to be elsewhere, or nowhere, those that there were are withdrawn."""
        publisher = Publisher(*settings) if settings is not None else None
        before = self._settings
        if before is not None and settings is not None and route_location(before[1]) == route_location(settings[1]):
            self._release()
        else:
            self._forget()
            await self._settle(owner, settings[1] if settings is not None else None, time)
            if publisher is not None:
                # An agent that begins leaves what is announced, until it knows better.
                present = await asyncio.to_thread(publisher.present)
                self._vips.begin({name: present.issuperset(vip_routes(vip)) for name, vip in spec.vips.items()})
        self._adopted, self._settings, self._publisher = True, settings, publisher
        self._due = 0.0  # what BIRD has is asked before anything is said of it
        self._observer.forget_troubles(*(_OF_SETTINGS if settings is None else [_GUARD]))

    async def _settle(self, owner: RouteOwner, announce: Announce | None, time: float) -> None:
        """Withdraw routes of earlier specs that are elsewhere."""
        assert self._record is not None
        wrong = await asyncio.to_thread(self._former_routes.withdraw, self._record, owner, announce)
        self._unsettled = time + _CHECK if wrong else inf
        if wrong:
            self._observer.report_trouble("the former routes", "; ".join(wrong), "error")
        else:
            self._observer.end_trouble("the former routes", "routes of earlier specs are withdrawn")

    async def _decide(self, known: Situation, announce: Announce, publisher: Publisher, time: float) -> None:
        self._vips.follow(self._verdicts(known), time, now(), announce.hold_max)
        standings = self._vips.all()
        self._tell_stuck([name for name, one in standings.items() if one.state == "unknown"], known)
        if known.silence:
            self._observer.report_trouble("OpenFlow", f"{known.silence}: VIPs are not withdrawn for that")
        elif not known.fault:
            self._observer.end_trouble("OpenFlow", "ovs-vswitchd answers OpenFlow again")
        routes = routes_of(known.spec, {name: one.wanted for name, one in standings.items()}, self._vips.kept())
        if self._given is None and time < self._due:
            return  # it has just failed
        if routes != self._given:
            self._given = None
            wrong = await asyncio.to_thread(publisher.publish, routes)
            self._given = routes
        elif time >= self._due:
            wrong = await asyncio.to_thread(publisher.check, routes)
        else:
            if standings != self._followed:
                self._tell(known.spec, publisher.has)
            return
        self._due = time + _CHECK
        if announce.on_stop == "withdraw" and (self._guard is None or not self._guard.is_running()):
            self._start_guard()
        self._tell(known.spec, publisher.has)
        if wrong:
            self._observer.report_trouble(_TROUBLE, "; ".join(wrong[:_MAX_TOLD]))
        else:
            self._observer.end_trouble(_TROUBLE, "VIPs are announced as they should be")

    def _verdicts(self, known: Situation) -> dict[str, VipVerdict]:
        """What is known of each VIP that the spec wants to be announced."""
        spec, overlay, health = known.spec, known.overlay, known.health
        none = vips_of_failed_pools(spec, overlay, health) if not known.fault else FailedPoolVips()
        asked = {
            name: VipStanding("asked", one.text, datetime.fromisoformat(one.until) if one.until else None)
            for name, one in self._withdrawn.items()
        }
        standby = VipStanding("standby", "this switch is on standby") if known.standby else None
        withheld = vips_withheld_by_people(spec, overlay, health) if not known.fault else ()
        return {
            name: VipVerdict(
                obstacle, name in none.stay, asked.get(name, standby), name in none.unanswered, name in withheld
            )
            for name, obstacle in find_obstacles(spec, overlay, health, known.fault).items()
        }

    def _tell_stuck(self, unknown: list[str], known: Situation) -> None:
        """Say why VIPs of which it is *unknown* whether they work do not come back, if no look at the switch will tell."""
        if known.doubt and unknown:
            more = f" and {len(unknown) - _MAX_TOLD} more" if len(unknown) > _MAX_TOLD else ""
            text = f"VIPs that are withdrawn stay so ({', '.join(unknown[:_MAX_TOLD])}{more}): {known.doubt}"
            self._observer.report_trouble("the withdrawn VIPs", text)
        else:
            self._observer.end_trouble("the withdrawn VIPs", "withdrawn VIPs come back as soon as they work")

    def _tell(self, spec: Spec, has: AbstractSet[str]) -> None:
        """Tell which VIPs are announced: those with all routes among what BIRD *has*."""
        lacking = {name: sorted({*map(str, vip_routes(spec.vips[name]))} - has) for name in announced_vips(spec)}
        self._followed = self._vips.all()
        self._standings = {
            name: self._with_bird(name, self._followed.get(name, VipStanding("unknown")), lacks, spec)
            for name, lacks in lacking.items()
        }
        held = {
            name: one.until.timestamp() for name, one in self._standings.items() if one.state == "held" and one.until
        }
        self._lacking = {name: self._unannounced(name) for name, lacks in lacking.items() if lacks}
        self._tell_prefixes(spec, has)
        announced = {name: not lacks for name, lacks in lacking.items()}
        self._observer.announcements_changed(announced, held, self._lacking, self._prefixes)
        told, self._last_announced = self._last_announced, {}
        for name, lacks in lacking.items():
            one, before = self._standings[name], told.get(name)
            if not lacks and not (before and before.announced):
                self._observer.say(f"VIP {name} is announced", "vip_announced", vip=name)
            elif lacks and one.reason and (before is None or before.announced):
                self._observer.say(
                    f"VIP {name} is withdrawn: {one.reason}", "vip_withdrawn", "warning", vip=name, reason=one.reason
                )
            if not lacks or one.reason:
                self._last_announced[name] = _LastAnnouncement(not lacks, one.state)
            if before is None or before.state != one.state:
                _tell_state(name, one, self._observer)

    def _tell_prefixes(self, spec: Spec, has: AbstractSet[str]) -> None:
        """Tell which of the prefixes beside the VIPs are announced."""
        told, self._prefixes = self._prefixes, {}
        for one in announced_prefixes(spec):
            prefix, vips = str(one.prefix), vips_in(spec, one.prefix)
            before = told.get(prefix)
            states = [self._followed.get(name, VipStanding("unknown")) for name in vips]
            works, by_people = (
                sum(state.wanted for state in states),
                sum(state.state in ("asked", "standby") for state in states),
            )
            if prefix in has:
                self._prefixes[prefix] = None
                if prefix not in told or before is not None:
                    text = f"prefix {prefix} is announced: {works} of its {len(vips)} VIPs work, needed: {one.min_vips}"
                    self._observer.say(text, "prefix_announced", prefix=prefix)
                continue
            lacks = works < one.min_vips
            why = (
                f"{works} of its {len(vips)} VIPs may be announced, needed: {one.min_vips}"
                if lacks
                else "BIRD does not have its route"
            )
            is_so = lacks and works + by_people >= one.min_vips
            since = before.since if before is not None and before.by_people == is_so else now()
            self._prefixes[prefix] = UnannouncedPrefix(prefix, why, since, is_so)
            if prefix in told and before is None:
                text = f"prefix {prefix} is withdrawn: {why}"
                self._observer.say(text, "prefix_withdrawn", "warning", prefix=prefix, reason=why)

    def _unannounced(self, name: str) -> UnannouncedVip:
        """What is known of a VIP that lacks routes."""
        one, before = self._standings[name], self._lacking.get(name)
        by_people, withdrawn = one.state in ("asked", "standby"), one.state in ("failing", "held")
        same = before is not None and (before.by_people, before.withdrawn) == (by_people, withdrawn)
        since = before.since if before is not None and same else now()
        why = one.reason or "it is not known yet whether it works"
        return UnannouncedVip(name, why, since, one.until, by_people, withdrawn)

    def _with_bird(self, name: str, wanted: VipStanding, lacks: list[str], spec: Spec) -> VipStanding:
        """Where a VIP stands, given what BIRD *lacks*."""
        if not wanted.wanted or not lacks:
            return wanted
        for other, its in self._followed.items():
            if not its.wanted and {*lacks} & {*map(str, vip_routes(spec.vips[other]))}:
                return VipStanding("missing", f"VIP {other}, which does not work, has addresses of it too")
        return VipStanding("missing", f"BIRD has no route to {', '.join(lacks)}")

    def _start_guard(self) -> None:
        assert self._settings is not None
        try:
            self._guard = RouteGuard(*self._settings)
        except OSError as err:
            self._observer.report_trouble(
                _GUARD, f"if the agent is killed, VIPs are not withdrawn: no process can be started: {err}"
            )
        else:
            self._observer.end_trouble(_GUARD, "if the agent is killed, VIPs are withdrawn again")

    def _forget(self) -> None:
        """Know nothing of what is announced."""
        self._release()
        self._adopted, self._settings, self._publisher = False, None, None
        self._given, self._due, self._vips, self._standings, self._last_announced = None, 0.0, VipStandings(), {}, {}
        self._lacking, self._prefixes = {}, {}
        self._observer.announcements_changed({}, {}, {}, {})

    def _release(self) -> None:
        """Let the guard end without withdrawing anything."""
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def close(self) -> None:
        """End: what is announced stays, or is withdrawn, as the spec says."""
        if self._publisher is None or self._settings is None:
            return
        if self._is_acting and self._settings[1].on_stop == "withdraw":
            try:
                self._publisher.withdraw()
                self._observer.say(
                    "all VIPs are withdrawn, since the agent ends", "vip_withdrawn", reason="the agent ends"
                )
            except PublishError as err:
                self._observer.report_trouble(
                    _TROUBLE, f"VIPs are not withdrawn, though the agent ends: {err}", "error"
                )
        self._release()


def _tell_state(name: str, one: VipStanding, observer: AgentObserver) -> None:
    """Say that a VIP is held back, or stays announced, and why."""
    if one.state == "held" and one.until is not None:
        until = stamp(one.until.replace(microsecond=0))
        text = f"VIP {name} works again, and is held back until {until}, since it fails again and again: {one.reason}"
        observer.say(text, "vip_held", vip=name, until=until, reason=one.reason)
    elif one.state == "kept":
        text = f"VIP {name} stays announced, though no backend passes its checks: {one.reason}"
        observer.say(text, "vip_kept", "warning", vip=name, reason=one.reason)
