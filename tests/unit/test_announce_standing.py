# SPDX-License-Identifier: Apache-2.0
"""Where VIPs stand: held back for their own failures alone, and what becomes of them when no backend passes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dnsteer.agent.announce.conditions import vips_of_failed_pools
from dnsteer.agent.announce.vip_standing import VipStanding, VipStandings, VipVerdict
from dnsteer.agent.backend_health import Health
from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import probe_targets
from dnsteer.checks.load import check_document
from dnsteer.slots.maintenance import NO_OVERLAY
from dnsteer.spec.announced import routes_of
from dnsteer.spec.errors import SpecError
from dnsteer.spec.model.spec import Spec
from dnsteer.spec.read import parse_document
from tests.unit.test_announce import SPEC

BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
ASKED = VipStanding("asked", "asked by me")
WORKS, FAILS = VipVerdict(""), VipVerdict("no answer")


class Clock:
    """VIP `dns`, followed at times of one's own."""

    def __init__(self, *, announced: bool = True) -> None:
        self.time = 100.0
        self.vips = VipStandings()
        self.vips.begin({"dns": announced})

    def sees(self, verdict: VipVerdict, after: float = 1.0) -> VipStanding:
        self.time += after
        self.vips.follow({"dns": verdict}, self.time, BEGAN + timedelta(seconds=self.time), hold_max=300)
        return self.vips.all()["dns"]


def test_a_withdrawal_by_operators_causes_no_hold() -> None:
    clock = Clock()
    for _ in range(8):
        assert clock.sees(VipVerdict("", order=ASKED)) == ASKED
        assert clock.sees(WORKS).state == "announced"
    assert clock.sees(VipVerdict("", order=VipStanding("standby", "this switch is on standby"))).state == "standby"
    assert clock.sees(WORKS).state == "announced"


def test_repeated_maintenance_causes_no_hold() -> None:
    clock = Clock()
    lacks = "pool farm: healthy backends in service: 2, needed: 3"
    for _ in range(8):
        assert clock.sees(VipVerdict(lacks, withheld=True), 20) == VipStanding("failing", lacks)
        assert clock.sees(WORKS, 5).state == "announced"


def test_a_hold_grows_with_its_own_failures_and_says_until_when() -> None:
    clock = Clock()
    assert clock.sees(FAILS) == VipStanding("failing", "no answer")
    assert clock.sees(WORKS).state == "announced"
    fell = clock.time + 1
    failing = clock.sees(FAILS)
    assert (failing.state, failing.reason) == ("failing", "no answer")
    assert failing.until is not None
    hold = (failing.until - BEGAN).total_seconds() - fell
    assert 3.9 < hold < 4.0
    assert clock.sees(WORKS) == VipStanding("held", "no answer", failing.until)
    assert clock.sees(VipVerdict("", order=ASKED)) == ASKED  # what people say comes first
    assert clock.sees(WORKS, 2.0).state == "announced"


def test_a_failure_during_a_withdrawal_counts_for_the_hold() -> None:
    clock = Clock()
    for _ in range(2):
        clock.sees(FAILS)
        clock.sees(WORKS)
    clock.sees(VipVerdict("no answer", order=ASKED))
    assert clock.sees(WORKS).state == "held"


def test_a_clock_that_was_set_moves_the_end_of_a_hold() -> None:
    clock = Clock()
    clock.sees(FAILS)
    clock.sees(WORKS)
    first = clock.sees(FAILS).until
    clock.vips.follow({"dns": FAILS}, clock.time, BEGAN + timedelta(seconds=clock.time, hours=1), hold_max=300)
    assert first is not None and clock.vips.all()["dns"].until == first + timedelta(hours=1)


def test_a_vip_with_no_passing_backend_stays_announced_if_it_worked() -> None:
    none = VipVerdict("healthy backends in service: 0", stays=True)
    clock = Clock()
    assert clock.sees(none) == VipStanding("kept", "healthy backends in service: 0")
    assert clock.vips.kept() == ["dns"]
    assert clock.sees(VipVerdict("the switch is away")).state == "failing"
    assert clock.sees(none).state == "kept"  # no failure of its own, but it has worked
    assert Clock(announced=False).sees(none).state == "failing"


def test_unknown_health_keeps_the_announcement() -> None:
    assert Clock().sees(VipVerdict(None)).state == "announced"
    assert Clock(announced=False).sees(VipVerdict(None)).state == "unknown"


