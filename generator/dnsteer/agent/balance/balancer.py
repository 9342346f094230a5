"""The part of the agent that balances load: it reads counters and metrics, and moves slots where decisions say so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dnsteer.agent.balance.decide import Moves
from dnsteer.agent.balance.load import Numbers, SlotLoad
from dnsteer.agent.balance.overlay import balanced
from dnsteer.agent.balance.pool_metric import PoolMetric
from dnsteer.agent.balance.rules import rule_of
from dnsteer.agent.effect import Effect, OutdatedError, edit_overlay
from dnsteer.agent.health import Result
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.world import World
from dnsteer.deploy.decision import IDS
from dnsteer.deploy.times import now
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.decisions import stamped
from dnsteer.slots.maintenance import Overlay
from dnsteer.slots.membership import Membership
from dnsteer.spec.model.balance import Balance
from dnsteer.spec.model.spec import Pool
from dnsteer.status.extension import take_slots
from dnsteer.status.slot_counters import read_slots
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError

_HALF_LIFE = 2.0
"""Intervals after which packets count half."""
_MINUTE = 60.0
_TICK = 1.0
"""Seconds after which another state is noticed."""


@dataclass
class Balanced:
    """A pool whose load is balanced."""

    name: str
    rules: Balance
    members: tuple[Membership, ...]
    load: SlotLoad
    metric: PoolMetric
    due: float
    moved: deque[tuple[float, int]] = field(default_factory=deque)
    """When slots moved in the last minute, and how many."""
    waited: Mapping[str, int] = field(default_factory=dict)
    """How many intervals backends have waited, before the last look."""
    waits: Mapping[str, int] = field(default_factory=dict)
    """The same after it."""
    decided: tuple[Overlay, Overlay, Moves] | None = None
    """What the last look has decided, and on which overlay."""

    def room(self, time: float) -> int:
        """Slots that may move now."""
        while self.moved and self.moved[0][0] <= time - _MINUTE:
            self.moved.popleft()
        return self.rules.moves - sum(number for _, number in self.moved)


class Balancer:
    """The pools of one bridge whose load is balanced."""

    def __init__(self, switch: HeldSwitch, observer: AgentObserver) -> None:
        self._switch, self._observer = switch, observer
        self._world: World | None = None
        self._thread = ThreadPoolExecutor(1, "balance")
        self.pools: dict[str, Balanced] = {}

    def adopt(self, world: World, time: float) -> None:
        """Follow another state. What was counted stays where slots are the same ones."""
        known, self.pools, self._world = self.pools, {}, world
        for name, pool in world.spec.pools.items():
            if pool.balance is None:
                continue
            members = tuple(m for m in world.state.members if m.pool == name)
            before = known.get(name)
            if before is not None and _same_slots(before.members, members) and before.rules == pool.balance:
                before.members = members
                before.metric.adopt(pool)
                self.pools[name] = before
            else:
                load = SlotLoad(_HALF_LIFE * pool.balance.interval)
                self.pools[name] = Balanced(name, pool.balance, members, load, PoolMetric(name, pool, time), time)
        self._record(time)

    def due_in(self, time: float) -> float:
        """Seconds until the next look at the load; a long time where nothing is balanced."""
        return min((pool.due - time for pool in self.pools.values()), default=3600.0)

    async def run(
        self,
        work: Callable[[Callable[[], Effect]], Awaitable[Effect]],
        acts: Callable[[], bool],
        overlay: Callable[[], Overlay],
        report_effect: Callable[[Effect, float], None],
    ) -> None:
        """Balance until cancelled, while this agent *acts*, and no other one. *work* does something in the thread that
        changes the switch; *overlay* is that known."""
        clock = asyncio.get_running_loop().time
        while True:
            if not acts():
                self._stand_by(clock())
                self._observer.forget_troubles("the balance", "the metric of ")
            if not self.pools:
                self._observer.forget_troubles("the balance")
            await asyncio.sleep(min(_TICK, max(self.due_in(clock()), 0.0)))
            if self.due_in(clock()) > 0 or not acts():
                continue
            await self.ask(clock())
            try:
                for name in await self.look(clock(), overlay()):
                    if not acts():
                        break
                    began = clock()
                    report_effect(await work(partial(self.move, name, began)), clock() - began)
                self._observer.end_trouble("the balance", "load is balanced again")
            except (SwitchError, PermissionError) as err:
                self._observer.report_trouble("the balance", f"load is not balanced: {err}")

    def _stand_by(self, time: float) -> None:
        """Forget what has been counted: another agent moves slots. The next look comes after an interval."""
        for pool in self.pools.values():
            pool.load = SlotLoad(_HALF_LIFE * pool.rules.interval)
            pool.waits, pool.waited, pool.decided = {}, {}, None
            pool.moved.clear()
            pool.due = time + pool.rules.interval

    def bears(self, pool: str, backend: str, value: float) -> None:
        """Take in what a backend says that it bears, in the unit of `full`. Raises MetricError."""
        self.pools[pool].metric.add(backend, value)

    def pools_in_force(self) -> Mapping[str, Pool]:
        """The pools of the applied spec; none as long as none is known."""
        return self._world.spec.pools if self._world is not None else {}

    def probed(self, target: ProbeTarget, result: Result) -> None:
        """Take in how long a probe took."""
        pool = self.pools.get(target.pool)
        if pool is not None:
            pool.metric.probed(target, result)

    async def ask(self, time: float) -> None:
        """Scrape the metrics of all pools that are due, and say which are not known."""
        due = [pool.metric for pool in self.pools.values() if pool.due <= time]
        await asyncio.gather(*(metric.scrape(self._thread) for metric in due))
        for metric in due:
            metric.tell(self._observer)
        self._record(time)

    def _record(self, time: float) -> None:
        self._observer.load_measured({
            (name, backend): value
            for name, pool in self.pools.items()
            for backend, value in pool.metric.known(time).items()
        })  # fmt: skip

    async def look(self, time: float, overlay: Overlay) -> dict[str, Moves]:
        """Read the counters of all pools that are due; return what should move, by pool. Raises SwitchError."""
        due = [pool for pool in self.pools.values() if pool.due <= time]
        for pool in due:
            pool.due = time + pool.rules.interval
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._find_moves, due, overlay, time)

    def _find_moves(self, due: list[Balanced], overlay: Overlay, time: float) -> dict[str, Moves]:
        """What should move, by what the counters say now. Not on the event loop: deciding about many slots takes long."""
        found, wanted = self._read(due), dict[str, Moves]()
        for pool in due:
            pool.load.add(found[pool.name], time)
            pool.waited = pool.waits
            after, moves = self._decide(pool, overlay, time)
            pool.waits, pool.decided = moves.waited, (overlay, after, moves)
            if moves.moved:
                wanted[pool.name] = moves
        return wanted

    def move(self, name: str, time: float) -> Effect:
        """Move the slots, and decide again if the overlay is another one under the bridge's lock. Raises SwitchError."""
        pool, world, id = self.pools.get(name), self._world, IDS.next()
        if pool is None or world is None:
            return Effect(None, {}, outdated=True)
        moved = 0

        def edit(overlay: Overlay, state: AppliedState, _time: Any) -> Overlay:
            nonlocal moved
            if state.number != world.number:
                raise OutdatedError
            known = pool.decided
            if known is not None and known[0] == overlay:  # else it takes long where failover would have to wait
                after, moves = known[1:]
            else:
                after, moves = self._decide(pool, overlay, time)
            moved = len(moves.moved)
            return Overlay(stamped(after, overlay, id))

        try:
            effect = edit_overlay(self._switch, world.bridge, edit, id)
        except OutdatedError:
            return Effect(None, {}, outdated=True)
        pool.moved.append((time, moved))
        return effect

    async def close(self) -> None:
        """End the thread, and connections."""
        for pool in self.pools.values():
            await pool.metric.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _decide(self, pool: Balanced, overlay: Overlay, time: float) -> tuple[Overlay, Moves]:
        rule = rule_of(pool.rules, pool.metric.known(time), pool.waited)
        return balanced(overlay, pool.name, pool.members, pool.load.lately, rule, pool.room(time), now())

    def _read(self, pools: list[Balanced]) -> dict[str, dict[int, Numbers]]:
        assert self._world is not None
        state, client = self._world.state, self._switch.client(self._world.bridge)
        elsewhere, extended = set(state.elsewhere), any(pool.name in state.extended for pool in pools)
        of_extension = take_slots(self._switch, self._world.spec, state.members) if extended else {}
        found: dict[str, dict[int, Numbers]] = {pool.name: {} for pool in pools}  # one that no VIP uses has no members
        for pool in pools:
            for m in pool.members:
                here = read_slots(client, m) if m.number not in elsewhere else {}
                there = of_extension.get(m.number, {})
                slots = {slot: here.get(slot, 0) + there.get(slot, 0) for slot in here.keys() | there.keys()}
                found[pool.name][m.number] = slots
        return found


def _same_slots(before: tuple[Membership, ...], after: tuple[Membership, ...]) -> bool:
    return [(m.number, m.slots, m.selection) for m in before] == [(m.number, m.slots, m.selection) for m in after]
