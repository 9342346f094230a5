# SPDX-License-Identifier: Apache-2.0
"""Pools of two passes: VIPs and slots add up, and no change of passes moves a client or loses a packet."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.send import BundleSender
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.lint.run import run_finders
from dnsteer.offload.datapath_flow import DatapathFlow, read_flows
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.check import prove
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.openflow import OpenFlow
from dnsteer.tables.order import PIPELINE
from tests.mask_attack import attack
from tests.packet.command import fresh, on, spec_file
from tests.packet.packets_across_changes import captured, revalidated
from tests.packet.switches import EXAMPLES, Switch, spec_of

SPEC = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1, '2001:db8:53::1']
  uplinks:
    p0: {next_hop: '02:00:00:00:00:fe'}
  ports:
    vf0:
pools:
  direct:
    passes: 2
    slots: 16
    backends:
      - {name: a, ipv4: 10.53.0.21, ipv6: '2001:db8:53::21', mac: '02:00:00:00:04:11'}
      - {name: b, ipv4: 10.53.0.22, ipv6: '2001:db8:53::22', mac: '02:00:00:00:04:12', port: vf0}
  translated:
    passes: 2
    slots: 16
    backends:
      - {name: r1, ipv4: 10.53.0.11, ipv6: '2001:db8:53::11', mac: '02:00:00:00:04:01'}
      - {name: r2, ipv4: 10.53.0.12, ipv6: '2001:db8:53::12', mac: '02:00:00:00:04:02'}
vips:
  d1: {addresses: [198.51.100.1, '2001:db8:1::1'], services: [dns, doq], pool: direct}
  d2: {addresses: [198.51.100.2, '2001:db8:1::2'], services: [dns, {protocol: tcp, port: 5353}], pool: direct}
  n1:
    addresses: [198.51.100.11, '2001:db8:1::11']
    services: [{protocol: udp, port: 53, target_port: 5300}, {protocol: tcp, port: 53, target_port: 5300}]
    pool: translated
    forwarding: nat
    fragments: drop
  n2:
    addresses: [198.51.100.12, '2001:db8:1::12']
    services: [{protocol: udp, port: 53, target_port: 5400}, {protocol: tcp, port: 53, target_port: 5400}]
    pool: translated
    forwarding: nat
    fragments: drop
"""
ONE_PASS = SPEC.replace("passes: 2", "passes: 1")
WORKERS = """\
  workers:
    passes: 2
    slots: 16
    backends:
      - {name: w1, ipv4: 10.53.0.31, ipv6: '2001:db8:53::31', mac: '02:00:00:00:04:21', workers: 2}
      - {name: w2, ipv4: 10.53.0.32, ipv6: '2001:db8:53::32', mac: '02:00:00:00:04:22', workers: 2}
  hashed:
    selection: dp-hash
    slots: 16
    backends:
      - {name: h1, ipv4: 10.53.0.51, ipv6: '2001:db8:53::51', mac: '02:00:00:00:04:41'}
  single:
    slots: 16
    backends:
      - {name: s1, ipv4: 10.53.0.41, ipv6: '2001:db8:53::41', mac: '02:00:00:00:04:31'}
      - {name: s2, ipv4: 10.53.0.42, mac: '02:00:00:00:04:32', port: vf0}
vips:
  w1:
    addresses: [198.51.100.21, '2001:db8:1::21']
    services: [{protocol: udp, port: 53, target_port: 5500}, {protocol: tcp, port: 53, target_port: 5600}]
    pool: workers
    forwarding: nat
  h1: {addresses: [198.51.100.31], services: [dns], pool: hashed}
  s1: {addresses: [198.51.100.41, '2001:db8:1::41'], services: [dns], pool: single}
"""
MIXED = (
    SPEC.replace("    p0: {", "    p1: {next_hop: '02:00:00:00:00:fd'}\n    p0: {")
    .replace("vips:\n", WORKERS)
    .replace("  uplinks:", "  probe: {addresses: [10.53.0.200/24, '2001:db8:53::200/64']}\n  uplinks:")
)
"""All sorts of pools on one switch, with probes, two uplinks, workers, and a pool whose families have other backends."""
CLIENT, CLIENT_6, ROUTER = "203.0.113.9", "2001:db8:9::9", "02:00:00:00:00:fe"
SLOTS = 16
SELECTION = PIPELINE.tables["selection"].number


def query(address: str, protocol: str, port: int, source: int) -> bytes:
    ip: Packet = IPv6(src=CLIENT_6, dst=address) if ":" in address else IP(src=CLIENT, dst=address)
    transport = UDP(sport=source, dport=port) if protocol == "udp" else TCP(sport=source, dport=port, flags="S")
    return bytes(Ether(src=ROUTER, dst="02:00:00:00:00:53") / ip / transport / Raw(f"query {source}".encode()))