def spec_of(policy: str, more: str = "") -> Spec:
    text = SPEC.replace("announce: {via: bird}", f"announce: {{via: bird{policy}}}")
    return check_document(parse_document("spec.yaml", text.replace("pool: farm}", f"pool: farm{more}}}", 1))).spec


def health_of(spec: Spec, results: dict[str, tuple[str, bool]]) -> Health:
    """Health after two results of each backend that is named: the reason, and whether it was an answer."""
    health = Health()
    health.adopt(list(probe_targets(spec)), NO_OVERLAY, 0.0)
    for target in probe_targets(spec):
        if target.backend in results:
            why, answered = results[target.backend]
            for time in (1.0, 2.0):
                health.add(target, Result(time, why, 0.1, answered=answered))
    return health


REFUSED, SILENT, GOOD = ("answered REFUSED", True), ("no answer", False), ("", True)


@pytest.mark.parametrize(
    ("policy", "a", "b", "stay"),
    [
        ("", REFUSED, REFUSED, {"one", "two"}),
        ("", REFUSED, SILENT, {"one", "two"}),
        ("", SILENT, SILENT, set()),
        (", when_none_pass: withdraw", REFUSED, REFUSED, set()),
        (", when_none_pass: keep", SILENT, SILENT, {"one", "two"}),
        (", when_none_pass: {med: 900}", SILENT, SILENT, {"one", "two"}),
        (", when_none_pass: keep", GOOD, SILENT, set()),  # one passes: two, which needs 2, lacks another one
    ],
)
def test_the_policy_decides_which_vips_stay_when_none_passes(
    policy: str, a: tuple[str, bool], b: tuple[str, bool], stay: set[str]
) -> None:
    spec = spec_of(policy)
    assert vips_of_failed_pools(spec, NO_OVERLAY, health_of(spec, {"a": a, "b": b})).stay == stay


def test_an_answer_after_silence_counts_and_silence_after_an_answer() -> None:
    spec = spec_of("")
    health = health_of(spec, {"a": SILENT, "b": SILENT})
    (target,) = (target for target in probe_targets(spec) if target.backend == "a")
    health.add(target, Result(3.0, *REFUSED[:1], 0.1, answered=True))
    assert vips_of_failed_pools(spec, NO_OVERLAY, health).stay
    health.add(target, Result(4.0, *SILENT[:1], 0.1))
    assert not vips_of_failed_pools(spec, NO_OVERLAY, health).stay


def test_the_med_of_a_last_resort() -> None:
    spec = spec_of(", when_none_pass: {med: 900}", ", announce: {med: 50, communities: ['64500:1']}")
    works = dict.fromkeys(("one", "two", "free"), True)
    found = {str(address): how for address, how in routes_of(spec, works, ["one"]).items()}
    assert (found["192.0.2.53/32"].med, found["192.0.2.53/32"].communities) == (900, ["64500:1"])
    assert (found["192.0.2.54/32"].med, found["192.0.2.56/32"].med) == (None, None)
    assert routes_of(spec_of(", when_none_pass: keep"), works, ["one"]) == routes_of(spec_of(""), works)


@pytest.mark.parametrize(
    ("policy", "more", "said"),
    [
        ("none", "", 'found "none"; expected withdraw_if_unanswered, withdraw, keep, or a mapping with med'),
        ("900", "", "found 900; expected withdraw_if_unanswered, withdraw, keep, or a mapping with med"),
        ("{med: 0}", "", "when_none_pass.med: found 0; expected a whole number from 1 to 4294967295"),
        ("{metric: 5}", "", 'found the unknown key "metric"; expected one of med'),
        ("keep, on_end: keep", "", 'found the unknown key "on_end"; expected one of via, include, control'),
        ("keep", ", announce: {mad: 5}", 'found the unknown key "mad"; expected one of med, communities, min_healthy'),
        ("{med: 50}", ", announce: {med: 50}", "when_none_pass.med: found 50; expected more than 50"),
    ],
)
def test_policies_that_are_refused(policy: str, more: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(f", when_none_pass: {policy}", more)
    assert said in str(caught.value), caught.value


def test_a_withdrawn_vip_is_not_announced_again_by_failing_checks() -> None:
    """They did not answer, and then REFUSED: it was gone from the routers and is not given to them again for that."""
    clock = Clock()
    assert clock.sees(VipVerdict("healthy backends in service: 0", unanswered=True)).state == "failing"
    assert clock.sees(VipVerdict("healthy backends in service: 0", stays=True)).state == "failing"
    assert clock.sees(WORKS).state == "announced"
    assert clock.sees(VipVerdict("healthy backends in service: 0", stays=True)).state == "kept"
