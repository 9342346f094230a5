# SPDX-License-Identifier: Apache-2.0
"""What needs attention by what the agent knows, and the exit codes that say it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dnsteer.agent.record_notes import make_note
from dnsteer.checks.load import check_document
from dnsteer.cli.output import Exit, status_exit_code
from dnsteer.cli.status import items_of
from dnsteer.metrics.observer import CheckTurn
from dnsteer.spec.read import parse_document
from dnsteer.status.agent_knowledge import (
    AgentKnowledge,
    AgentView,
    FailingCheck,
    PoolPanic,
    Trouble,
    UnannouncedVip,
    needs_agent,
    view_agent,
)
from dnsteer.switch.agent_answer import AgentAnswer
from dnsteer.switch.state import KNOWN_KEY
from dnsteer.switch.tools import UnavailableError
from dnsteer.view.attention_item import AttentionItem
from dnsteer.view.snapshot import SnapshotRecorder
from tests.unit.console_cases import SPEC, START, entry, known, record
from tests.unit.test_top import frame

LATER = START + timedelta(minutes=3)


def fails(name: str, *services: str, pool: str = "farm") -> FailingCheck:
    return FailingCheck(pool, name, "dns", f"dns of {name}: SERVFAIL", START, services)


def judged(*entries: Any, agent: AgentView | None = None, **knows: Any) -> tuple[Exit, list[AttentionItem]]:
    """The exit code and what needs attention of SPEC, of which an agent knows this."""
    status = frame(*entries).status
    status.agent = agent or AgentView("acts", True, knowledge=AgentKnowledge(**knows))
    items = items_of(status)
    return status_exit_code(status, items), items


def test_maintenance_is_a_note() -> None:
    code, items = judged(entry("ns1"), entry("ns2", "weight", weight=4))
    assert (code, {item.level for item in items}) == (Exit.OK, {"note"})


def test_a_backend_that_fails_in_service_is_named_with_since_when() -> None:
    code, (item,) = judged(failing=(fails("ns1"),))
    assert code is Exit.ATTENTION
    assert (item.level, item.pool, item.vips) == ("critical", "farm", ())
    assert (
        item.line
        == "farm/ns1 fails its checks, and is in service: dns of ns1: SERVFAIL. Since 2026-01-02 03:04:05 UTC."
    )


def test_checks_that_only_warn_stop_no_vip() -> None:
    """All backends fail it: the way to the Internet, say."""
    failing = tuple(replace(fails(f"ns{n}"), check="dns-warn") for n in (1, 2, 3))
    code, (item,) = judged(failing=failing)
    assert (code, item.level, item.vips) == (Exit.ATTENTION, "warning", ())
    assert item.title == "Pool farm: checks that only warn are failing"
    assert "ns2: dns of ns2: SERVFAIL" in item.detail
    assert not AgentKnowledge(failing=failing).by_backend


def test_an_unhealthy_backend_taken_out_is_one_item() -> None:
    code, (item,) = judged(entry("ns1", "health", note="late"), failing=(fails("ns1"),))
    assert (code, item.title, item.level) == (Exit.ATTENTION, "farm/ns1 is unhealthy", "warning")


@pytest.mark.parametrize("out", [entry("ns1"), entry("ns1", "weight", weight=0)], ids=("drained", "weight 0"))
def test_a_failing_backend_under_maintenance_is_a_note(out: Any) -> None:
    code, items = judged(out, failing=(fails("ns1"),))
    assert code is Exit.OK
    assert "farm/ns1, which is out of service anyway, fails its checks" in [item.title for item in items]


def test_a_pool_with_all_in_service_failing_does_not_serve() -> None:
    ill = tuple(fails(name) for name in ("ns2", "ns3"))
    for panics in ((), (PoolPanic("farm", LATER, "d21gepscbjsy"),)):
        code, items = judged(entry("ns1"), failing=ill, panics=panics)
        (item,) = [item for item in items if item.level == "critical"]
        assert (code, item.vips) == (Exit.NOT_SERVING, ("dns",))
        assert ("PANIC" in item.title) is bool(panics)
        assert item.detail.endswith("; taken out by operators though their checks pass: ns1")
    code, items = judged(failing=ill, panics=(PoolPanic("farm", LATER),))  # ns1 passes
    assert (code, items[0].vips) == (Exit.ATTENTION, ())


def test_a_pool_out_of_backends_that_all_fail_does_not_serve() -> None:
    """Though its slots stay where they are (on_all_down: keep, panic: 100%)."""
    out = [entry(name, "health") for name in ("ns1", "ns2", "ns3")]
    code, items = judged(*out, failing=tuple(map(fails, ("ns1", "ns2", "ns3"))))
    (item,) = [item for item in items if item.title == "Pool farm has no backend"]
    assert (code, item.vips) == (Exit.NOT_SERVING, ("dns",))
    code, items = judged(*out[:2], entry("ns3"), failing=tuple(map(fails, ("ns1", "ns2"))))
    (item,) = [item for item in items if item.title == "Pool farm has no backend"]
    assert (code, item.vips) == (Exit.ATTENTION, ()), "queries may still go to the one that is drained"


def test_a_withdrawn_vip_is_listed_with_its_hold_unless_operators_withdrew_it() -> None:
    vip = UnannouncedVip("dns", "pool farm: healthy backends in service: 0, needed: 1", START)
    code, (item,) = judged(unannounced=(vip,))
    assert (code, item.vips) == (Exit.NOT_SERVING, ("dns",))
    assert item.line.endswith("needed: 1. Since 2026-01-02 03:04:05 UTC.")
    _, (item,) = judged(unannounced=(replace(vip, until=LATER),))
    assert "held until 2026-01-02 03:07:05 UTC" in item.detail
    assert judged(unannounced=(replace(vip, by_people=True),)) == (Exit.OK, [])


def test_a_trouble_of_the_agent_needs_attention() -> None:
    text = "VIPs are not announced as they should be: bird: syntax error"
    code, (item,) = judged(troubles=(Trouble("announcement of VIPs", text, START, "error"),))
    assert (code, item.level, item.title) == (Exit.ATTENTION, "critical", "VIPs are not announced as they should be")
    assert item.detail == "Bird: syntax error. Since 2026-01-02 03:04:05 UTC."


@pytest.mark.parametrize(
    ("view", "code", "title"),
    [
        (AgentView("absent", True, "no socket"), Exit.ATTENTION, "No agent acts on the bridge"),
        (AgentView("silent", False, "no answer"), Exit.ATTENTION, "The agent does not answer"),
        (AgentView("hidden", True, "no socket"), Exit.ATTENTION, "An agent acts, and cannot be asked"),
        (AgentView("unknown", True, "why"), Exit.ATTENTION, "Whether an agent acts is not known"),
        (AgentView("remote", True, "why"), Exit.OK, "The agent is on another machine"),
        (AgentView("absent", False, "no socket"), Exit.OK, None),
    ],
)
def test_an_agent_that_is_needed_and_does_not_answer(view: AgentView, code: Exit, title: str | None) -> None:
    found, items = judged(agent=view)
    assert (found, [item.title for item in items]) == (code, [title] if title else [])


def test_the_highest_exit_code_counts() -> None:
    status = frame().status
    status.tables_match = "other"
    assert status_exit_code(status, items_of(status)) is Exit.DIFFERENT
    status.agent = AgentView("absent", True)
    assert status_exit_code(status, items_of(status)) is Exit.ATTENTION
    status.errors.append("damaged")
    assert status_exit_code(status, items_of(status)) is Exit.ERROR, "what was found is not all"
    vip = UnannouncedVip("dns", "why", START)
    status.agent = AgentView("acts", True, knowledge=AgentKnowledge(unannounced=(vip,)))
    assert status_exit_code(status, items_of(status)) is Exit.NOT_SERVING


def test_foreign_settings_do_not_count() -> None:
    status = frame().status
    status.warnings = ["port p0: policing"]
    assert status_exit_code(status, items_of(status)) is Exit.ATTENTION
    status.of_others = [*status.warnings]
    assert status_exit_code(status, items_of(status)) is Exit.OK


class Told:
    """A recorder with a clock, that follows SPEC."""

    def __init__(self) -> None:
        self.time = START
        self.recorder = SnapshotRecorder(lambda: self.time)
        self.recorder.claim_changed("br-dns", held=True)
        self.adopt()

    def adopt(self) -> None:
        self.recorder.adopted(known(), [("farm", "ns1", "dns"), ("farm", "ns1", "dns"), ("farm", "ns2", "dns")])
        self.recorder.followed(record(1))

    @property
    def knows(self) -> AgentKnowledge:
        return AgentKnowledge.from_value(self.recorder.knowledge_of("br-dns"))


def test_a_check_fails_until_all_of_its_targets_pass_and_since_the_first_failure() -> None:
    of = Told()
    for why in ("late", "REFUSED"):  # over IPv4, and over IPv6
        of.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=False, why=why, services=("853/tcp",), at=why))
        of.time = LATER
    assert of.knows.failing == (FailingCheck("farm", "ns1", "dns", "REFUSED", START, ("853/tcp",)),)
    of.adopt()  # another spec was applied, and it goes on failing
    of.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=False, why="REFUSED", services=("",)))
    assert of.knows.failing == (FailingCheck("farm", "ns1", "dns", "REFUSED", START),)
    of.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=True))
    assert of.knows.failing == ()
    of.recorder.turned(CheckTurn(("old", "ns9", "dns"), healthy=False, why="of a state that is gone"))
    assert of.knows.failing == ()


def test_the_reason_is_that_of_a_target_that_still_fails() -> None:
    of = Told()
    for at in ("A", "B"):
        of.recorder.turned(
            CheckTurn(("farm", "ns1", "dns"), healthy=False, why=f"dns {at}: late", services=("53",), at=at)
        )
    assert of.knows.failing[0].why == "dns B: late"
    of.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=True, at="B"))
    assert of.knows.failing == (FailingCheck("farm", "ns1", "dns", "dns A: late", START, ("53",)),)
    of.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=True, at="A"))
    assert of.knows.failing == ()


def test_a_panic_names_its_services() -> None:
    of = Told()
    for services in (("853/tcp",), ("", "853/tcp"), ()):
        of.recorder.panicked("farm", services, "d21gepscbjsy")
        alone = services if all(services) else ()
        wanted = (PoolPanic("farm", START, "d21gepscbjsy", alone),) if services else ()
        assert of.knows.panics == wanted


def test_another_bridge_or_a_standby_agent_adds_no_item() -> None:
    of = Told()
    assert of.recorder.knowledge_of("br-other") is None
    of.recorder.claim_changed("br-dns", held=False)
    assert of.recorder.knowledge_of("br-dns") is None


def test_trouble_with_the_switch_is_listed_until_a_turn_succeeds() -> None:
    of = Told()
    of.recorder.failed("OVSDB is away")
    assert of.knows.troubles == (Trouble("switch", "the switch stays as it is: OVSDB is away", START, "error"),)
    of.recorder.took("loop", 0.1)
    of.recorder.took("loop", 0.1)
    assert of.knows.troubles == ()


def test_unknown_fields_of_a_later_version_are_ignored() -> None:
    value = AgentKnowledge(7, (fails("ns1"),)).to_value()
    value["more"], value["failing"][0]["more"] = 1, 2
    assert AgentKnowledge.from_value(value) == AgentKnowledge(7, (fails("ns1"),))


def test_a_malformed_agent_answer_is_not_understood() -> None:
    class Switch:
        def ask_agent(self, bridge: str) -> AgentAnswer:
            return AgentAnswer({"state": "seven"})

    found = view_agent(Switch(), record(1), None)  # type: ignore[arg-type]
    assert (found.presence, found.needed) == ("hidden", False)
    assert "is not understood" in found.why


def test_without_a_database_it_is_not_known_whether_an_agent_acts() -> None:
    class Switch:
        def ask_agent(self, bridge: str) -> AgentAnswer:
            return AgentAnswer(why="no socket")

        def session(self) -> None:
            raise UnavailableError("OVSDB is away")

    assert view_agent(Switch(), record(1), None) == AgentView("unknown", False, "OVSDB is away")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "needed"), [("health: {check: tcp}", True), ("balance: {by: slots}", True), ("panic: 50%", False)]
)
def test_which_specs_need_an_agent(more: str, needed: bool) -> None:
    text = SPEC.replace("health: {check: dns, query: {name: example.org}}", more)
    assert needs_agent(check_document(parse_document("farm.yaml", text)).spec) is needed


def test_failure_times_survive_serialisation() -> None:
    assert datetime.fromisoformat(AgentKnowledge(0, (fails("ns1"),)).to_value()["failing"][0]["since"]) == START


def test_the_recorded_summary_is_bounded_to_what_needs_attention() -> None:
    assert make_note(None) is None and make_note(AgentKnowledge(7).to_value()) is None
    many = tuple(replace(fails(f"ns{n}"), why="x" * 1000) for n in range(500))
    note = make_note(AgentKnowledge(7, many).to_value())
    assert len(json.dumps(note)) < 10_000
    read = AgentKnowledge.from_value(note)
    assert (read.state, len(read.failing), read.failing[0].since) == (7, 20, START)


@pytest.mark.parametrize("junk", ["", "junk", "[]", '{"failing": [1]}', "[" * 100_000])
def test_an_invalid_recorded_summary_is_ignored(junk: str) -> None:
    class Switch:
        def ask_agent(self, bridge: str) -> AgentAnswer:
            return AgentAnswer(why="elsewhere", remote=True)

        def session(self) -> Any:
            class Claimed:
                def is_claimed(self, bridge: str) -> bool:
                    return True

            return nullcontext(Claimed())

    of = record(1)
    noted = of if not junk else replace(of, ids={**of.ids, KNOWN_KEY: junk})
    assert view_agent(Switch(), noted, None) == AgentView("remote", False, "elsewhere", AgentKnowledge())  # type: ignore[arg-type]