def queries(loaded: Loaded, slots: range = range(SLOTS)) -> list[bytes]:
    """A query for each slot of each service, or for some of the *slots*."""
    return [
        query(str(address), e.protocol.value, e.port, 32768 + 2 * slot)
        for vip in loaded.spec.vips.values()
        for address in vip.addresses
        for e in derived.endpoints(vip)
        for slot in slots
    ]


def made_by(loaded: Loaded, frames: list[bytes]) -> list[DatapathFlow]:
    with Harness(build_plan(loaded)) as harness:
        assert len(harness.send([Frame("p0", frame) for frame in frames])) == len(frames)
        found = read_flows(harness.switch.dump("dpctl/dump-flows", "-m"))
    return [flow for flow in found if isinstance(flow, DatapathFlow)]


def test_every_byte_is_as_with_one_pass() -> None:
    report = prove(spec_of(MIXED))
    assert report.ok, report.failures[:1]
    assert report.recirculations > 300


def test_services_and_slots_add_up() -> None:
    """20 services; in the second pass 16 slots for each of two protocols and families of two pools."""
    loaded = spec_of(SPEC)
    flows = made_by(loaded, queries(loaded))
    first = [flow for flow in flows if not flow.recirculated]
    assert (len(first), len(flows) - len(first)) == (20, 2 * 2 * 2 * SLOTS)
    sizes = sizes_of(loaded.spec, build_plan(loaded))
    assert sum(count for (what, _), count in sizes.rules.items() if what.startswith("queries")) == len(flows)


def test_with_one_pass_each_slot_of_a_service_is_one_datapath_flow() -> None:
    loaded = spec_of(ONE_PASS)
    flows = made_by(loaded, queries(loaded))
    assert len(flows) == 20 * SLOTS
    assert not any(flow.recirculated for flow in flows)


def test_nothing_names_the_vip_in_the_second_pass() -> None:
    """With NAT the destination is matched: it is the first backend's for all VIPs. Ports are not."""
    loaded = spec_of(SPEC)
    again = [flow for flow in made_by(loaded, queries(loaded)) if flow.recirculated]
    matched = {str(f.shown) for flow in again for key in ("ipv4.dst", "ipv6.dst") if (f := flow.get(key)) is not None}
    assert matched == {"10.53.0.11", "2001:db8:53::11"}
    assert not any(flow.get(key) for flow in again for key in ("udp.dst", "tcp.dst"))


@pytest.mark.parametrize("text", [SPEC, MIXED], ids=["two passes", "all sorts"])
def test_an_attack_makes_no_mask_that_was_not_computed(text: str) -> None:
    plan = build_plan(spec_of(text))
    bound, found = mask_bound(plan), attack(plan, 15, 53, 5_000)
    assert [mask for mask in found.masks if not bound.allows(mask)] == []
    assert 0 < found.subtables <= bound.total


_HEAD = struct.Struct("=IIII")
"""Of each packet in a capture file."""


def test_check_counts_the_second_pass_once_for_all_portions() -> None:
    """More packets than a portion: each further one has other VIPs, and the same second pass."""
    report = prove(load_spec(EXAMPLES / "many-vips.yaml"), per_service=64)
    assert report.ok and report.packets["query"] > 10_000
    assert report.megaflows == 160 + 4 * 64


def lint_of(text: str, flavor: str = "ovs-doca") -> dict[str, str]:
    found = run_finders(examine(spec_of(text), profile(flavor), queries=1)).findings
    return {f.code.code: f.text for f in found if f.code.code in ("DNS037", "DNS038") or "2 passes for each" in f.text}


def test_lint_says_what_is_not_known_of_the_second_pass() -> None:
    found = lint_of(SPEC)
    assert list(found) == ["DNS037"]
    assert "pool translated: " in found["DNS037"] and "about 72 rules instead of 128" in found["DNS037"]
    assert lint_of(ONE_PASS) == {}
    assert lint_of(SPEC, "ovs-netdev") == {}, "the CPU forwards everything"


def test_lint_warns_of_more_rules_than_the_budget() -> None:
    small = ONE_PASS.replace("  uplinks:", "  rules: 300\n  uplinks:")
    assert lint_of(small, "ovs-netdev") == {
        "DNS038": "about 320 rules for queries, more than the 300 of switch.rules; pool direct has 192 in one pass, and "
        "would have 76 in two"
    }
    assert lint_of(small.replace("    passes: 1\n", "", 1), "ovs-netdev") == {}, "auto takes two for one of the pools"


