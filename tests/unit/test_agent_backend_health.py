# SPDX-License-Identifier: Apache-2.0
"""What is known of backends from the results of their probes: who fails by itself, who passes again, who flaps."""

from __future__ import annotations

import heapq
import json
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from dnsteer.agent import record_notes
from dnsteer.agent.backend_health import Health
from dnsteer.agent.effect import with_decisions
from dnsteer.agent.health import Result, Thresholds
from dnsteer.agent.health_decision import PoolRules, decide
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.record_notes import FailureRecord
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import HealthCheck
from dnsteer.spec.model.spec import Pool
from dnsteer.switch.agent_record import past_failures
from dnsteer.switch.state import FAILURES_KEY, BridgeRecord
from dnsteer.switch.tools import UnwrittenError

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
LATE = 0.5


def target(backend: str, number: int = 0, fall: int = 2, address: str = "192.0.2.1") -> ProbeTarget:
    pool = Pool.model_validate({"backends": [{"name": "b", "ipv4": "192.0.2.11", "mac": "02:00:00:00:01:01"}]})
    asks = effective_query(pool, HealthCheck())
    return ProbeTarget("p", backend, number, address, 53, HealthCheck(), asks, 0.5, Thresholds(3, fall, 300.0))


class Case:
    """The health of backends a, b and c, of which results are told one by one."""

    def __init__(self, *targets: ProbeTarget) -> None:
        self.targets = {t.backend: t for t in targets or map(target, "abc")}
        self.health = Health()
        self.health.adopt(self.targets.values(), NO_OVERLAY, 0.0)

    def asked(self, at: float, backend: str, *, good: bool) -> None:
        took = 0.001 if good else LATE
        self.health.add(self.targets[backend], Result(at + took, "" if good else f"failed at {at}", took))

    def fails(self) -> set[str]:
        """Who is known to fail by itself."""
        found = self.health.of("p")
        return {*found.unhealthy} - {*found.recovering} - {*found.unproven}


def test_a_backend_fails_by_itself_while_another_passes() -> None:
    case = Case()
    case.asked(1.0, "a", good=False)
    case.asked(1.5, "b", good=True)
    case.asked(2.0, "a", good=False)
    assert case.fails() == {"a"}


def test_an_interruption_failing_one_twice_and_others_once_proves_nothing() -> None:
    case = Case()
    case.asked(0.9, "b", good=True)
    case.asked(1.0, "a", good=False)
    case.asked(1.5, "b", good=False)
    case.asked(2.0, "a", good=False)
    assert {*case.health.of("p").unhealthy} == {"a"}
    case.asked(2.6, "b", good=True)
    assert case.fails() == set(), "it may be over"
    case.asked(3.0, "a", good=False)
    assert case.fails() == {"a"}, "b passed meanwhile"


def test_a_passing_backend_is_recovering_until_it_fails_again() -> None:
    case = Case()
    for at in (1.0, 2.0):
        case.asked(at, "a", good=False)
        case.asked(at + 0.5, "b", good=True)
    case.asked(3.0, "a", good=True)
    assert {*case.health.of("p").recovering} == {"a"}
    case.asked(4.0, "a", good=False)
    assert {*case.health.of("p").recovering} == set()


def test_with_fall_1_one_later_answer_of_another_backend_is_proof() -> None:
    case = Case(target("a", fall=1), target("b", fall=1))
    case.asked(1.0, "a", good=False)
    assert case.fails() == set()
    case.asked(1.6, "b", good=True)
    assert case.fails() == {"a"}


@pytest.mark.parametrize("others", [(), (target("b", 1),)], ids=["alone", "asked by another check"])
def test_a_backend_without_peers_needs_no_proof(others: tuple[ProbeTarget, ...]) -> None:
    case = Case(target("a"), *others)
    case.asked(1.0, "a", good=False)
    case.asked(2.0, "a", good=False)
    assert case.fails() == {"a"}


def test_another_family_is_evidence_only_without_peers_of_the_same_family() -> None:
    six = [target(name, address="2001:db8::1") for name in "ab"]
    case = Case(target("c"))
    case.health.adopt([*six, target("a"), target("b"), target("c")], NO_OVERLAY, 0.0)
    case.targets["a"] = six[0]
    case.asked(1.0, "a", good=False)
    case.asked(1.5, "c", good=True)
    case.asked(2.0, "a", good=False)
    assert case.fails() == set(), "the way by IPv6 may be broken"
    case.health.adopt([six[0], target("b"), target("c")], NO_OVERLAY, 3.0)
    case.asked(3.0, "a", good=False)
    assert case.fails() == {"a"}


