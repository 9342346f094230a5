# SPDX-License-Identifier: Apache-2.0
"""Changes of tables and extension that are cut off: by kill -9 at every step, by a refusal, by an extension that is lost.

After the next verb both are the old or the new ones, and the same of the two.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance, bring_back, take_out
from dnsteer.deploy.restore import restore
from dnsteer.deploy.rollback import StateSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.extension.client import ConnectionLostError, ExtensionClient, ProgramRefusedError
from dnsteer.spec.loaded import Loaded
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow, UnconfirmedError
from dnsteer.switch.session import Session
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.packet.command import all_of, fresh
from tests.packet.extension_beside_switch import EXTENDED, Extension, held
from tests.packet.packets_across_changes import Relay
from tests.packet.switches import STATE_TABLE, Switch, spec_of

FORK = multiprocessing.get_context("fork")
EXPECTED = ["Broken pipe", "UNKNOWN_GROUP"]
OTHER = EXTENDED.replace(
    "- {name: f3, ipv4: 192.0.2.13, mac: '02:00:00:00:01:03'}",
    "- {name: f4, ipv4: 192.0.2.14, mac: '02:00:00:00:01:04', port: vf0}",
).replace("pool: sprayed}", "pool: near}")
OLD, NEW = spec_of(EXTENDED), spec_of(OTHER)
QUICK = Options(grace=0.05)
Work = Callable[[TargetSwitch], object]


@pytest.fixture
def target(shared: Switch, extension: Extension) -> TargetSwitch:
    """With the old spec applied after the new one."""
    fresh(shared)
    at = TargetSwitch(shared.database, extension=str(extension.socket))
    deploy(FileSource(NEW), at, QUICK)
    deploy(FileSource(OLD), at, QUICK)
    return at


def cut_off(step: int, work: Work, target: TargetSwitch) -> bool:
    """Do it in a process of its own that kills itself at a step, before or after it. Whether it came so far."""

    def run() -> None:
        done = 0

        def killing(owner: Any, name: str) -> None:
            original = getattr(owner, name)

            def stepped(*args: Any, **more: Any) -> Any:
                nonlocal done
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                result = original(*args, **more)
                done += 1
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                done += 1
                return result

            setattr(owner, name, stepped)

        for owner, name in ((Session, "begin"), (OpenFlow, "bundle"), (ExtensionClient, "load"), (Session, "commit")):
            killing(owner, name)
        work(target)

    child = FORK.Process(target=run)
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


CHANGES: dict[str, tuple[Work, Work]] = {
    "apply": (lambda w: deploy(FileSource(NEW), w, QUICK), lambda w: deploy(FileSource(OLD), w, QUICK)),
    "drain": (
        lambda w: change_overlay(w, None, take_out("far/f1", "drain")),
        lambda w: change_overlay(w, None, bring_back("far/f1", "drain")),
    ),
    "rollback": (lambda w: deploy(StateSource(), w, QUICK), lambda w: deploy(FileSource(OLD), w, QUICK)),
}
ENDS: dict[str, Work] = {
    "restore": lambda w: restore(w, None),
    "a drain elsewhere": lambda w: change_overlay(w, None, advance, pools=("near",)),
}


def spec_in_force(target: TargetSwitch) -> Loaded:
    with Session(target.remote) as session:
        record = session.record_of(None)
    assert record.pending is None
    return next(s for s in (OLD, NEW) if record.digest.startswith(digest_of(s)))


def differences(spec: Loaded, target: TargetSwitch) -> list[str]:
    """All differences of the switch from a spec. The MTU of its ports, which is too short for tunnels, is a warning."""
    found = find_drift(spec, target.remote, extension=target.extension)
    return [each.text("spec.yaml") for each in found if not each.warns]


def digest_of(spec: Loaded) -> str:
    from dnsteer.spec.loaded import digest

    return digest(spec.spec)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_killed_at_any_step_is_whole_after_the_next_verb(
    kind: str, target: TargetSwitch, shared: Switch, extension: Extension
) -> None:
    forth, back = CHANGES[kind]
    old = held(shared, extension)
    forth(target)
    new = held(shared, extension)
    back(target)
    assert held(shared, extension) == old != new
    seen, steps = [], 0
    while cut_off(steps, forth, target):
        list(ENDS.values())[steps // 2 % 2](target)
        now = held(shared, extension)
        assert now in (old, new), steps
        seen.append(now == new)
        assert differences(spec_in_force(target), target) == []
        back(target)
        assert held(shared, extension) == old
        steps += 1
    # Old up to the bundle that makes the tables the new ones, and new from then on.
    assert seen == sorted(seen) and {*seen} == {True, False}
    assert steps >= (8 if kind == "drain" else 12)


@pytest.mark.parametrize("first", [6])
def test_a_repair_killed_at_any_step_is_whole_after_the_next_verb(
    first: int, target: TargetSwitch, shared: Switch, extension: Extension
) -> None:
    """Also the verb that ends what was cut off may be cut off."""
    old = held(shared, extension)
    deploy(FileSource(NEW), target, QUICK)
    new = held(shared, extension)
    deploy(FileSource(OLD), target, QUICK)
    for second in range(1, 14, 3):
        assert cut_off(first, CHANGES["apply"][0], target)
        cut_off(second, ENDS["restore"], target)
        restore(target, None)
        assert held(shared, extension) in (old, new), second
        deploy(FileSource(OLD), target, QUICK)
        assert held(shared, extension) == old


@pytest.fixture
def relay(extension: Extension, tmp_path: Path) -> Iterator[Relay]:
    """Between dnsteer and the extension."""

    def ask(line: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(extension.socket))
            connection.sendall(line)
            return connection.makefile("rb").readline()

    with Relay(tmp_path / "relay.sock", ask) as it:
        yield it


@pytest.mark.parametrize("kind", CHANGES)
def test_a_refusal_leaves_all_as_it_was(
    kind: str, target: TargetSwitch, relay: Relay, shared: Switch, extension: Extension
) -> None:
    before, program = all_of(shared), extension.program
    relay.refuse = "vip tunneled/198.51.100.53/udp/53: out of entries"
    with pytest.raises(ProgramRefusedError if kind == "drain" else SwitchError, match="out of entries") as error:
        CHANGES[kind][0](TargetSwitch(target.remote, extension=str(relay.path)))
    assert "tunneled/198.51.100.53/udp/53" in str(error.value)
    assert (all_of(shared), extension.program) == (before, program)
    assert differences(OLD, target) == []


@pytest.mark.parametrize("kind", CHANGES)
def test_a_bundle_that_is_refused_takes_the_program_back(
    kind: str, target: TargetSwitch, shared: Switch, extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, program = all_of(shared), extension.program
    bundle = OpenFlow.bundle

    def refused(self: OpenFlow, lines: list[str]) -> None:
        marked = any(STATE_TABLE in line for line in lines)
        bundle(self, [*lines, "group modify group_id=4711,type=all"] if marked else lines)

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", refused)
        with pytest.raises(SwitchError, match="UNKNOWN_GROUP"):
            CHANGES[kind][0](target)
    assert (all_of(shared), extension.program) == (before, program)


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("arrived", [True, False])
def test_a_bundle_without_answer_keeps_both_programs(
    kind: str,
    arrived: bool,
    target: TargetSwitch,
    shared: Switch,
    extension: Extension,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until it is known, the program serves both; the next verb finds out."""
    old = held(shared, extension)
    CHANGES[kind][0](target)
    new = held(shared, extension)
    CHANGES[kind][1](target)
    bundle = OpenFlow.bundle

    def lost(self: OpenFlow, lines: list[str]) -> None:
        marked = any(STATE_TABLE in line for line in lines)
        if arrived or not marked:
            bundle(self, lines)
        if marked:
            raise UnconfirmedError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", lost)
        with pytest.raises(UnconfirmedError):
            CHANGES[kind][0](target)
    restore(target, None)
    assert held(shared, extension) == (new if arrived else old)


