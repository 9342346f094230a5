# SPDX-License-Identifier: Apache-2.0
"""`restore`: after a crash of ovs-vswitchd the last state is back with its overlay, and no packet meets an empty table."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from dnsteer.cli.output import Exit
from tests.packet.command import FARM, SLOW, nothing_changes, on, spec_file
from tests.packet.switches import BRIDGE, Switch, unexpected

CRASH = [*SLOW, "Connection reset by peer", "Broken pipe", "is already up", "receive error", "connection dropped"]


@pytest.fixture
def applied(tmp_path: Path) -> Iterator[Switch]:
    """A switch of its own, with the spec applied and a drain."""
    with Switch() as private:
        private.expected = [*CRASH]
        assert on(private)("apply", spec_file(tmp_path)).code == 0
        assert on(private)("drain", "farm/ns1", "--note", "disk").code == 0
        yield private
        assert unexpected(private) == []


def waits(switch: Switch) -> bool:
    return "flow-restore-wait" in switch.vsctl("--no-wait", "get", "Open_vSwitch", ".", "other_config")


def crash(switch: Switch) -> None:
    """Kill ovs-vswitchd, and forget what left it before."""
    switch.kill_switch()
    for capture in switch.dir.glob("*.pcap"):
        capture.unlink()


def test_the_tables_come_back_with_the_overlay(applied: Switch, tmp_path: Path) -> None:
    before, record = applied.tables(), applied.vsctl("get", "Bridge", BRIDGE, "external_ids")
    for arm in (True, False):
        crash(applied)
        if arm:
            assert on(applied)("restore", "--arm").code == 0
            assert waits(applied)
        applied.start_switch()
        assert len(applied.flows()) <= 1
        done = on(applied)("restore", "--json")
        assert (done.code, done.json["ok"], done.json["changed"]) == (0, True, True)
        assert applied.tables() == before
        assert not waits(applied)
        assert on(applied)("verify", tmp_path / "spec.yaml").code == 0
        assert applied.vsctl("get", "Bridge", BRIDGE, "external_ids:dnsteer-overlay").strip() in record
    with nothing_changes(applied):
        done = on(applied)("restore", "--json")
    assert (done.code, done.json["changed"]) == (0, False)
    assert on(applied)("undrain", "farm/ns1").code == 0


def test_drain_and_undrain_restore_empty_tables(applied: Switch, tmp_path: Path) -> None:
    before = applied.tables()
    crash(applied)
    applied.start_switch()
    assert on(applied)("undrain", "farm/ns1").code == 0
    assert on(applied)("verify", tmp_path / "spec.yaml").code == 0
    assert on(applied)("drain", "farm/ns1").code == 0
    assert applied.tables() == before


def test_arming_without_a_state_does_nothing(tmp_path: Path) -> None:
    with Switch() as private:
        done = on(private)("restore", "--arm")
        assert done.code == 0
        assert not waits(private)
        assert on(private)("restore").code == 0


@pytest.mark.parametrize("how", ["damaged state", "no states", "damaged overlay", "refused", "port gone wrong"])
def test_a_restore_that_fails_lets_the_switch_forward(applied: Switch, tmp_path: Path, how: str) -> None:
    applied.expected += [
        "flow_limit",
        "full",
        "TABLE_FULL",
        "could not open network device",
        "could not add",
        "unknown type",
    ]
    if how == "damaged state":
        applied.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-state=garbage")
    elif how == "no states":
        applied.vsctl("clear", "Bridge", BRIDGE, "flow_tables")
    elif how == "damaged overlay":
        applied.vsctl("set", "Bridge", BRIDGE, "external_ids:dnsteer-overlay=garbage")
    elif how == "refused":
        row = applied.vsctl("get", "Bridge", BRIDGE, "flow_tables:30").strip()
        applied.vsctl("set", "Flow_Table", row, "overflow_policy=refuse", "flow_limit=9")
    crash(applied)
    if how == "port gone wrong":
        applied.vsctl("--no-wait", "set", "Interface", "p1", "type=nonesuch")
    # As a machine that was armed by hand, since arming a damaged record may be refused.
    applied.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    applied.start_switch()
    done = on(applied)("restore", "--timeout", "3")
    if how != "port gone wrong":  # that one may be mended
        assert done.code in (Exit.ERROR, Exit.UNAVAILABLE)
    assert not waits(applied)


def test_a_switch_that_does_not_run_is_not_left_waiting(applied: Switch) -> None:
    crash(applied)
    assert on(applied)("restore", "--arm").code == 0
    done = on(applied)("restore", "--timeout", "1")
    assert done.code in (Exit.UNAVAILABLE, Exit.ERROR)
    assert not waits(applied)
    applied.start_switch()
    assert on(applied)("restore").code == 0


def test_a_wrong_name_does_not_leave_the_switch_waiting(applied: Switch) -> None:
    crash(applied)
    assert on(applied)("restore", "--arm").code == 0
    applied.start_switch()
    assert on(applied)("restore", "--bridge", "br-none", "--timeout", "2").code == Exit.ERROR
    assert not waits(applied)


def test_an_unexpected_error_does_not_leave_the_switch_waiting(applied: Switch) -> None:
    applied.vsctl("set", "Bridge", BRIDGE, f"external_ids:dnsteer-state={'9' * 5000}")
    crash(applied)
    applied.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:flow-restore-wait=true")
    applied.start_switch()
    with contextlib.suppress(ValueError):
        on(applied)("restore", "--timeout", "2")
    assert not waits(applied)


# With packets


class Traffic:
    """Queries put into p0, and what leaves by each port."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch

    def send(self, *source_ports: int) -> None:
        frames = [
            bytes(
                Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:53")
                / IP(src="198.51.100.7", dst="192.0.2.53")
                / UDP(sport=port, dport=53)
                / DNS(id=port, qd=DNSQR(qname="example.com"))
            ).hex()
            for port in source_ports
        ]
        for start in range(0, len(frames), 50):
            self.switch.appctl("netdev-dummy/receive", "p0", *frames[start : start + 50])

    def left(self) -> list[int]:
        """Source ports of the queries that left by p0, since ovs-vswitchd started."""
        time.sleep(0.1)
        file = self.switch.dir / "p0.pcap"
        if not file.exists() or file.stat().st_size < 24:
            return []
        with RawPcapReader(str(file)) as reader:
            return [Ether(bytes(data))[UDP].sport for data, _ in islice(reader, None)]


