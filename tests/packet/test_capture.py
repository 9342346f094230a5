# SPDX-License-Identifier: Apache-2.0
"""`capture` on a private switch: whose packets it takes, and that it disturbs nothing."""

from __future__ import annotations

import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

from dnsteer.proof.traffic.vectors import Vector
from dnsteer.switch.captures import mirror_port
from tests.packet.agents import wait
from tests.packet.capturing import EXPECTED as EXPECTED
from tests.packet.capturing import QUERY, captured, is_clean, send, sent, start
from tests.packet.command import fresh, nothing_changes, on, spec_file
from tests.packet.extension_beside_switch import Run
from tests.packet.setting_cases import REFERENCE, VECTORS
from tests.packet.switches import BRIDGE, EXAMPLES, LARGE, Switch


@pytest.fixture
def large(shared: Switch, tmp_path: Path) -> Switch:
    """The module's switch with the spec LARGE: NAT by a group, and DSR, on ports of their own."""
    fresh(shared)
    assert on(shared)("apply", spec_file(tmp_path, LARGE), "--yes").code == 0
    return shared


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
def test_a_backend_capture_has_the_packets_between_it_and_the_switch(name: str, port: str, large: Switch) -> None:
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
            send(applied, QUERY, port=mirror_port(BRIDGE, direction))
        send(applied, QUERY)
        wait(lambda: sent(applied) > before, lambda: "the query by the uplink was not sent on")
        assert sent(applied) == before + 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert is_clean(applied)


def test_packets_are_shortened_by_the_switch(applied: Switch, tmp_path: Path) -> None:
    file = tmp_path / "x.pcap"
    process = start(applied, "dns", "--for", "5m", "-w", file, "--count", "2", "--snaplen", "64")
    send(applied, QUERY)
    process.communicate(timeout=20)
    assert [bytes(p)[12:] for p in rdpcap(str(file))] == [QUERY[12:64]] * 2
    assert len(QUERY) > 64


def test_extension_packets_are_captured_before_and_after(do: Run, shared: Switch) -> None:
    text = (EXAMPLES / "ipip.yaml").read_text()
    assert do("apply", text[text.index("apiVersion") :], "--yes").code == 0
    inner = IP(src="198.51.100.7", dst="198.51.100.53") / UDP(sport=4000, dport=53) / (b"x" * 30)
    query = bytes(Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53") / inner)
    tunnel = IP(src="192.0.2.2", dst="192.0.2.11") / inner  # what the program makes of it
    made = bytes(Ether(src="02:00:00:00:00:53", dst="02:00:00:00:01:01") / tunnel)

    def both() -> None:
        send(shared, query)
        wait(lambda: sent(shared, "ext-in") > 0, lambda: "the query did not go to the extension")
        send(shared, made, port="ext-out")

    assert captured(shared, "dns", both, 2) == [("in", query), ("out", made)]
    assert is_clean(shared, {"p0", "ext-in", "ext-out"})
