# SPDX-License-Identifier: Apache-2.0
"""The rendered pipelines on a real OVS-DPDK: they load, and every packet leaves as the spec says, byte by byte."""

from __future__ import annotations

import os
import re
import struct
import time
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from bench.datapath.campaign import Campaign, Pace
from bench.datapath.cases import CASES, SETTINGS, spec
from bench.datapath.counters import read_counters, sample_of
from bench.datapath.dpdk import DpdkSwitch
from bench.datapath.rig import PORTS, Rig
from bench.datapath.summary import targets
from bench.datapath.traffic import write_fresh, write_queries
from scapy.utils import RawPcapReader

from dnsteer.checks.load import check_document, load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.reference import wire
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.vectors import Vector, vectors
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.switch.thread_counters import ThreadCounters
from dnsteer.switch.tools import SwitchError
from tests.unit.thread_texts import UP_TO_3_7

EXAMPLES = Path(__file__).parents[2] / "examples"
NAT = (EXAMPLES / "one-armed-nat.yaml").read_text()
# A port's first packets come in before the switch knows the port, and are lost. These may be; they go nowhere in any case.
FIRST = [bytes.fromhex("02ffffffffff02fffffffffe88b5") + bytes(46)] * 100_000
BURST = 32  # packets that DPDK hands over at once
root = pytest.mark.root("memory and a network namespace")


def spec_of(text: str) -> Loaded:
    return check_document(parse_document("spec.yaml", text))


SPECS = {
    "dsr, one uplink": load_spec(EXAMPLES / "quickstart.yaml"),
    "nat, one uplink": spec_of(NAT),
    "nat by dp-hash": spec_of(NAT.replace("slots: 128", "selection: dp-hash\n    slots: 64")),
    "nat, out by another uplink": spec_of(spec("nat", "source-port", 64)),
}


@pytest.fixture(scope="module")
def rig(goes_first: None) -> Iterator[Rig]:
    """A bridge on an OVS-DPDK without huge pages, so that the machine stays as it is. It must not complain."""
    with DpdkSwitch(max(os.sched_getaffinity(0)), huge=False, memory=256) as switch:
        switch.configure({"pmd-maxsleep": "100"})  # microseconds: other tests have its core while nothing comes in
        yield Rig(switch)
        assert switch.complaints() == []
        process = switch._processes["unshare"]
    assert process.returncode is not None
    assert not switch.dir.exists()


def write(file: Path, packets: list[bytes]) -> None:
    records = (struct.pack("<IIII", 0, 0, len(data), len(data)) + data for data in packets)
    file.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))


def frames(file: Path) -> list[bytes]:
    with RawPcapReader(str(file)) as reader:
        return [bytes(data) for data, _ in reader]


def captured(rig: Rig, files: dict[str, Path], count: int) -> list[Frame]:
    """What the ports' captures hold when the devices are closed, which writes them to the end."""
    for port in PORTS:
        rig.device(port)
    deadline = time.monotonic() + 10
    while True:
        found = [Frame(port, data) for port, file in files.items() for data in frames(file)]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def apart(sent: list[Vector]) -> Iterator[bytes]:
    """The frames, those of a fragmented datagram in a burst of their own.

    Of several datagrams of one backend in one burst, the connection tracker keeps what is complete until the next
    fragments of that backend come (docs/forwarding.md).
    """
    for vector, following in zip_longest(sent, sent[1:]):
        yield vector.data
        piece = " in fragments of "  # also of those that are too small, and are dropped
        last = following is None or piece not in following.name or following.name.endswith(" 1 of 3")
        if piece in vector.name and last:
            yield from [FIRST[0]] * BURST


@root
@pytest.mark.system
@pytest.mark.parametrize("loaded", SPECS.values(), ids=SPECS.keys())
def test_packets_leave_as_the_spec_says(rig: Rig, tmp_path: Path, loaded: Loaded) -> None:
    reference = Reference(loaded.spec)
    # Without ICMP errors: they come faster than their limit here, and each leaves as several copies.
    sent = [v for v in vectors(loaded.spec, reference, per_service=32) if v.port == PORTS[0] and v.kind != "error"]
    wanted = [reference.expect(v.port, v.data).options for v in sent]
    into, out = tmp_path / "in", {port: tmp_path / f"out-{port}" for port in PORTS}
    given = [*FIRST, *apart(sent)]
    write(into, given)

    rig.device(PORTS[0])
    rig.load(build_plan(loaded))
    rig.device(PORTS[1], f"net_pcap{{n}},tx_pcap={out[PORTS[1]]}")
    counters = rig.feed_once(f"net_pcap{{n}},rx_pcap={into},tx_pcap={out[PORTS[0]]}", patience=10)
    left = Counter(captured(rig, out, sum(map(bool, wanted))))

    assert counters.received == len(given)
    assert counters.lost < len(FIRST)
    assert len([options for options in wanted if options]) > 100
    for vector, options in zip(sent, wanted, strict=True):
        if options:
            one = next((frame for frame in options if left[frame]), None)
            assert one is not None, f"{vector.name} did not leave as it should"
            left[one] -= 1
    assert not +left  # nothing else left