OPTIONS = "    p0: {{type: dummy, options: {{tx_pcap: {dir}/p0.pcap}}}}\n    p1: {{type: dummy}}\n"


@pytest.fixture
def forwarding(tmp_path: Path) -> Iterator[tuple[Switch, Traffic]]:
    """A switch that captures what leaves it, by options that the spec has, so that they outlast a restart."""
    with Switch() as private:
        private.expected = CRASH
        text = FARM.replace("    p0:\n    p1:\n", OPTIONS.format(dir=private.dir))
        done = on(private)("apply", spec_file(tmp_path, text))
        assert done.code == 0, done.err
        yield private, Traffic(private)
        assert unexpected(private) == []


def test_a_switch_that_waits_forwards_nothing_until_restored(forwarding: tuple[Switch, Traffic]) -> None:
    switch, traffic = forwarding
    traffic.send(40000, 40002)
    assert traffic.left() == [40000, 40002]
    crash(switch)
    assert on(switch)("restore", "--arm").code == 0
    switch.start_switch()
    traffic.send(40004)
    assert traffic.left() == []
    assert on(switch)("restore").code == 0
    ports = list(range(41000, 41100, 2))
    traffic.send(*ports)
    assert traffic.left() == ports


def test_after_the_first_forwarded_query_none_is_lost(forwarding: tuple[Switch, Traffic]) -> None:
    """From the first query that the restarted switch forwards, all are: the tables are whole by then."""
    switch, traffic = forwarding
    crash(switch)
    assert on(switch)("restore", "--arm").code == 0
    switch.start_switch()
    stop, sent = threading.Event(), list[int]()

    def keep_sending() -> None:
        port = 20000
        while not stop.is_set() and port < 60000:
            traffic.send(port)
            sent.append(port)
            port += 2

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        time.sleep(0.2)
        assert on(switch)("restore").code == 0
        time.sleep(0.5)
    finally:
        stop.set()
        sender.join()
    left = traffic.left()
    assert left
    assert left[0] > sent[0]  # while it waited nothing was forwarded
    assert left == sent[sent.index(left[0]) :]
