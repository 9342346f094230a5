# SPDX-License-Identifier: Apache-2.0
"""The tables that are printed ahead of an apply: taken once, and never when something has changed meanwhile."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.prefetch import Prefetch
from dnsteer.deploy.run import DeployResult, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch import openflow
from dnsteer.switch.session import Session
from dnsteer.switch.tools import Running
from tests.packet.command import FARM, OTHER, on, spec_file
from tests.packet.switches import BRIDGE, Switch, cli, processes_naming, spec_of

EXPECTED = ["Broken pipe", "Connection reset"]


@pytest.fixture
def dumps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of ovs-ofctl that are run."""
    found: list[str] = []

    class Noted(Running):
        def __init__(self, args: Any, **more: Any) -> None:
            found.append(next(a for a in args if a.startswith(("dump-", "bundle", "show", "mod-port", "set-frags"))))
            super().__init__(args, **more)

    monkeypatch.setattr(openflow, "Running", Noted)
    return found


def deployed(switch: Switch, text: str, meanwhile: Callable[[], object] = lambda: None) -> DeployResult:
    target = TargetSwitch(switch.database)
    with Prefetch(target) as prefetch:
        prefetch.begin(BRIDGE)
        meanwhile()
        return deploy(FileSource(spec_of(text)), target, prefetch=prefetch)


def as_planned(switch: Switch, folder: Path, text: str) -> bool:
    return on(switch)("verify", spec_file(folder, text)).code == Exit.OK


def test_the_switch_is_asked_once(applied: Switch, tmp_path: Path, dumps: list[str]) -> None:
    done = on(applied)("apply", spec_file(tmp_path, OTHER), "--yes")
    assert done.code == 0, done.err
    assert dumps.count("dump-groups") == 1
    assert dumps[:4] == ["show", "dump-flows", "dump-groups", "dump-meters"]
    assert not {"mod-port", "set-frags"} & set(dumps)
    assert as_planned(applied, tmp_path, OTHER)


@pytest.mark.parametrize("text", [FARM, OTHER])
def test_a_change_meanwhile_is_seen(applied: Switch, tmp_path: Path, dumps: list[str], text: str) -> None:
    deployed(applied, text, lambda: on(applied)("down", "farm/ns1", "--yes"))
    assert dumps.count("dump-groups") >= 2
    assert as_planned(applied, tmp_path, text)


def test_a_change_that_was_taken_back_meanwhile_is_seen(applied: Switch) -> None:
    target = TargetSwitch(applied.database)
    with Prefetch(target) as prefetch:
        prefetch.begin(BRIDGE)
        with Session(applied.database) as session:
            assert prefetch.client(session.record(BRIDGE)) is not None
            assert on(applied)("down", "farm/ns1", "--yes").code == 0
            assert on(applied)("up", "farm/ns1").code == 0
            assert prefetch.client(session.record(BRIDGE)) is None


def test_no_prefetch_starts_during_a_change(applied: Switch, tmp_path: Path) -> None:
    with Session(applied.database) as session, Prefetch(TargetSwitch(applied.database)) as prefetch:
        session.lock(BRIDGE)
        record = session.record(BRIDGE)
        assert record is not None
        session.begin(record, session.state(record, record.number), record.overlay)
        prefetch.begin(BRIDGE)
        now = session.record(BRIDGE)
        assert now is not None
        assert prefetch.client(now) is None
        session.take_back(now)
    assert as_planned(applied, tmp_path, FARM)


@pytest.mark.parametrize("printed", [False, True])
def test_a_switch_that_was_started_again_meanwhile_gets_all(switch: Switch, tmp_path: Path, printed: bool) -> None:
    """Before its tables are printed, and after."""
    switch.expected = EXPECTED
    assert on(switch)("apply", spec_file(tmp_path), "--yes").code == 0

    def restart() -> None:
        deadline = time.monotonic() + 10
        while printed and [p for p in asking(switch) if "defunct" not in p] and time.monotonic() < deadline:
            time.sleep(0.01)
        switch.kill_switch()
        switch.start_switch()

    deployed(switch, OTHER, restart)
    assert as_planned(switch, tmp_path, OTHER)


def asking(switch: Switch) -> list[str]:
    """The programs that ask the switch something."""
    return [p for p in processes_naming(str(switch.dir)) if "ovs-ofctl" in p]


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[Switch]:
    """A switch with the spec FARM, whose ovs-vswitchd is stopped."""
    with Switch() as switch:
        assert on(switch)("apply", spec_file(tmp_path), "--yes").code == 0
        daemon = switch._processes["ovs-vswitchd"]
        daemon.send_signal(signal.SIGSTOP)
        try:
            yield switch
        finally:
            daemon.send_signal(signal.SIGCONT)


def test_a_bad_spec_is_reported_at_once(stuck: Switch, tmp_path: Path) -> None:
    bad = spec_file(tmp_path, old="weight: 2", new="weight: -2")
    began = time.monotonic()
    done = cli("apply", bad, "--db", stuck.database, "--timeout", "50")
    assert time.monotonic() - began < 25
    assert done.returncode == Exit.ERROR
    assert "weight" in done.stderr
    assert asking(stuck) == []


def test_a_stuck_switch_is_waited_for_once(stuck: Switch, tmp_path: Path) -> None:
    conf = stuck.conf()
    began = time.monotonic()
    done = cli("apply", spec_file(tmp_path, OTHER), "--db", stuck.database, "--timeout", "10", "--yes")
    assert time.monotonic() - began < 18
    assert done.returncode == Exit.UNAVAILABLE
    assert "is Open vSwitch stuck?" in done.stderr
    assert stuck.conf() == conf
    assert asking(stuck) == []


def test_unused_prefetches_end_with_the_context(stuck: Switch) -> None:
    with Prefetch(TargetSwitch(stuck.database)) as prefetch:
        prefetch.begin(BRIDGE)
        deadline = time.monotonic() + 5
        while len(asking(stuck)) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)  # the last one has begun, and may not be the program yet
        assert len(asking(stuck)) == 4
    assert asking(stuck) == []
