# SPDX-License-Identifier: Apache-2.0
"""The ids that the agent gives: one for a check that turned, the decision that it leads to, and the panic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from dnsteer.agent import effect
from dnsteer.agent.effect import Effect
from dnsteer.agent.followed_state import FollowedState
from dnsteer.agent.health import Result, Thresholds
from dnsteer.agent.health_decision import Decision, PoolHealth, PoolRules
from dnsteer.agent.probes.targets import ProbeTarget, probe_targets
from dnsteer.agent.run import Agent
from dnsteer.deploy.overlay_change import Edit, OverlayChange
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.metrics.observer import AgentObserver
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
from dnsteer.switch.tools import SwitchError
from tests.unit.console_cases import START, entry, known

OLD = "d21gepscbjsy"
T = TypeVar("T")


async def work(do: Callable[[], T]) -> T:
    return do()


class Told(AgentObserver):
    """Keeps the decisions behind panics."""

    def __init__(self) -> None:
        super().__init__()
        self.panics: list[tuple[str, bool, str]] = []

    def panicked(self, pool: str, services: tuple[str, ...], decision: str = "", *_: object) -> None:
        self.panics.append((pool, bool(services), decision))


class Case:
    """An agent of two pools, on a record without a switch. It has an overlay, and says what it says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *entries: Maintenance) -> None:
        self.overlay, self.time = Overlay(entries), START
        self.said: list[tuple[str, str]] = []
        self.told = Told()
        monkeypatch.setattr(effect, "change_overlay", self._change)
        of = known()
        self._state = of.state
        ipv4 = [replace(t, thresholds=Thresholds(1, 1, 1)) for t in probe_targets(of.spec) if ":" not in t.address]
        self.targets: dict[str, ProbeTarget] = {t.backend: t for t in ipv4}
        rules = {
            "farm": PoolRules("farm", dict.fromkeys(("ns1", "ns2", "ns3"), 1), 0.5, 9.0),
            "spare": PoolRules("spare", {"sp1": 1, "sp2": 1}, 0.5, 9.0),
        }
        self.followed = FollowedState("br-dns", 1, of.spec, rules, tuple(ipv4), of.state)
        self.agent = Agent(TargetSwitch("unix:/nowhere"), "br-dns", self._say, lambda *_: 0, observers=[self.told])
        self.agent._state_follower.followed = self.followed
        self.agent._health.adopt(ipv4, NO_OVERLAY, 0.0)
        for target in ipv4:
            self.agent._health.add(target, Result(0.0))

    def _say(self, text: str, event: str, level: str, **fields: object) -> None:
        self.said.append((event, str(fields.get("decision", ""))))

    def _change(self, switch: TargetSwitch, bridge: str, edit: Edit, **_: bool) -> OverlayChange:
        before, self.overlay = self.overlay, edit(self.overlay, self._state, self.time)
        return OverlayChange(bridge, before, self.overlay, [])

    def turns(self, backend: str, why: str = "late") -> None:
        time = len(self.said) + 100.0
        self.agent._add(self.targets[backend], Result(time, why))
        for target in self.targets.values():  # the others answer, so it is this one that fails
            if target.backend != backend and self.agent._health.states[target.key].healthy:
                self.agent._add(target, Result(time + 0.5))

    async def apply_due(self, *also: str) -> None:
        self.agent._state.due.update(also)
        self.time: datetime = self.time + timedelta(seconds=1)
        await self.agent._decide(work, self.followed, asyncio.get_running_loop())

    def ids(self, event: str) -> set[str]:
        return {id for said, id in self.said if said == event}


def back(backend: str, pool: str = "farm") -> Maintenance:
    return entry(backend, "health", pool=pool, gone=900, over=9.0, returns=START.isoformat(), decision=OLD)


