# SPDX-License-Identifier: Apache-2.0
"""A switch that is restarted between the look and the bundle: it never gets a part of what was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import take_out
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.restart_fence import RestartedError
from tests.packet.command import FARM, on, spec_file
from tests.packet.switches import Switch, spec_of

HEAVIER = FARM.replace("weight: 2", "weight: 3")


EXPECTED = [
    "Broken pipe",
    "is already up",
    "receive error",
    "connection dropped",
    "UNKNOWN_GROUP",
    "OFPT_BUNDLE",
]


def restart(switch: Switch) -> None:
    switch.kill_switch()
    switch.start_switch()


@pytest.fixture
def late(applied: Switch, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the switch be restarted just before the next bundle is sent."""
    bundle, pending = OpenFlow.bundle, list[str]()

    def send(self: OpenFlow, lines: list[str]) -> None:
        if pending:
            pending.clear()
            restart(applied)
        bundle(self, lines)

    monkeypatch.setattr(OpenFlow, "bundle", send)
    return lambda: pending.append("next")


def test_a_quick_verb_makes_the_tables_whole(applied: Switch, late: Callable[[], None]) -> None:
    late()
    assert change_overlay(TargetSwitch(applied.database), None, take_out("farm/ns1", "down")).repaired
    assert find_drift(spec_of(FARM), applied.database) == []


def test_an_apply_is_refused_whole(applied: Switch, late: Callable[[], None]) -> None:
    late()
    with pytest.raises(RestartedError, match="restarted"):
        deploy(FileSource(spec_of(HEAVIER)), TargetSwitch(applied.database))
    assert applied.flows() == set()  # not a part of them
    assert on(applied)("history", "--json").json["current"] == 1
    assert on(applied)("reconcile").code == 0
    assert find_drift(spec_of(FARM), applied.database) == []


def test_an_answer_after_a_restart_is_not_taken_for_success(applied: Switch) -> None:
    asked = []

    def answer(reasons: list[str], _words: list[str]) -> None:
        if not asked:
            restart(applied)
        asked.append(reasons)

    more = spec_of(FARM.replace("slots: 32", "slots: 1024"))
    deploy(FileSource(more), TargetSwitch(applied.database), Options(), confirm=answer)
    assert len(asked) == 2  # it was another switch by then
    assert find_drift(more, applied.database) == []


def test_tables_without_the_restart_fence_get_it(applied: Switch, tmp_path: Path) -> None:
    groups = applied.groups()
    assert len(groups) == 1
    for change in (("down", "farm/ns1"), ("apply", spec_file(tmp_path, HEAVIER))):
        applied.ofctl("del-groups")
        assert on(applied)(*change).code == 0
        assert applied.groups() == groups
