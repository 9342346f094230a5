# SPDX-License-Identifier: Apache-2.0
"""The private switch: alone in its directory, for ordinary users, gone afterwards, and honest about its complaints."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.status.verify import find_drift
from dnsteer.switch import private_switch as private_module
from dnsteer.switch import tools
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.rpc import Rpc
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.tools import SwitchError, UnavailableError
from tests.packet.apply_spec import apply
from tests.packet.switches import EXAMPLES, Switch, processes_naming

FORK = multiprocessing.get_context("fork")
SYSTEM = [Path("/var/run/openvswitch"), Path("/var/log/openvswitch"), Path("/etc/openvswitch")]


def contents(folders: list[Path]) -> list[tuple[str, float]]:
    return [(str(f), f.lstat().st_mtime) for folder in folders if folder.exists() for f in sorted(folder.rglob("*"))]


def test_a_private_switch_has_a_userspace_datapath_and_its_own_directory() -> None:
    before = contents(SYSTEM)
    with Switch() as switch:
        assert switch.vsctl("list-br") == ""
        switch.vsctl(
            "add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev", "--", "add-port", "br0", "eth9"
        )
        assert "port 9: eth9\n" in switch.appctl("dpctl/show")
        assert all(os.getsid(p.pid) == p.pid for p in switch._processes.values())  # Ctrl-C does not reach them
        lines = processes_naming(f"{switch.dir}/")
        assert sorted(Path(line.split()[0]).name for line in lines) == ["ovs-vswitchd", "ovsdb-server"]
        assert {"conf.db", "db.sock", "vswitchd.ctl", "vswitchd.log", "br0.mgmt"} <= {
            f.name for f in switch.dir.iterdir()
        }
        folder = switch.dir
    assert not folder.exists()
    assert processes_naming(f"{folder}/") == []
    assert contents(SYSTEM) == before


def test_two_private_switches_are_independent() -> None:
    with Switch() as one, Switch() as two:
        one.vsctl("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev")
        assert (one.bridges(), two.bridges()) == (["br0"], [])


def as_nobody(work: Callable[[], None]) -> int:
    """Run *work* in a process without privileges; its exit code."""

    def run() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        work()

    child = FORK.Process(target=run)
    child.start()
    child.join(60)
    assert child.exitcode is not None
    return child.exitcode


def test_a_private_switch_needs_no_privileges() -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")

    with Switch() as switch:  # imports what the child may not be allowed to read
        apply(loaded, switch.database)

    def work() -> None:
        assert os.geteuid() != 0
        os.environ["PATH"] = "/usr/bin:/bin"  # as for ordinary users on Debian
        with PrivateSwitch() as switch:
            apply(loaded, switch.database)
            assert find_drift(loaded, switch.database) == []

    assert as_nobody(work) == 0


@pytest.mark.root("to be a second user")
def test_a_switch_of_another_user_is_named_with_its_socket() -> None:
    loaded = load_spec(EXAMPLES / "quickstart.yaml")
    with Switch() as switch:
        apply(loaded, switch.database)

        def refused_at(name: str) -> None:
            with pytest.raises(PermissionError) as error:
                find_drift(loaded, switch.database)
            assert error.value.filename == f"{switch.dir}/{name}"

        assert as_nobody(lambda: refused_at("db.sock")) == 0
        switch.dir.chmod(0o755)
        (switch.dir / "db.sock").chmod(0o777)
        (switch.dir / "br-dns.mgmt").chmod(0o700)
        assert as_nobody(lambda: refused_at("br-dns.mgmt")) == 0


def test_complaints_are_the_warnings_and_errors_of_both_logs() -> None:
    with Switch() as switch:
        assert switch.complaints() == []
        switch.vsctl("--no-wait", "add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=nonexistent")
        switch.vsctl("--no-wait", "add-port", "br0", "p0")
        switch.vsctl("--no-wait", "set", "Bridge", "br0", "datapath_type=netdev")
        with (switch.dir / "ovsdb.log").open("a") as log:
            log.write("2026-01-01T00:00:00Z|00001|x|INFO|nothing\n2026-01-01T00:00:00Z|00002|x|EMER|the end\n")
        deadline = time.monotonic() + 5
        while not any("could not create" in c for c in switch.complaints()) and time.monotonic() < deadline:
            time.sleep(0.01)
        found = switch.complaints()
    assert any("the end" in c for c in found)
    assert any("nonexistent" in c for c in found), found
    assert not any("nothing" in c for c in found)


def test_failed_commands_are_reported() -> None:
    with Switch() as switch:
        assert "Open vSwitch" in switch.appctl("version")
        with pytest.raises(SwitchError, match='no/such: "no/such" is not a valid command'):
            switch.appctl("no/such")
        assert len(switch.appctl("list-commands")) > 5000
        for _ in range(3):  # the connection is used again
            assert switch.dump("version") == switch.appctl("version")
        switch.kill_switch()
        with pytest.raises(SwitchError, match="does not run"):
            switch.appctl("version")
        switch.start_switch()
        assert "Open vSwitch" in switch.appctl("version")


def test_a_stuck_switch_is_given_up_after_the_timeout() -> None:
    with Switch() as switch:
        process = switch._processes["ovs-vswitchd"]
        process.send_signal(signal.SIGSTOP)
        rpc = Rpc(f"unix:{switch.dir}/vswitchd.ctl", "the switch", 1)
        start = time.monotonic()
        with pytest.raises(UnavailableError, match=r"the switch does not answer within 0\.3 s"):
            rpc.call("version", [], 0.3)
        assert time.monotonic() - start < 10
        process.send_signal(signal.SIGCONT)


def test_a_long_answer_in_pieces() -> None:
    """Answers come in pieces of any size, cut inside of characters, and may follow requests of the server's own."""
    folder = Path(tempfile.mkdtemp(prefix="t-"))
    text = "ü{}}" * 50_000
    answer = ('{"method":"echo","params":[],"id":1}{"id":1,"error":null,"result":"' + text + '"}').encode()

    def serve() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "s"))
        listener.listen()
        ready.set()
        peer, _ = listener.accept()
        peer.recv(1000)
        for at in range(0, len(answer), 65_537):
            peer.sendall(answer[at : at + 65_537])
            time.sleep(0.001)
        peer.close()
        listener.close()

    ready = threading.Event()
    server = threading.Thread(target=serve)
    server.start()
    ready.wait()
    rpc = Rpc(f"unix:{folder}/s", "a server", 5)
    assert rpc.call("x", [], 5) == text
    with pytest.raises(UnavailableError, match="the connection ended"):
        rpc.call("x", [], 5)
    server.join()
    (folder / "s").unlink()
    folder.rmdir()


