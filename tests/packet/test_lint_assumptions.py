# SPDX-License-Identifier: Apache-2.0
"""`lint` says what its verdicts rest on: the width of a hash, tracking that is off, eSwitches that are one."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lint.run import LintReport, run_finders
from dnsteer.offload.datapath_flow import read_flow
from dnsteer.offload.examine import examine
from dnsteer.offload.judge import judge
from dnsteer.offload.offload_context import offload_context_of
from dnsteer.offload.profile import profile
from dnsteer.plan.build import build_plan
from tests.packet.linted_examples import ROOT, changed, codes_of, found_as, report, seen


def test_the_width_of_a_hash_is_judged_as_every_release_has_it() -> None:
    found = report("own-ports", "ovs-doca")  # 16 slots: 4 bits in older releases, as the one here, and 6 in newer ones
    hashed = [p for p in found.paths if p.vip == "nat" and p.direction == "query"]
    assert hashed and {(p.passes, p.offloaded, p.certainty) for p in hashed} == {(2, "unknown", "unknown")}
    unknown = found_as(found, "DNS004")
    assert unknown and not found_as(found, "DNS001")
    for each in unknown:
        assert "4 bits of dp_hash in older releases" in each.text and "6 in newer ones" in each.text
        assert "pools.hashed.slots: 4 or less, or pools.hashed.selection: source-port" in each.advice
    two = found_as(run_finders(replace(seen("own-ports", "ovs-doca"), profile=profile("ovs-doca-2"))), "DNS004")
    assert two  # the profile that says no to more than 4 bits does not know the release either


def test_a_hash_that_is_as_wide_in_every_release_is_taken() -> None:
    found = run_finders(examine(changed("own-ports", ("slots: 16", "slots: 4")), profile("ovs-doca")))
    assert {"DNS010", "DNS015"} <= codes_of(found) and not {"DNS004", "DNS012"} & codes_of(found)
    hashed = [p for p in found.paths if p.vip == "nat" and p.direction == "query"]
    assert hashed and all((p.passes, p.offloaded) == (2, "yes") for p in hashed)


def test_flows_of_a_hash_are_counted_by_its_values_and_not_by_chance() -> None:
    found = report("own-ports", "ovs-doca")
    at = {(p.service, p.family): p.rules for p in found.paths if p.vip == "nat" and p.direction == "query"}
    # A rule for the hash and one for what is behind it; then one for each of 64 values, of IPv6 two.
    assert at == {(s, f): 66 if f == "ipv4" else 130 for s in ("udp/53", "tcp/53") for f in ("ipv4", "ipv6")}
    assert all("64 of 65 datapath flows" in f.text for f in found_as(found, "DNS004"))
    assert "DNS012" not in codes_of(found)


@pytest.mark.parametrize("flavor", ["ovs-doca", "ovs-kernel"])
def test_findings_do_not_depend_on_packet_values(flavor: str) -> None:
    def said(of: LintReport) -> list[tuple[object, ...]]:
        return [(f.code.code, f.path, f.text, f.advice) for f in of.findings if f.code.code != "DNS023"]

    again = run_finders(examine(load_spec(ROOT / "examples" / "own-ports.yaml"), profile(flavor)))
    assert said(again) == said(report("own-ports", flavor))
    kinds = [(kind, [*found]) for kind, found in again.in_software.items()]
    assert kinds == [(kind, [*found]) for kind, found in report("own-ports", flavor).in_software.items()]
    assert [*again.remarks.items()] == [*report("own-ports", flavor).remarks.items()]
    assert not any(re.search(r"dp_hash=\d|0x[0-9a-f]{3}", f.text) for f in again.findings)
    hashed = [f for f in again.findings if f.path == ("vips", "nat") and f.text.startswith("queries")]
    assert hashed and all("(tcp/53, udp/53)" in f.text for f in hashed)


def test_the_basis_of_a_hash_is_named_for_each_pool() -> None:
    without = changed("own-ports", ("forwarding: nat", "forwarding: nat\n    fragments: drop"))
    for found in (report("own-ports", "ovs-doca"), run_finders(examine(without, profile("ovs-doca")))):
        (note,) = found_as(found, "DNS017")
        assert note.path == ("pools", "hashed", "selection") and "hw-offload-ct-size=0" in note.text
    assert "DNS017" not in codes_of(report("quickstart", "ovs-doca")) | codes_of(report("own-ports", "ovs-kernel"))


@pytest.mark.parametrize(("name", "verdict"), [("ovs-doca-2", "no"), ("ovs-doca-3", "unknown")])
def test_hash_and_tracking_together_are_what_the_version_says(name: str, verdict: str) -> None:
    (both,) = found_as(run_finders(replace(seen("own-ports", "ovs-doca"), profile=profile(name))), "DNS015")
    assert [r.verdict for r in both.reasons] == [verdict]
    assert ("does not offload both" in both.text) == (verdict == "no")


@pytest.mark.parametrize("name", ["keep", "access"])
def test_tracked_ipv6_is_judged_as_bring_up_sets_the_switch_up(name: str) -> None:
    found = report(name, "ovs-doca")
    (note,) = found_as(found, "DNS025")
    assert note.path == ("switch",) and "hw-offload-ct-ipv6-enabled=true, which dnsteer bringup sets" in note.text
    assert "DNS003" not in codes_of(found) and {p.offloaded for p in found.paths if p.family == "ipv6"} == {"yes"}
    loaded = load_spec(ROOT / "examples" / f"{name}.yaml")
    by_hand = offload_context_of(
        loaded, build_plan(loaded), conntrack=True
    )  # as verify --offload finds it without bringup
    assert found_as(run_finders(replace(seen(name, "ovs-doca"), context=by_hand)), "DNS025") == []
    tracked = (
        "recirc_id(0),in_port(p0),eth(),eth_type(0x86dd),ipv6(proto=6,frag=no), packets:1, bytes:1, used:1s, dp:doca, "
    )
    flow = read_flow(tracked + "actions:ct(zone=53000),recirc(0x1)")
    assert judge(flow, profile("ovs-doca"), by_hand).verdict == "partial"
    assert "DNS025" not in codes_of(report(name, "ovs-dpdk"))


def test_no_note_about_ipv6_where_a_hash_keeps_tracking_off() -> None:
    hashed = changed("keep", ("pools:\n  authoritative:\n", "pools:\n  authoritative:\n    selection: dp-hash\n"))
    found = run_finders(examine(hashed, profile("ovs-doca")))
    (both,) = found_as(found, "DNS015")
    assert "connections are kept" in both.text and "no keep" in both.advice
    assert "DNS025" not in codes_of(found) and "DNS003" in codes_of(found)


@pytest.mark.parametrize(
    ("forwarding", "rate", "full"),
    [
        ("ct-nat", 1600, False),
        ("ct-nat", 2000, True),  # a SYN without an answer is remembered for 30 s
        ("nat\n    keep: connections", 80, False),
        ("nat\n    keep: connections", 100, True),  # all for the idle time of 10 minutes
        ("nat\n    keep: connections", 10_000, True),  # more than a tracker can have
    ],
)
def test_a_tracker_that_limits_of_syn_can_fill(forwarding: str, rate: int, full: bool) -> None:
    limited = changed("ct-nat", ("forwarding: ct-nat", f"forwarding: {forwarding}\n    limits: {{tcp_syn: {rate}/s}}"))
    found = found_as(run_finders(replace(seen("ct-nat", "ovs-doca"), loaded=limited)), "DNS026")
    assert bool(found) == full
    for each in found:
        assert each.path == ("vips", "resolver", "limits", "tcp_syn")
        assert f"lets {rate:,} connections a second begin" in each.text and "with its 50,000" in each.text
        more = "" if rate == 10_000 else "switch.tracking.connections to 60,000, or "
        shorter = "a shorter idle time, or " if "keep" in forwarding else ""
        assert each.advice == f"set {more}{shorter}lower limits"
    assert "DNS026" not in codes_of(report("ct-nat", "ovs-doca"))  # nothing is said of how many begin


def bringup(value: str) -> tuple[str, str]:
    return "flavor: ovs-netdev", f"flavor: ovs-doca\n  bringup: {value}"


@pytest.mark.parametrize(
    ("flavor", "verdict", "code"),
    [("ovs-doca", "no", "DNS001"), ("ovs-dpdk", "unknown", "DNS004"), ("ovs-kernel", "unknown", "DNS004")],
)
def test_between_uplinks_hardware_forwards_on_one_eswitch(flavor: str, verdict: str, code: str) -> None:
    apart = run_finders(examine(changed("two-uplinks", bringup("{multiport: false}")), profile(flavor)))
    assert {p.offloaded for p in apart.paths} == {verdict}
    assert any("another eSwitch" in f.text for f in found_as(apart, code))
    assert "DNS018" not in codes_of(apart)


def test_assumed_multiport_eswitch_is_noted() -> None:
    assumed = report("two-uplinks", "ovs-doca")
    assert assumed.offloaded == 1.0
    (note,) = found_as(assumed, "DNS018")
    assert note.text.startswith("p0, p1 are assumed to share one eSwitch") and "multiport" in note.text


def test_eswitches_of_two_cards_are_not_joined() -> None:
    cards = bringup("{pci: {p0: '0000:03:00.0', p1: '0000:81:00.0'}}")
    apart = run_finders(examine(changed("two-uplinks", cards), profile("ovs-doca")))
    assert {p.offloaded for p in apart.paths} == {"no"} and "DNS018" not in codes_of(apart)
    assert all("uplinks of one card" in f.advice for f in found_as(apart, "DNS001"))


def test_ports_are_of_the_eswitch_that_their_devargs_or_names_tell() -> None:
    ports = (
        "    pf1vf0:\n    en3f0pf0sf4:\n    other: {options: {dpdk-devargs: '0000:03:00.1,representor=[0]'}}\n    told:"
    )
    loaded = changed(
        "own-ports",
        bringup("{multiport: false, pci: {p0: '0000:03:00.0', p1: '0000:03:00.1'}}"),
        ("    p0: {next_hop: 02:00:00:00:00:fe}", "    p0: {next_hop: 02:00:00:00:00:fe}\n    p1:"),
        ("    vf2:", f"    vf2:\n{ports}"),
    )
    first, second = "0000:03:00.0", "0000:03:00.1"
    of = offload_context_of(loaded, build_plan(loaded), conntrack=False).eswitches
    assert (of["p0"], of["p1"], of["pf1vf0"], of["en3f0pf0sf4"], of["other"]) == (first, second, second, first, second)
    assert of["told"] == of["vf0"] == first  # nothing tells
    alone = changed("own-ports")
    assert offload_context_of(alone, build_plan(alone), conntrack=False).eswitches == {}


def test_a_port_that_no_eswitch_has_is_forwarded_to_by_the_cpu() -> None:
    loaded = changed("own-ports", ("    vf2:", "    vf2: {type: internal}"))
    found = run_finders(examine(loaded, profile("ovs-doca")))
    direct = [p for p in found.paths if p.vip == "direct" and p.direction == "query"]
    assert direct and {p.offloaded for p in direct} == {"partial"}
    local = read_flow(
        "recirc_id(0),in_port(p0),eth(),eth_type(0x0800),ipv4(frag=no), packets:1, bytes:1, used:1s, dp:doca, actions:br-dns"
    )
    context = offload_context_of(loaded, build_plan(loaded), conntrack=False)  # as verify --offload asks
    assert judge(local, profile("ovs-doca"), context).verdict == "partial"


def test_without_tracked_fragments_the_hash_has_nothing_beside_it() -> None:
    loaded = changed("own-ports", ("forwarding: nat", "forwarding: nat\n    fragments: drop"))
    assert "DNS015" not in codes_of(run_finders(examine(loaded, profile("ovs-doca"))))
