# SPDX-License-Identifier: Apache-2.0
"""`apply` that is killed or cut off by a daemon at any moment: the tables stay whole, and the next apply mends the rest."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.specs import many_vips

from dnsteer.deploy import apply as apply_steps
from dnsteer.spec.loaded import Loaded
from dnsteer.status.verify import find_drift
from dnsteer.switch import bridge as br
from dnsteer.switch import tools
from dnsteer.switch.openflow import OpenFlow, UnconfirmedError
from dnsteer.switch.tools import SwitchError, UnavailableError, find_program
from tests.packet.apply_spec import apply
from tests.packet.switches import LARGE, LATE, SMALL, Switch, spec_of

FORK = multiprocessing.get_context("fork")
HASHED = "  pool0:\n    selection: dp-hash\n    slots: 16\n"
ONE_TEXT = many_vips(30, pools=3, backends=3).replace("  pool0:\n", HASHED)
ONE_TEXT = ONE_TEXT.replace("  pool1:\n", "  pool1:\n    slots: 128\n").replace(
    "  pool2:\n", "  pool2:\n    slots: 128\n"
)
OTHER_TEXT = ONE_TEXT.replace("172.16.", "172.17.").replace("02:01:", "02:02:").replace("db8:ffff", "db8:fffe")
PARTING = SMALL.replace("    p0:\n", "    p0:\n  ports:\n    vf9:\n")  # a port leaves after the bundle
ONE, OTHER = spec_of(ONE_TEXT), spec_of(OTHER_TEXT)

Held = tuple[set[str], set[str]]


@pytest.fixture
def states(switch: Switch) -> list[tuple[Loaded, Held]]:
    """Two specs and the tables that they make; the switch holds the second one's."""
    out = []
    for spec in (ONE, OTHER):
        apply(spec, switch.database)
        out.append((spec, switch.tables()))
    assert sum(map(len, out[0][1][0] ^ out[1][1][0])) > 1.5 * 65536  # their bundle is longer than a pipe holds
    return out


def kill_after(seconds: float, spec: Loaded, database: str) -> float | None:
    """Apply in a process of its own and kill -9 it; the seconds that it took when it had finished before."""
    child = FORK.Process(target=apply, args=(spec, database))
    start = time.monotonic()
    child.start()
    child.join(seconds)
    took = None if child.is_alive() else time.monotonic() - start
    assert took is None or child.exitcode == 0
    child.kill()
    child.join()
    return took


def test_an_apply_killed_at_any_moment_leaves_whole_tables(switch: Switch, states: list[tuple[Loaded, Held]]) -> None:
    switch.expected = ["Connection reset by peer", "Broken pipe"]  # of the one that was killed
    start = time.monotonic()
    apply(states[0][0], switch.database)
    whole = time.monotonic() - start
    draw, late, held = random.Random(53), 0, []
    for i in range(14):
        (_, old), (spec, new) = (states[i % 2], states[1 - i % 2])
        took = kill_after(draw.uniform(0.2, 1.0) * whole, spec, switch.database)
        if took is not None:
            late, whole = late + 1, min(whole, took)  # the machine was busier when the first one was timed
        held.append(switch.tables())
        assert held[-1] in (old, new), i
        apply(spec, switch.database)
        assert find_drift(spec, switch.database) == []
        assert switch.tables() == new
    assert late <= 10  # else the moments were no moments


