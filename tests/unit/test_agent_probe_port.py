# SPDX-License-Identifier: Apache-2.0
"""The port of probes may be gone: only the checks through it wait for it, and the main loop does not hurry for it."""

from __future__ import annotations

import asyncio
import subprocess
from math import inf

import pytest

from dnsteer.agent import next_work, probe_port, run
from dnsteer.agent.event_reporter import EventReporter
from dnsteer.agent.probe_port import ProbePort
from dnsteer.checks.load import check_document
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.unit.test_agent_defects import SPEC, Case, record_of, state_of, work

PROBED = SPEC.replace("  uplinks:\n", "  probe: {addresses: [192.0.2.9/24]}\n  uplinks:\n")
GONE = "ip link set dev probe0 up: Cannot find device"


class Port:
    """The port of probes, and how often it was to be set up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there, self.tries = False, 0
        monkeypatch.setattr(probe_port, "set_up_probe_port", self._set_up)

    def _set_up(self, _spec: object) -> None:
        self.tries += 1
        if not self.there:
            raise SwitchError(GONE)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Port:
    return Port(monkeypatch)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """An agent that looks as soon as there is a reason to."""
    monkeypatch.setattr(next_work, "_QUIET", 0.0)
    made = Case()
    made.source.applied = state_of(PROBED, 1)
    return made


def troubles(case: Case) -> list[str]:
    return [one["about"] for one in case.agent._seen.knowledge_of("br-dns")["troubles"]]


def look_due_in(case: Case) -> float:
    return case.agent._state.looks.due_in(case.agent._memory.events, asyncio.get_running_loop().time())


def test_an_agent_started_without_the_port_adopts_the_state_and_checks(case: Case, port: Port) -> None:
    async def test() -> None:
        with case.at_work():
            await case.turn()
            assert case.agent._followed is not None
            assert case.decided == [{"farm", "spare"}], "failover works"
            assert look_due_in(case) > 20, "the look is done"
            assert f"the port of probes cannot be set up: {GONE}" in case.said
            assert troubles(case) == ["probe port"]
            case.end()

    asyncio.run(test())


def test_a_lost_probe_port_returns_with_the_next_check(case: Case, port: Port) -> None:
    async def test() -> None:
        port.there = True
        with case.at_work():
            await case.turn()
            assert troubles(case) == []
            for port.there, left in ((False, ["probe port"]), (True, [])):
                case.agent._state.looks = next_work.LookTimes()
                await case.turn()
                assert look_due_in(case) > 20, "the look is done"
                assert troubles(case) == left
            assert case.said[-1] == "the port of probes is set up"
            case.source.now, case.source.applied = record_of(2), state_of(SPEC, 2)
            port.there, case.agent._state.looks = False, next_work.LookTimes()
            await case.turn()
            assert troubles(case) == ["probe port"]
            port.there, case.source.now = True, record_of(3)
            await case.turn()
            assert troubles(case) == []
            case.end()

    asyncio.run(test())


def test_the_probe_port_is_retried_after_pauses_and_after_a_check_of_the_switch(port: Port) -> None:
    said: list[str] = []
    spec = check_document(parse_document("spec.yaml", PROBED)).spec
    kept = ProbePort(EventReporter(lambda text, *_, **__: said.append(text)))

    async def test() -> None:
        await kept.adopt(spec, work, 0.0)
        for time, tries in ((0.9, 1), (1.0, 2), (2.9, 2), (3.0, 3)):
            await kept.keep(spec, work, time)
            assert port.tries == tries, time
        kept.looked()
        port.there = True
        await kept.keep(spec, work, 3.1)
        await kept.keep(spec, work, 99.0)
        assert port.tries == 4
        assert said == [f"the port of probes cannot be set up: {GONE}", "the port of probes is set up"]

    asyncio.run(test())


def test_a_spec_without_a_port_of_probes_ends_the_trouble(port: Port) -> None:
    said: list[str] = []
    kept = ProbePort(EventReporter(lambda text, *_, **__: said.append(text)))

    async def test() -> None:
        for text in (PROBED, SPEC):
            await kept.adopt(check_document(parse_document("spec.yaml", text)).spec, work, 0.0)
            port.there = True

    asyncio.run(test())
    assert len(said) == 1, "it is forgotten"


@pytest.mark.parametrize("err", [UnavailableError("no OpenFlow"), SwitchError("refused"), KeyError("x")])
def test_a_turn_failing_before_its_check_is_followed_by_a_pause(
    err: Exception, case: Case, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        with case.at_work(), monkeypatch.context() as patch:
            patch.setattr(case.agent, "_look", _fail(err))
            await case.turn()
            assert 0 < look_due_in(case) < 1
            case.end()

    asyncio.run(test())


def test_a_failed_turn_is_followed_by_a_pause_despite_wakeups(
    case: Case, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that was begun and failed wakes it itself, as the tables may be other ones now."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        case.agent._state.paused_until = -inf  # it has passed

    async def test() -> None:
        loop = asyncio.get_running_loop()
        with case.at_work():
            for failure, paused in (({"decide": UnavailableError("x")}, 1), ({}, 0)):
                case.fails = failure
                await case.turn()
                case.agent._wake.set()
                with monkeypatch.context() as patch:
                    patch.setattr(asyncio, "sleep", sleep)
                    await case.agent._rest(loop)
                assert len(pauses) == paused and all(0 < pause <= next_work.PAUSE for pause in pauses)
                pauses.clear()
            case.end()

    asyncio.run(test())


def _fail(err: Exception) -> object:
    async def act(*_: object) -> None:
        raise err

    return act


def test_a_decision_on_an_unreachable_switch_is_followed_by_a_check(case: Case, port: Port) -> None:
    """The extension may be away, which a look does not need. Other steps are not tried: each would wait for its answer."""
    looks: list[bool] = []
    others: list[object] = []

    async def other(*_: object) -> None:
        others.append(1)

    async def test() -> None:
        with case.at_work(), pytest.MonkeyPatch().context() as patch:
            await case.turn()
            patch.setattr(run, "inspect_switch", lambda *_, **__: looks.append(True) or case.look())
            patch.setattr(case.agent, "_remove_mirrors", other)
            case.fails = {"decide": UnavailableError("dnsteer-ext: nobody listens there")}
            case.agent._state.due.add("farm")
            case.agent._state.looks = next_work.LookTimes()
            await case.turn()
            assert looks and look_due_in(case) > 20
            assert case.said[-1] == "the switch stays as it is: dnsteer-ext: nobody listens there"
            case.fails["look"] = UnavailableError("no OpenFlow")
            case.agent._state.looks = next_work.LookTimes()
            await case.turn()
            assert len(looks) == 2 and 0 < look_due_in(case) < 1
            assert not others
            case.end()

    asyncio.run(test())


@pytest.mark.parametrize("err", [subprocess.TimeoutExpired("ip", 10), PermissionError(13, "Permission denied")])
def test_a_program_ip_that_hangs_or_may_not_run_is_an_error_of_the_switch(
    err: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise err

    monkeypatch.setattr(subprocess, "run", fails)
    spec = check_document(parse_document("spec.yaml", PROBED)).spec
    with pytest.raises(SwitchError, match="ip link set dev probe0 up: "):
        probe_port.set_up_probe_port(spec)
