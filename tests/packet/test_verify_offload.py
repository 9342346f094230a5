# SPDX-License-Identifier: Apache-2.0
"""`verify --offload`: what a switch has in hardware; live, and on dumps in the form of each flavor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dnsteer.cli import verify_offload
from dnsteer.offload.observe import TYPES, Observation, RunningSwitch, observe, read_running_switch
from dnsteer.offload.profile import profile
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from tests.packet.command import on, spec_file
from tests.packet.switches import SMALL, Switch, spec_of

QUERY = (
    "ufid:{ufid}, recirc_id(0),in_port(p0),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:fe,dst=02:00:00:00:00:53),"
    "eth_type(0x0800),ipv4(dst=192.0.2.53,proto=17,frag=no),udp(src={slot}/0x1e,dst=53), packets:7, bytes:640, used:0.4s, "
    "{layer}, actions:set(eth(src=02:00:00:00:00:53,dst=02:00:00:00:01:01)),p1"
)
ARP = (
    "ufid:{ufid}, recirc_id(0),in_port(p0),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:fe,dst=ff:ff:ff:ff:ff:ff),"
    "eth_type(0x0806),arp(sip=192.0.2.1,tip=192.0.2.53,op=1,sha=02:00:00:00:00:fe,tha=00:00:00:00:00:00), packets:1, "
    "bytes:42, used:1s, {layer}, actions:userspace(pid=0,slow_path(action))"
)
STRANGER = QUERY.replace("in_port(p0)", "in_port(other)")
DATAPATH = "netdev@ovs-netdev"
ON: dict[str, str] = {"hw-offload": "true", "doca-init": "true", "dpdk-init": "true"}
HARDWARE = {
    "ovs-doca": "offloaded:yes, dp:doca",
    "ovs-dpdk": "offloaded:yes, dp:dpdk",
    "ovs-kernel": "offloaded:yes, dp:tc",
}


def ufid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012x}"


@dataclass
class Recorded:
    """A switch that answers as it was told: dumps by type, one list for each look; and further commands."""

    looks: list[dict[str, list[str]]]
    more: dict[str, str] = field(default_factory=dict)
    looked: int = 0

    def run(self, command: str, *args: str) -> str:
        if command == "dpctl/dump-dps":
            return f"{DATAPATH}\n"
        if command != "dpctl/dump-flows":
            assert args == ((DATAPATH,) if command.startswith("dpctl/") else ())
            return self.more[command]
        assert args[:2] == ("-m", DATAPATH)
        (kind,) = (a.removeprefix("type=") for a in args if a.startswith("type="))
        look = self.looks[min(self.looked // len(TYPES), len(self.looks) - 1)]
        self.looked += 1
        return "\n".join(["flow-dump from the main thread:", *look.get(kind, [])])

    def commands(self) -> frozenset[str]:
        return frozenset([*self.more, "dpctl/dump-flows"])


def observed(
    recorded: Recorded,
    flavor: str,
    config: dict[str, str] | None = None,
    started: dict[str, bool] | None = None,
    text: str = SMALL,
) -> Observation:
    running = RunningSwitch(DATAPATH, ON if config is None else config, started or {})
    return observe(spec_of(text), profile(flavor), recorded, running, wait=lambda _: None)


@pytest.mark.parametrize(("flavor", "layer"), HARDWARE.items())
def test_flows_in_their_expected_layer_pass(flavor: str, layer: str) -> None:
    queries = [QUERY.format(ufid=ufid(n), slot=2 * n, layer=layer) for n in range(4)]
    software = [ARP.format(ufid=ufid(9), layer="dp:ovs")]
    seen = observed(Recorded([{"offloaded": queries, "non-offloaded": software}]), flavor)
    assert seen.ok
    assert (seen.count("yes"), seen.count("no"), seen.missing, seen.surprising) == (4, 1, [], [])


@pytest.mark.parametrize("flavor", HARDWARE)
@pytest.mark.parametrize("where", ["non-offloaded", "partially-offloaded"])
def test_flows_missing_from_hardware_are_named(flavor: str, where: str) -> None:
    lost = QUERY.format(ufid=ufid(1), slot=4, layer="dp:ovs")
    there = QUERY.format(ufid=ufid(2), slot=6, layer=HARDWARE[flavor])
    seen = observed(Recorded([{"offloaded": [there], where: [lost]}]), flavor)
    assert not seen.ok
    (missing,) = seen.missing
    assert missing.flow.ufid == ufid(1)
    assert [(o.vip, o.service, o.family, o.direction) for o in missing.owners] == [("dns", "udp/53", "ipv4", "query")]


def test_a_flows_offload_field_overrides_the_dump_type() -> None:
    line = QUERY.format(ufid=ufid(1), slot=4, layer="offloaded:partial, dp:dpdk")
    everything = {kind: [line] for kind in TYPES}  # a switch that knows no types answers with all flows
    seen = observed(Recorded([everything]), "ovs-dpdk")
    assert [o.actual for o in seen.flows] == ["partial"]


def test_a_flow_that_is_offloaded_a_moment_later_is_not_missing() -> None:
    late = QUERY.format(ufid=ufid(1), slot=4, layer="dp:ovs")
    there = QUERY.format(ufid=ufid(1), slot=4, layer="offloaded:yes, dp:doca")
    fresh = QUERY.format(ufid=ufid(2), slot=6, layer="dp:ovs")  # new at the second look: too young to be judged
    seen = observed(Recorded([{"non-offloaded": [late]}, {"offloaded": [there], "non-offloaded": [fresh]}]), "ovs-doca")
    assert seen.ok and seen.count("yes") == 1


def test_a_flow_of_two_threads_may_be_in_hardware_for_one_only() -> None:
    """Two threads that receive the same packets have flows of the same ufid: recorded of OVS-DPDK here."""
    there = QUERY.format(ufid=ufid(1), slot=4, layer=HARDWARE["ovs-dpdk"])
    lost = QUERY.format(ufid=ufid(1), slot=4, layer="dp:ovs")
    first, second = "flow-dump from pmd on cpu core: 1", "flow-dump from pmd on cpu core: 2"
    seen = observed(Recorded([{"offloaded": [first, there], "non-offloaded": [second, lost]}]), "ovs-dpdk")
    assert (seen.count("yes"), seen.count("no")) == (1, 1)
    (missing,) = seen.missing
    assert missing.flow.thread == "pmd on cpu core: 2"


def test_flows_of_other_bridges_are_not_ours() -> None:
    other = STRANGER.format(ufid=ufid(1), slot=4, layer="dp:ovs")
    assert observed(Recorded([{"non-offloaded": [other]}]), "ovs-doca").flows == []


def test_offload_beyond_the_profile_is_reported() -> None:
    arp = ARP.format(ufid=ufid(1), layer="offloaded:yes, dp:doca")
    seen = observed(Recorded([{"offloaded": [arp]}]), "ovs-doca")
    assert seen.ok and [o.flow.ufid for o in seen.surprising] == [ufid(1)]


def test_flows_of_unknown_offload_are_neither_missing_nor_surprising() -> None:
    back = QUERY.replace(",p1", ",p0")  # out of the port that it came in by
    there = back.format(ufid=ufid(1), slot=4, layer=HARDWARE["ovs-dpdk"])
    lost = back.format(ufid=ufid(2), slot=6, layer="dp:ovs")
    seen = observed(Recorded([{"offloaded": [there], "non-offloaded": [lost]}]), "ovs-dpdk")
    assert seen.ok and not seen.surprising
    ((why, here, not_here),) = seen.unpublished_cases
    assert (here, not_here) == (1, 1) and "came in by" in why


def test_lines_that_cannot_be_read_are_shown() -> None:
    seen = observed(Recorded([{"offloaded": ["ufid:1, recirc_id(0),no flow at all("]}]), "ovs-doca")
    assert len(seen.unreadable) == 1 and seen.unreadable[0].problem
    assert not seen.ok, "what cannot be read may be anything"


def test_the_last_line_counts_unreadable_flows(capsys: pytest.CaptureFixture[str]) -> None:
    strange = ["ufid:1, recirc_id(0),no flow at all(", "ufid:2, recirc_id(0),nor this("]
    there = QUERY.format(ufid=ufid(3), slot=4, layer=HARDWARE["ovs-doca"])
    for lines, last in (
        (strange, "br-dns: no datapath flows; 2 that cannot be read"),
        (
            [*strange, there],
            "br-dns: 1 datapath flows: 1 in hardware, 0 partly, 0 in software; 2 that cannot be read; ",
        ),
    ):
        verify_offload._show(spec_of(SMALL), observed(Recorded([{"offloaded": lines}]), "ovs-doca"))
        assert capsys.readouterr().out.splitlines()[-1].startswith(last)


HW = {"hw-offload": "true"}
STARTED = {"dpdk": True, "doca": True}


@pytest.mark.parametrize(
    ("flavor", "config", "started", "words"),
    [
        ("ovs-doca", {}, {}, ["hw-offload", "doca-init is not true"]),
        ("ovs-doca", HW, {}, ["doca-init is not true"]),
        (
            "ovs-doca",
            HW | {"doca-init": "true"},
            {},
            [],
        ),  # NVIDIA's sets dpdk-init by itself, and nothing says otherwise
        ("ovs-doca", HW | {"doca-init": "true"}, STARTED, []),
        ("ovs-doca", HW | {"doca-init": "true"}, {"dpdk": False}, ["dpdk-init is not true"]),
        ("ovs-doca", ON, {"dpdk": True, "doca": False}, ["doca_initialized is false"]),
        ("ovs-doca", ON, {"dpdk": False, "doca": False}, ["doca_initialized is false", "dpdk_initialized is false"]),
        ("ovs-kernel", {}, {}, ["hw-offload"]),
        ("ovs-kernel", HW, {"dpdk": False}, []),
        ("ovs-dpdk", HW, {"dpdk": False}, ["dpdk-init is not true"]),
        ("ovs-dpdk", HW | {"dpdk-init": "true"}, {"dpdk": False}, ["dpdk_initialized is false"]),
        ("ovs-dpdk", HW | {"dpdk-init": "try"}, {"dpdk": True}, []),
        ("ovs-netdev", {}, {"dpdk": False}, []),
    ],
)
def test_settings_without_which_nothing_is_offloaded(
    flavor: str, config: dict[str, str], started: dict[str, bool], words: list[str]
) -> None:
    seen = observed(Recorded([{}]), flavor, config, started)
    assert len(seen.settings) == len(words)
    assert all(any(word in text for text in seen.settings) for word in words)
    assert seen.ok == (not words)


def test_tracked_connections_of_ipv6_need_a_setting() -> None:
    kept = SMALL.replace("[192.0.2.53]", "['2001:db8::53']").replace("pool: farm}", "pool: farm, keep: connections}")
    for n in (1, 2):
        kept = kept.replace(f"ipv4: 192.0.2.1{n}", f"ipv6: '2001:db8::1{n}'")
    (setting,) = observed(Recorded([{}]), "ovs-doca", ON, text=kept).settings
    assert "hw-offload-ct-ipv6-enabled is not true" in setting and "DNS025" in setting
    by_bringup = ON | {"hw-offload-ct-ipv6-enabled": "true"}
    assert observed(Recorded([{}]), "ovs-doca", by_bringup, text=kept).ok


def test_offload_counters_of_the_switch_are_shown() -> None:
    recorded = Recorded(
        [{}], {"dpctl/offload-stats-show": "Inserted: 4", "doca-pipe-group/dump": "group 1", "coverage/show": "x"}
    )
    seen = observed(recorded, "ovs-doca")
    assert seen.extras == {"dpctl/offload-stats-show": "Inserted: 4", "doca-pipe-group/dump": "group 1"}


def queries(loaded: Loaded) -> Iterator[tuple[str, str]]:
    for vector in vectors(loaded.spec, Reference(loaded.spec), per_service=3):
        if vector.kind == "query":
            yield vector.port, vector.data.hex()


def test_verify_offload_reads_a_live_switch(switch: Switch, tmp_path: Path) -> None:
    command, file = on(switch), spec_file(tmp_path, SMALL)
    assert command("verify", file, "--offload").code == 1  # there is no bridge
    assert command("apply", file).code == 0
    assert "no datapath flows at the moment" in command("verify", file, "--offload").out
    sent = list(queries(spec_of(SMALL)))
    for port, data in sent:
        switch.appctl("netdev-dummy/receive", port, data)
    software = command("verify", file, "--offload")
    assert software.code == 0, software.out
    assert f"{len(sent)} in software" in software.out and "ovs-netdev offloads nothing" in software.out
    expected = command("verify", file, "--offload", "--flavor", "ovs-doca")
    assert expected.code == 2
    assert "hw-offload is not true" in expected.out
    assert expected.out.count("not in hardware (no): queries of dns over ipv4") == len(sent)
    found = command("verify", file, "--offload", "--flavor", "ovs-doca-2", "--json").json
    assert found["ok"] is False and len(found["missing"]) == len(sent)


def test_the_control_socket_is_found_or_asked_for(switch: Switch, tmp_path: Path) -> None:
    command, file = on(switch), spec_file(tmp_path, SMALL)
    assert command("apply", file).code == 0
    named = command("verify", file, "--offload", "--control", switch.dir / "vswitchd.ctl")
    assert named.code == 0
    wrong = command("verify", file, "--offload", "--control", tmp_path / "none.ctl")
    assert wrong.code == 69 and "none.ctl" in wrong.err


def test_a_second_datapath_is_not_asked(switch: Switch, tmp_path: Path) -> None:
    command, file = on(switch), spec_file(tmp_path, SMALL)
    assert command("apply", file).code == 0
    switch.vsctl("add-br", "other", "--", "set", "Bridge", "other", "datapath_type=dummy")
    ((port, data), *_) = queries(spec_of(SMALL))
    switch.appctl("netdev-dummy/receive", port, data)
    found = command("verify", file, "--offload", "--flavor", "ovs-kernel", "--json").json
    assert found["flows"] == {"yes": 0, "partial": 0, "no": 1}
    assert "multiple datapaths" not in found["extras"]["dpctl/offload-stats-show"]


def test_the_database_names_the_running_flavor(switch: Switch, tmp_path: Path) -> None:
    command, file = on(switch), spec_file(tmp_path, SMALL)
    assert command("apply", file).code == 0
    switch.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:hw-offload=true")
    running = read_running_switch(switch.database, "br-dns", 10)
    assert running == RunningSwitch(DATAPATH, {**running.config, "hw-offload": "true"}, {"dpdk": False})
    assert "dpdk-init is not true" in command("verify", file, "--offload", "--flavor", "ovs-dpdk").out


def test_tables_of_others_are_not_judged(switch: Switch, tmp_path: Path) -> None:
    command, file = on(switch), spec_file(tmp_path, SMALL)
    switch.vsctl("add-br", "br-dns")
    foreign = command("verify", file, "--offload", "--json")
    assert foreign.code == 1 and "tables are not from this spec" in foreign.json["error"]
    switch.vsctl("del-br", "br-dns")
    assert command("apply", file).code == 0
    assert command("verify", file, "--offload").code == 0
    (tmp_path / "other").mkdir()
    other = spec_file(tmp_path / "other", SMALL, old="weight: 2", new="weight: 3")
    assert "tables are not from this spec" in command("verify", other, "--offload").err
    switch.ofctl("del-flows")  # the record is still the spec's, the tables are nobody's
    emptied = command("verify", file, "--offload")
    assert emptied.code == 1 and "apply it first" in emptied.err


@pytest.mark.parametrize("option", ["--flavor", "--control"])
def test_options_of_another_question_are_refused(option: str, switch: Switch, tmp_path: Path) -> None:
    done = on(switch)("verify", spec_file(tmp_path, SMALL), option, "ovs-doca")
    assert done.code == 64 and f"{option} without --offload" in done.err
