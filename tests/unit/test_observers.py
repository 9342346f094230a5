# SPDX-License-Identifier: Apache-2.0
"""What the agent tells of its work reaches all observers, each thing once, and each makes of it what it is for."""

from __future__ import annotations

from typing import Any

import pytest

from dnsteer.agent.event_reporter import EventReporter
from dnsteer.events.event import COMMON, KINDS
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.observer import (
    CALLBACKS,
    AgentObserver,
    CheckTurn,
    KeptChange,
    Observers,
    PanicChange,
    SwitchInspection,
)
from dnsteer.view.snapshot import SnapshotRecorder
from tests.unit.console_cases import known

CHECK = ("farm", "ns1", "dns")


class Keeps:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: self.told.append((name, args, named))


FIELDS = {kind.name: {*COMMON, *kind.fields} for kind in KINDS}


class Case:
    """Every observer that an agent with a console has."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self.fields: list[dict[str, object]] = []
        self.seen, self.metrics = SnapshotRecorder(), AgentMetrics()
        self.all = Observers(self.metrics, self.seen, EventReporter(self._say))
        self.all.claim_changed("br-dns", held=True)

    def _say(self, text: str, event: str, level: str, **fields: object) -> None:
        assert fields.keys() <= FIELDS[event], f"fields that KINDS does not have for {event}"
        self.lines.append((event, level, text))
        self.fields.append(fields)

    def troubles(self) -> list[tuple[str, str]]:
        return [(one.about, one.text) for one in self.seen.snapshot().agent.troubles]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize("event", CALLBACKS)
def test_every_event_reaches_all_observers(event: str) -> None:
    one, other = Keeps(), Keeps()
    getattr(Observers(one, other), event)("a", 1, b=2)  # type: ignore[arg-type]
    assert one.told == other.told == [(event, ("a", 1), {"b": 2})]


def test_an_observer_that_fails_keeps_nothing_from_the_others() -> None:
    """The first exception is raised once all are told, for whoever supervises what tells."""

    class Fails(AgentObserver):
        def failed(self, why: str) -> None:
            raise ZeroDivisionError(why)

    last = Keeps()
    with pytest.raises(ZeroDivisionError, match=r"^away$"):
        Observers(Fails(), Fails(), last).failed("away")  # type: ignore[arg-type]
    assert [event for event, *_ in last.told] == ["failed"]


def test_checks_failing_at_adoption_are_known_but_not_reported() -> None:
    case, turn = Case(), CheckTurn(CHECK, False, "late", at="A")
    case.all.adopted(known(), [CHECK, ("spare", "sp1", "dns")], [turn])
    assert case.lines == [("adopted", "info", "bridge br-dns: state 1, pools with health checks: 2, targets: 2")]
    assert case.fields == [{"bridge": "br-dns", "state": 1, "pools": 2, "targets": 2}]
    assert [(one.backend, one.why) for one in case.seen.snapshot().agent.failing] == [("ns1", "late")]
    assert case.metric("dnsteer_check_healthy", pool="farm", backend="ns1", check="dns") == 0


def test_a_changed_check_is_reported_known_and_counted() -> None:
    case = Case()
    case.all.adopted(known(), [CHECK])
    for healthy in (False, True):
        case.all.turned(CheckTurn(CHECK, healthy, "late", ("853/tcp", ""), "A", 0.25, "d1"))
        assert case.metric("dnsteer_check_healthy", pool="farm", backend="ns1", check="dns") == healthy
        assert bool(case.seen.snapshot().agent.failing) is not healthy
    assert case.lines[1:] == [
        ("check", "warning", "farm/ns1 is unhealthy (853/tcp): late"),
        ("check", "info", "farm/ns1 is healthy (853/tcp)"),
    ]
    about = {"bridge": "br-dns", "pool": "farm", "backend": "ns1", "service": ["853/tcp"], "check": "dns"}
    times = {"duration_s": 0.25, "decision": "d1"}
    assert case.fields[1:] == [
        {**about, **times, "to": "unhealthy", "reason": "late"},
        {**about, **times, "to": "healthy", "reason": ""},
    ]


def test_a_trouble_is_reported_once_until_it_is_over() -> None:
    case, changes = Case(), list[int]()
    case.seen.changed = lambda: changes.append(1)
    for said in ("gone", "gone", "away"):
        case.all.report_trouble("the monitor", said)
    assert (case.troubles(), len(changes)) == ([("monitor", "away")], 2)
    for _ in range(2):
        case.all.end_trouble("the monitor", "back")
    assert (case.troubles(), len(changes)) == ([], 3)
    assert [(event, text) for event, _, text in case.lines] == [
        ("trouble", "gone"),
        ("trouble", "away"),
        ("trouble_over", "back"),
    ]


def test_a_trouble_that_is_forgotten_ends_without_a_word() -> None:
    case = Case()
    for what in ("the metric of farm/ns1", "the metric of farm/ns2", "OpenFlow", "the monitor"):
        case.all.report_trouble(what, "gone")
    case.all.forget_troubles("the metric of ", "OpenFlow")
    assert [about for about, _ in case.troubles()] == ["monitor"] and len(case.lines) == 4


def test_claim_and_switch_events_are_not_repeated_as_troubles() -> None:
    """The claim and the switch: whether the agent stands by, and what keeps it from its work, are told by these."""
    case = Case()
    case.all.failed("OVSDB is away")
    case.all.claim_changed("br-dns", held=False)
    assert case.lines == [
        ("trouble", "error", "the switch stays as it is: OVSDB is away"),
        ("trouble", "info", "another agent works on bridge br-dns; standing by"),
    ]
    assert case.troubles() == [] and case.seen.snapshot().trouble == "OVSDB is away" and case.seen.snapshot().is_standby
    case.all.claim_changed("br-dns", held=True)
    assert case.lines[2:] == [("trouble_over", "info", "this agent now works on bridge br-dns")]


@pytest.mark.parametrize(
    ("tell", "about", "metric"),
    [
        (lambda of, on: of.unrecorded("a full disk" if on else ""), "record", ("dnsteer_agent_unrecorded", 1, 0)),
        (
            lambda of, on: of.lists_wrong("a.txt:1: found x" if on else ""),
            "access lists",
            ("dnsteer_access_list_files_wrong", 1, 0),
        ),
        (
            lambda of, on: of.inspected(SwitchInspection(other_version="9" if on else ""), repaired=True, seconds=0.5),
            "version",
            ("dnsteer_agent_look_duration_seconds_count", 1, 2),
        ),
    ],
)
def test_an_event_that_is_a_trouble_is_one_to_all(tell: Any, about: str, metric: tuple[str, float, float]) -> None:
    case, (name, begun, ended) = Case(), metric
    tell(case.all, True)
    assert ([one for one, _ in case.troubles()], case.metric(name)) == ([about], begun)
    tell(case.all, False)
    assert (case.troubles(), case.metric(name)) == ([], ended)
    assert [event for event, *_ in case.lines] == ["trouble", "trouble_over"]


def test_a_defect_is_counted_and_is_a_trouble_by_default() -> None:
    case = Case()
    case.all.defect("the balance", "a defect in the balance")
    case.all.defect("adopting a state")
    assert case.troubles() == [("part the balance", "a defect in the balance")]
    assert case.metric("dnsteer_agent_defects_total", part="balance") == 1
    assert case.metric("dnsteer_agent_defects_total", part="adopting a state") == 1


def test_panics_and_kept_backends_are_reported_only_by_their_decider() -> None:
    case = Case()
    begins = PanicChange("853/tcp", True, ("ns1", "ns2"), ("ns1",), ("ns3",))
    case.all.panicked("farm", ("853/tcp",), "d1", begins)
    case.all.kept("farm", ["ns1"], "d1", KeptChange("", 2, ("ns1",)))
    panic, kept = case.lines
    assert panic[:2] == ("panic", "error") and panic[2] == (
        "PANIC: pool farm (853/tcp): no backend in service passes its checks (ns1, ns2); "
        "these stay in service: ns1; these pass, but people have them out: ns3"
    )
    assert kept[:2] == ("too_few", "error") and kept[2] == (
        "pool farm: too few pass their checks, so these stay in service (keep_at_least: 2): ns1"
    )
    assert case.seen.snapshot().panics == {"farm"} and case.seen.snapshot().agent.kept == ("farm/ns1",)
    case.all.panicked("farm", ())
    case.all.kept("farm", [])
    assert len(case.lines) == 2
    assert not case.seen.snapshot().panics and case.metric("dnsteer_pool_panic", pool="farm") == 0


def test_a_changed_role_is_reported() -> None:
    case = Case()
    for standby in (False, True, True, False):
        case.all.role(standby=standby)
    assert [text for _, _, text in case.lines] == ["this switch is on standby now", "this switch is active now"]
