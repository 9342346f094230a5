"""`capture` on a private switch: whose packets it takes, that it disturbs nothing, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from dnsteer.capture.readers import Captured
from dnsteer.capture.run import Counts, Wanted, capture, refuse_flavor
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.proof.traffic.vectors import Vector
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch.captures import port_name
from dnsteer.switch.tools import SwitchError
from tests.packet.agents import agent, wait
from tests.packet.command import all_of, nothing_changes, on, run, spec_file
from tests.packet.setting_cases import REFERENCE, VECTORS
from tests.packet.switches import BRIDGE, LARGE, ROOT, Switch

EXPECTED = [
    "connection dropped",
    "could not open network device",
    "Broken pipe",
    "cap[0-9a-f]{8}[io]",
    "left allocated",
]
QUERY = bytes(
    Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
    / IP(src="198.51.100.7", dst="192.0.2.53")
    / UDP(sport=4000, dport=53)
    / (b"\0\7" + b"\1\0\0\1\0\0\0\0\0\0" + b"\1a\7example\0" + b"\0\1\0\1")
)


@dataclass
class Held:
    """A sink that keeps packets. *ready* is set when the mirrors are there."""

    packets: list[Captured] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        pass

    def begin(self) -> None:
        self.ready.set()

    def put(self, packet: Captured) -> None:
        self.packets.append(packet)


def captured(switch: Switch, what: str, send: Callable[[], object], count: int) -> list[tuple[str, bytes]]:
    """Directions and frames of *count* packets of *what*, while *send* sends."""
    sink = Held()
    args = (TargetSwitch(switch.database), None, Wanted(what, 30, count), sink, None, lambda _: None, Counts())
    thread = threading.Thread(target=capture, args=args)
    thread.start()
    try:
        assert sink.ready.wait(15)
        switch.appctl("revalidator/wait")  # datapath flows that were there get the mirrors a moment later
        send()
    finally:
        thread.join(35)
    return [(p.direction, p.data) for p in sink.packets]


def send(switch: Switch, *frames: bytes, port: str = "p0") -> None:
    for frame in frames:
        switch.appctl("netdev-dummy/receive", port, frame.hex())


def start(switch: Switch, *args: object, **options: object) -> subprocess.Popen[str]:
    """A capture in a process of its own, when its mirrors are there."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
    argv = [sys.executable, "-m", "dnsteer", "capture", *map(str, args), "--db", switch.database]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen(argv, text=True, env=env, **streams)  # type: ignore[call-overload]
    said = process.stderr.readline()
    assert "mirroring" in said, said + process.stderr.read()
    return process  # type: ignore[no-any-return]


def sent(switch: Switch, port: str = "p0") -> int:
    """Packets that left by a port."""
    found = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", port))
    assert found is not None
    return int(found[1])


def is_clean(switch: Switch, ports: set[str] = frozenset({"p0", "p1"})) -> bool:  # type: ignore[assignment]
    mirrors, note = switch.vsctl("list", "Mirror").strip(), switch.column("Bridge", BRIDGE, "external_ids")
    return not mirrors and "dnsteer-capture" not in note and switch.ports() == ports


