# SPDX-License-Identifier: Apache-2.0
"""The agent's process: probes on an event loop, and one thread that changes the switch.

It is level-triggered: each change is decided anew from health, record and time under the bridge's lock. What was missed, by
a restart or because the switch was away, is made up by the next look, which comes within a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from dnsteer.agent.announce.announcer import Announcer, Situation
from dnsteer.agent.backend_health import Health
from dnsteer.agent.balance.balancer import Balancer
from dnsteer.agent.bonds import BondFollower
from dnsteer.agent.connection_counter import ConnectionCounter
from dnsteer.agent.control import RunRequestOn
from dnsteer.agent.effect import Effect, advance_maintenance, decide_and_change
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.gratuitous import NeighborNotices
from dnsteer.agent.health import Result
from dnsteer.agent.health_decision import PoolRules
from dnsteer.agent.held_switch import HeldSwitch, SwitchMemory, SwitchThread, record_kept
from dnsteer.agent.lists import ListFollower
from dnsteer.agent.neighbor_follower import NeighborFollower
from dnsteer.agent.next_work import PAUSE, AgentState, AgentStep, NextWork, next_work
from dnsteer.agent.panics import Panics
from dnsteer.agent.probe_port import ProbePort
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.record_notes import FailureRecord, keep_note
from dnsteer.agent.repair import inspect_switch
from dnsteer.agent.role import Claim, RoleFollower
from dnsteer.agent.state_follower import StateFollower
from dnsteer.agent.supervise import Supervisor, describe_error, notify_systemd, set_within
from dnsteer.agent.verb_server import VerbServer
from dnsteer.agent.watch import watch
from dnsteer.deploy.decision import IDS
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.events.event import EventSink
from dnsteer.metrics.observer import AgentObserver, AppliedBridge, CheckTurn, Observers
from dnsteer.slots.maintenance import Overlay
from dnsteer.switch.captures import capture_of, remove_left
from dnsteer.switch.state import BusyError
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError
from dnsteer.view.snapshot import SnapshotRecorder

_LONG = 5.0
"""Seconds that others may be changing the bridge, before it is said that the agent cannot look at it."""


class Agent:
    """The agent of one bridge. *say* gets an event about whatever it does; *run_request* does verbs for others.

    *seen* keeps what the agent knows, for those who ask; *observers* are told of all work beside it.
    """

    def __init__(
        self,
        switch: TargetSwitch,
        bridge: str | None,
        say: EventSink,
        run_request: RunRequestOn,
        seen: SnapshotRecorder | None = None,
        observers: Sequence[AgentObserver] = (),
    ) -> None:
        self._seen = seen or SnapshotRecorder()
        observer = self._observer = Observers(*observers, self._seen, EventReporter(say))
        self.supervisor = Supervisor(observer)
        self._memory = SwitchMemory(switch.remote, self._seen.knowledge_of)
        self._switch = HeldSwitch(switch.remote, switch.openflow, switch.timeout, switch.extension, self._memory)
        self._claim = Claim(self._switch, bridge)
        self._health = Health()
        self._failure_record = FailureRecord(switch.remote)
        self.balancer = Balancer(self._switch, observer)
        self._notices = NeighborNotices(self._switch)
        self._connections = ConnectionCounter(self._switch, observer)
        self._lists = ListFollower(self._switch, observer)
        self._bonds = BondFollower(self._switch, partial(self._notices.begin, taking_over=True), observer)
        self._role = RoleFollower(self._switch, self._notices, observer)
        self._announcer = Announcer(switch.remote, observer)
        self._probe_port = ProbePort(observer)
        self._neighbors = NeighborFollower(self._switch, observer)
        self._state_follower = StateFollower(
            self._claim, self._health, self._add, self._tell_adopted, self._probe_port, observer
        )
        self.verbs = VerbServer(
            self._switch,
            run_request,
            observer,
            self._seen,
            lambda: self._followed.spec if self._followed is not None else None,
            self._is_acting,
        )
        self._panics = Panics(self._health, observer)
        self._wake = asyncio.Event()
        self._state = AgentState()

    async def run(self) -> None:
        """Work until cancelled. Nothing else ends it: what fails is said and tried again."""
        loop = asyncio.get_running_loop()
        self._memory.on_change = partial(_wake, loop, self._wake, self._announcer)
        self.supervisor.catch_callbacks(loop)
        with ThreadPoolExecutor(1, "switch") as worker:
            work = partial(loop.run_in_executor, worker)
            try:
                while True:
                    with self.supervisor.guarded("the turns of the main loop"):
                        await self._turn_and_rest(work, loop)
                        continue
                    await asyncio.sleep(PAUSE)
            finally:
                await self.supervisor.stop()
                await asyncio.to_thread(self._announcer.close)
                await self.balancer.close()
                self._state_follower.stop()
                await self.verbs.stop()
                self._claim.close()
                self._memory.close()

    async def _turn_and_rest(self, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        began = loop.time()
        await self._turn(work, loop)
        with self.supervisor.guarded("metrics"):
            self._observer.took("loop", loop.time() - began)
        await self._rest(loop)

    def _next(self, now: float) -> NextWork:
        """What is to be done next, by what the other parts of the agent know now."""
        state = self._state
        state.is_following, state.has_claim = self._followed is not None, self._claim.held
        state.looks.notice(self._memory.events, now)
        return next_work(state, now)

    async def _turn(self, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        """Follow the record, and do what is due."""
        state, why = self._state, ""
        try:
            state.begin_turn(loop.time())
            await self._do_steps(work, loop)
            if not state.looks.failing:
                self._observer.end_trouble("the switch", "the switch can be reached again")
            self.supervisor.report_recovery("the main loop")
        except (SwitchError, PermissionError) as err:
            why = str(err) or type(err).__name__
            self._observer.failed(why)
        except Exception as err:  # noqa: BLE001  whatever it is, the agent goes on with what it knows
            why = describe_error(err)
            self.supervisor.report_failure("the main loop", err)
            state.read_first = True  # what comes next in the record may mend it
        if why:
            state.paused_until = loop.time() + PAUSE
            if state.unread or state.looks.due_in(self._memory.events, loop.time()) <= 0:  # it was not done
                state.looks.failed(loop.time())
        status = why.strip().partition("\n")[0] if why else self._summary()
        notify_systemd(*([] if why else ["READY=1"]), "WATCHDOG=1", f"STATUS={status}")

    async def _do_steps(self, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        """Do the steps of a turn that are due. One that fails is raised once all others are done."""
        failed: Exception | None = None
        while (step := self._next(loop.time()).step) is not None:
            self._state.done = step
            try:
                await self._do(step, work, loop)
            except Exception as err:  # noqa: BLE001  raised below
                failed = failed or err
                self._state.failed(step, away=isinstance(err, UnavailableError))
        if failed is not None:
            raise failed

    async def _do(self, step: AgentStep, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        if step is AgentStep.READ_RECORD:
            await self._read_record(work, loop)
            return
        followed = self._followed
        assert followed is not None
        match step:
            case AgentStep.START_TASKS:
                self._start_tasks(work, followed.bridge)
            case AgentStep.DECIDE:
                await self._decide(work, followed, loop)
            case AgentStep.RECORD_KEPT:
                await self._record_kept(work, followed)
            case AgentStep.ADVANCE:
                await self._advance(work, followed, loop)
            case AgentStep.LOOK:
                await self._look(work, followed, loop)
            case AgentStep.KEEP_PROBE_PORT:
                await self._probe_port.keep(followed.spec, work, loop.time())
            case AgentStep.REMOVE_MIRRORS:
                await self._remove_mirrors(work)
            case AgentStep.RECORD_FAILURES:
                await self._record_failures(work, loop)

    def _start_tasks(self, work: SwitchThread, bridge: str) -> None:
        """Start what goes on beside the main loop, once."""
        self._state.tasks_started = True
        start = self.supervisor.start
        start("the monitor", lambda: watch(self._switch, bridge, self._tell_monitor))
        start(
            "the balance",
            lambda: self.balancer.run(work, self._is_acting, lambda: self._state.overlay, self._note_effect),
        )
        start("the note of what it knows", lambda: keep_note(self._switch, bridge, self._seen))
        start("the announcements", lambda: self._notices.run(work, self._is_acting, self._observer))
        start("the bonds", lambda: self._bonds.run(work, self._state_if_acting, lambda: self._role.standby))
        start("the neighbours", lambda: self._neighbors.run(work, self._known_now))
        start("the connections", lambda: self._connections.run(self._known_now))
        start("the lists", lambda: self._lists.run(lambda: self._followed, self._is_acting))
        start("the routes", lambda: self._announcer.run(self._situation))
        self.verbs.begin(bridge, self.supervisor)

    def _situation(self) -> Situation | None:
        """What decides about announcing VIPs: as long as OVSDB is away, with what it had last. None: nothing is known."""
        followed, memory = self._followed, self._memory
        if followed is None:
            return None
        return Situation(
            followed.bridge, followed.spec, self._state.overlay, self._health, self._role.standby, *memory.judgement
        )

    def _known_now(self) -> tuple[FollowedState, Overlay] | None:
        """What is applied, with the overlay of the record; None while another agent acts, or nothing is known."""
        return (self._followed, self._state.overlay) if self._followed is not None and self._is_acting() else None

    def _state_if_acting(self) -> FollowedState | None:
        """What is applied, where this agent acts, on standby too."""
        return self._followed if self._is_acting() else None

    def _is_acting(self) -> bool:
        """Whether this agent is the one that acts, as far as is known."""
        return self._state.is_acting

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for something to do, at most until the next tick."""
        wait = self._next(now := loop.time())
        while not wait.can_wake:
            await asyncio.sleep(wait.until - now)
            wait = self._next(now := loop.time())
        await set_within(self._wake, wait.until - now)
        self._wake.clear()

    async def _read_record(self, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        """Follow the record, where this agent is the one that acts."""
        state = self._state
        state.read_first, state.read_at = False, loop.time()
        record = await work(self._claim.record)
        self._observer.claim_changed(record.bridge, held=self._claim.held, switch=record.name or record.system_id)
        state.is_standing_by = not self._claim.held
        if state.is_standing_by:
            self._announcer.stand_by()
            return
        record.refuse_other_format()
        if self._followed is None and not state.taken_over:
            await work(partial(self._switch.take_over, record.bridge))
            state.taken_over, record = True, await work(self._claim.record)
        overlay = record.overlay
        before = self._followed
        await self._state_follower.follow(record, overlay, work, loop)
        if (followed := self._followed) is not None and (
            followed is not before or overlay.by_people != state.overlay.by_people  # whom they have out does not count
        ):
            state.due |= followed.rules.keys()
        state.record, state.overlay = record, overlay
        self._neighbors.wake()
        state.timed = any(entry.expired(now()) or entry.advanced(now()) != entry for entry in overlay) or any(
            denial.expired(now()) for denial in overlay.denials
        )
        if not state.timed:
            self._observer.end_trouble("the maintenance", "maintenance ends and goes on as it should")
        state.captured = capture_of(record) is not None
        with self.supervisor.guarded("following the record"):
            self._role.record(record, self._followed)
            self._announcer.record(record)
            self._observer.followed(record, self._memory.decision_of(overlay))

    async def _record_kept(self, work: SwitchThread, followed: FollowedState) -> None:
        """Record what was decided while the record could not be written, or decide anew where others have written it."""
        if not await record_kept(self._switch, followed.bridge, work, self._observer):
            self._state.due |= set(followed.rules)
            self._wake.set()

    async def _advance(self, work: SwitchThread, followed: FollowedState, loop: asyncio.AbstractEventLoop) -> None:
        """End maintenance whose time is over, and advance what is gradual."""
        state, began = self._state, loop.time()
        state.timed, state.stepped = False, began
        try:
            effect = await work(partial(advance_maintenance, self._switch, followed.bridge))
        except UnwrittenError as err:
            text = f"maintenance whose time has come does not end or go on, since it cannot be recorded: {err}"
            self._observer.report_trouble("the maintenance", text, "error")
            return
        self._note_effect(effect, loop.time() - began)

    async def _record_failures(self, work: SwitchThread, loop: asyncio.AbstractEventLoop) -> None:
        """Record which checks fail again and again."""
        if self._state.record is not None:
            await work(partial(self._failure_record.keep, self._state.record, self._health.states, loop.time()))

    async def _remove_mirrors(self, work: SwitchThread) -> None:
        """Remove mirrors that a capture has left."""
        record = self._state.record
        if record is None:
            return
        left = await work(partial(remove_left, self._switch.remote, self._switch.timeout, record))
        if left is not None:
            self._observer.say(f"removed the mirrors that were left: {left.text}", "mirrors_removed", capture=left.text)
        self._state.captured = False

    async def _decide(self, work: SwitchThread, followed: FollowedState, loop: asyncio.AbstractEventLoop) -> None:
        """Decide about what is due, and change the switch."""
        state, began = self._state, loop.time()
        due, decision = state.take_due()
        if state.changed is not None:
            self._observer.took("decision_wait", began - state.changed, decision)
            state.changed = None
        pools = {followed.rules[name].pool for name in due if name in followed.rules}  # with all services of each
        rules = {name: of for name, of in followed.rules.items() if of.pool in pools}
        about = [*rules.values()], {name: self._health.of(name) for name in rules}, decision, {*self._panics.slots}
        try:
            effect = await work(partial(decide_and_change, self._switch, followed.bridge, followed.number, *about))
        except BaseException:
            state.put_back(due, decision)
            raise
        took = loop.time() - began
        self._observer.took("effect", took, effect.id if effect.changed else "")
        if effect.outdated:
            state.put_back(due, decision)
            state.read_first = True
            return
        for name, decided in effect.decisions.items():
            if effect.changed or not decided.is_unfinished:
                state.turned.pop(name, None)
            self.supervisor.report_recovery(f"deciding about {name}")
        for name, err in effect.failed.items():
            self.supervisor.report_failure(f"deciding about {name}", err)
            state.put_back({name}, "")
            state.read_first = True
        self._follow_up(effect, followed.rules)
        self._note_effect(effect, took)

    async def _look(self, work: SwitchThread, followed: FollowedState, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the whole switch, if that is due, and say what was found."""
        state = self._state
        events, began, repair = self._memory.events, loop.time(), followed.spec.switch.repair == "on"
        try:
            found = await work(
                partial(inspect_switch, self._switch, followed.bridge, repair=repair, progress=self._observer.say)
            )
        except BusyError as err:
            state.looks.failed(loop.time())
            state.busy_since = began if state.busy_since is None else state.busy_since
            if loop.time() - state.busy_since > _LONG:
                self._observer.report_trouble("the lock", f"not compared with the record: {err}")
            return
        except Exception as err:
            state.looks.failed(loop.time())
            self._memory.note_failed_look(err)
            self._announcer.wake()
            raise
        state.busy_since = None
        self._observer.end_trouble("the lock", "compared with the record again")
        differed = bool(found.words)
        self._memory.note_look(len(found.words), found.other_version, repaired=repair)
        self._announcer.wake()
        decision = IDS.next() if differed and repair else ""
        seconds = loop.time() - began
        state.looks.done(events, began, loop.time(), differed=differed)
        self._probe_port.looked()
        state.differences += found.flows + found.settings
        if differed and repair:
            self._notices.begin(followed)
        self._observer.inspected(found, repaired=repair, seconds=seconds, decision=decision)

    def datapath_read(self, not_understood: str) -> None:
        """The datapath was read for the metrics: what it told in a form that is not known; empty: nothing."""
        if not_understood:
            self._observer.report_trouble("the datapath", not_understood)
        else:
            self._observer.end_trouble("the datapath", "what the datapath tells is understood again")

    @property
    def _followed(self) -> FollowedState | None:
        return self._state_follower.followed

    def _tell_monitor(self, why: str) -> None:
        """The monitor of flows does not work, and why; empty: it works again."""
        if why:
            self._observer.report_trouble(
                "the monitor", f"changes of flows are noticed late, since ovs-ofctl monitor fails: {why}"
            )
        else:
            self._observer.end_trouble("the monitor", "changes of flows are noticed at once again")

    def _tell_adopted(self, followed: FollowedState) -> None:
        """Tell the other parts of the agent of the state that is followed now."""
        with self.supervisor.guarded("adopting the balance"):
            self.balancer.adopt(followed, asyncio.get_running_loop().time())
        with self.supervisor.guarded("adopting metrics and announcements"):
            self._notices.begin(followed)
            self._panics.adopt(followed.rules)
            self._observer.forget_troubles("the metric of ", "the part deciding about ")
            known = AppliedBridge(followed.bridge, followed.state, followed.spec)
            turns = [self._turn_of(target) for target in followed.targets]
            failing = [turn for turn in turns if not turn.healthy]
            self._observer.adopted(known, [turn.check for turn in turns], failing)

    def _turn_of(self, target: ProbeTarget, took: float = 0.0, decision: str = "") -> CheckTurn:
        """What is told of a target whose last result came after *took* seconds, and led to a *decision*."""
        state = self._health.states[target.key]
        return CheckTurn(target.label, state.healthy, state.why, target.services, target.place, took, decision)

    def _add(self, target: ProbeTarget, result: Result) -> None:
        if target.source is not None and not self._memory.accept_result(result):
            return
        result = self._health.compare_serials(target, result)
        turned = self._health.add(target, result)
        if turned:
            ill = not self._health.states[target.key].healthy
            self._state.turn_due(target.slots, asyncio.get_running_loop().time(), ill=ill, new_id=IDS.next)
            self._wake.set()
            self._announcer.wake()
        with self.supervisor.guarded("telling of checks"):
            self._tell(target, result, turned=turned)

    def _tell(self, target: ProbeTarget, result: Result, *, turned: bool) -> None:
        """Tell others of the result of a probe."""
        decision = self._state.decision if turned else ""
        self._observer.checked(target.label, result.took, good=result.good, decision=decision)
        if turned:
            self._observer.turned(self._turn_of(target, result.took, decision))
        self.balancer.probed(target, result)

    def _follow_up(self, effect: Effect, rules: Mapping[str, PoolRules]) -> None:
        """Take notice of what goes on, and of panics."""
        self._state.under_way -= effect.decisions.keys()
        self._state.under_way |= {name for name, decision in effect.decisions.items() if decision.is_unfinished}
        self._panics.follow(effect, rules)

    def _note_effect(self, effect: Effect, seconds: float) -> None:
        if effect.change is not None:
            if effect.change.edited:
                self._memory.note_decision(effect.change.after, effect.id)  # not that of a step
            self._observer.overlay_changed(effect.change, effect.id, seconds)

    def _summary(self) -> str:
        """What `systemctl status` shows."""
        if self._followed is None:
            return "standing by"
        ill = sum(not state.healthy for state in self._health.states.values())
        text = f"state {self._followed.number}: {len(self._followed.targets)} targets, {ill} of them unhealthy"
        done = "repaired" if self._followed.spec.switch.repair == "on" else "reported"
        return f"{text}; {self._state.differences} differences {done}"


def _wake(loop: asyncio.AbstractEventLoop, wake: asyncio.Event, announcer: Announcer) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(wake.set)
        loop.call_soon_threadsafe(announcer.wake)