def test_dnsteer_keep_keeps_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNSTEER_KEEP", "1")
    with Switch() as switch:
        pass
    assert (switch.dir / "vswitchd.log").exists()
    assert processes_naming(f"{switch.dir}/") == []
    tools.shutil.rmtree(switch.dir)


def test_a_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[PrivateSwitch] = []

    def fails(self: PrivateSwitch) -> None:
        made.append(self)
        raise SwitchError("no")

    monkeypatch.setattr(PrivateSwitch, "start_switch", fails)
    with pytest.raises(SwitchError, match="no"), PrivateSwitch():
        pass
    assert not made[0].dir.exists()
    assert processes_naming(f"{made[0].dir}/") == []


def test_an_unreferenced_private_switch_is_cleaned_up() -> None:
    switch = PrivateSwitch()
    switch.__enter__()
    folder, gone = switch.dir, weakref.ref(switch)
    del switch
    assert gone() is None
    assert not folder.exists()
    assert processes_naming(f"{folder}/") == []


def test_a_daemon_that_ends_at_once_is_reported_with_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ovs-vswitchd"
    script = 'for a; do case $a in --log-file=*) echo "cannot work today" >"${a#*=}" ;; esac; done; exit 1'
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(
        private_module, "find_program", lambda name: str(fake) if name == fake.name else tools.find_program(name)
    )
    with pytest.raises(SwitchError, match="ovs-vswitchd ended at once: cannot work today"), PrivateSwitch():
        pass


def test_a_temporary_directory_with_a_long_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(SwitchError, match="too long a name for a directory of sockets"), PrivateSwitch():
        pass
    assert list(long.iterdir()) == []


def test_interrupts_are_deferred_and_not_lost() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), defer_signals():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        done.append("cleaned up")
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with defer_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_program_gets_its_input_whole_and_ends_with_us() -> None:
    """The child of a killed process is killed too, and has read all or nothing."""
    script = "import sys; data = sys.stdin.read(); print(len(data))"
    text = "x" * 300_000
    assert tools.run(["python3", "-c", script], stdin=text) == "300000\n"
    marker = f"sleep-{os.getpid()}"
    sleep = ["python3", "-c", "import time; time.sleep(60)", marker]
    child = FORK.Process(target=tools.run, args=(sleep,), kwargs={"stdin": ""})
    child.start()
    deadline = time.monotonic() + 5
    while not any("time.sleep" in line for line in processes_naming(marker)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.kill()
    child.join()
    deadline = time.monotonic() + 5
    while processes_naming(marker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_that_hangs_is_ended() -> None:
    start = time.monotonic()
    with pytest.raises(UnavailableError, match=r"sleep did not finish within 0\.2 s"):
        tools.run(["sleep", "30"], timeout=0.2)
    assert time.monotonic() - start < 15
    assert subprocess.run(["pgrep", "-P", str(os.getpid()), "-x", "sleep"], check=False).returncode == 1


def test_leftovers_of_a_killed_process_are_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys\nfrom dnsteer.switch.private_switch import PrivateSwitch\nwith PrivateSwitch() as it:\n"
    script += "    print(it.dir, flush=True)\n    sys.stdin.read()\n"
    folder = Path(tempfile.mkdtemp(prefix="t-"))  # tmp_path is too long for sockets
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    found: dict[str, Path] = {}
    processes: dict[str, subprocess.Popen[str]] = {}
    for name in ("killed", "runs", "kept"):
        env = {**os.environ, **({"DNSTEER_KEEP": "1"} if name == "kept" else {})}
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        assert process.stdout is not None
        found[name], processes[name] = Path(process.stdout.readline().strip()), process
    stranger = folder / "dnsteer-notes"
    stranger.mkdir()
    for name in ("killed", "kept"):
        processes[name].kill()
        processes[name].communicate()
        deadline = time.monotonic() + 5
        while processes_naming(f"{found[name]}/") and time.monotonic() < deadline:
            time.sleep(0.01)
    assert all(path.exists() for path in found.values())
    with Switch() as switch:
        assert {path.name for path in folder.iterdir()} == {
            found["runs"].name,
            found["kept"].name,
            switch.dir.name,
            stranger.name,
        }
    processes["runs"].communicate("")
    assert not found["runs"].exists()
    tools.shutil.rmtree(folder)


def test_the_version_is_that_of_the_program(shared: PrivateSwitch) -> None:
    assert shared.version() == tools.ovs_version()
