# SPDX-License-Identifier: Apache-2.0
"""The systemd units: they load, their command lines work, and a switch that crashed comes back whole and never wrong."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.switch.rpc import Rpc
from dnsteer.switch.tools import SwitchError
from tests.packet.switches import BRIDGE, ROOT, Switch, cli, unexpected

UNITS = ROOT / "ovs" / "systemd"
FILES = sorted(p for p in UNITS.rglob("*") if p.is_file())
INSTALLED = "/opt/dnsteer/bin/dnsteer"
SPEC = ROOT / "examples" / "quickstart.yaml"
PORTS = range(20000, 20128)  # two for each slot of the pool
DRAINED = "02:00:00:00:01:02"
SETTING = re.compile(r"^(\S+)=(-?)(.*)$", re.M)
NOISE = ["Connection reset by peer", "connection dropped"]


def commands(file: str, key: str) -> list[str]:
    """The command lines of a unit, without the sign that says not to mind their failure."""
    text = (UNITS / file).read_text()
    return [m[3] for m in SETTING.finditer(text) if m[1] == key]


(ARM,) = commands("ovs-vswitchd.service.d/dnsteer.conf", "ExecStartPre")
(RESTORE,) = commands("dnsteer-restore.service", "ExecStart")
(AFTERWARDS,) = commands("dnsteer-restore.service", "ExecStopPost")
(RECONCILE,) = commands("dnsteer-reconcile.service", "ExecStart")


@pytest.fixture
def dnsteer(tmp_path: Path) -> Path:
    """The command, as a program."""
    return shutil.copy(Path(sys.executable).with_name("dnsteer"), tmp_path / "dnsteer")


def run(command: str, dnsteer: Path, switch: Switch) -> subprocess.CompletedProcess[str]:
    """Run a command line of a unit on the private switch, as systemd would: without a shell."""
    environment = {**os.environ, "DNSTEER_DB": switch.database}
    argv = [a.replace("${DNSTEER_DB}", switch.database) for a in shlex.split(command.replace(INSTALLED, str(dnsteer)))]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=environment)


def waits(switch: Switch) -> bool:
    return "flow-restore-wait" in switch.vsctl("--no-wait", "get", "Open_vSwitch", ".", "other_config")


@pytest.fixture
def applied() -> Iterator[Switch]:
    """A private switch with a spec, and one backend drained."""
    switch = Switch()
    with switch:
        switch.expected = NOISE
        for args in (["apply", SPEC], ["drain", "authoritative/ns2"]):
            done = cli(*args, "--db", switch.database)
            assert done.returncode == 0, done.stderr
        yield switch
        found = unexpected(switch)
    assert found == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path, dnsteer: Path) -> None:
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_text(file.read_text().replace(INSTALLED, str(dnsteer)))
    names = [f.name for f in FILES if f.suffix in (".service", ".timer")]
    if Path("/lib/systemd/system/ovs-vswitchd.service").exists():
        names.append("ovs-vswitchd.service")  # with our drop-in
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_install_runbook_copies_every_unit_file() -> None:
    assert {f.suffix for f in FILES} == {".service", ".timer", ".conf"}


def test_the_command_lines_work(applied: Switch, dnsteer: Path) -> None:
    lines = [m[0] for f in FILES for m in SETTING.finditer(f.read_text()) if m[1].startswith("Exec")]
    # That of the agent runs until it is stopped: test_agent.py; its reload is a signal: test_console_hangup.py.
    assert len(lines) == 6 and "ExecReload=/bin/kill -HUP $MAINPID" in lines, lines
    for command in (ARM, RESTORE, RECONCILE, AFTERWARDS):
        done = run(command, dnsteer, applied)
        assert done.returncode == 0, (command, done.stderr)
    assert not waits(applied)


def test_nothing_to_restore_makes_no_switch_wait(dnsteer: Path) -> None:
    switch = Switch()
    with switch:
        assert run(ARM, dnsteer, switch).returncode == 0
        assert not waits(switch)
        assert run(RESTORE, dnsteer, switch).returncode == 0


def frame(port: int) -> str:
    query = DNS(rd=1, qd=DNSQR(qname="example.com"))
    ip = IP(src="198.51.100.7", dst="192.0.2.53") / UDP(sport=port, dport=53) / query
    return bytes(Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / ip).hex()


@cache
def frames() -> list[str]:
    """A query from each source port."""
    return [frame(port) for port in PORTS]


BATCH = 32  # what a switch takes in one turn; a port's queue holds 100, and a slow switch drops the end of what is more


def sent_out(capture: Path) -> list[tuple[int, str]]:
    """Source port and destination MAC of every packet that left by p0."""
    data, at, found = capture.read_bytes(), 24, []
    while at + 16 <= len(data):
        length = struct.unpack_from("=I", data, at + 8)[0]
        packet = data[at + 16 : at + 16 + length]
        if len(packet) < length:
            break  # it was being written
        found.append((int.from_bytes(packet[34:36], "big"), packet[:6].hex(":")))
        at += 16 + length
    return found


@contextmanager
def load(switch: Switch) -> Iterator[list[int]]:
    """Queries, all the time, whether the switch runs or not; how many were taken by it."""
    end, taken = threading.Event(), [0]

    def send() -> None:
        while not end.wait(0.02):
            with suppress(SwitchError, OSError):
                rpc = Rpc(f"unix:{switch.dir}/vswitchd.ctl", "the switch", 5)
                try:
                    for turn in itertools.count():
                        if end.wait(0.005):
                            break
                        some = frames()[turn * BATCH % len(frames()) :][:BATCH]
                        rpc.call("netdev-dummy/receive", ["p0", *some], 5)
                        taken[0] += len(some)
                finally:
                    rpc.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield taken
    finally:
        end.set()
        thread.join(30)
    assert not thread.is_alive()


def received(switch: Switch, way: str = "rx") -> int:
    return int(re.search(rf"{way} pkts=(\d+)", switch.ofctl("dump-ports", "p0"))[1])  # type: ignore[index]


def to_backends(switch: Switch) -> dict[str, int]:
    """Packets by the MAC of the backend, from the flows, when they have counted all that left by the port."""
    for _ in range(100):
        left = received(switch, "tx")
        flows = switch.ofctl("dump-flows", "table=forward", "--names")
        found: dict[str, int] = {}
        for n, mac in re.findall(r"n_packets=(\d+).*set_field:([0-9a-f:]{17})->eth_dst", flows):
            found[mac] = found.get(mac, 0) + int(n)
        if sum(found.values()) == left == received(switch, "tx"):
            return found
        threading.Event().wait(0.1)
    raise AssertionError(f"{left} packets left by the port, and the flows of backends counted {found}")


def wait_until_more_came_in(switch: Switch, more: int = 2000) -> None:
    start = received(switch)
    for _ in range(300):
        if received(switch) >= start + more:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"of {more} packets only {received(switch) - start} came in")


def wait_until_sent(capture: Path, packets: int) -> None:
    for _ in range(200):
        if capture.exists() and len(sent_out(capture)) >= packets:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"of {packets} packets only {len(sent_out(capture))} left")


def wait_until_all_left(capture: Path) -> dict[int, str]:
    """The destination MAC of each source port, once a query from each has left."""
    for _ in range(200):
        if set(owners := dict(sent_out(capture))) == set(PORTS):
            return owners
        threading.Event().wait(0.05)
    raise AssertionError(f"from these ports no query has left: {sorted(set(PORTS) - set(owners))}")


def test_after_a_crash_under_load_the_tables_are_whole_and_no_query_is_misdirected(
    applied: Switch, dnsteer: Path
) -> None:
    switch, capture = applied, applied.dir / "p0.pcap"
    switch.vsctl("set", "Interface", "p0", f"options:tx_pcap={capture}")
    before = switch.tables()
    with load(switch) as taken:
        wait_until_more_came_in(switch)
        owners = wait_until_all_left(capture)
        switch.kill_switch()
        assert DRAINED not in {mac for _, mac in sent_out(capture)}
        capture.unlink()  # the next switch goes on where it ends

        assert run(ARM, dnsteer, switch).returncode == 0
        switch.start_switch()
        wait_until_more_came_in(switch)
        assert sent_out(capture) == [], "a switch that waits for its flows forwarded something"
        assert "recirc_id" not in switch.appctl("dpctl/dump-flows"), "it did not wait, and learned to drop"
        assert switch.tables() == (set(), set())

        done = run(RESTORE, dnsteer, switch)  # takes the capture away, which is no option of dnsteer's
        assert done.returncode == 0, done.stderr
        assert f"{BRIDGE}: state 1 is back" in done.stdout
        wait_until_more_came_in(switch)
        assert taken[0] > 6000
    assert not waits(switch)
    assert switch.tables() == before
    assert "was intact" in run(RESTORE, dnsteer, switch).stdout
    counted = to_backends(switch)
    assert counted.pop(DRAINED) == 0
    assert all(counted.values())
    assert sum(counted.values()) >= 2000

    capture.unlink()
    switch.vsctl("set", "Interface", "p0", f"options:tx_pcap={capture}")
    for at in range(0, len(frames()), BATCH):
        switch.appctl("netdev-dummy/receive", "p0", *frames()[at : at + BATCH])
        wait_until_sent(capture, at + BATCH)
    assert dict(sent_out(capture)) == owners, "a client has another server than before the crash"


def test_a_restore_that_fails_does_not_leave_the_switch_waiting(applied: Switch, dnsteer: Path) -> None:
    applied.kill_switch()
    assert run(ARM, dnsteer, applied).returncode == 0
    assert waits(applied)
    applied.start_switch()
    applied.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-overlay=[")
    done = run(RESTORE, dnsteer, applied)
    assert done.returncode == 1
    assert "dnsteer-overlay of bridge br-dns in OVSDB is damaged" in done.stderr
    assert not waits(applied)


def test_the_unit_ends_the_wait_where_dnsteer_cannot_run(applied: Switch, dnsteer: Path) -> None:
    assert run(ARM, dnsteer, applied).returncode == 0
    dnsteer.write_text("#!/bin/sh\nexit 1\n")
    assert run(RESTORE, dnsteer, applied).returncode == 1
    assert waits(applied)
    assert run(AFTERWARDS, dnsteer, applied).returncode == 0
    assert not waits(applied)


def test_arming_that_hangs_holds_the_start_up_for_seconds_only(applied: Switch, dnsteer: Path) -> None:
    dnsteer.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.2; done\n")
    quick = re.sub(r"-k \d+ \d+", "-k 0.3 0.3", ARM)
    assert quick != ARM
    assert run(quick, dnsteer, applied).returncode != 0
    assert not waits(applied)