@pytest.mark.parametrize("pool", ["farm", "spare"])
def test_a_panic_while_a_backend_comes_back_has_the_id_of_its_checks(
    pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this pool, or in another one that goes one step on with the same effect; and so has its end."""

    async def test() -> None:
        case = Case(monkeypatch, back("ns1" if pool == "farm" else "sp1", pool))
        for backend in ("ns1", "ns2", "ns3"):
            case.turns(backend)
        (checked,) = case.ids("check")
        await case.apply_due("spare")
        assert case.ids("panic") == {checked} and checked != OLD
        assert case.told.panics == [("farm", True, checked)]
        if pool == "spare":
            assert case.agent._memory.decision_of(case.overlay) == checked
        case.said.clear()
        for backend in ("ns1", "ns2", "ns3"):
            case.turns(backend, "")
        (better,) = case.ids("check")
        await case.apply_due("spare")
        assert case.ids("panic_over") == {better} and better not in (checked, OLD)

    asyncio.run(test())


def test_the_next_step_has_the_id_of_the_decision_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        case = Case(monkeypatch, back("sp1", "spare"))
        while case.overlay:
            await case.apply_due("spare")
            assert case.agent._memory.decision_of(case.overlay) == OLD
        assert case.time > START + timedelta(seconds=2)

    asyncio.run(test())


@pytest.mark.parametrize("outdated", [False, True])
def test_a_check_turning_while_an_effect_fails_keeps_its_id(outdated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        case = Case(monkeypatch)

        async def fails(do: object) -> Effect:
            case.said.clear()
            case.turns("ns3")
            if outdated:
                return Effect(None, {}, outdated=True)
            raise SwitchError("it is away")

        case.turns("ns1")
        case.turns("ns2")
        try:
            await case.agent._decide(fails, case.followed, asyncio.get_running_loop())  # type: ignore[arg-type]
        except SwitchError:
            assert not outdated
        (checked,) = case.ids("check")
        await case.apply_due()
        assert case.ids("panic") == {checked}

    asyncio.run(test())


def test_a_check_whose_effect_fails_keeps_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        case = Case(monkeypatch)

        async def fails(do: object) -> Effect:
            raise SwitchError("it is away")

        case.turns("ns2")
        with pytest.raises(SwitchError):
            await case.agent._decide(fails, case.followed, asyncio.get_running_loop())  # type: ignore[arg-type]
        await case.apply_due()
        assert case.ids("decision") == case.ids("check") and case.ids("check")

    asyncio.run(test())


def test_a_defect_in_one_pool_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays due, and is decided about once the defect is gone."""
    original = effect.decide_with_backup

    def fails(rules: PoolRules, *args: Any) -> Decision:
        if rules.pool == "farm":
            raise ZeroDivisionError
        return original(rules, *args)

    async def test() -> None:
        case = Case(monkeypatch)
        out = {"farm": PoolHealth({"ns2": "late"}), "spare": PoolHealth({"sp1": "late"})}
        monkeypatch.setattr(case.agent._health, "of", out.__getitem__)
        with monkeypatch.context() as patch:
            patch.setattr(effect, "decide_with_backup", fails)
            await case.apply_due("farm", "spare")
        assert [e.backend for e in case.overlay] == ["sp1"]
        assert case.agent._state.due == {"farm"} and ("trouble", "") in case.said
        await case.apply_due()
        assert [e.backend for e in case.overlay] == ["sp1", "ns2"]
        assert not case.agent._state.due and ("trouble_over", "") in case.said

    asyncio.run(test())


def test_a_pool_without_checks_leaves_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check was wrong, so people took it out of the spec."""

    async def test() -> None:
        case = Case(monkeypatch)
        for name in ("ns1", "ns2", "ns3"):
            case.agent._add(case.targets[name], Result(200.0, "REFUSED"))
        await case.apply_due()
        assert case.told.panics[-1][:2] == ("farm", True)
        case.agent._panics.adopt({"spare": case.followed.rules["spare"]})
        assert case.told.panics[-1][:2] == ("farm", False) and not case.agent._panics.slots

    asyncio.run(test())