class Traffic:
    """Sends queries to each service, and reads what leaves."""

    def __init__(self, switch: Switch, folder: Path, loaded: Loaded) -> None:
        self.switch, self.folder, self.loaded = switch, folder, loaded
        self.reference = Reference(loaded.spec)
        self.moments: list[str] = []

    def check(self, moment: str, slots: range = range(SLOTS)) -> None:
        """Each query must leave once, for the backend that its slot has by the spec."""
        self.moments.append(moment)
        frames = queries(self.loaded, slots)
        wanted = sorted((f.port, f.data) for data in frames for f in self.reference.expect("p0", data).options)
        offsets = {file.stem: file.stat().st_size for file in self.folder.glob("*.pcap")}
        left: list[tuple[str, bytes]] = []
        for i in range(0, len(frames), 40):
            some = frames[i : i + 40]
            self.switch.appctl("netdev-dummy/receive", "p0", *(data.hex() for data in some))
            deadline = time.monotonic() + 3
            while len(left) < i + len(some) and time.monotonic() < deadline:
                left += self._read(offsets)
        assert sorted(left) == wanted, f"{moment}: {len(left)} of {len(wanted)} came out"

    def _read(self, offsets: dict[str, int]) -> Iterator[tuple[str, bytes]]:
        time.sleep(0.005)
        for name, at in offsets.items():
            data = (self.folder / f"{name}.pcap").read_bytes()
            while at + _HEAD.size <= len(data) and at + _HEAD.size + _HEAD.unpack_from(data, at)[2] <= len(data):
                length = _HEAD.unpack_from(data, at)[2]
                yield name, data[at + _HEAD.size : at + _HEAD.size + length]
                at += _HEAD.size + length
            offsets[name] = at


def change(switch: Switch, traffic: Traffic, loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply a spec with queries at every step, also while the datapath has not yet what the tables have.

    Then datapath flows of the old first pass lead to slots that no query had: their second pass is looked up in the new
    tables.
    """
    bundle = OpenFlow.bundle

    def sent(self: OpenFlow, lines: list[str]) -> None:
        switch.appctl("revalidator/purge")
        traffic.check("before a bundle", range(0, SLOTS, 2))
        switch.appctl("revalidator/pause")
        bundle(self, lines)
        traffic.check("before the datapath follows")
        switch.appctl("revalidator/resume")
        revalidated(switch)
        traffic.check("after a bundle")

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", sent)
        patch.setattr(BundleSender, "_pause", lambda _self, seconds: traffic.check("in the grace"))
        deploy(FileSource(loaded), TargetSwitch(switch.database), Options(grace=2))


def test_a_change_of_passes_moves_no_client_and_loses_no_packet(
    shared: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (spec_of(captured(text, tmp_path, ("p0", "vf0"))) for text in (ONE_PASS, SPEC))
    deploy(FileSource(one), TargetSwitch(shared.database), Options(grace=0))
    traffic = Traffic(shared, tmp_path, one)
    change(shared, traffic, two, monkeypatch)
    assert "in the grace" not in traffic.moments
    change(shared, traffic, one, monkeypatch)
    assert "in the grace" in traffic.moments
    assert not any(f"table={SELECTION}, priority=100" in flow for flow in shared.flows())


def test_a_pool_of_two_passes_that_is_replaced_loses_no_packet(
    shared: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its VIPs get another pool with the same backends: the second pass of the old one is still needed for a while."""
    old, new = (spec_of(captured(text, tmp_path, ("p0", "vf0"))) for text in (SPEC, SPEC.replace("direct", "other")))
    fresh(shared)
    deploy(FileSource(old), TargetSwitch(shared.database), Options(grace=0))
    change(shared, Traffic(shared, tmp_path, old), new, monkeypatch)
    assert len([flow for flow in shared.flows() if f"table={SELECTION}, priority=100" in flow]) == 8


def test_a_chosen_number_of_slots_is_said_once_and_kept(shared: Switch, tmp_path: Path) -> None:
    """40 VIPs of two families and two protocols share the pool."""
    fresh(shared)
    vips = "".join(
        f"  v{n}: {{addresses: [198.51.100.{n}, '2001:db8:1::{n:x}'], services: [dns], pool: direct}}\n"
        for n in range(1, 41)
    )
    head = ONE_PASS[: ONE_PASS.index("  translated:")].replace("    passes: 1\n    slots: 16\n", "")
    many = f"{head}vips:\n{vips}"
    few = f"{head}vips:\n{vips.splitlines(keepends=True)[0]}"
    do = on(shared)
    said = (
        "note: pool direct gets 64 slots, not 256, since 160 services share it: to have as many anywhere, and whatever VIPs "
        "there are, name them (slots: 64)\n"
    )
    planned = do("plan", spec_file(tmp_path, many))
    assert (planned.code, planned.err) == (2, said)
    assert do("apply", spec_file(tmp_path, many), "--yes").code == 0
    assert do("plan", spec_file(tmp_path, many)).err == ""
    assert "pool direct keeps its 64 slots, where a new pool gets 256" in do("plan", spec_file(tmp_path, few)).err