def test_tables_are_replaced_atomically(switch: Switch, states: list[tuple[Loaded, Held]]) -> None:
    seen: list[set[str]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(switch.flows())

    numbered = []
    for spec, _ in states:
        apply(spec, switch.database)
        numbered.append(switch.flows())
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for i in range(6):
            apply(states[i % 2][0], switch.database)
    finally:
        done.set()
        watcher.join()
    assert all(flows in numbered for flows in seen)
    assert numbered[0] in seen
    assert numbered[1] in seen


# Kills dnsteer while it still has something to write, and then does what it was called for.
KILLER = """#!/bin/sh
case " $* " in *" bundle "*) kill -9 $PPID; sleep 0.2 ;; esac
exec {real} "$@"
"""


@pytest.mark.parametrize("survives", [False, True], ids=["ended with it", "left alone"])
def test_a_bundle_whose_sender_dies_is_not_cut_short(
    survives: bool, switch: Switch, states: list[tuple[Loaded, Held]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ovs-ofctl must not take the end of a broken pipe for the end of the bundle, should it live long enough to see it."""
    switch.expected = ["Connection reset by peer", "Broken pipe"]
    fake = tmp_path / "ovs-ofctl"
    fake.write_text(KILLER.format(real=find_program("ovs-ofctl")))
    fake.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        if survives:
            patch.setattr(tools, "ends_with_parent", lambda *_, **__: None)
        child = FORK.Process(target=apply, args=(states[0][0], switch.database))
        child.start()
        child.join()
    assert child.exitcode == -signal.SIGKILL
    time.sleep(0.6)
    assert switch.tables() == states[0 if survives else 1][1]
    apply(states[0][0], switch.database)
    assert find_drift(states[0][0], switch.database) == []


def slow_apply(spec: Loaded, database: str) -> None:
    """Think for a while between looking at the tables and changing them."""
    original = OpenFlow.bundle

    def slow(self: OpenFlow, lines: list[str]) -> None:
        time.sleep(0.3)
        original(self, lines)

    OpenFlow.bundle = slow  # type: ignore[method-assign]
    apply(spec, database)


def test_two_concurrent_applies_make_the_tables_of_one(switch: Switch, states: list[tuple[Loaded, Held]]) -> None:
    """One waits for the other, and sees then what that one made."""
    apply(spec_of(SMALL.replace("  name: dpu-1\n", "")), switch.database)
    children = [FORK.Process(target=slow_apply, args=(spec, switch.database)) for spec, _ in states]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [c.exitcode for c in children] == [0, 0]
    held = switch.tables()
    assert held in [tables for _, tables in states]
    spec = next(spec for spec, tables in states if tables == held)
    assert find_drift(spec, switch.database) == []


@pytest.mark.parametrize("arrived", [True, False])
def test_ports_of_a_bundle_without_answer_are_kept(
    arrived: bool, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new tables may be there: the new ports must be too, and the record says that a change is under way."""
    apply(spec_of(SMALL), switch.database)
    original = OpenFlow.bundle

    def bundle(self: OpenFlow, lines: list[str]) -> None:
        if arrived:
            original(self, lines)
        raise UnconfirmedError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", bundle)
        with pytest.raises(UnconfirmedError, match="either all of the old tables or all of the new ones; apply again"):
            apply(spec_of(LARGE), switch.database)
    assert ports_of(switch) == ["p0", "vf0", "vf1", "vf2"]
    kinds = [d.kind for d in find_drift(spec_of(LARGE), switch.database)]
    assert kinds[:2] == ["record", "interrupted"]
    assert (kinds[2:] == []) is arrived
    assert bool(apply(spec_of(LARGE), switch.database).settings) is not arrived
    assert find_drift(spec_of(LARGE), switch.database) == []


def before(name: str, owner: object) -> Callable[[pytest.MonkeyPatch, Callable[[], None]], None]:
    def arrange(patch: pytest.MonkeyPatch, kill: Callable[[], None]) -> None:
        original = getattr(owner, name)

        def killing(*args: object, **more: object) -> object:
            kill()
            return original(*args, **more)

        patch.setattr(owner, name, killing)

    return arrange


MOMENTS = {
    "before the tables are read": before("refuse_foreign", br),
    "before the bridge is changed": before("set_up_bridge", br),
    "while the switch follows": before("_wait_for_ports_and_dump", apply_steps),
    "before the bundle": before("bundle", OpenFlow),
    "before the record": before("finish", br),
}


@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("first", [True, False], ids=["new bridge", "bridge there"])
def test_a_switch_that_dies_during_an_apply_is_named(
    when: str, first: bool, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected = ["Connection reset by peer", "Broken pipe"]
    small, large = spec_of(PARTING), spec_of(LARGE)
    if not first:
        apply(small, switch.database)
    with monkeypatch.context() as patch:
        MOMENTS[when](patch, switch.kill_switch)
        start = time.monotonic()
        with pytest.raises(SwitchError) as error:
            apply(large, switch.database, timeout=0.5)
        assert time.monotonic() - start < 8
    if when != "before the record":
        assert switch_has(switch, "br-dns") is not first or when == "before the tables are read"
        assert "vf0" not in ports_of(switch), str(error.value)
    switch.start_switch()
    if switch_has(switch, "br-dns"):
        assert switch.tables() == (set(), set())  # a switch that restarts has no flows: it drops, by its fail mode
    apply(large, switch.database)
    assert find_drift(large, switch.database) == []


SAID = {
    ("before the bundle", "ovs-vswitchd"): "either all of the old tables or all of the new ones",
    ("before the record", "ovsdb-server"): "the new tables are loaded, but OVSDB",
    ("while the switch follows", "ovs-vswitchd"): "nothing was changed",
}


@pytest.mark.parametrize("daemon", ["ovsdb-server", "ovs-vswitchd"])
@pytest.mark.parametrize("when", MOMENTS)
def test_a_daemon_that_gets_stuck_is_given_up_in_time(
    when: str, daemon: str, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch.expected = ["Connection reset by peer", "Broken pipe", LATE]
    small, large = spec_of(PARTING), spec_of(LARGE)
    apply(small, switch.database)
    process = switch._processes[daemon]
    with monkeypatch.context() as patch:
        MOMENTS[when](patch, lambda: process.send_signal(signal.SIGSTOP))
        start = time.monotonic()
        try:
            with pytest.raises(UnavailableError) as error:
                apply(large, switch.database, timeout=0.4)
            assert time.monotonic() - start < 8
            assert SAID.get((when, daemon), "") in str(error.value)
        finally:
            process.send_signal(signal.SIGCONT)
    apply(large, switch.database)
    assert find_drift(large, switch.database) == []


def switch_has(switch: Switch, bridge: str) -> bool:
    return bridge in switch.vsctl("--no-wait", "list-br").split()


def ports_of(switch: Switch) -> list[str]:
    return switch.vsctl("--no-wait", "list-ports", "br-dns").split() if switch_has(switch, "br-dns") else []
