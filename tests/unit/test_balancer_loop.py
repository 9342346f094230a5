# SPDX-License-Identifier: Apache-2.0
"""Balancing goes on only in the agent that acts, and what is wrong with it is told only while something is balanced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dnsteer.agent.balance import balancer
from dnsteer.agent.balance.slot_moves import Moves
from dnsteer.agent.effect import Effect
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.metrics.observer import Observers
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.spec.model.spec import Pool
from dnsteer.switch.tools import SwitchError
from dnsteer.view.snapshot import SnapshotRecorder
from tests.unit.test_balancer import following, made, spec
from tests.unit.test_control_socket import until


class Case:
    """A balancer that finds one slot to move at each look, or fails."""

    def __init__(self) -> None:
        self.acts, self.fails, self.looks, self.moves, self.asked = True, False, 0, 0, 0
        self.said: list[str] = []
        self.recorder = SnapshotRecorder()
        self.recorder.claim_changed("br-dns", held=True)
        reporter = EventReporter(lambda text, *_, **__: self.said.append(text))
        self.balancer = made(Observers(self.recorder, reporter))
        self.balancer.adopt(following(spec("client-hash")), 0.0)
        self.pool.rules = self.pool.rules.model_copy(update={"interval": 0.001})
        self.balancer._find_moves = self._find_moves  # type: ignore[method-assign]
        self.balancer.move = self._move  # type: ignore[method-assign]
        self.on_look: Callable[[], None] = lambda: None

    @property
    def pool(self) -> balancer.BalancedPool:
        return self.balancer.pools["resolvers"]

    def _find_moves(self, *_: object) -> dict[str, Moves]:
        self.looks += 1
        self.on_look()
        if self.fails:
            raise SwitchError("no OpenFlow")
        return {"resolvers": Moves({}, (1,))}

    def _move(self, _name: str, time: float) -> Effect:
        self.moves += 1
        self.pool.moved.append((time, 1))
        return Effect(None, {})

    def troubles(self) -> set[str]:
        return {one["about"] for one in self.recorder.knowledge_of("br-dns")["troubles"]}

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async def work(do: Callable[[], Effect]) -> Effect:
            return do()

        running = self.balancer.run(work, lambda: self.acts, lambda: NO_OVERLAY, lambda *_: None)
        task = asyncio.ensure_future(running)
        yield
        task.cancel()
        await asyncio.wait([task])
        await self.balancer.close()


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(balancer, "_TICK", 0.001)
    return Case()


def play(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


def test_a_standby_agent_neither_reads_nor_moves(case: Case) -> None:
    async def test() -> None:
        async with case.at_work():
            await until(lambda: case.moves > 2)
            case.pool.waits = {"r1": 3}
            case.acts = False
            await until(lambda: not case.pool.moved and not case.pool.waits)
            before = case.looks, case.moves
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert (case.looks, case.moves) == before
            case.acts = True
            await until(lambda: case.moves > before[1])

    play(test())


def test_a_decision_before_the_claim_was_lost_is_not_carried_out(case: Case) -> None:
    def lose() -> None:
        case.acts = False

    async def test() -> None:
        case.on_look = lose
        async with case.at_work():
            await until(lambda: case.looks == 1)
            for _ in range(10):
                await asyncio.sleep(0.001)
        assert (case.looks, case.moves) == (1, 0)

    play(test())


@pytest.mark.parametrize("end", ["nothing is balanced", "another agent acts"])
def test_the_trouble_ends_when_balancing_ends(end: str, case: Case) -> None:
    async def test() -> None:
        case.fails = True
        async with case.at_work():
            await until(lambda: case.troubles() == {"balance"})
            if end == "nothing is balanced":
                followed = following(spec("client-hash"), 2)
                pools = {name: _unbalanced(pool) for name, pool in followed.spec.pools.items()}
                followed.spec = followed.spec.model_copy(update={"pools": pools})
                case.balancer.adopt(followed, 0.0)
            else:
                case.acts = False
            await until(lambda: not case.troubles())

    play(test())


def _unbalanced(pool: Pool) -> Pool:
    return pool.model_copy(update={"balance": None})