@root
@pytest.mark.system
def test_the_benchmark_measures_what_it_says(rig: Rig, tmp_path: Path) -> None:
    longest = 2.0
    for seconds in (0.05, 0.2, 0.8, longest):  # other tests want the cores too: a thread that got none forwards nothing
        pace = Pace(rounds=1, seconds=seconds, warm=seconds)
        campaign = Campaign(rig, tmp_path / str(seconds), pace, seed=1, say=lambda _: None)
        (tmp_path / str(seconds)).mkdir()
        try:
            rows = campaign.matrix([6], [200])
        except SwitchError:
            if seconds == longest:
                raise
            continue
        if not campaign.problems:
            break
    assert campaign.problems == []
    assert {(row["case"], row["settings"]) for row in rows} == {(c.name, s.name) for c in CASES for s in SETTINGS}
    for row in rows:
        twice = 2 if "dp-hash" in row["case"] else 1
        assert row["passes"] == pytest.approx(twice, abs=0.05)  # packets are under way where a thread loses its core
        assert row["mpps"]["median"] > 0.05
        if row["case"] == "port":
            assert row["simple"] == pytest.approx(1, abs=0.01)
        elif row["settings"] == "no-cache":
            assert (row["emc"], row["smc"]) == (0, 0)
            assert row["megaflow"] == pytest.approx(twice, abs=0.05)
        elif row["settings"] == "smc":
            assert row["smc"] > 0.9 * twice
    assert {(r["family"], r["clients"]) for r in targets(rows)} == {("IPv6", 200)}


@pytest.mark.parametrize("family", [4, 6])
def test_queries_are_whole_and_of_many_clients(tmp_path: Path, family: int) -> None:
    write_queries(tmp_path / "queries", 300, family, seed=1)
    write_fresh(tmp_path / "fresh", 2000, family, seed=1)
    for file, count in (("queries", 300), ("fresh", 2000)):
        packets = [wire.parse(data) for data in frames(tmp_path / file)]
        assert len(packets) == count
        assert len({(p.source, p.sport) for p in packets}) > 0.99 * count
        for packet in packets:
            sealed = bytearray(packet.data)
            wire.write_checksums(sealed)
            assert sealed == packet.data  # checksums are right


class PassingOver:
    """A switch whose revalidator has a megaflow in hand, so that the first times it is not taken away."""

    def __init__(self, times: int) -> None:
        self.left = times + 1

    def appctl(self, command: str, *_: str) -> str:
        self.left -= command == "revalidator/purge"
        ours = "recirc_id(0),in_port(p0),eth_type(0x86dd), actions:p1\n" * (self.left > 0)
        return f"{ours}recirc_id(0),in_port(br-dns),eth_type(0x86dd), actions:drop\n"


def test_megaflows_of_earlier_tables_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig.__new__(Rig)
    monkeypatch.setattr(rig, "switch", PassingOver(3), raising=False)
    rig._forget()
    assert rig.switch.appctl("dpctl/dump-flows").count("recirc_id") == 1
    monkeypatch.setattr("bench.datapath.rig._PATIENCE", 0.01)
    monkeypatch.setattr(rig, "switch", PassingOver(10**9))
    with pytest.raises(SwitchError, match=r"megaflows of p0 stay, 0\.01 s after"):
        rig._forget()


PMD = re.sub(r"pmd thread numa_id 1 (?s:.*?)(?=main thread)", "", UP_TO_3_7)
"""Of one thread that forwards, and the main thread."""


def test_counters_become_figures_per_packet() -> None:
    counters = read_counters(PMD)
    name = "numa_id 0 core_id 1"
    assert counters == ThreadCounters(name, 200, 100, 20, 30, 40, 100, 1.0, 9, 2, 3.5, 1000, 9000, 10000)
    sample = sample_of(counters, 2e9, 190, 0.5)
    assert (sample.cycles, sample.mpps, sample.passes, sample.megaflow) == (50, 40, 1.5, 0.5)
    assert (sample.forwarded, sample.upcalls) == (0.95, 11)
    with pytest.raises(SwitchError, match="2 forwarding threads"):
        read_counters(PMD + PMD.replace("core_id 1", "core_id 2"))
    with pytest.raises(SwitchError, match="received nothing"):
        sample_of(ThreadCounters(name, 0, 0), 2e9, 0, 0)
