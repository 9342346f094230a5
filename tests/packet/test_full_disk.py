# SPDX-License-Identifier: Apache-2.0
"""OVSDB that cannot write, at every step of a change: what was asked for last stays in force, and nothing is claimed early.

The database's file is limited in size, which the server meets as a full disk: a write that crosses the limit fails, and one
that still fits succeeds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.session import Session
from tests.packet.command import FARM, OTHER, SLOW, fresh, on, spec_file
from tests.packet.full_disk import REFUSED, enduring, leave
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import BRIDGE, Switch, unexpected

FORK = multiprocessing.get_context("fork")
OTHERS = [
    "Broken pipe",
    "Connection reset",
    "is already up",
    "receive error",
    "connection dropped",
    "flow_limit",
    "TABLE_FULL",
]
CLAIMS = ("is corrected", "is back", "applied as state", "changed:", "the switch has state")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with enduring(tmp_path_factory.mktemp("path")), Switch() as private:
        private.expected = [*SLOW, *REFUSED, *OTHERS]
        yield private
        assert unexpected(private) == []


@pytest.fixture
def full(disk: Switch, tmp_path: Path) -> Iterator[Switch]:
    """With FARM applied after OTHER; there is room."""
    fresh(disk)
    for text in (OTHER, FARM):
        assert on(disk)("apply", spec_file(tmp_path, text), "--yes").code == 0
    disk.conf()  # ovs-vswitchd has written what it had to
    yield disk
    leave(disk, None)


def pending(switch: Switch) -> bool:
    return "dnsteer-pending" in switch.vsctl("--no-wait", "get", "Bridge", BRIDGE, "external_ids")


Verb = tuple[object, ...]
Owner = tuple[Any, str]
BEGIN, BUNDLE, COMMIT = (Session, "begin"), (OpenFlow, "bundle"), (Session, "commit")


def change(kind: str, tmp_path: Path) -> Verb:
    """A change away from FARM with ns2 drained, which moves slots."""
    other = tmp_path / "other.yaml"
    other.write_text(OTHER)
    return {
        "drain": ("drain", "farm/ns1", "--yes"),
        "undrain": ("undrain", "farm/ns2"),
        "apply": ("apply", other, "--yes"),
        "rollback": ("rollback", "--yes"),
    }[kind]


KINDS = ("drain", "undrain", "apply", "rollback")


NOWHERE = "there is no state before the current one"
"""What a rollback says in place of it while one is pending: its target is found before anything is written."""


def at(owner: Owner, what: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Let something happen just before a step."""
    original = getattr(*owner)

    def stepped(*args: Any, **more: Any) -> Any:
        what()
        return original(*args, **more)

    patch.setattr(*owner, stepped)


def while_full(switch: Switch, tmp_path: Path) -> None:
    """Every verb: each says that OVSDB cannot write, or changes nothing; none claims what is not so."""
    tables = switch.tables()
    verbs: list[Verb] = [
        ("reconcile",),
        ("apply", spec_file(tmp_path), "--yes"),
        ("restore",),
        ("drain", "spare/sp1", "--yes"),
        ("undrain", "farm/ns1"),
        ("down", "farm/ns3", "--yes"),
        ("rollback", "--yes"),
        ("reconcile",),
    ]
    for verb in verbs:
        done = on(switch)(*verb)
        assert switch.tables() == tables, (verb, done)
        if pending(switch):
            assert done.code == Exit.ERROR, (verb, done)
            assert "write failed" in done.err or NOWHERE in done.err, (verb, done)
            assert not any(claim in done.out + done.err for claim in CLAIMS), (verb, done)


ENDS: tuple[Verb, ...] = (("reconcile",), ("restore",), ("undrain", "spare/sp1"))


