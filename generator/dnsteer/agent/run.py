"""The agent's process: probes on an event loop, and one thread that changes the switch.

It is level-triggered: each change is decided anew from health, record and time under the bridge's lock. What was missed, by
a restart or because the switch was away, is made up by the next look, which comes within a second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dnsteer.agent import network, systemd
from dnsteer.agent.effect import Effect, carry_out
from dnsteer.agent.health import Result
from dnsteer.agent.memory import Memory
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe, refuse_unavailable
from dnsteer.agent.probes.targets import Target, rounds
from dnsteer.agent.probes.turns import Probe, Turns
from dnsteer.agent.probes.udp import UdpProbe
from dnsteer.agent.world import World, read_world
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.model.health import CheckKind
from dnsteer.switch.session import Session
from dnsteer.switch.tools import SwitchError

LOOK = 1.0
"""Seconds between two looks at the record and at what is under way."""

Say = Callable[[str], None]


class Agent:
    """The agent of one bridge. *say* gets a line about whatever it does."""

    def __init__(self, switch: TargetSwitch, bridge: str | None, say: Say) -> None:
        self._switch, self._bridge, self._say = switch, bridge, say
        self._memory = Memory()
        self._world: World | None = None
        self._probes: list[Turns] = []
        self._wake = asyncio.Event()
        self._due: set[str] = set()
        """Pools to decide about now."""
        self._under_way: set[str] = set()
        """Pools with a backend that is coming back."""
        self._panics: set[str] = set()
        self._trouble = ""

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "switch") as worker:
            try:
                while True:
                    try:
                        await self._look(loop, worker)
                        self._recovered()
                        systemd.notify("READY=1", "WATCHDOG=1")
                    except (SwitchError, PermissionError) as err:
                        self._failed(str(err))
                        systemd.notify("WATCHDOG=1", f"STATUS={err}")
                    try:
                        await asyncio.wait_for(self._wake.wait(), LOOK)
                    except (TimeoutError, asyncio.TimeoutError):
                        self._due |= self._under_way
                    self._wake.clear()
            finally:
                for probe in self._probes:
                    probe.stop()

    async def _look(self, loop: asyncio.AbstractEventLoop, worker: ThreadPoolExecutor) -> None:
        """Follow the record, and carry out what is due."""
        if not self._due:
            found = await loop.run_in_executor(worker, self._changed_world)
            if found is not None:
                self._adopt(*found, loop)
        world = self._world
        if world is None or not self._due:
            return
        due, self._due = self._due, set()
        rules = [world.rules[pool] for pool in due if pool in world.rules]
        unhealthy = {pool.pool: dict(self._memory.unhealthy(pool.pool)) for pool in rules}
        try:
            effect = await loop.run_in_executor(
                worker, carry_out, self._switch, world.bridge, world.number, rules, unhealthy
            )
        except BaseException:
            self._due |= due
            raise
        if effect.outdated:
            self._due |= due
            self._world = None
            return
        self._report(effect)

    def _changed_world(self) -> tuple[World, Overlay] | None:
        """Read the record, and the spec where another state is applied."""
        with Session(self._switch.remote, self._switch.timeout) as session:
            record = session.record_of(self._bridge)
            if self._world is not None and record.number == self._world.number:
                return None
            world = read_world(session, record.bridge)
            refuse_unavailable({target.check.check for target in world.targets})
            network.set_up(world.spec)
            return world, record.overlay

    def _adopt(self, world: World, overlay: Overlay, loop: asyncio.AbstractEventLoop) -> None:
        for probe in self._probes:
            probe.stop()
        self._world = world
        self._memory.adopt(world.targets, overlay, loop.time())
        self._due |= set(world.rules)
        questions: dict[str, Question] = {}
        self._probes = []
        for group in rounds(world.targets):
            check = group[0].check
            question = questions.setdefault(check.query.model_dump_json(), Question(check.query))
            asked: list[Probe] = (
                # Of several VIPs those that take turns keep no socket.
                [UdpProbe(target, question, self._add, loop, keep=target is group[0]) for target in group]
                if check.check is CheckKind.DNS
                else [StreamProbe(target, question, self._add, loop) for target in group]
            )
            turns = Turns(asked, self._memory.states, loop)
            turns.start(random.uniform(0, check.interval))  # spread over the interval
            self._probes.append(turns)
        self._say(
            f"bridge {world.bridge}: state {world.number}, {len(world.rules)} pools with health checks, "
            f"{len(world.targets)} targets"
        )

    def _add(self, target: Target, result: Result) -> None:
        if self._memory.add(target, result):
            state = self._memory.states[target.key]
            word = "healthy" if state.healthy else "unhealthy"
            why = "" if state.healthy else f": {state.why}"
            self._say(f"{target.pool}/{target.backend} is {word}{why}")
            self._due.add(target.pool)
            self._wake.set()

    def _report(self, effect: Effect) -> None:
        for pool, decision in effect.decisions.items():
            if decision.waiting or any(entry.returns for entry in decision.entries):
                self._under_way.add(pool)
            else:
                self._under_way.discard(pool)
            if decision.panics and pool not in self._panics:
                self._panics.add(pool)
                names = ", ".join(self._memory.unhealthy(pool))
                self._say(f"PANIC: pool {pool}: too many backends are unhealthy ({names}); all stay in service")
            elif not decision.panics and pool in self._panics:
                self._panics.discard(pool)
                self._say(f"pool {pool}: the panic is over")
        if effect.change is not None and effect.change.changed:
            for line in effect.change.words():
                self._say(line)

    def _failed(self, why: str) -> None:
        if why != self._trouble:
            self._trouble = why
            self._say(f"the switch stays as it is: {why}")

    def _recovered(self) -> None:
        if self._trouble:
            self._trouble = ""
            self._say("the switch can be reached again")