@pytest.mark.parametrize(("kind", "nth"), [(k, n) for k in CHANGES for n in (1, 2) if (k, n) != ("drain", 2)])
def test_an_extension_that_dies_during_a_load_is_named(
    kind: str, nth: int, target: TargetSwitch, relay: Relay, shared: Switch, extension: Extension
) -> None:
    """It comes back with the program of its file; `restore` makes both the same."""
    old = held(shared, extension)
    CHANGES[kind][0](target)
    new = held(shared, extension)
    CHANGES[kind][1](target)
    loads = iter(range(1, 10))
    relay.on_load = lambda: extension.kill() if next(loads) == nth else None
    relayed = TargetSwitch(target.remote, extension=str(relay.path))
    with pytest.raises(UnavailableError):
        CHANGES[kind][0](relayed)
    with pytest.raises(UnavailableError, match="but not its program in the extension"):
        restore(target, None)
    extension.start()
    restore(target, None)
    assert held(shared, extension) == (old if nth == 1 else new)


def test_a_stuck_extension_changes_nothing(target: TargetSwitch, shared: Switch, extension: Extension) -> None:
    """It is waited for as long as was said, and nothing is changed."""
    before = all_of(shared)
    extension.stop(signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError, match=r"does not answer within 0.4 s; is it stuck\?; nothing was changed"):
            deploy(FileSource(NEW), TargetSwitch(target.remote, timeout=0.4, extension=target.extension), QUICK)
    finally:
        extension.stop(signal.SIGCONT)
    assert all_of(shared) == before


@pytest.mark.parametrize("said", [b"nonsense\n", b"[1]\n", b'{"ok": 1}\n', b'{"ok": true}\n', b""])
def test_malformed_answers_change_nothing(said: bytes, tmp_path: Path, target: TargetSwitch, shared: Switch) -> None:
    before = all_of(shared)
    with Relay(tmp_path / "strange.sock", lambda _: said) as relay:
        with pytest.raises(SwitchError) as error:
            deploy(FileSource(NEW), TargetSwitch(target.remote, extension=str(relay.path), timeout=1), QUICK)
        assert str(relay.path) in str(error.value)
    assert all_of(shared) == before


def test_a_load_without_answer_is_completed_by_the_next_apply(
    target: TargetSwitch, shared: Switch, extension: Extension, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it takes too long: it may still happen."""
    old = held(shared, extension)
    load = ExtensionClient.load

    def lost(self: ExtensionClient, program: dict[str, Any]) -> dict[str, Any]:
        load(self, program)
        raise ConnectionLostError("too late")

    with monkeypatch.context() as patch:
        patch.setattr(ExtensionClient, "load", lost)
        with pytest.raises(UnavailableError, match="the extension has the old or the new program"):
            deploy(FileSource(NEW), target, QUICK)
    with Session(target.remote) as session:
        assert session.record_of(None).pending is not None
    assert restore(target, None)[0].changed
    assert held(shared, extension) == old
