# SPDX-License-Identifier: Apache-2.0
"""Faults: two writers, a lock whose holder is gone, a switch that refuses, a full disk, silence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.session import Session
from dnsteer.switch.tools import SwitchError
from tests.packet.command import FARM, OTHER, all_of, nothing_changes, on, run, spec_file, state_rows
from tests.packet.switches import BRIDGE, ROOT, Switch, line_of, spec_of

ENV = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}


EXPECTED = ["Broken pipe", "Connection reset", "flow_limit", "table is full", "OFPFMFC_TABLE_FULL", "OFPBFC"]


def external(switch: Switch) -> str:
    return switch.vsctl("get", "Bridge", BRIDGE, "external_ids")


# Two at once


def test_two_applies_at_once_leave_one_of_the_two(drained: Switch, tmp_path: Path) -> None:
    assert on(drained)("undrain", "farm/ns1").code == 0
    want = [drained.tables()]
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file, text in zip(files, (FARM, OTHER), strict=True):
        file.write_text(text)
    assert on(drained)("apply", files[1], "--yes").code == 0
    want.append(drained.tables())
    argv = [sys.executable, "-m", "dnsteer", "apply", "--yes", "--db", drained.database]
    children = [
        subprocess.Popen([*argv, str(file)], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for file in files * 2
    ]
    said = [child.communicate(timeout=60) for child in children]
    assert all("Traceback" not in err for _, err in said)
    codes = [child.returncode for child in children]
    assert 0 in codes
    for code, (_, err) in zip(codes, said, strict=True):
        assert code == 0 or (code == Exit.ERROR and "another dnsteer is changing" in err), err
    last = want.index(drained.tables())
    assert on(drained)("verify", files[last]).code == 0
    assert run("show", "current", "--db", drained.database).out == (FARM, OTHER)[last]
    assert "dnsteer-pending" not in external(drained)


def test_verbs_wait_for_the_lock_until_their_timeout(drained: Switch, tmp_path: Path) -> None:
    verbs: list[tuple[object, ...]] = [
        ("apply", spec_file(tmp_path, OTHER)),
        ("drain", "farm/ns2", "--yes"),
        ("reconcile",),
        ("rollback", "--yes"),
        ("restore",),
    ]
    with Session(drained.database) as holder, nothing_changes(drained):
        holder.lock(BRIDGE)
        for verb in verbs:
            start = time.monotonic()
            done = on(drained)(*verb, "--timeout", "0.5")
            assert 0.4 < time.monotonic() - start < 8
            assert (done.code, "another dnsteer is changing" in done.err) == (Exit.ERROR, True), verb
        for reader in (("history",), ("plan", spec_file(tmp_path)), ("verify", spec_file(tmp_path))):
            assert on(drained)(*reader, "--timeout", "0.5").code in (0, Exit.DIFFERENT)
    held = Session(drained.database)
    held.lock(BRIDGE)
    timer = threading.Timer(1, held.__exit__, (None, None, None))
    timer.start()
    assert on(drained)("apply", spec_file(tmp_path, OTHER), "--yes").code == 0  # it waited
    timer.join()


HOLD = """
import sys, time
from dnsteer.switch.session import Session
record = Session(sys.argv[1]); record.lock("br-dns"); print("held", flush=True); time.sleep(60)
"""


def test_the_lock_of_a_killed_holder_is_free_at_once(drained: Switch, tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, drained.database], env=ENV, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    assert child.stdout.readline() == "held\n"
    with Session(drained.database, 0.2) as other, pytest.raises(SwitchError, match="another dnsteer"):
        other.lock(BRIDGE)
    child.kill()
    child.wait()
    child.stdout.close()
    start = time.monotonic()
    with Session(drained.database, 30) as other:
        other.lock(BRIDGE)
    assert time.monotonic() - start < 10


# Unreachable


@contextmanager
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"tcp:127.0.0.1:{server.getsockname()[1]}"


def test_every_verb_gives_up_on_a_silent_server_in_time(tmp_path: Path) -> None:
    spec = spec_file(tmp_path)
    verbs: list[tuple[object, ...]] = [
        ("plan", spec),
        ("apply", spec, "--yes"),
        ("verify", spec),
        ("drain", "farm/ns1"),
        ("undrain", "farm/ns1"),
        ("reconcile",),
        ("history",),
        ("rollback", "--yes"),
        ("show", "current"),
        ("restore",),
        ("restore", "--arm"),
        ("status",),
    ]
    with silent() as remote:
        for verb in verbs:
            start = time.monotonic()
            done = run(*verb, "--db", remote, "--openflow", "unix:/none", "--timeout", "0.5")
            assert time.monotonic() - start < 8, verb
            assert done.code == Exit.UNAVAILABLE, (verb, done)
            assert remote in done.err
        done = run("drain", "farm/ns1", "--db", remote, "--openflow", "unix:/none", "--timeout", "0.5", "--json")
        assert (done.code, done.json["ok"]) == (Exit.UNAVAILABLE, False)


# Refusals and a full disk


def test_a_rejected_bundle_leaves_the_old_tables(drained: Switch, tmp_path: Path) -> None:
    row = drained.vsctl("get", "Bridge", BRIDGE, "flow_tables:30").strip()
    more = FARM.replace("    slots: 32\n", "    slots: 256\n")
    drained.vsctl("set", "Flow_Table", row, "flow_limit=60", "overflow_policy=refuse")
    try:
        file = spec_file(tmp_path, more)
        before = drained.tables(), external(drained), on(drained)("history").out
        done = on(drained)("apply", file, "--yes")
        as_json = on(drained)("apply", file, "--yes", "--json")
        assert before == (drained.tables(), external(drained), on(drained)("history").out)
        assert done.code == as_json.code == Exit.ERROR
        assert "TABLE_FULL" in done.err or "full" in done.err
        lines = [line_of(more, part) for part in ("name: ns1", "name: ns2", "name: ns3", "  farm:", "slots: 256")]
        assert any(f"{file}:{line}" in done.err for line in lines), done.err
        assert "dnsteer-pending" not in external(drained)
        assert on(drained)("undrain", "farm/ns1").code == 0  # and all goes on
    finally:
        drained.vsctl(
            "remove", "Flow_Table", row, "flow_limit", "60", "--", "clear", "Flow_Table", row, "overflow_policy"
        )


def test_a_rejected_bundle_leaves_no_ovsdb_row(drained: Switch, tmp_path: Path) -> None:
    row = drained.vsctl("get", "Bridge", BRIDGE, "flow_tables:30").strip()
    drained.vsctl("set", "Flow_Table", row, "flow_limit=60", "overflow_policy=refuse")
    before = sorted(state_rows(drained))
    try:
        file = spec_file(tmp_path, FARM.replace("    slots: 32\n", "    slots: 256\n"))
        assert on(drained)("apply", file, "--yes").code == Exit.ERROR
    finally:
        drained.vsctl(
            "remove", "Flow_Table", row, "flow_limit", "60", "--", "clear", "Flow_Table", row, "overflow_policy"
        )
    assert sorted(state_rows(drained)) == before


def test_a_rejected_drain_changes_nothing(drained: Switch, tmp_path: Path) -> None:
    """A pool whose backends were all down needs slots again."""
    text = FARM.replace("  spare:\n", "  spare:\n    on_all_down: drop\n")
    assert on(drained)("apply", spec_file(tmp_path, text), "--yes").code == 0
    for name in ("sp1", "sp2"):
        assert on(drained)("down", f"spare/{name}", "--yes").code == 0
    row = drained.vsctl("get", "Bridge", BRIDGE, "flow_tables:30").strip()
    drained.vsctl("set", "Flow_Table", row, "flow_limit=40", "overflow_policy=refuse")
    try:
        with nothing_changes(drained):
            done = on(drained)("up", "spare/sp1", "--yes")
        assert done.code == Exit.ERROR
        assert "full" in done.err.lower()
        assert "dnsteer-pending" not in external(drained)
    finally:
        drained.vsctl(
            "remove", "Flow_Table", row, "flow_limit", "40", "--", "clear", "Flow_Table", row, "overflow_policy"
        )
    assert on(drained)("up", "spare/sp1", "--yes").code == 0


@pytest.mark.root("a small file system")
def test_a_full_disk_under_the_database_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Path(tempfile.mkdtemp(prefix="disk"))  # tmp_path is too long for sockets
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], check=True)
    try:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        try:
            private = Switch()
        finally:
            monkeypatch.setattr("tempfile.tempdir", None)
        with private:
            deploy(FileSource(spec_of(FARM)), TargetSwitch(private.database))
            before = all_of(private)
            with (disk / "full").open("wb", buffering=0) as out, pytest.raises(OSError, match="space"):
                while True:
                    out.write(b"x" * 512)
            long = os.urandom(20_000).hex()  # more than the last page of the database has room for
            other = spec_file(tmp_path, f"{OTHER}# {long}\n")
            done = on(private)("apply", other, "--yes")
            assert done.code in (Exit.ERROR, Exit.UNAVAILABLE), done
            assert "space" in done.err or "I/O" in done.err, done.err
            assert private.tables() == before[-2:]
            (disk / "full").unlink()
            assert on(private)("drain", "farm/ns1").code == 0
            assert on(private)("apply", spec_file(tmp_path, OTHER), "--yes").code == 0
            assert on(private)("verify", spec_file(tmp_path, OTHER)).code == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
        disk.rmdir()


def test_a_full_disk_under_a_written_spec_is_named(drained: Switch, tmp_path: Path) -> None:
    done = run("show", "current", "-o", "/dev/full", "--db", drained.database)
    assert done.code == Exit.ERROR
    assert "No space left" in done.err


# Another switch


def test_a_spec_of_another_switch_is_refused(drained: Switch, tmp_path: Path) -> None:
    for new in ("name: dpu-2", None):
        text = FARM.replace("  name: dpu-1\n", f"  {new}\n" if new else "")
        with nothing_changes(drained):
            for verb in ("apply", "plan"):
                done = on(drained)(verb, spec_file(tmp_path, text), *(["--yes"] if verb == "apply" else []))
                assert done.code == Exit.ERROR
                assert all(word in done.err for word in ("dpu-1", "--rename"))
    text = FARM.replace("dpu-1", "dpu-2")
    assert on(drained)("plan", spec_file(tmp_path, text), "--rename").code == Exit.DIFFERENT
    assert on(drained)("apply", spec_file(tmp_path, text), "--rename").code == 0
    assert on(drained)("apply", spec_file(tmp_path, text)).code == 0
    assert on(drained)("apply", spec_file(tmp_path)).code == Exit.ERROR
