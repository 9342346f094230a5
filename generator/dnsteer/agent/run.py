"""The agent's process: probes on an event loop, and one thread that changes the switch.

It is level-triggered: each change is decided anew from health, record and time under the bridge's lock. What was missed, by
a restart or because the switch was away, is made up by the next look, which comes within a second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from dnsteer.agent import network, systemd
from dnsteer.agent.announce.announcer import Announcer, Situation
from dnsteer.agent.backend_health import Health
from dnsteer.agent.balance.balancer import Balancer
from dnsteer.agent.claim import Claim
from dnsteer.agent.control import Control, RunRequestOn
from dnsteer.agent.decide import PoolRules
from dnsteer.agent.effect import Effect, advance_maintenance, decide_and_change
from dnsteer.agent.gratuitous import NeighborNotices
from dnsteer.agent.health import Result
from dnsteer.agent.held_switch import HeldSwitch, SwitchMemory
from dnsteer.agent.look_times import LookTimes
from dnsteer.agent.note import keep_note
from dnsteer.agent.panics import Panics
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe, refuse_unavailable
from dnsteer.agent.probes.targets import ProbeTarget, rounds
from dnsteer.agent.probes.turns import Prober, Turns
from dnsteer.agent.probes.udp import UdpProbe
from dnsteer.agent.repair import look
from dnsteer.agent.report import Reporter
from dnsteer.agent.role import RoleFollower
from dnsteer.agent.waiting import set_within
from dnsteer.agent.watch import watch
from dnsteer.agent.world import World, read_world
from dnsteer.console.seen_recorder import SeenRecorder
from dnsteer.console.verbs import Asked, VerbOutcome
from dnsteer.deploy.decision import IDS
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.events.event import Say
from dnsteer.metrics.recorder import Known, Recorder
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.model.extension import Extension
from dnsteer.spec.model.health import CheckKind
from dnsteer.switch.captures import capture_of, remove_left
from dnsteer.switch.state import BridgeRecord, BusyError
from dnsteer.switch.tools import SwitchError

TICK = 1.0
"""Seconds between two readings of the record, and between two steps of what is under way."""
_LONG = 5.0
"""Seconds that others may be changing the bridge, before it is said that the agent cannot look at it."""

T = TypeVar("T")


class Work(Protocol):
    """Does something in the thread that changes the switch."""

    def __call__(self, do: Callable[[], T], /) -> Awaitable[T]:
        """Return the result of *do*."""


class Agent:
    """The agent of one bridge. *say* gets an event about whatever it does; *run_request* does verbs for others.

    *recorder* is told of all work.
    """

    def __init__(
        self, switch: TargetSwitch, bridge: str | None, say: Say, run_request: RunRequestOn,
        recorder: Recorder | None = None,
    ) -> None:  # fmt: skip
        self._recorder: Recorder = recorder or SeenRecorder()
        self._report = Reporter(say, self._recorder)
        self._run_request = run_request
        self._control: Control | None = None
        self._memory = SwitchMemory(self._recorder.tell)
        self._switch = HeldSwitch(switch.remote, switch.openflow, switch.timeout, switch.extension, self._memory)
        self._claim = Claim(self._switch, bridge)
        self._health = Health()
        self.balancer = Balancer(self._switch, self._recorder)
        self._notices = NeighborNotices(self._switch)
        self._role = RoleFollower(self._switch, self._notices, self._report, self._recorder)
        self._announcer = Announcer(switch.remote, self._recorder)
        self._world: World | None = None
        self._probes: list[Turns] = []
        self._looks = LookTimes()
        self._busy_since: float | None = None
        """When others began to change the bridge, which puts looks off."""
        self._wake = asyncio.Event()
        self._due: set[str] = set()
        """Names of slots to decide about now (`slots_name`)."""
        self._changed: float | None = None
        """When health changed first of what is due."""
        self._decision = ""
        """The id of the decision about what is due, once health has changed."""
        self._under_way: set[str] = set()
        """Names of slots with a backend that is coming back."""
        self._timed = False
        """Whether maintenance ends or advances now."""
        self._captured: BridgeRecord | None = None
        """The record with a capture, while there is one."""
        self._stepped = 0.0
        """When maintenance was advanced last."""
        self._overlay = NO_OVERLAY
        self._panics = Panics(self._health, self._report, self._recorder)
        self._differences = 0  # flows, groups and settings that were not as applied

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        self._memory.on_change = partial(_wake, loop, self._wake, self._announcer)
        beside: list[asyncio.Task[None]] = []
        with ThreadPoolExecutor(1, "switch") as worker:
            work = partial(loop.run_in_executor, worker)
            try:
                while True:
                    began = loop.time()
                    try:
                        acts = await self._follow(work, loop)
                        if acts and not beside and self._world is not None:
                            bridge, balance = self._world.bridge, self.balancer.run
                            beside = [
                                loop.create_task(watch(self._switch, bridge, self._report.monitor_fails)),
                                loop.create_task(balance(work, lambda: self._overlay, self._note_effect, self._report)),
                                loop.create_task(self._notices.run(work, self._report)),
                                loop.create_task(keep_note(self._switch, bridge, self._recorder)),
                                loop.create_task(self._announcer.run(self._situation, self._report)),
                            ]
                            await self._listen(bridge)
                        for task in beside:
                            if task.done():
                                task.result()  # raises: a task ends only by a defect, and systemd then starts the agent anew
                        if acts:
                            await self._act(work, loop)
                        if not self._looks.failing:
                            self._report.works("the switch", "the switch can be reached again")
                        systemd.notify("READY=1", "WATCHDOG=1", f"STATUS={self._summary()}")
                    except (SwitchError, PermissionError) as err:
                        self._looks.failed(loop.time())
                        self._recorder.failed(str(err))
                        self._report.fails("the switch", f"the switch stays as it is: {err}", "error")
                        systemd.notify("WATCHDOG=1", f"STATUS={err}")
                    self._recorder.took("loop", loop.time() - began)
                    await self._rest(loop)
            finally:
                for task in beside:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
                await asyncio.to_thread(self._announcer.close, self._report)
                await self.balancer.close()
                for probe in self._probes:
                    probe.stop()
                if self._control is not None:
                    await self._control.stop()
                self._claim.close()
                self._memory.close()

    def _situation(self) -> Situation | None:
        """What decides about announcing VIPs: as long as OVSDB is away, with what it had last. None: nothing is known."""
        if (world := self._world) is None:
            return None
        fault, doubt = self._role.fault(self._memory.fault), self._memory.doubt
        return Situation(world.bridge, world.spec, self._overlay, self._health, fault, doubt)

    async def _listen(self, bridge: str) -> None:
        run = partial(self._run_request, self._switch)
        control = self._control = Control(self._switch.remote, bridge, run, self._report.say, self._recorder.tell)
        try:
            path = await control.start()
        except OSError as err:
            why, text = f"{err.filename}: {err.strerror}", "no control socket, so verbs work by themselves"
            self._report.say(f"{text}: {why}", "not_listening", "warning", reason=why)
            return
        if path is not None:
            self._report.say(f"control socket {path}", "listens", address=path)
        else:
            why = "the database is a remote one"
            self._report.say(f"no control socket: {why}", "not_listening", reason=why)

    async def run_verb(self, asked: Asked) -> VerbOutcome:
        """Carry out a verb that the console asks for, on the switch as the agent has it."""
        if self._control is None:
            return VerbOutcome(1, said="dnsteer: this agent does not act on the switch; nothing was changed\n")
        switch = self._switch
        extension = switch.extension
        if asked.files and extension is None:  # a spec that was sent names no socket of this machine
            applied = self._world.spec.switch.extension if self._world is not None else None
            extension = applied.control if applied is not None else Extension.model_fields["control"].default
        named = {"--db": switch.remote, "--openflow": switch.openflow, "--extension": extension}
        options = [word for name, value in named.items() if value for word in (name, value)]
        return await self._control.run_verb(asked, options)

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for something to do, at most until the next tick."""
        until_look = max(self._looks.due_in(self._memory.events, loop.time()), 0)
        if not await set_within(self._wake, min(TICK, until_look) if self._world is not None else TICK):
            self._due |= self._under_way
        self._wake.clear()

    async def _follow(self, work: Work, loop: asyncio.AbstractEventLoop) -> bool:
        """Follow the record. Return whether this agent is the one that acts."""
        if self._due and self._claim.held and self._world is not None:
            return True  # what is due comes first
        record = await work(self._claim.record)
        self._recorder.bridge_is(record.bridge, held=self._claim.held)
        self._report.bridge = record.bridge
        if not self._claim.held:
            self._report.fails("the claim", f"another agent works on bridge {record.bridge}; standing by", "info")
            self._announcer.stand_by()
            return False
        self._report.works("the claim", f"this agent now works on bridge {record.bridge}")
        if self._world is None or self._world.number != record.number:
            self._adopt(await work(partial(self._read_world, record)), record.overlay, loop)
        elif record.overlay != self._overlay:  # whom people take out counts for backups
            self._due |= {name for name, rules in self._world.rules.items() if rules.standby}
        self._overlay = record.overlay
        self._role.record(record, self._world)
        self._announcer.record(record, self._report)
        self._captured = record if capture_of(record) is not None else None
        self._recorder.followed(record, self._memory.decision_of(record.overlay))
        self._timed = any(entry.expired(now()) or entry.advanced(now()) != entry for entry in record.overlay)
        self._timed = self._timed and loop.time() >= self._stepped + TICK
        return True

    def _read_world(self, record: BridgeRecord) -> World:
        world = read_world(self._claim.session(), record)
        refuse_unavailable({target.check.check for target in world.targets})
        network.set_up_probe_port(world.spec)
        return world

    async def _act(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        """Carry out what is due, and look at the switch."""
        world = self._world
        assert world is not None
        if self._due:
            await self._apply_due(work, world, loop)
        if self._timed:
            began = loop.time()
            self._timed, self._stepped = False, began
            effect = await work(partial(advance_maintenance, self._switch, world.bridge))
            self._note_effect(effect, loop.time() - began)
        if self._looks.due_in(self._memory.events, loop.time()) <= 0:
            await self._look(work, world, loop)
        if self._captured is not None:
            left = await work(partial(remove_left, self._switch.remote, self._switch.timeout, self._captured))
            if left is not None:
                text = f"removed the mirrors that were left: {left.text}"
                self._report.say(text, "mirrors_removed", capture=left.text)
            self._captured = None

    async def _apply_due(self, work: Work, world: World, loop: asyncio.AbstractEventLoop) -> None:
        due, self._due = self._due, set()
        decision, self._decision = self._decision, ""
        began = loop.time()
        if self._changed is not None:
            self._recorder.took("decision_wait", began - self._changed, decision)
            self._changed = None
        rules = [world.rules[pool] for pool in due if pool in world.rules]
        unhealthy = {name: dict(self._health.unhealthy(name)) for name in due if name in world.rules}
        args = self._switch, world.bridge, world.number, rules, unhealthy, decision, {*self._panics.slots}
        try:
            effect = await work(partial(decide_and_change, *args))
        except BaseException:
            self._put_back(due, decision)
            raise
        took = loop.time() - began
        changed = effect.change is not None and effect.change.changed
        self._recorder.took("effect", took, effect.id if changed else "")
        if effect.outdated:
            self._put_back(due, decision)
            self._world = None
            return
        self._follow_up(effect, world.rules)
        self._note_effect(effect, took)

    def _put_back(self, due: set[str], decision: str) -> None:
        self._due |= due
        self._decision = self._decision or decision  # a check that turned meanwhile has been given another

    async def _look(self, work: Work, world: World, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the whole switch, and say what was found."""
        events, began, repair = self._memory.events, loop.time(), world.spec.switch.repair == "on"
        await work(partial(network.set_up_probe_port, world.spec))
        try:
            found = await work(partial(look, self._switch, world.bridge, repair=repair, progress=self._report.say))
        except BusyError as err:
            self._looks.failed(loop.time())
            self._busy_since = began if self._busy_since is None else self._busy_since
            if loop.time() - self._busy_since > _LONG:
                self._report.fails("the lock", f"not compared with the record: {err}")
            return
        except (SwitchError, PermissionError) as err:
            self._looks.failed(loop.time())
            self._memory.not_looked(err)
            self._announcer.wake()
            raise
        self._busy_since = None
        self._report.works("the lock", "compared with the record again")
        differed = bool(found.words)
        self._memory.looked(len(found.words), found.other_version, repaired=repair)
        self._announcer.wake()
        decision = IDS.next() if differed and repair else ""
        self._recorder.took("look", loop.time() - began, decision)
        self._recorder.looked(found.flows, found.settings, len(found.foreign), repaired=repair)
        self._looks.done(events, began, loop.time(), differed=differed)
        self._differences += found.flows + found.settings
        if differed and repair:
            self._notices.begin(world)
        self._report.look(found, repair=repair, decision=decision)

    def _adopt(self, world: World, overlay: Overlay, loop: asyncio.AbstractEventLoop) -> None:
        for probe in self._probes:
            probe.stop()
        self._world = world
        self._health.adopt(world.targets, overlay, loop.time())
        self.balancer.adopt(world, loop.time())
        self._notices.begin(world)
        self._due |= set(world.rules)
        self._recorder.adopted(Known(world.bridge, world.state, world.spec), (target.label for target in world.targets))
        for target in world.targets:
            state = self._health.states[target.key]
            if not state.healthy:
                self._recorder.turned(target.label, healthy=False, why=state.why, services=target.services)
        questions: dict[str, Question] = {}
        self._probes = []
        for group in rounds(world.targets):
            check = group[0].check
            question = questions.setdefault(check.query.model_dump_json(), Question(check.query))
            asked: list[Prober] = (
                # Of several VIPs those that take turns keep no socket.
                [UdpProbe(target, question, self._add, loop, keep=target is group[0]) for target in group]
                if check.check is CheckKind.DNS
                else [StreamProbe(target, question, self._add, loop) for target in group]
            )
            turns = Turns(asked, self._health.states, loop)
            turns.start(random.uniform(0, check.interval))  # spread over the interval
            self._probes.append(turns)
        self._report.adopted(world)

    def _add(self, target: ProbeTarget, result: Result) -> None:
        turned = self._health.add(target, result)
        self.balancer.probed(target, result)
        if turned and not self._decision:
            self._decision = IDS.next()
        decision = self._decision if turned else ""
        self._recorder.checked(target.label, result.took, good=result.good, decision=decision)
        if not turned:
            return
        state = self._health.states[target.key]
        self._recorder.turned(target.label, healthy=state.healthy, why=state.why, services=target.services)
        self._changed = self._changed or asyncio.get_running_loop().time()
        self._announcer.wake()
        self._report.turned(
            target.pool, target.backend, "" if state.healthy else state.why, service=[*filter(None, target.services)],
            check=target.label[2], duration_s=round(result.took, 6), decision=decision,
        )  # fmt: skip
        self._due.update(target.slots)
        self._wake.set()

    def _follow_up(self, effect: Effect, rules: Mapping[str, PoolRules]) -> None:
        """Take notice of what goes on, and of panics."""
        for pool, decision in effect.decisions.items():
            if decision.waiting or any(entry.returns for entry in decision.entries):
                self._under_way.add(pool)
            else:
                self._under_way.discard(pool)
        self._panics.follow(effect, rules)

    def _note_effect(self, effect: Effect, seconds: float) -> None:
        if effect.change is not None:
            self._recorder.moved(sum(move.moved for move in effect.change.moves))
            if effect.change.edited:
                self._memory.decided(effect.change.after, effect.id)  # not that of a step
            self._report.change(effect.change, effect.id, seconds)

    def _summary(self) -> str:
        """What `systemctl status` shows."""
        if self._world is None:
            return "standing by"
        ill = sum(not state.healthy for state in self._health.states.values())
        return (
            f"state {self._world.number}: {len(self._world.targets)} targets, {ill} of them unhealthy; "
            f"{self._differences} differences {'repaired' if self._world.spec.switch.repair == 'on' else 'reported'}"
        )


def _wake(loop: asyncio.AbstractEventLoop, wake: asyncio.Event, announcer: Announcer) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(wake.set)
        loop.call_soon_threadsafe(announcer.wake)
