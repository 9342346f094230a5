# SPDX-License-Identifier: Apache-2.0
"""The part of the agent that balances load: it reads counters and metrics, and moves slots where decisions say so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from dnsteer.agent.balance.pool_metric import PoolMetric
from dnsteer.agent.balance.rules import Rule, rule_of
from dnsteer.agent.balance.slot_moves import Moves, PoolCounts
from dnsteer.agent.effect import Effect, OutdatedStateError, edit_overlay
from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.health import Result
from dnsteer.agent.held_switch import HeldSwitch
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.deploy.caller import agent_name
from dnsteer.deploy.decision import IDS
from dnsteer.deploy.times import now, stamp
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import Maintenance, Overlay, stamped
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import known_owners_of
from dnsteer.slots.weights import weights_in_the_end
from dnsteer.spec.model.balance import Balance
from dnsteer.spec.model.spec import Pool
from dnsteer.status.extension_view import take_extension_slots
from dnsteer.status.flow_counts import read_slots
from dnsteer.switch.state import AppliedState
from dnsteer.switch.tools import SwitchError

_HALF_LIFE = 2.0
"""Intervals after which packets count half."""
_MINUTE = 60.0
_TICK = 1.0
"""Seconds after which another state is noticed."""


@dataclass
class BalancedPool:
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
        self._followed: FollowedState | None = None
        self._thread = ThreadPoolExecutor(1, "balance")
        self.pools: dict[str, BalancedPool] = {}

    def adopt(self, followed: FollowedState, time: float) -> None:
        """Follow another state. What was counted stays where slots are the same ones."""
        known, self.pools, self._followed = self.pools, {}, followed
        for name, pool in followed.spec.pools.items():
            if pool.balance is None:
                continue
            members = tuple(m for m in followed.state.members if m.pool == name)
            before = known.get(name)
            if before is not None and _same_slots(before.members, members) and before.rules == pool.balance:
                before.members = members
                before.metric.adopt(pool)
                self.pools[name] = before
            else:
                load = SlotLoad(_HALF_LIFE * pool.balance.interval)
                self.pools[name] = BalancedPool(name, pool.balance, members, load, PoolMetric(name, pool, time), time)
        self._record(time)

    def due_in(self, time: float) -> float:
        """Seconds until the next look at the load; a long time where nothing is balanced."""
        return min((pool.due - time for pool in self.pools.values()), default=3600.0)

    async def run(
        self,
        work: Callable[[Callable[[], Effect]], Awaitable[Effect]],
        is_acting: Callable[[], bool],
        overlay: Callable[[], Overlay],
        report_effect: Callable[[Effect, float], None],
    ) -> None:
        """Balance until cancelled, while *is_acting*, and no other agent is. *work* does something in the thread that
        changes the switch; *overlay* is that known."""
        clock = asyncio.get_running_loop().time
        while True:
            if not is_acting():
                self._stand_by(clock())
                self._observer.forget_troubles("the balance", "the metric of ")
            if not self.pools:
                self._observer.forget_troubles("the balance")
            await asyncio.sleep(min(_TICK, max(self.due_in(clock()), 0.0)))
            if self.due_in(clock()) > 0 or not is_acting():
                continue
            await self.ask(clock())
            try:
                for name in await self.look(clock(), overlay()):
                    if not is_acting():
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

    def add_pushed_metric(self, pool: str, backend: str, value: float) -> None:
        """Add the metric that a backend sent, in the unit of `full`. Raises MetricError."""
        self.pools[pool].metric.add(backend, value)

    def pools_in_force(self) -> Mapping[str, Pool]:
        """The pools of the applied spec; none as long as none is known."""
        return self._followed.spec.pools if self._followed is not None else {}

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
        self._observer.load_measured(
            {
                (name, backend): value
                for name, pool in self.pools.items()
                for backend, value in pool.metric.known(time).items()
            }
        )

    async def look(self, time: float, overlay: Overlay) -> dict[str, Moves]:
        """Read the counters of all pools that are due; return what should move, by pool. Raises SwitchError."""
        due = [pool for pool in self.pools.values() if pool.due <= time]
        for pool in due:
            pool.due = time + pool.rules.interval
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._find_moves, due, overlay, time)

    def _find_moves(self, due: list[BalancedPool], overlay: Overlay, time: float) -> dict[str, Moves]:
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
        pool, followed, id = self.pools.get(name), self._followed, IDS.next()
        if pool is None or followed is None:
            return Effect(None, {}, outdated=True)
        moved = 0

        def edit(overlay: Overlay, state: AppliedState, _time: Any) -> Overlay:
            nonlocal moved
            if state.number != followed.number:
                raise OutdatedStateError
            known = pool.decided
            if known is not None and known[0] == overlay:  # else it takes long where failover would have to wait
                after, moves = known[1:]
            else:
                after, moves = self._decide(pool, overlay, time)
            moved = len(moves.moved)
            return overlay.with_entries(stamped(after, overlay, id))

        try:
            effect = edit_overlay(self._switch, followed.bridge, edit, id)
        except OutdatedStateError:
            return Effect(None, {}, outdated=True)
        pool.moved.append((time, moved))
        return effect

    async def close(self) -> None:
        """End the thread, and connections."""
        for pool in self.pools.values():
            await pool.metric.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _decide(self, pool: BalancedPool, overlay: Overlay, time: float) -> tuple[Overlay, Moves]:
        rule = rule_of(pool.rules, pool.metric.known(time), pool.waited)
        return balance_slots(overlay, pool.name, pool.members, pool.load.lately, rule, pool.room(time), now())

    def _read(self, pools: list[BalancedPool]) -> dict[str, dict[int, Numbers]]:
        assert self._followed is not None
        state, client = self._followed.state, self._switch.client(self._followed.bridge)
        elsewhere, extended = set(state.elsewhere), any(pool.name in state.extended for pool in pools)
        of_extension = take_extension_slots(self._switch, self._followed.spec, state.members) if extended else {}
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


Packets = Callable[[int, int], Sequence[float]]
"""Packets lately of each slot of a membership, by its number and how many slots it has."""


def balance_slots(
    overlay: Overlay,
    pool: str,
    members: Sequence[Membership],
    packets: Packets,
    rule: Rule,
    most: int,
    time: datetime,
) -> tuple[Overlay, Moves]:
    """Return the overlay in which at most *most* more slots of a pool balance its load, and what moves."""
    here = overlay.of(pool)
    ours = [entry for entry in here if entry.kind == rule.kind]
    given = {slot: entry.backend for entry in ours for slot in entry.slots}
    counted = [_counted(m, here, packets, rule.to) for m in members if m.pool == pool]
    moves = rule.decide([c for c in counted if c.owners and c.weights], given, most)
    if not moves.moved:
        return overlay, moves
    note = rule.note(moves)
    wanted: dict[str, list[int]] = {}
    for slot, backend in sorted(moves.given.items()):
        wanted.setdefault(backend, []).append(slot)
    found = {entry.backend: entry for entry in ours}
    now = overlay.without([entry for entry in ours if entry.backend not in wanted])
    for backend, slots in wanted.items():
        entry = found.get(backend) or Maintenance(pool, backend, rule.kind, stamp(time), agent_name())
        if entry.slots != tuple(slots):
            now = now.put(replace(entry, slots=tuple(slots), note=note, decision=""))
    return now, moves


def _counted(members: Membership, here: tuple[Maintenance, ...], packets: Packets, to: str) -> PoolCounts:
    mine = tuple(entry for entry in here if entry.service in ("", members.service))
    out = {*members.down, *(entry.backend for entry in mine if entry.takes_out)}
    by_command = [entry for entry in mine if entry.weight is not None]
    weights: Mapping[str, float] = weights_in_the_end(members.weights, by_command)
    if to in weights and all(entry.backend != to for entry in by_command):
        weights = {**weights, to: weights[to] or 1}
    return PoolCounts(
        packets(members.number, members.slots),
        known_owners_of(members, mine),
        known_owners_of(members, tuple(entry for entry in mine if not entry.slots)),
        {name: weight for name, weight in weights.items() if weight and name not in out},
    )


Numbers = Mapping[int, int]
"""Packets so far, by slot."""


class SlotLoad:
    """What was counted of one pool. Old packets count half after *half_life* seconds.

    Counts are by slot, whoever has it, so a slot that has moved takes its past along.
    """

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._last: dict[int, Numbers] = {}
        self._time: float | None = None
        self._lately: dict[int, dict[int, float]] = {}

    def add(self, found: Mapping[int, Numbers], time: float) -> None:
        """Take in the counters of each membership of the pool, by its number, at a *time* in seconds."""
        if self._time is not None:
            keeps = 0.5 ** ((time - self._time) / self._half_life)
            for number, packets in found.items():
                last, lately = self._last.get(number), self._lately.setdefault(number, {})
                for slot in lately:
                    lately[slot] *= keeps
                for slot, total in packets.items():
                    if last is not None:
                        before = last.get(slot, 0)
                        lately[slot] = lately.get(slot, 0.0) + (total - before if total >= before else total)
        self._last, self._time = {**found}, time

    def lately(self, number: int, slots: int) -> Sequence[float]:
        """The packets of each of a membership's *slots*."""
        lately = self._lately.get(number, {})
        return [lately.get(slot, 0.0) for slot in range(slots)]
