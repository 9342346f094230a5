"""The part of the agent that announces VIPs while they work, and withdraws those that do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from dnsteer.agent.announce.conditions import obstacles
from dnsteer.agent.announce.guard import RouteGuard
from dnsteer.agent.announce.places import Places
from dnsteer.agent.announce.publish import Publisher, PublishError, Routes
from dnsteer.agent.announce.routes import RouteOwner
from dnsteer.agent.backend_health import Health
from dnsteer.agent.health import CheckState, Result, Thresholds, after_result
from dnsteer.agent.report import Reporter
from dnsteer.agent.waiting import set_within
from dnsteer.deploy.times import now
from dnsteer.metrics.recorder import Recorder
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.announced import announced_vips, prefixes, routes_of
from dnsteer.spec.model.announce import Announce
from dnsteer.spec.model.spec import Spec
from dnsteer.status.agent_knowledge import UnannouncedVip
from dnsteer.switch.announced import route_place
from dnsteer.switch.state import BridgeRecord, DamagedError
from dnsteer.switch.withdrawals import withdrawals_of

_TICK = 0.5
"""Seconds after which it is looked whether a VIP's hold is over."""
_AGAIN = 1.0
"""Seconds after which what failed is tried again."""
_CHECK = 5.0
"""Seconds between two looks at what BIRD has."""
_SAME = timedelta(seconds=1)
"""Two ends of a hold that are nearer to each other are one, computed twice."""
_MAX_TOLD = 3
_TROUBLE = "the announcement of VIPs"


@dataclass(frozen=True)
class Situation:
    """What decides about announcing. *fault* is what is wrong with the switch, None where that is not known; *doubt* why it
    is not, unless it is yet to be looked at."""

    bridge: str
    spec: Spec
    overlay: Overlay
    health: Health
    fault: str | None
    doubt: str = ""


