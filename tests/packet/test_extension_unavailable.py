# SPDX-License-Identifier: Apache-2.0
"""Verbs on a switch whose extension is away, new, stuck or out of reach: what they say, and that nothing is half done."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from tests.packet.command import all_of, run
from tests.packet.extension_beside_switch import EXTENDED, HEAVY, NO_EXTENSION, Extension, Run, good, held, program_for
from tests.packet.switches import Switch

EXPECTED = ["Broken pipe", "UNKNOWN_GROUP", "bad JSON-RPC message", "Protocol error"]


def test_without_the_program_changes_are_refused(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    extension.kill()
    before = all_of(shared)
    for words in (("apply", HEAVY, "--yes"), ("apply", EXTENDED), ("drain", "far/f1"), ("rollback", "1", "--yes")):
        done = do(*words)
        assert done.code == Exit.UNAVAILABLE, words
        assert "nobody listens there; is it running?" in done.err and "dnsteer-ext --check" in done.err
        assert all_of(shared) == before
    plan = do("plan", HEAVY)
    assert (
        plan.code == Exit.DIFFERENT
        and "what would change in it is unknown, and an apply needs the extension" in plan.err
    )
    away = do("verify", EXTENDED)
    assert away.code == Exit.DIFFERENT and "extension away: extension (" in away.out
    due = do("reconcile")
    assert due.code == Exit.UNAVAILABLE
    # Without VIPs of its own it is not needed.
    good(do("apply", NO_EXTENSION, "--yes"))
    assert do("verify", NO_EXTENSION).code == 0


def test_restore_works_without_the_program(do: Run, shared: Switch, extension: Extension) -> None:
    """The tables come back all the same; the extension gets its program when it is there."""
    good(do("apply", EXTENDED))
    good(do("drain", "far/f1"))
    before = held(shared, extension)
    extension.kill()
    shared.kill_switch()
    shared.start_switch()
    done = do("restore")
    assert done.code == Exit.UNAVAILABLE
    assert "state 1 is back, but not its program in the extension" in done.err
    assert (*shared.tables(), shared.ports()) == before[:3]
    extension.start()
    assert do("restore", "--dry-run").out == "br-dns: state 1 would be restored (1 change)\n"
    assert good(do("restore")).out == "br-dns: state 1 is back\n"
    assert held(shared, extension) == before


def test_a_restarted_program_is_loaded_again(do: Run, shared: Switch, extension: Extension) -> None:
    """`reconcile` notices it, be its file old or new, and looks no further when all is well."""
    good(do("apply", EXTENDED))
    good(do("drain", "far/f1"))
    before = held(shared, extension)
    for start in (None, program_for(EXTENDED), extension.ask("dump")["program"]):
        extension.kill()
        if start is not None:
            extension.write(start)
        extension.start()
        right = start is not None and extension.program == before[-1]
        dry = good(do("reconcile", "--dry-run"))
        assert ("would get it again" in dry.out) is not right and extension.loads == 1
        due = good(do("reconcile"))
        assert ("has it again" in due.out) is not right
        assert held(shared, extension) == before and extension.loads == 2
        assert good(do("reconcile")).out == "" and extension.loads == 2


def test_a_stuck_program_is_named_in_time(do: Run, extension: Extension) -> None:
    """What only looks tells it soon."""
    good(do("apply", EXTENDED))
    extension.stop(signal.SIGSTOP)
    try:
        stuck = do("status", "--no-rates")
        assert stuck.code == Exit.DIFFERENT
        assert "does not answer within 3 s; is it stuck?" in " ".join(stuck.out.split())  # wrapped where paths are long
    finally:
        extension.stop(signal.SIGCONT)
    good(do("status", "--no-rates"))


@pytest.mark.parametrize("kind", ["none", "file", "no folder", "database", "long"])
def test_a_wrong_socket_is_named(kind: str, do: Run, shared: Switch, extension: Extension, tmp_path: Path) -> None:
    good(do("apply", EXTENDED))
    before = all_of(shared)
    path, said, code = {
        "none": (tmp_path / "none", "there is no such socket; is it running?", Exit.UNAVAILABLE),
        "file": (tmp_path / "spec.yaml", "nobody listens there", Exit.UNAVAILABLE),
        "no folder": (tmp_path / "spec.yaml" / "x", "there is no such socket", Exit.UNAVAILABLE),
        "database": (shared.dir / "db.sock", "the connection ended", Exit.UNAVAILABLE),
        "long": (tmp_path / ("x" * 120), "too long", Exit.UNAVAILABLE),
    }[kind]
    done = run("apply", tmp_path / "spec.yaml", "--db", shared.database, "--extension", path)
    assert (done.code, all_of(shared)) == (code, before), done.err
    assert said in done.err and "nothing was changed" in done.err


def test_the_socket_is_found_by_option_environment_or_spec(
    do: Run, shared: Switch, extension: Extension, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the option, else the environment variable, else the spec."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        EXTENDED.replace("    ipv4: 192.0.2.2\n", f"    ipv4: 192.0.2.2\n    control: {extension.socket}\n")
    )
    good(run("apply", spec, "--db", shared.database))
    monkeypatch.setenv("DNSTEER_EXTENSION_SOCKET", str(tmp_path / "elsewhere"))
    assert f"the extension at {tmp_path}/elsewhere" in run("apply", spec, "--db", shared.database).err
    monkeypatch.setenv("DNSTEER_EXTENSION_SOCKET", "")
    good(run("apply", spec, "--db", shared.database))
    good(do("apply", spec.read_text()))


def test_a_socket_without_permission_is_named(do: Run, shared: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    good(do("apply", EXTENDED))
    before = all_of(shared)
    connect = socket.socket.connect

    def refused(self: socket.socket, address: Any) -> None:
        if str(address).endswith("control.sock"):
            raise PermissionError(13, "Permission denied")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refused)
    for words in (("apply", HEAVY, "--yes"), ("drain", "far/f1")):
        done = do(*words)
        assert done.code == Exit.NO_PERMISSION and "control.sock: Permission denied; run as root" in done.err
    assert all_of(shared) == before
    assert do("status", "--no-rates").code == Exit.DIFFERENT
    assert "Permission denied" in do("restore").err