def test_unhealthy_backends_are_ordered_by_first_failure_and_unprobed_ones_are_unknown() -> None:
    case = Case()
    for name, at in (("c", 1.0), ("a", 5.0)):
        case.asked(at, name, good=False)
        case.asked(at + 1, name, good=False)
    found = case.health.of("p")
    assert ([*found.unhealthy], {*found.unknown}) == (["c", "a"], {"b"})


@pytest.mark.parametrize("slow", [False, True], ids=["one check", "a slow check too"])
@pytest.mark.parametrize("lasts", [0.5, 1.0, 1.3, 1.6, 2.0, 3.0, 7.0, 30.0])
@pytest.mark.parametrize("count", [2, 4, 20])
def test_an_interruption_to_all_backends_takes_none_out(count: int, lasts: float, slow: bool) -> None:
    """As of ovsdb-server or ovs-vswitchd: neither in its course, nor when it is over, whenever each backend is asked."""
    for seed in range(3):
        assert Site(count, slow, seed).taken_out(lasts) == []


def test_a_dead_backend_is_found_after_two_failed_probes() -> None:
    """In a pool of 4 always; of 2 now and then an interval later."""
    found = [Site(4, False, seed).noticed() for seed in range(50)]
    assert max(found) < 2 * 1.1 + LATE
    found = [Site(2, False, seed).noticed() for seed in range(50)]
    assert sum(at < 2 * 1.1 + LATE for at in found) >= 45 and max(found) < 3 * 1.1 + LATE + 1


class Site:
    """A pool by simulated time: probes at their intervals with jitter, decisions when a check turns and each second."""

    def __init__(self, count: int, slow: bool, seed: int) -> None:
        self._random = random.Random(seed)
        names = [f"b{n}" for n in range(count)]
        self._targets = [(target(name), 1.0) for name in names] + [(target(n, 1), 5.0) for n in names if slow]
        self._health, self._overlay = Health(), NO_OVERLAY
        self._health.adopt([t for t, _ in self._targets], NO_OVERLAY, 0.0)
        self._rules = PoolRules("p", dict.fromkeys(names, 1), 0.5, 0.0)
        self._out: list[tuple[float, str]] = []

    def taken_out(self, lasts: float) -> list[tuple[float, str]]:
        """Who was taken out, and when, where all fail for so many seconds."""
        self._run(lambda at, _: 20 <= at < 20 + lasts, 80 + lasts)
        return self._out

    def noticed(self) -> float:
        """Seconds until one that does not answer any more is out."""
        self._run(lambda at, name: at >= 20 and name == "b0", 40)
        ((at, name),) = self._out
        assert name == "b0"
        return at - 20

    def _run(self, fails: Any, until: float) -> None:
        events: list[tuple[float, int, str, Any]] = []

        def then(at: float, what: str, of: Any = None) -> None:
            heapq.heappush(events, (at, len(events) + self._random.getrandbits(40), what, of))

        for place, (_, interval) in enumerate(self._targets):
            then(self._random.uniform(0, interval), "asked", place)
        then(0.0, "tick")
        at, goes_on = 0.0, False
        while at < until:
            at, _, what, of = heapq.heappop(events)
            if what == "asked":
                asked, interval = self._targets[of]
                bad = fails(at, asked.backend)
                took = LATE if bad else 0.001
                then(at + took, "result", (asked, Result(at + took, "late" if bad else "", took)))
                then(at + max(LATE, interval * self._random.uniform(0.9, 1.1)), "asked", of)
            elif what == "tick":
                then(at + 1, "tick")
            if (what == "result" and self._health.add(*of)) or (what == "tick" and goes_on):
                goes_on = self._decide(at)

    def _decide(self, at: float) -> bool:
        time = BEGIN + timedelta(seconds=at)
        decision = decide(self._rules, self._overlay.of("p"), self._health.of("p"), "agent", time)
        before = {entry.backend for entry in self._overlay}
        self._overlay = with_decisions(self._overlay, {"p": decision})
        self._out += [(at, entry.backend) for entry in self._overlay if entry.backend not in before]
        return decision.is_unfinished


