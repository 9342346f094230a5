# SPDX-License-Identifier: Apache-2.0
"""Tables that get other numbers, as by an upgrade of dnsteer: no packet is lost, whatever else the change changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.send import BundleSender
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.extension.client import ExtensionClient
from dnsteer.metrics.agent_metrics import AgentMetrics
from dnsteer.metrics.collect import Collector
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.extension_process import ExtensionProcess
from dnsteer.status.counters import BackendKey, CountedService, take_counters
from dnsteer.status.rates import rates_between
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow
from tests.packet.agents import wait
from tests.packet.command import on, spec_file
from tests.packet.extension_beside_switch import EXTENDED
from tests.packet.packets_across_changes import Crossing, Relay, captured, revalidated
from tests.packet.switches import LARGE, SMALL, Switch, spec_of
from tests.packet.table_numbers import ALL_ABOVE, IN_PLACE_OF_OTHERS, NUMBERS, ONE_BY_ONE, WITH_GAPS, names, renumber

SPEC = EXTENDED.replace(
    "  extension:\n", "  probe: {addresses: [10.53.0.9/24, '2001:db8:53::9/64']}\n  extension:\n"
).replace("    vf0:\n", "    vf0:\n    vf1:\n")
NAT = "  translated: {addresses: [198.51.100.77], services: [dns], pool: near, forwarding: nat}\n"
OTHERS = (
    (SPEC + NAT)
    .replace("ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'", "ipv4: 192.0.2.111, mac: '02:00:00:00:11:01', port: vf1")
    .replace("n2, ipv4: 192.0.2.32, mac: '02:00:00:00:03:02'", "n3, ipv4: 192.0.2.33, mac: '02:00:00:00:03:03'")
)
"""Other backends, in the tables and in the extension."""
PORTS = ("p0", "vf0", "vf1", "ext-in", "ext-out")
SAID = "another version of dnsteer made the tables, with other numbers: they get the numbers of this one"
LAYOUTS = {
    "with gaps": WITH_GAPS,
    "one by one": ONE_BY_ONE,
    "in place of others": IN_PLACE_OF_OTHERS,
    "all above": ALL_ABOVE,
}


@pytest.fixture(scope="module")
def crossing(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Crossing, Relay]]:
    shared.expected += ["Dropped", "receive error", "Connection reset"]
    shared.vsctl("set", "Open_vSwitch", ".", "other_config:max-revalidator=100")
    folder = tmp_path_factory.mktemp("x")
    extension = build_plan(spec_of(SPEC)).extension
    assert extension is not None
    extension.services.clear()
    extension.targets.clear()
    with ExtensionProcess(extension) as process, Relay(folder / "control.sock", process._exchange) as relay:
        yield Crossing(shared, process, folder), relay


def change(
    crossing: Crossing, relay: Relay, numbers: Mapping[str, int], old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apply *new* over the tables of *old* with other numbers, with packets at every step."""
    first, second = (spec_of(captured(text, crossing.folder, PORTS)) for text in (old, new))
    target = TargetSwitch(crossing.switch.database, extension=str(relay.path))
    deploy(FileSource(first), target, Options(grace=0))
    renumber(crossing.switch, numbers)
    revalidated(crossing.switch)
    crossing.watch(first, second)
    crossing.lost.clear()
    becomes = f"cookie=0x{build_plan(second).state.cookie:x}, "
    bundle, load = OpenFlow.bundle, ExtensionClient.load

    def sent(self: OpenFlow, lines: list[str]) -> None:
        crossing.moment("before a bundle")
        bundle(self, lines)
        revalidated(crossing.switch)
        if any(line.startswith(f"flow add {becomes}") for line in lines):
            crossing.turn()
        crossing.moment("after a bundle")

    def loaded(self: ExtensionClient, program: dict[str, Any]) -> dict[str, Any]:
        crossing.moment("before a load")
        answer = load(self, program)
        crossing.moment("after a load")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(
            "tests.packet.packets_across_changes.SOURCES", (20000, 20006, 20533)
        )  # 20533: low bits as of port 53
        patch.setattr(OpenFlow, "bundle", sent)
        patch.setattr(ExtensionClient, "load", loaded)
        patch.setattr(BundleSender, "_pause", lambda _self, seconds: crossing.pause() if seconds > 1 else None)
        deploy(FileSource(second), target, Options(grace=2))
        crossing.moment("in the end")
    assert crossing.lost == []
    assert [d for d in find_drift(second, target.remote, extension=target.extension) if not d.warns] == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("new", [SPEC, OTHERS], ids=["the same spec", "other backends at once"])
