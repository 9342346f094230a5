# SPDX-License-Identifier: Apache-2.0
"""`capture` ends by itself, whatever happens, and nothing of it stays; what it refuses changes nothing."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest
from scapy.utils import rdpcap

from dnsteer.capture.run import refuse_flavor
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch.tools import SwitchError
from tests.packet.agents import agent, wait
from tests.packet.capturing import EXPECTED as EXPECTED
from tests.packet.capturing import QUERY, is_clean, send, start
from tests.packet.command import all_of, nothing_changes, on, run, spec_file
from tests.packet.switches import BRIDGE, Switch


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_capture_and_keeps_its_file(by: signal.Signals, applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    process = start(applied, "dns", "--for", "5m", "-w", file)
    send(applied, QUERY)
    wait(lambda: file.stat().st_size > 24 + 2 * len(QUERY), lambda: "no packets")
    process.send_signal(by)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "2 packets captured, 0 of others seen, 0 dropped" in said
    assert [bytes(p)[12:] for p in rdpcap(str(file))] == [QUERY[12:]] * 2
    assert is_clean(applied)


def test_a_time_or_packet_limit_ends_a_capture(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    with file.open("wb") as stream:
        process = start(applied, "dns", "--for", "0.3s", "-w", "-", stdout=stream)
        _, said = process.communicate(timeout=20)
    assert len(rdpcap(str(file))) == 0
    assert (process.returncode, said.endswith("no packet captured\n")) == (0, True)
    assert is_clean(applied)
    process = start(applied, "dns", "--for", "5m", "--count", "2")
    send(applied, QUERY)
    out, said = process.communicate(timeout=20)
    lines = sorted(out.splitlines(), key=lambda line: line.split()[1])
    assert (process.returncode, len(lines)) == (0, 2), said
    assert " in  " in lines[0] and " out " in lines[1]
    assert "198.51.100.7:4000 > 192.0.2.53:53 udp, query 7 a.example. A" in lines[0]
    assert is_clean(applied)


def test_a_closed_pipe_or_full_disk_ends_a_capture(applied: Switch, tmp_path: Path) -> None:
    process = start(applied, "dns", "--for", "5m")
    process.stdout.close()  # type: ignore[union-attr]
    send(applied, QUERY)
    assert process.wait(20) == 1
    assert is_clean(applied)
    file = tmp_path / "x.pcap"
    process = start(applied, "dns", "--for", "5m", "-w", file)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (24 + 16 + len(QUERY) + 9, resource.RLIM_INFINITY))
    send(applied, QUERY)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, str(file) in said) == (1, True), said
    assert (len(rdpcap(str(file))), file.stat().st_size) == (1, 24 + 16 + len(QUERY))  # whole packets
    assert is_clean(applied)


def killed(switch: Switch) -> None:
    process = start(switch, "dns", "--for", "5m")
    process.kill()
    process.communicate(timeout=20)


def test_reconcile_removes_the_mirrors_of_a_killed_capture(applied: Switch, tmp_path: Path) -> None:
    killed(applied)
    assert not is_clean(applied)
    assert on(applied)("reconcile", "--dry-run", "--json").json["captures"] == [BRIDGE]
    assert not is_clean(applied)
    done = on(applied)("reconcile")
    assert (done.code, "its mirrors were left and are removed" in done.out) == (0, True)
    assert is_clean(applied)
    killed(applied)
    process = start(applied, "other", "--for", "0.2s")  # the next one
    process.communicate(timeout=20)
    assert (process.returncode, is_clean(applied)) == (0, True)


def test_the_agent_removes_the_mirrors_of_a_killed_capture(applied: Switch, tmp_path: Path) -> None:
    with agent(applied, tmp_path) as running:
        killed(applied)
        running.waits_for("removed the mirrors that were left: capture of VIP dns")
        wait(lambda: is_clean(applied), lambda: "it is still there")
    assert "repaired" not in running.said() and "warning" not in running.said()


def test_an_overdue_hanging_capture_is_named_and_removed(applied: Switch, tmp_path: Path) -> None:
    process = start(applied, "dns", "--for", "5m")
    process.send_signal(signal.SIGSTOP)
    try:
        note = json.loads(json.loads(applied.column("Bridge", BRIDGE, "external_ids:dnsteer-capture")))
        note["until"] = "2026-01-01T00:00:00+00:00"
        applied.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-capture={json.dumps(json.dumps(note))}")
        assert "is overdue" in on(applied)("verify", spec_file(tmp_path)).err
        assert on(applied)("reconcile").code == 0
        assert is_clean(applied)
    finally:
        process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, "the port of the mirror is gone" in said) == (1, True), said
    assert is_clean(applied)


def test_mirrors_end_in_time_when_nobody_reads_the_output(applied: Switch) -> None:
    process = start(applied, "dns", "--for", "3s")
    try:
        send(applied, *[QUERY] * 400)  # two lines each, of more than 100 characters: more than a pipe holds
        wait(lambda: is_clean(applied), lambda: "it is still there")
        assert process.poll() is None
    finally:
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert len(out.splitlines()) > 400


def test_a_damaged_note_is_no_obstacle(applied: Switch) -> None:
    applied.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-capture=junk")
    assert "overdue" in on(applied)("status", "--no-rates").out
    assert on(applied)("reconcile").code == 0
    assert is_clean(applied)


REFUSED = {
    "dsn": "did you mean",
    "farm/ns9": "expected a backend of pool farm",
    "frm/ns1": "expected one of the applied spec",
    "": "expected a VIP or POOL/BACKEND",
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_names_are_refused(what: str, applied: Switch, tmp_path: Path) -> None:
    with nothing_changes(applied):
        done = on(applied)("capture", what, "-w", tmp_path / "x.pcap")
    assert (done.code, REFUSED[what] in done.err) == (1, True), done.err
    assert not (tmp_path / "x.pcap").exists()


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_mirrored(applied: Switch, tmp_path: Path) -> None:
    with nothing_changes(applied):
        done = on(applied)("capture", "dns", "-w", tmp_path / "none" / "x.pcap")
    assert done.code == 1
    assert f"{tmp_path}/none/x.pcap: No such file" in done.err


def test_a_capture_with_hardware_offload_asks_first(applied: Switch, tmp_path: Path) -> None:
    applied.vsctl("set", "Open_vSwitch", ".", "other_config:hw-offload=true")
    file = tmp_path / "x.pcap"
    file.write_text("kept")
    try:
        before = all_of(applied)
        done = on(applied)("capture", "dns", "-w", file)
        assert (done.code, "forwarded by the CPU" in done.err, "--yes" in done.err) == (1, True, True)
        assert (all_of(applied), file.read_text()) == (before, "kept")
        assert on(applied)("capture", "dns", "--for", "0.1s", "--yes").code == 0
    finally:
        applied.vsctl("remove", "Open_vSwitch", ".", "other_config", "hw-offload")
    assert is_clean(applied)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--for", "11m"], "expected at most 10m"),
        (["--for", "-1"], "expected a time"),
        (["--count", "0"], "--count"),
        (["--snaplen", "63"], "--snaplen"),
    ],
)
def test_options_out_of_range_are_wrong_usage(words: list[str], said: str, applied: Switch) -> None:
    done = run("capture", "dns", *words, "--db", applied.database)
    assert (done.code, said in done.err) == (64, True), done.err


def test_a_lost_switch_ends_a_capture(applied: Switch) -> None:
    process = start(applied, "dns", "--for", "5m")
    applied.kill_switch()
    try:
        _, said = process.communicate(timeout=20)
        assert (process.returncode, "the port of the mirror is gone" in said) == (1, True), said
    finally:
        applied.start_switch()
    assert is_clean(applied)


def test_ovs_doca_is_refused_with_what_to_do() -> None:
    with pytest.raises(SwitchError, match="representor"):
        refuse_flavor(Flavor.OVS_DOCA)
    for flavor in set(Flavor) - {Flavor.OVS_DOCA}:
        refuse_flavor(flavor)