def in_force(switch: Switch, tables: object, out: set[str], spec: Path) -> None:
    """The tables are those, the record says so, and nothing is under way."""
    assert switch.tables() == tables
    assert {f"{a['pool']}/{a['backend']}" for a in overlay(switch)} == out
    assert not pending(switch)
    done = on(switch)("verify", spec)
    assert done.code == 0, done


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "is killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_full_at_any_step_leaves_whole_tables(
    kind: str, killed: bool, full: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the change is begun, before its bundle, before it is confirmed; the process goes on, or is killed there."""
    for number, step in enumerate((BEGIN, BUNDLE, COMMIT)):
        assert on(full)("drain", "farm/ns2", "--yes").code == 0
        before, verb = full.tables(), change(kind, tmp_path)

        def fill() -> None:
            leave(full, 0)
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)

        with monkeypatch.context() as patch:
            at(step, fill, patch)
            if killed:
                child = FORK.Process(target=on(full), args=verb)
                child.start()
                child.join()
                assert child.exitcode == -signal.SIGKILL
            else:
                done = on(full)(*verb)
                assert done.code == Exit.ERROR, done
                assert ("nothing was changed" in done.err) is (step is BEGIN), done
        after = full.tables()
        # The bundle needs no room: from it on the change is what was asked for, and not undone.
        made = step is COMMIT or (step is BUNDLE and not killed)
        assert (after != before) is made
        assert pending(full) is (step is not BEGIN)
        while_full(full, tmp_path)
        leave(full, None)
        ended = on(full)(*ENDS[(number + KINDS.index(kind)) % len(ENDS)])
        assert ended.code == 0, ended
        out = (
            {"drain": {"farm/ns1", "farm/ns2"}, "undrain": set[str]()}.get(kind, {"farm/ns2"}) if made else {"farm/ns2"}
        )
        other = made and kind in ("apply", "rollback")
        in_force(full, after, out, tmp_path / "other.yaml" if other else spec_file(tmp_path))
        for back in ("farm/ns1", "farm/ns2"):
            assert on(full)("undrain", back).code == 0
        assert on(full)("apply", spec_file(tmp_path), "--yes").code == 0


def test_an_apply_at_any_amount_of_free_space_is_whole_or_refused(full: Switch, tmp_path: Path) -> None:
    """Writes are of different length: one may still fit where the one before it did not."""
    ends, before = [], full.tables()
    for number, room in enumerate(range(0, 1400, 100)):
        leave(full, room)
        done = on(full)("drain", "farm/ns1", "--note", "kernel")
        after = full.tables()
        moved = after != before
        assert moved or "nothing was changed" in done.err, done
        ends.append((moved, done.code))
        if done.code:
            while_full(full, tmp_path)
        leave(full, None)
        assert on(full)(*ENDS[number % len(ENDS)]).code == 0
        in_force(full, after, {"farm/ns1"} if moved else set(), spec_file(tmp_path))
        assert on(full)("undrain", "farm/ns1").code == 0
    assert set(ends) == {(False, Exit.ERROR), (True, Exit.ERROR), (True, 0)}  # else it was no limit of all of them


def restart(switch: Switch) -> None:
    """Of ovs-vswitchd alone, which loses its tables."""
    switch.kill_switch()
    PrivateSwitch.start_switch(switch)  # waits for nothing in the database


def wait_for_bridge(switch: Switch) -> None:
    deadline = time.monotonic() + 20
    with socket.socket(socket.AF_UNIX) as client:
        while client.connect_ex(f"{switch.dir}/{BRIDGE}.mgmt") != 0:  # the file is left of the one before
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("kind", [None, "drain", "apply"])
def test_a_restart_while_the_disk_is_full(
    kind: str | None, full: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables come back, and are those of the last change, though it could not be confirmed."""
    with monkeypatch.context() as patch:
        at(COMMIT, lambda: leave(full, 0), patch)
        if kind is not None:
            assert on(full)(*change(kind, tmp_path)).code == Exit.ERROR
    leave(full, 0)
    tables = full.tables()
    restart(full)
    wait_for_bridge(full)
    done = on(full)("restore", "--timeout", "5")
    assert full.tables() == tables, done
    assert done.code == (Exit.ERROR if kind else 0), done
    status = on(full)("status", "--interval", "0.5s")
    said = "the tables already have it" if kind else "tables   as recorded"
    assert said in status.out + status.err, f"{status.out}{status.err}"
    leave(full, None)
    assert on(full)("reconcile").code == 0
    in_force(
        full,
        tables,
        {"farm/ns1"} if kind == "drain" else set(),
        tmp_path / ("other.yaml" if kind == "apply" else "spec.yaml"),
    )


def test_a_switch_waiting_on_a_full_disk_is_named(full: Switch) -> None:
    full.vsctl("set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    leave(full, 0)
    done = on(full)("restore")
    assert done.code == Exit.ERROR
    assert "flow-restore-wait cannot be cleared" in done.err
    assert "forwards nothing" in done.err
    leave(full, None)
    assert on(full)("restore").code == 0
    assert "flow-restore-wait" not in full.vsctl("get", "Open_vSwitch", ".", "other_config")


def server(switch: Switch, *command: str) -> None:
    control = next(switch.dir.glob("ovsdb-server.*.ctl"))
    subprocess.run(["ovs-appctl", "-t", control, *command], check=True, capture_output=True)


@pytest.mark.parametrize("step", [BEGIN, COMMIT], ids=["begin", "commit"])
def test_a_server_that_takes_no_writes_is_named(
    step: Owner, full: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that became the standby of another one; the same as with a full disk."""
    before = full.tables()

    def stand_by() -> None:
        server(full, "ovsdb-server/set-active-ovsdb-server", f"unix:{tmp_path}/nobody")
        server(full, "ovsdb-server/connect-active-ovsdb-server")

    with monkeypatch.context() as patch:
        at(step, stand_by, patch)
        done = on(full)("drain", "farm/ns1")
    assert done.code == Exit.ERROR, done
    assert "refused" in done.err
    after = full.tables()
    assert (after != before) is (step is COMMIT)
    for verb in (("reconcile",), ("apply", spec_file(tmp_path), "--yes"), ("undrain", "farm/ns1")):
        said = on(full)(*verb)
        assert full.tables() == after, said
        assert not any(claim in said.out + said.err for claim in CLAIMS), said
    server(full, "ovsdb-server/disconnect-active-ovsdb-server")
    assert on(full)("reconcile").code == 0
    in_force(full, after, {"farm/ns1"} if step is COMMIT else set(), spec_file(tmp_path))


def test_a_state_that_the_switch_does_not_take_after_a_restart(
    full: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it is the one of before, whole."""
    before, larger = full.tables(), tmp_path / "larger.yaml"
    larger.write_text(FARM.replace("    slots: 32\n", "    slots: 256\n"))
    with monkeypatch.context() as patch:
        at(COMMIT, lambda: leave(full, 0), patch)
        assert on(full)("apply", larger, "--yes").code == Exit.ERROR
    leave(full, None)
    row = full.vsctl("get", "Bridge", BRIDGE, "flow_tables:30").strip()
    full.vsctl("set", "Flow_Table", row, "flow_limit=60", "overflow_policy=refuse")
    restart(full)
    wait_for_bridge(full)
    done = on(full)("reconcile")
    assert done.code == 0, done
    assert "the change cannot be made" in done.err
    in_force(full, before, set(), spec_file(tmp_path))