class Announcer:
    """Gives BIRD the routes of the VIPs that work, those of the bridge in the OVSDB at *remote*."""

    def __init__(self, remote: str, recorder: Recorder) -> None:
        self._remote, self._recorder = remote, recorder
        self._wake = asyncio.Event()
        self._acts = True
        """Whether it is this agent that acts. Without OVSDB that is not known, and it stays as it was."""
        self._record: BridgeRecord | None = None
        self._adopted = False
        """Whether settings, or that there are none, are followed."""
        self._settings: tuple[RouteOwner, Announce] | None = None
        self._publisher: Publisher | None = None
        self._guard: RouteGuard | None = None
        self._places = Places()
        self._unsettled = inf
        """When routes of earlier specs that could not be withdrawn are tried again."""
        self._withdrawn: Mapping[str, str] = {}
        """VIPs that people have withdrawn, in words."""
        self._vips: dict[str, CheckState] = {}
        self._told: dict[str, bool] = {}
        self._lacking: dict[str, UnannouncedVip] = {}
        """VIPs that are to be announced and are not."""
        self._given: Routes | None = None
        """What BIRD has been given; None where that is not known."""
        self._due = 0.0
        """When BIRD is asked again."""

    def record(self, record: BridgeRecord, report: Reporter) -> None:
        """Take in the record of the bridge on which this agent acts: which VIPs people have withdrawn."""
        self._acts, self._record = True, record
        try:
            found = withdrawals_of(record)
        except DamagedError as err:  # those that were known stay withdrawn
            report.fails("the withdrawals", str(err))
            return
        report.works("the withdrawals", "withdrawals can be read again")
        withdrawn = {name: one.text for name, one in found.items() if not one.over(now())}
        if withdrawn != self._withdrawn:
            self._withdrawn = withdrawn
            self.wake()

    def stand_by(self) -> None:
        """Leave what is announced to another agent, which acts now."""
        if self._acts:
            self._acts = False
            self.wake()

    def wake(self) -> None:
        """Something has changed."""
        self._wake.set()

    async def run(self, situation: Callable[[], Situation | None], report: Reporter) -> None:
        """Announce and withdraw until cancelled. *situation* gives what is known; None: nothing."""
        clock = asyncio.get_running_loop().time
        while True:
            self._wake.clear()
            if not self._acts:
                self._forget()
                self._places.forget()
            elif (found := situation()) is not None:
                await self._follow(found, clock(), report)
            await set_within(self._wake, _TICK)

    async def _follow(self, known: Situation, time: float, report: Reporter) -> None:
        announce, owner = known.spec.switch.announce, RouteOwner(known.bridge, self._remote)
        settings = (owner, announce) if announce is not None else None
        try:
            if not self._adopted or settings != self._settings:
                await self._adopt(settings, owner, known.spec, time, report)
            elif time >= self._unsettled:
                await self._settle(owner, announce, time, report)
            if self._publisher is not None and announce is not None:
                await self._decide(known, announce, self._publisher, time, report)
        except PublishError as err:
            self._due, self._given = time + _AGAIN, None
            report.fails(_TROUBLE, f"VIPs are not announced as they should be: {err}", "error")
            self._tell(known.spec, self._publisher.has if self._publisher is not None else set(), report)

    async def _adopt(
        self, settings: tuple[RouteOwner, Announce] | None, owner: RouteOwner, spec: Spec, time: float, report: Reporter
    ) -> None:
        """Follow other settings. Where routes are to be elsewhere, or nowhere, those that there were are withdrawn."""
        publisher = Publisher(*settings) if settings is not None else None
        before = self._settings
        if before is not None and settings is not None and route_place(before[1]) == route_place(settings[1]):
            self._release()
        else:
            self._forget()
            await self._settle(owner, settings[1] if settings is not None else None, time, report)
            if publisher is not None:
                # An agent that begins leaves what is announced, until it knows better.
                present = await asyncio.to_thread(publisher.present)
                for name, vip in spec.vips.items():
                    self._vips[name] = CheckState(healthy=present.issuperset(vip.addresses))
        self._adopted, self._settings, self._publisher = True, settings, publisher

    async def _settle(self, owner: RouteOwner, announce: Announce | None, time: float, report: Reporter) -> None:
        """Withdraw routes of earlier specs that are elsewhere."""
        assert self._record is not None
        wrong = await asyncio.to_thread(self._places.settle, self._record, owner, announce)
        self._unsettled = time + _CHECK if wrong else inf
        if wrong:
            report.fails("the former routes", "; ".join(wrong), "error")
        else:
            report.works("the former routes", "routes of earlier specs are withdrawn")

    async def _decide(
        self, known: Situation, announce: Announce, publisher: Publisher, time: float, report: Reporter
    ) -> None:
        limits = Thresholds(1, 1, announce.hold_max)
        why = obstacles(known.spec, known.overlay, known.health, known.fault, self._withdrawn)
        self._vips = {name: self._vips.get(name, CheckState(healthy=False)) for name in why}
        for name, obstacle in why.items():
            if obstacle is not None:
                self._vips[name] = after_result(self._vips[name], Result(time, obstacle), limits)
        self._tell_stuck(
            [name for name, state in self._vips.items() if why[name] is None and not state.healthy], known, report
        )
        routes = routes_of(known.spec, {name: state.healthy for name, state in self._vips.items()})
        if self._given is None and time < self._due:
            return  # it has just failed
        if routes != self._given:
            self._given = None
            wrong = await asyncio.to_thread(publisher.publish, routes)
            self._given = routes
        elif time >= self._due:
            wrong = await asyncio.to_thread(publisher.check, routes)
        else:
            return
        self._due = time + _CHECK
        if announce.on_stop == "withdraw" and (self._guard is None or not self._guard.runs()):
            self._start_guard(report)
        self._tell(known.spec, publisher.has, report)
        if wrong:
            report.fails(_TROUBLE, "; ".join(wrong[:_MAX_TOLD]))
        else:
            report.works(_TROUBLE, "VIPs are announced as they should be")

    def _tell_stuck(self, unknown: list[str], known: Situation, report: Reporter) -> None:
        """Say why VIPs of which it is *unknown* whether they work do not come back, if no look at the switch will tell."""
        if known.doubt and unknown:
            more = f" and {len(unknown) - _MAX_TOLD} more" if len(unknown) > _MAX_TOLD else ""
            text = f"VIPs that are withdrawn stay so ({', '.join(unknown[:_MAX_TOLD])}{more}): {known.doubt}"
            report.fails("the withdrawn VIPs", text)
        else:
            report.works("the withdrawn VIPs", "withdrawn VIPs come back as soon as they work")

    def _tell(self, spec: Spec, has: AbstractSet[str], report: Reporter) -> None:
        """Tell which VIPs are announced: those with all routes among what BIRD *has*."""
        lacking = {name: sorted({*prefixes(spec.vips[name])} - has) for name in announced_vips(spec)}
        self._recorder.announces({name: not lacks for name, lacks in lacking.items()})
        self._lacking = {name: self._unannounced(name, spec, lacks) for name, lacks in lacking.items() if lacks}
        self._recorder.unannounced(self._lacking)
        told, self._told = self._told, {}
        for name, lacks in lacking.items():
            why = self._why(name, spec, lacks) if lacks else ""
            if not lacks and not told.get(name):
                report.say(f"VIP {name} is announced", "vip_announced", vip=name)
            elif why and told.get(name, True):
                report.say(f"VIP {name} is withdrawn: {why}", "vip_withdrawn", "warning", vip=name, reason=why)
            if why or not lacks:
                self._told[name] = not lacks

    def _unannounced(self, name: str, spec: Spec, lacks: list[str]) -> UnannouncedVip:
        """What is known of a VIP that *lacks* routes: why, since when, and until when it is held."""
        before, state, time_now = self._lacking.get(name), self._vips.get(name), now()
        why = self._why(name, spec, lacks) or "it is not known yet whether it works"
        left = state.held - asyncio.get_running_loop().time() if state is not None and not state.healthy else 0.0
        until = time_now + timedelta(seconds=left) if left > 0 else None
        if before is None:
            return UnannouncedVip(name, why, time_now, until, name in self._withdrawn)
        if until is not None and before.until is not None and abs(until - before.until) < _SAME:
            until = before.until
        return UnannouncedVip(name, why, before.since, until, name in self._withdrawn)

    def _why(self, name: str, spec: Spec, lacks: list[str]) -> str:
        """Why BIRD *lacks* routes to a VIP; empty where that is not known yet."""
        state = self._vips.get(name)
        if state is None or not state.healthy:
            return state.why if state is not None else ""
        for other, its in self._vips.items():
            if not its.healthy and set(lacks) & {*prefixes(spec.vips[other])}:
                return f"VIP {other}, which does not work, has addresses of it too"
        return f"BIRD has no route to {', '.join(lacks)}"

    def _start_guard(self, report: Reporter) -> None:
        assert self._settings is not None
        try:
            self._guard = RouteGuard(*self._settings)
        except OSError as err:
            report.fails(
                "the guard", f"if the agent is killed, VIPs are not withdrawn: no process can be started: {err}"
            )
        else:
            report.works("the guard", "if the agent is killed, VIPs are withdrawn again")

    def _forget(self) -> None:
        """Know nothing of what is announced."""
        self._release()
        self._adopted, self._settings, self._publisher = False, None, None
        self._given, self._due, self._vips, self._told = None, 0.0, {}, {}
        self._recorder.announces({})
        self._lacking = {}
        self._recorder.unannounced({})

    def _release(self) -> None:
        """Let the guard end without a deed."""
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def close(self, report: Reporter) -> None:
        """End: what is announced stays, or is withdrawn, as the spec says."""
        if self._publisher is None or self._settings is None:
            return
        if self._acts and self._settings[1].on_stop == "withdraw":
            try:
                self._publisher.withdraw()
                report.say("all VIPs are withdrawn, since the agent ends", "vip_withdrawn", reason="the agent ends")
            except PublishError as err:
                report.fails(_TROUBLE, f"VIPs are not withdrawn, though the agent ends: {err}", "error")
        self._release()
