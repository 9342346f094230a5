# SPDX-License-Identifier: Apache-2.0
"""An agent that another one has relieved has nothing to do but to read the record now and then."""

from __future__ import annotations

import asyncio

import pytest

from dnsteer.agent import next_work, run
from tests.unit.test_agent_defects import Case


def test_a_standby_agent_waits_between_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    async def wait(_event: object, seconds: float | None) -> bool:
        waits.append(seconds)
        return False

    async def test() -> None:
        case = Case()
        with case.at_work():
            await case.turn()
            assert case.agent._is_acting()
            monkeypatch.setattr(run, "set_within", wait)
            case.agent._state.looks = next_work.LookTimes()  # due at once
            case.source.held = False
            case.agent._state.read_at = 0.0
            await case.turn()
            await case.agent._rest(asyncio.get_running_loop())
            assert not case.agent._is_acting()
            assert waits == [next_work.TICK]
            case.source.held = True
            case.agent._state.read_at = 0.0
            await case.turn()
            assert case.agent._is_acting()
            case.end()

    asyncio.run(test())


def test_parallel_tasks_know_whether_the_agent_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        case = Case()
        agent = case.agent
        asked: list[object] = []
        monkeypatch.setattr(agent.supervisor, "start", lambda _part, begin: begin())
        monkeypatch.setattr(run, "watch", lambda *_: None)
        monkeypatch.setattr(run, "keep_note", lambda *_: None)
        for part in (agent._announcer, agent._bonds, agent._neighbors, agent._connections, agent._lists):
            monkeypatch.setattr(part, "run", lambda *_: None)
        monkeypatch.setattr(agent.verbs, "begin", lambda *_: None)
        monkeypatch.setattr(agent.balancer, "run", lambda _work, acts, *_: asked.append(acts))
        monkeypatch.setattr(agent._notices, "run", lambda _work, acts, *_: asked.append(acts))
        agent._state.tasks_started = False
        agent._start_tasks(None, "br-dns")  # type: ignore[arg-type]
        assert asked == [agent._is_acting] * 2

    asyncio.run(test())