def test_no_packet_is_lost_when_tables_are_renumbered(
    layout: str, new: str, crossing: tuple[Crossing, Relay], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade: the tables have the numbers of another version, and the next apply brings those of this one."""
    change(*crossing, LAYOUTS[layout], SPEC, new, monkeypatch)
    assert names(crossing[0].switch) == {number: name for name, number in NUMBERS.items()}


@pytest.fixture
def plain(shared: Switch) -> TargetSwitch:
    target = TargetSwitch(shared.database)
    deploy(FileSource(spec_of(LARGE)), target, Options(grace=0))
    return target


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_state_is_known_by_any_numbers(layout: str, plain: TargetSwitch, shared: Switch) -> None:
    """So that an agent of another version does not take the tables for lost, and replaces nothing unasked."""
    client = plain.client("br-dns")
    marker = client.marker()
    assert marker is not None
    renumber(shared, LAYOUTS[layout])
    assert client.marker() == marker


def test_rates_are_unknown_across_other_numbers(plain: TargetSwitch, shared: Switch) -> None:
    """This version reads its own tables only, so what it reads after the change has nothing to be compared with."""
    client = plain.client("br-dns")
    renumber(shared, ALL_ABOVE)
    before = take_counters(client)
    deploy(FileSource(spec_of(LARGE)), plain, Options(grace=0))
    after = take_counters(client)
    assert {type(key) for key, _ in after} == {CountedService, BackendKey}
    assert set(rates_between(before, after).by_key.values()) == {None}


def test_an_apply_reports_the_renumbering(shared: Switch, tmp_path: Path) -> None:
    run, file = on(shared), spec_file(tmp_path, SMALL)
    assert run("apply", file, "--yes").code == 0
    tables = shared.tables()
    renumber(shared, WITH_GAPS)
    assert SAID in " ".join(run("plan", file).err.split())
    assert shared.tables() != tables
    done = run("apply", file, "--yes", "--grace", "0")
    assert done.code == 0, done.err
    assert shared.tables() == tables
    assert SAID in " ".join(done.err.split())
    assert SAID not in " ".join(run("plan", file).err.split())


@pytest.mark.parametrize("layout", ["with gaps", "in place of others"])
def test_verify_and_status_compare_the_tables_by_their_names(layout: str, shared: Switch, tmp_path: Path) -> None:
    """The numbers are no difference, and what differs otherwise is found all the same."""
    run, file = on(shared), spec_file(tmp_path, LARGE)
    assert run("apply", file, "--yes").code == 0
    renumber(shared, LAYOUTS[layout])
    seen = run("verify", file)
    assert seen.code == 0, seen.err
    assert "bridge br-dns: another version of dnsteer made the tables, with other numbers" in " ".join(seen.err.split())
    status = run("status", "--no-rates")
    assert status.code == 0, status.out
    assert "another version of dnsteer made the tables" in " ".join(status.out.split())
    slots = LAYOUTS[layout]["slot"]
    shared.ofctl("del-flows", "--strict", f"table={slots},priority=0")
    assert "flow missing: pipeline" in " ".join(run("verify", file).out.split())
    assert run("restore").code == 0
    seen = run("verify", file)
    assert (seen.code, "another version" in seen.err) == (0, False)


def test_metrics_count_drops_by_the_name_of_the_table(plain: TargetSwitch, shared: Switch) -> None:
    """By another version's numbers, the flows of one table would count as those of another."""
    loaded, agent = spec_of(LARGE), AgentMetrics()
    with plain.session() as session:
        record = session.record_of("br-dns")
        known = AppliedBridge("br-dns", session.state(record, record.number), loaded.spec)
    agent.claim_changed("br-dns", held=True)
    agent.adopted(known, ())
    agent.followed(record)

    def dropped() -> dict[str, float]:
        samples = [sample for metric in Collector(plain, agent).collect() for sample in metric.samples]
        assert [s.value for s in samples if s.name == "dnsteer_tables_as_recorded"] == [1]
        return {s.labels["table"]: s.value for s in samples if s.name == "dnsteer_dropped_packets_total" and s.value}

    frame = (Ether(dst="02:00:00:00:00:53") / IP(src="203.0.113.9", dst="198.51.100.53") / UDP(dport=9)).build().hex()
    shared.appctl("netdev-dummy/receive", "p0", frame)
    revalidated(shared)
    wait(lambda: dropped() == {"protect": 1}, lambda: f"{dropped()}")
    renumber(shared, IN_PLACE_OF_OTHERS)
    shared.appctl("netdev-dummy/receive", "p0", frame)
    revalidated(shared)
    assert dropped() == {}


def test_a_quick_verb_brings_the_numbers_too(shared: Switch, tmp_path: Path) -> None:
    run, file = on(shared), spec_file(tmp_path, SMALL)
    assert run("apply", file, "--yes").code == 0
    assert run("drain", "farm/ns1", "--yes").code == 0
    tables = shared.tables()
    assert run("undrain", "farm/ns1").code == 0
    renumber(shared, ONE_BY_ONE)
    done = run("drain", "farm/ns1", "--yes")
    assert done.code == 0, done.err
    assert shared.tables() == tables