@pytest.fixture(scope="module")
def large(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    """The module's switch with the spec LARGE: NAT by a group, and DSR, on ports of their own."""
    file = spec_file(tmp_path_factory.mktemp("spec"), LARGE)
    assert on(shared)("apply", file, "--yes").code == 0
    yield shared


PASSING = [v for v in VECTORS if v.kind in ("query", "answer")]


def _whose(vector: Vector) -> str:
    return next(name for name in ("straight", "nat") if f"{name} " in vector.name)


@pytest.mark.parametrize("vip", ["straight", "nat"])
def test_exactly_the_packets_of_a_vip_as_they_come_and_as_they_leave(vip: str, large: Switch) -> None:
    own = [v for v in PASSING if _whose(v) == vip]
    assert len(own) < len(PASSING)

    def send_all() -> None:
        for vector in PASSING:
            send(large, vector.data, port=vector.port)
        send(large, own[0].data, port=own[0].port)  # the last: had others been taken, it would be missing

    found = captured(large, vip, send_all, 2 * len(own) + 2)
    assert sorted(d for direction, d in found if direction == "in") == sorted(v.data for v in [*own, own[0]])
    out = Counter(d for direction, d in found if direction == "out")
    for vector in own:
        options = {f.data for f in REFERENCE.expect(vector.port, vector.data).options}
        assert sum(out.pop(frame, 0) for frame in options) == (2 if vector is own[0] else 1), vector.name
    assert not out
    assert is_clean(large, {"p0", "vf0", "vf1", "vf2"})


def test_datapath_flows_that_are_there_get_the_mirrors_and_lose_them(large: Switch) -> None:
    vector = next(v for v in PASSING if _whose(v) == "straight")

    def actions() -> list[str]:
        large.appctl("revalidator/wait")
        return sorted(re.findall(r"actions:(.*)", large.appctl("dpif/dump-flows", BRIDGE)))

    large.appctl("revalidator/purge")
    send(large, vector.data, port=vector.port)
    wait(actions, lambda: "no datapath flow")
    (before,) = actions()
    during: list[str] = []
    found = captured(
        large, "straight", lambda: (during.extend(actions()), send(large, vector.data, port=vector.port)), 2
    )
    assert [d for direction, d in found if direction == "in"] == [vector.data]
    assert len(during) == 1 and len(during[0].split(",")) == len(before.split(",")) + 2
    wait(lambda: actions() == [before], lambda: f"{before} is {actions()} after the capture")


@pytest.mark.parametrize(("name", "port"), [("direct/c", "vf2"), ("hashed/a", "vf0")])
def test_of_a_backend_what_is_between_it_and_the_switch(name: str, port: str, large: Switch) -> None:
    vip = "straight" if name.startswith("direct") else "nat"
    answers = [v for v in PASSING if v.kind == "answer"]
    queries = [v for v in PASSING if v.kind == "query"]
    mine = [v.data for v in answers if v.port == port and _whose(v) == vip]

    def to_it(vector: Vector) -> set[bytes]:
        return {f.data for f in REFERENCE.expect(vector.port, vector.data).options if f.port == port}

    sure = [v for v in queries if _whose(v) == vip and to_it(v)]
    assert mine and sure

    def send_all() -> None:
        for vector in [*queries, *answers, *[v for v in answers if v.port == port and _whose(v) == vip][:1]]:
            send(large, vector.data, port=vector.port)

    # Which queries of a group go to which backend the switch decides, so the number is known for the answers alone.
    count = len(mine) + 1 + (len(sure) if vip == "straight" else _sent(large, queries, port))
    found = captured(large, name, send_all, count)
    assert sorted(d for direction, d in found if direction == "in") == sorted([*mine, mine[0]])
    possible = set().union(*map(to_it, sure))
    assert all(d in possible for direction, d in found if direction == "out")


def _sent(switch: Switch, queries: list[Vector], port: str) -> int:
    """How many of these queries of the VIP nat the switch sends to a backend, by the counter of its port."""
    before, first = sum(sent(switch, p) for p in ("vf0", "vf1")), sent(switch, port)
    own = [v for v in queries if _whose(v) == "nat"]
    for vector in own:
        send(switch, vector.data, port=vector.port)
    wait(
        lambda: sum(sent(switch, p) for p in ("vf0", "vf1")) - before == len(own),
        lambda: "not all queries were sent on",
    )
    return sent(switch, port) - first


def test_the_switch_is_as_applied_during_a_capture(applied: Switch, tmp_path: Path) -> None:
    spec, do = spec_file(tmp_path), on(applied)
    tables = applied.tables()
    process = start(applied, "dns", "--for", "5m")
    try:
        assert applied.tables() == tables
        with nothing_changes(applied):
            done = do("apply", spec)
            assert (done.code, done.out) == (0, "br-dns: nothing to change\n")
            assert do("plan", spec).code == 0
            for verb in ("verify", "status"):
                words = [spec] if verb == "verify" else ["--no-rates"]
                done = do(verb, *words)
                assert done.code == 0, done.out
                said = done.out + done.err
                assert "capture of VIP dns by" in said and "is under way" in said
                assert "not in the spec" not in said and "mirrors is" not in said
            assert (do("reconcile").out, do("restore", "--dry-run").code) == ("", 0)
            other = do("capture", "other")
            assert (other.code, f"(process {process.pid}) until" in other.err) == (1, True)
        assert do("drain", "farm/ns1").code == do("undrain", "farm/ns1").code == 0
        assert applied.tables() == tables
        before = sent(applied)
        for direction in ("in", "out"):  # what comes in by its ports leaves by none
            send(applied, QUERY, port=port_name(BRIDGE, direction))
        send(applied, QUERY)
        wait(lambda: sent(applied) > before, lambda: "the query by the uplink was not sent on")
        assert sent(applied) == before + 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert is_clean(applied)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_what_was_captured_stays(by: signal.Signals, applied: Switch, tmp_path: Path) -> None:
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


def test_time_and_number_end_it(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    with file.open("wb") as stream:
        process = start(applied, "dns", "--for", "0.3s", "-w", "-", stdout=stream)
        _, said = process.communicate(timeout=20)
    assert len(rdpcap(str(file))) == 0
    assert (process.returncode, said.endswith("no packet captured\n")) == (0, True)
    assert is_clean(applied)
    process = start(applied, "dns", "--for", "5m", "--count", "3")
    send(applied, QUERY, QUERY, QUERY)
    out, said = process.communicate(timeout=20)
    lines = out.splitlines()
    assert (process.returncode, len(lines)) == (0, 3), said
    assert " in  " in lines[0] and " out " in lines[1]
    assert "198.51.100.7:4000 > 192.0.2.53:53 udp, query 7 a.example. A" in lines[0]
    assert is_clean(applied)


def test_a_reader_that_goes_away_and_a_full_disk_end_it(applied: Switch, tmp_path: Path) -> None:
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


def test_what_a_killed_one_leaves_is_removed(applied: Switch, tmp_path: Path) -> None:
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


def test_the_agent_removes_what_a_killed_one_leaves(applied: Switch, tmp_path: Path) -> None:
    with agent(applied, tmp_path) as running:
        killed(applied)
        running.waits_for("removed the mirrors that were left: capture of VIP dns")
        wait(lambda: is_clean(applied), lambda: "it is still there")
    assert "repaired" not in running.said() and "warning" not in running.said()


def test_one_that_hangs_is_named_and_removed_when_it_is_overdue(applied: Switch, tmp_path: Path) -> None:
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


def test_mirrors_go_in_time_when_nobody_reads_what_it_writes(applied: Switch) -> None:
    process = start(applied, "dns", "--for", "1s")
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


def test_where_hardware_forwards_it_asks(applied: Switch, tmp_path: Path) -> None:
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
        (["--for", "11m"], "expected at most 10m"), (["--for", "-1"], "expected a time"), (["--count", "0"], "--count"),
        (["--snaplen", "63"], "--snaplen"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_wrong_usage(words: list[str], said: str, applied: Switch) -> None:
    done = run("capture", "dns", *words, "--db", applied.database)
    assert (done.code, said in done.err) == (64, True), done.err


def test_packets_are_shortened_by_the_switch(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    process = start(applied, "dns", "--for", "5m", "-w", file, "--count", "2", "--snaplen", "64")
    send(applied, QUERY)
    process.communicate(timeout=20)
    assert [bytes(p)[12:] for p in rdpcap(str(file))] == [QUERY[12:64]] * 2
    assert len(QUERY) > 64


def test_a_switch_that_goes_away_ends_it(applied: Switch) -> None:
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
