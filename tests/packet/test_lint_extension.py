# SPDX-License-Identifier: Apache-2.0
"""`lint` on what goes through the extension: the switch's ways there and back are judged, what is between is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lint.run import run_finders
from dnsteer.modes import MODES
from dnsteer.offload.examine import examine
from dnsteer.offload.extension_part import extension_parts
from dnsteer.offload.profile import profile, profile_names
from dnsteer.plan.build import build_plan
from dnsteer.plan.extension.pipes import counters_of, entries, pipes_of
from dnsteer.proof.harness.extension_process import ExtensionProcess
from tests.packet.linted_examples import changed, codes_of, found_as, report
from tests.unit.commands import ROOT, in_process

EXTENDED = ("client-hash", "ipip", "siit", "spray")


PROBE = "  probe: {addresses: [192.0.2.9/24, '2001:db8::9/64']}\n  extension:\n"


@pytest.mark.parametrize("probed", [False, True], ids=["", "probed"])
@pytest.mark.parametrize("example", EXTENDED)
def test_the_program_has_the_predicted_entries(example: str, probed: bool) -> None:
    """Selectors, slots and tunnels, as the program on the model counts them."""
    part = build_plan(changed(example, *([("  extension:\n", PROBE)] if probed else []))).extension
    assert part is not None
    with ExtensionProcess(part) as process:
        status, dump = process.ask(command="status"), process.ask(command="dump")
    pipes = {}
    for pipe in pipes_of(part):
        pipes.setdefault(pipe.name, []).append(pipe.entries)
    selectors = sorted(f"{s['select']}{s['slots']}-{s['forward']}" for s in dump["selectors"])
    assert sorted(name for name, found in pipes.items() for _ in found if name in selectors) == selectors
    used = status["used_of_budget"]
    slots = sum(sum(n) for name, n in pipes.items() if name.startswith("slots-"))
    ends = sum(sum(n) for name, n in pipes.items() if name in ("encap4", "encap6", "translated"))
    assert (slots, ends, counters_of(part)) == (used["slots"][0], used["backends"][0], used["counters"][0])
    assert pipes["classifier (queries)"] == [used["vips"][0] * (1 + probed) + 6]
    assert sum(len(service["slots"]) for service in dump["probes"]) == sum(len(s.probes) for s in part.services)
    assert bool(dump["probes"]) == probed


@pytest.mark.parametrize("example", EXTENDED)
def test_every_hop_of_a_path_is_listed(example: str) -> None:
    found = report(example, "ovs-doca")
    loaded = found.examination.loaded
    assert found.offloaded == 1.0
    for path in found.paths:
        vip = loaded.spec.vips[path.vip]
        if not MODES[vip.forwarding].uses_extension(loaded.spec.pools[vip.pool]):
            assert path.hops == ()
            continue
        there, between, back = path.hops
        assert [hop.by for hop in path.hops] == ["switch", "extension", "switch"]
        ways = (("p0",), ("ext-in",), ("ext-out",), ("p0",))
        if path.direction == "answer":
            ways = (("p0",), ("ext-out",), ("ext-in",), ("p0",))
        assert (there.enters, there.leaves, back.enters, back.leaves) == ways
        assert (between.enters, between.leaves) == (there.leaves, back.enters)
        assert (between.offloaded, between.certainty) == ("unknown", "unknown")
        assert between.pipes[0] == "classifier" and between.tables == len(between.pipes)
        assert (path.passes, path.offloaded) == (2, "yes")
        assert path.rules == there.rules + back.rules < path.slots  # slots are the extension's
    assert not {"DNS010", "DNS012", "DNS030", "DNS031"} & codes_of(found)


def test_flows_of_a_shared_address_belong_to_their_service() -> None:
    """UDP and TCP of one address are two VIPs, of which the extension serves one."""
    found = report("spray", "ovs-doca")
    assert {(p.vip, p.service, bool(p.hops)) for p in found.paths} == {
        ("dns-udp", "udp/53", True),
        ("dns-tcp", "tcp/53", False),
    }
    assert {p.rules for p in found.paths if p.hops and p.family == "ipv4"} == {1 + 3}  # three backends


def test_answers_to_translated_clients_are_no_answers_of_nat() -> None:
    found = report("siit", "ovs-doca")
    answers = [p for p in found.paths if p.direction == "answer"]
    assert {(p.vip, p.family, bool(p.hops)) for p in answers} == {("dns4", "ipv4", True), ("dns6", "ipv6", False)}
    assert {p.rules for p in answers if p.vip == "dns6"} == {4}  # two backends, each rule split in two


def test_tunnels_and_translations_change_the_length() -> None:
    grows = {
        (p.vip, p.family, p.direction): (hop.grows, hop.most)
        for example in ("ipip", "siit")
        for p in report(example, "ovs-doca").paths
        for hop in p.hops
        if hop.by == "extension"
    }
    assert grows == {
        ("dns", "ipv4", "query"): (25.0, 40),
        ("dns", "ipv6", "query"): (32.5, 40),
        ("dns4", "ipv4", "query"): (20.0, 20),
        ("dns4", "ipv4", "answer"): (-20.0, -20),
    }


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("example", EXTENDED)
def test_extension_findings_depend_on_the_flavor(example: str, name: str) -> None:
    found = codes_of(report(example, name))
    hardware = profile(name).hardware
    assert ({"DNS060", "DNS061"} <= found) == hardware
    assert ("DNS005" in found) != hardware
    assert ("DNS062" in found) == (example == "siit")
    assert "DNS063" not in found


def test_the_finding_says_plainly_that_nothing_has_run() -> None:
    (told,) = found_as(report("siit", "ovs-doca"), "DNS060")
    assert told.path == ("vips", "dns4")
    assert told.text.startswith("queries and answers of dns4 over IPv4 (tcp/53, udp/53): the extension handles them")
    assert "whether hardware offloads it is unknown; it has never run on a BlueField" in told.text
    assert told.text.endswith("; no public program shows how answers are translated from IPv6 to IPv4")
    assert "siit needs DOCA 3.3" in told.advice
    (tunnel,) = found_as(report("ipip", "ovs-doca"), "DNS060")
    assert tunnel.text.endswith("but never all of them together")
    (twice,) = found_as(report("ipip", "ovs-doca"), "DNS061")
    assert "p0 to ext-in and ext-out to p0, and 5 pipes" in twice.text and "40 bytes longer" in twice.text


def test_a_pair_of_functions_that_cannot_be_is_found() -> None:
    card = ("  bridge:", "  hardware: bluefield-3\n  bridge:")
    soft = run_finders(examine(changed("ipip", card), profile("ovs-netdev")))
    (told,) = found_as(soft, "DNS063")
    assert "flavor ovs-netdev does not use the eSwitch of bluefield-3" in told.text
    assert "DNS063" not in codes_of(run_finders(examine(changed("ipip", card), profile("ovs-doca"))))
    whole = ("{port: ext-in}", "{port: ext-in, options: {dpdk-devargs: '0000:03:00.0,representor=sf[8]'}}")
    wrong = ("{port: ext-out}", "{port: ext-out, options: {dpdk-devargs: '0000:04:00.0'}}")
    doca = ("flavor: ovs-netdev", "flavor: ovs-doca")
    (other,) = found_as(run_finders(examine(changed("ipip", doca, whole, wrong), profile("ovs-doca"))), "DNS063")
    assert other.path == ("switch", "extension", "egress") and "port ext-out" in other.text


def test_two_uplinks_need_one_eswitch() -> None:
    """The functions are on one of them, and packets come in by both."""
    places = [(f"01:0{n}", f"01:0{n}, port: p{n % 2}") for n in (1, 2, 3)]
    loaded = changed("client-hash", ("    p0:\n", "    p0:\n    p1:\n"), *places)
    found = run_finders(examine(loaded, profile("ovs-doca")))
    assert found.offloaded == 1.0
    (assumed,) = found_as(found, "DNS018")
    assert "queries that come in by p1 go to ext-in" in assumed.text


def test_flows_from_the_extension_are_known_with_several_exit_ports() -> None:
    places = [(f"01:0{n}", f"01:0{n}, port: p{n % 2}") for n in (1, 2, 3)]
    loaded = changed("client-hash", ("    p0:\n", "    p0:\n    p1:\n"), *places)
    seen = examine(loaded, profile("ovs-doca"))
    assert {hop.leaves for path in seen.paths for hop in path.hops if "ext-out" in hop.enters} == {("p0", "p1")}
    assert {beyond.returned for beyond in extension_parts(seen.plan).values()} == {3}


def test_lint_prints_extension_paths_as_text_and_json(tmp_path: Path) -> None:
    done = in_process("lint", str(ROOT / "examples" / "ipip.yaml"), "--flavor", "ovs-doca")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:2] == ["extension", "unknown"]]
    assert len(rows) == 4 and all(row[:3] == ["extension", "unknown", "unknown"] for row in rows)
    assert "409 entries of its pipes (16 in classifiers, 128 in selectors, 256 for slots, 9 for tunnels)" in done.stdout
    assert "100 % of the VIPs' datapath flows in hardware, not counting the extension's" in done.stdout
    told = json.loads(in_process("lint", str(ROOT / "examples" / "ipip.yaml"), "--flavor", "ovs-doca", "--json").stdout)
    part = build_plan(load_spec(ROOT / "examples" / "ipip.yaml")).extension
    assert part is not None and told["extension"]["entries"] == entries(pipes_of(part))
    assert (told["extension"]["offload"], told["extension"]["certainty"]) == ("unknown", "unknown")
    assert told["extension"]["about"].endswith(
        "it has never run on a BlueField; public programs and documents show its parts, but never all of them together"
    )
    assert {hop["by"] for path in told["paths"] for hop in path["hops"]} == {"switch", "extension"}
    plain = json.loads(in_process("lint", str(ROOT / "examples" / "quickstart.yaml"), "--json").stdout)
    assert plain["extension"] is None and all(path["hops"] == [] for path in plain["paths"])