class Recorded:
    """The record of a bridge, instead of a connection to one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: dict[str, str] = {}
        self.writes = 0
        self.full = False
        monkeypatch.setattr(record_notes, "AgentRecordSession", self._session)

    def record(self) -> BridgeRecord:
        return BridgeRecord("u", "v", "br-dns", dict(self.ids), {}, "s", "", False)

    def _session(self, _remote: str) -> Any:
        from dnsteer.switch.agent_record import AgentRecordSession

        outer = self

        class Session(AgentRecordSession):
            def __init__(self) -> None:
                pass

            def close(self) -> None:
                pass

            def _write(self, record: BridgeRecord, *operations: dict[str, Any]) -> None:
                if outer.full:
                    raise UnwrittenError("no room")
                outer.writes += 1
                (_, (_, _, (_, inserted))) = operations[0]["mutations"]
                outer.ids = {key: value for key, value in outer.ids.items() if key != FAILURES_KEY} | dict(inserted)

        return Session()


def flapped(times: int) -> tuple[Case, float]:
    """A case in which backend a has failed so often, and the time at which it is unhealthy for the last time."""
    case, at = Case(), 100.0
    for _ in range(times):
        while case.health.states[target("a").key].healthy:
            case.asked(at, "a", good=False)
            at += 1
        began = at
        while not case.health.states[target("a").key].healthy:
            case.asked(at, "a", good=True)
            at += 1
    for _ in range(2):
        case.asked(at, "a", good=False)
        at += 1
    assert at > began
    return case, at


def test_the_hold_after_flapping_outlives_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 5000.0)
    recorded, (case, now) = Recorded(monkeypatch), flapped(4)
    FailureRecord("unix:/nowhere").keep(recorded.record(), case.health.states, now)
    before = case.health.states[target("a").key]
    monkeypatch.setattr("time.time", lambda: 5003.0)
    entry = Maintenance("p", "a", "health", BEGIN.isoformat(), "agent@host", "late")
    after = Health()
    after.adopt(map(target, "abc"), Overlay((entry,)), 7.0, past_failures(recorded.record()))
    state = after.states[target("a").key]
    assert not state.healthy
    assert state.held - 7.0 == pytest.approx(before.held - now - 3.0, abs=1)
    assert state.failures == pytest.approx(before.failures, rel=0.05)
    assert after.states[target("b").key].failures == 0


def test_failures_of_a_backend_back_in_service_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, (case, now) = Recorded(monkeypatch), flapped(3)
    FailureRecord("unix:/nowhere").keep(recorded.record(), case.health.states, now)
    after = Health()
    after.adopt(map(target, "abc"), NO_OVERLAY, 0.0, past_failures(recorded.record()))
    assert after.states[target("a").key].healthy and after.states[target("a").key].failures > 3


def test_the_flapping_record_is_written_on_changes_and_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded, (case, now) = Recorded(monkeypatch), flapped(1)
    keeper, states = FailureRecord("unix:/nowhere"), case.health.states
    recorded.full = True
    keeper.keep(recorded.record(), states, now)
    recorded.full = False
    for _ in range(3):
        keeper.keep(recorded.record(), states, now)
    assert (recorded.writes, len(json.loads(recorded.ids[FAILURES_KEY]))) == (1, 1)
    keeper.keep(recorded.record(), states, now + 3000)
    assert (recorded.writes, recorded.ids) == (2, {}), "it is forgotten"
    keeper.keep(recorded.record(), Case().health.states, now)
    assert recorded.writes == 2
    FailureRecord("unix:/nowhere").keep(recorded.record(), Case().health.states, now)
    assert recorded.writes == 2, "nothing is written where nothing flaps"


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "[1]", '[["p","a",0,"192.0.2.1",1e999,0,0]]', '[["p","a",0,"192.0.2.1","x",0,0]]', "[" * 9999],
)
def test_a_missing_or_edited_flapping_record_is_ignored(text: str) -> None:
    record = BridgeRecord("u", "v", "br-dns", {FAILURES_KEY: text}, {}, "s", "", False)
    after = Health()
    after.adopt([target("a")], NO_OVERLAY, 0.0, past_failures(record))
    assert replace(after.states[target("a").key], since=0.0).failures == 0


def test_a_hold_is_no_longer_than_the_spec_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock was set back, or somebody has changed the record."""
    text = '[["p","a",0,"192.0.2.1",1e300,0,1e15]]'
    record = BridgeRecord("u", "v", "br-dns", {FAILURES_KEY: text}, {}, "s", "", False)
    entry = Maintenance("p", "a", "health", BEGIN.isoformat(), "agent@host", "late")
    after = Health()
    after.adopt([target("a")], Overlay((entry,)), 50.0, past_failures(record))
    assert after.states[target("a").key].held == 350.0
