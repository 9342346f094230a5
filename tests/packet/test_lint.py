# SPDX-License-Identifier: Apache-2.0
"""`lint` on the examples: what hardware does with the datapath flows that a real switch makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dnsteer.lint.finder import LintContext
from dnsteer.lint.run import run_finders
from dnsteer.lint.switch_limits import flow_totals
from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from dnsteer.plan.sizes import FLOW_LIMIT
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.megaflow_fields import Field
from tests.packet.linted_examples import QUICKSTART, ROOT, changed, codes_of, found_as, report, seen
from tests.unit.commands import in_process


def test_the_quickstart_is_offloaded_in_one_pass() -> None:
    found = report("quickstart", "ovs-doca")
    assert found.offloaded == 1.0
    assert len(found.paths) == 4  # two families, two protocols; with direct server return no answers pass
    for path in found.paths:
        flows = found.examination.of_owner
        count = next(len(f) for o, f in flows.items() if (o.service, o.family) == (path.service, path.family))
        assert (path.offloaded, path.passes, path.masks) == ("yes", 1, 1)
        assert 64 <= count <= 64 + 4
        assert path.rules == (64 if path.family == "ipv4" else 65)  # IPv6: split, with one first rule for all
        assert path.depth == (1 if path.family == "ipv4" else 2)
    assert codes_of(found) == {"DNS011", "DNS021", "DNS022", "DNS024", "DNS036"}


def test_a_split_rule_names_its_fields_and_they_sum_up() -> None:
    (split,) = [f for f in report("quickstart", "ovs-doca").findings if f.code.code == "DNS011"]
    assert "IPv6 (tcp/53, udp/53)" in split.text
    assert "ipv6.dst 16" in split.text
    sizes = [int(part.rsplit(" ", 1)[1]) for part in split.text.split("(")[2].split(")")[0].split(", ")]
    assert sum(sizes) == max(p.match_bytes for p in report("quickstart", "ovs-doca").paths)


@pytest.mark.parametrize("flavor", ["ovs-dpdk", "ovs-kernel"])
def test_a_hash_that_is_not_offloaded_is_a_finding_with_advice(flavor: str) -> None:
    found = report("own-ports", flavor)
    errors = [f for f in found.findings if f.code.code == "DNS001"]
    assert errors and all("hash" in f.text for f in errors)
    assert all("pools.hashed.selection: source-port" in f.advice for f in errors)
    assert all(reason.source and reason.certainty for f in errors for reason in f.reasons)
    hashed = [p for p in found.paths if p.vip == "nat" and p.direction == "query"]
    assert hashed and {p.offloaded for p in hashed} == {"no"}
    assert {p.offloaded for p in found.paths if p.vip == "direct"} == {"yes"}


def test_answers_that_are_translated_are_judged_too() -> None:
    answers = [p for p in report("one-armed-nat", "ovs-doca").paths if p.direction == "answer"]
    assert {(p.service, p.family) for p in answers} == {
        (service, family) for service in ("udp/53", "tcp/53") for family in ("ipv4", "ipv6")
    }
    assert all(p.offloaded == "yes" and p.rewrites == 3 for p in answers)
    fragments = [f for f in report("one-armed-nat", "ovs-doca").findings if f.code.code == "DNS020"]
    reasons = {f.text.partition(" in hardware: ")[2].partition(":")[0] for f in fragments}
    assert reasons == {f"{family}.frag={which}" for family in ("ipv4", "ipv6") for which in ("first", "later")}


def test_packets_handled_by_the_cpu_are_listed_by_kind() -> None:
    software = report("two-uplinks", "ovs-doca").in_software
    assert {"neighbor", "echo", "fragment"} <= set(software)
    assert not {"query", "answer"} & set(software)
    assert any("ovs-vswitchd itself" in reason for reason in software["echo"])


def test_a_software_flavor_is_one_finding() -> None:
    found = report("quickstart", "ovs-netdev")
    assert "DNS005" in codes_of(found) and "DNS001" not in codes_of(found)
    assert found.rules == 0


def test_the_slots_that_are_not_asked_are_computed() -> None:
    slots = 4096
    loaded = changed(
        "quickstart",
        ("slots: 64 ", f"slots: {slots} "),
    )
    seen = examine(loaded, profile("ovs-doca"), queries=400)
    assert seen.sampled is not None and seen.sampled < slots
    assert [p.rules for p in seen.paths if p.family == "ipv4"] == [slots, slots]
    assert run_finders(seen).flows >= 4 * slots


def test_each_uplink_needs_the_flows_of_all_slots() -> None:
    found = report("two-uplinks", "ovs-doca")  # a query for each slot comes in by one of the uplinks
    assert {p.rules for p in found.paths if (p.direction, p.family) == ("query", "ipv4")} == {2 * 128}
    assert {p.rules for p in found.paths if (p.direction, p.family) == ("query", "ipv6")} == {2 * (128 + 1)}
    assert "DNS012" not in codes_of(found)  # that is what the spec says


@pytest.mark.parametrize(("example", "what"), [("own-ports", "64 values of the hash"), ("quickstart", "64 slots")])
def test_an_exceeded_flow_count_is_a_finding(example: str, what: str) -> None:
    usual = seen(example, "ovs-doca")
    more = [replace(j, flow=by_another_router(j.flow)) for j in usual.judged if j.kind == "query"]
    found = found_as(run_finders(replace(usual, judged=[*usual.judged, *more])), "DNS012")
    assert found and any(f"datapath flows for {what}" in f.text for f in found)
    if example == "quickstart":
        assert all("128 datapath flows" in f.text and "multiplied by: 2 of eth.src" in f.text for f in found)


def by_another_router(flow: DatapathFlow | Unreadable) -> DatapathFlow:
    """The same flow for packets with another source MAC."""
    assert isinstance(flow, DatapathFlow)
    other = Field("eth.src", 0x02000000AAAA, (1 << 48) - 1, 48)
    return replace(flow, match=(*(f for f in flow.match if f.key != "eth.src"), other))


def test_an_exceeded_flow_limit_is_a_finding() -> None:
    services = ", ".join(f"{{protocol: udp, port: {port}}}" for port in range(1000, 1030))
    loaded = changed(
        "quickstart", ("slots: 64 ", "passes: 1\n    slots: 4096 "), ("services: [dns]", f"services: [{services}]")
    )
    seen = examine(loaded, profile("ovs-doca"), queries=300)
    found = run_finders(seen)
    assert found.flows > FLOW_LIMIT
    assert {"DNS013", "DNS016"} & codes_of(found) == {"DNS013"}
    older = [f for f in run_finders(replace(seen, profile=profile("ovs-doca-2"))).findings if f.code.code == "DNS016"]
    assert older and "65,536 counters" in older[0].text and older[0].reasons[0].source


def test_an_exceeded_rule_count_is_a_finding() -> None:
    loaded = changed("quickstart", ("  bridge: br-dns", "  hardware: bluefield-2\n  bridge: br-dns"))
    on_card = replace(seen("quickstart", "ovs-doca"), loaded=loaded)
    context = LintContext.of(on_card)
    assert list(flow_totals(replace(context, rules=4_000_000))) == []
    (large,) = flow_totals(replace(context, rules=4_000_001))
    assert (large.code.code, large.path) == ("DNS014", ("switch", "hardware"))
    assert "4,000,001" in large.text and "bluefield-2 has 4,000,000" in large.text
    unnamed = replace(LintContext.of(seen("quickstart", "ovs-doca")), rules=5_000_000)
    assert list(flow_totals(unnamed)) == []  # the spec names no card


def test_limits_of_all_flows_together_are_compared() -> None:
    small = profile("ovs-doca")
    limits = {n: small.limits[n].model_copy(update={"value": 1}) for n in ("rules", "masks", "conntrack_zones")}
    small = small.model_copy(update={"limits": {**small.limits, **limits}})
    found = run_finders(replace(seen("one-armed-nat", "ovs-doca"), profile=small))
    assert [f.reasons[0].name for f in found_as(found, "DNS014")] == ["rules"]
    assert {f.reasons[0].name for f in found_as(found, "DNS019")} == {"masks", "conntrack_zones"}
    assert not {"DNS014", "DNS019"} & codes_of(report("one-armed-nat", "ovs-doca"))


def test_unknown_offload_is_counted_apart() -> None:
    found = report("one-armed-nat", "ovs-dpdk")
    assert found.shares == {"yes": 0.0, "unknown": 1.0, "partial": 0.0, "no": 0.0}
    assert {"query", "answer", "unusual"} == set(found.unknown)
    assert not {"query", "answer", "unusual"} & set(found.in_software)
    unknown = found_as(found, "DNS004")
    assert unknown and all("whether hardware takes all" in f.text for f in unknown)
    assert {f.advice for f in unknown} == {"check on a running switch: dnsteer verify --offload"}
    assert all("not in hardware" not in f.text for f in (*unknown, *found_as(found, "DNS023")))
    text = in_process("lint", str(ROOT / "examples" / "one-armed-nat.yaml"), "--flavor", "ovs-dpdk").stdout
    assert "0 % of the VIPs' datapath flows in hardware, 100 % not published" in text
    assert "runs on the CPU\n" in text and "Arm" not in text
    software = text.partition("runs on the CPU\n")[2].partition("in hardware or not (not published)\n")[0]
    assert "echo" in software and "queries" not in software


def test_a_yes_names_its_certainty_and_source() -> None:
    found = report("quickstart", "ovs-doca")
    assert {p.certainty for p in found.paths} == {"test-suite"}  # weaker than the source code of the rest: the hairpin
    assert all(any("hairpin" in r.text for r in remarks) for remarks in found.remarks.values())
    text = in_process("lint", str(QUICKSTART), "--flavor", "ovs-doca").stdout
    assert "rests on: output: hairpin" in text and "[test-suite]" in text
    told = in_process("lint", str(QUICKSTART), "--flavor", "ovs-doca", "--verbose").stdout
    source = profile("ovs-doca").sources["test-hairpin"]
    assert f"[{source.title}: {source.place}, test-suite]" in told
    assert {p.certainty for p in report("own-ports", "ovs-doca").paths if p.vip == "direct"} == {"inferred"}


def test_json_has_every_flow_with_its_judgement_and_the_sources() -> None:
    seen_all = seen("quickstart", "ovs-doca")
    told = json.loads(json.dumps(report("quickstart", "ovs-doca").as_json()))
    assert len(told["flows"]) == len(seen_all.judged)
    assert {flow["judgement"]["verdict"] for flow in told["flows"]} == {"yes", "no", "partial"}
    partial = {flow["kind"] for flow in told["flows"] if flow["judgement"]["verdict"] == "partial"}
    assert partial == {"echo", "error"}, "the tracker gives them to the second pass"
    reasons = [r for f in told["flows"] for r in (*f["judgement"]["reasons"], *f["judgement"]["remarks"])]
    assert reasons and all(told["sources"][reason["source"]]["place"] for reason in reasons)
    assert all(path["certainty"] and path["remarks"] for path in told["paths"])


def test_wide_entries_of_a_newer_card_are_reported_and_not_counted() -> None:
    found = run_finders(
        examine(changed("quickstart", ("  bridge:", "  hardware: bluefield-3\n  bridge:")), profile("ovs-doca"))
    )
    assert {p.rules for p in found.paths if p.family == "ipv6"} == {65}
    (split,) = found_as(found, "DNS011")
    assert "the wide entries of bluefield-3 (44 bytes) would need 64 rules instead of 65" in split.text
    assert "inferred" in split.text
    assert {r.name: r.certainty for r in split.reasons}["match_bytes_per_wide_rule"] == "inferred"
    assert "wide entries" not in found_as(report("quickstart", "ovs-doca"), "DNS011")[0].text


def test_lint_exit_codes_follow_the_worst_finding(tmp_path: Path) -> None:
    clean = in_process("lint", str(QUICKSTART), "--flavor", "ovs-doca", "--json")
    assert clean.returncode == 0, clean.stdout
    assert json.loads(clean.stdout)["ok"] is True
    example = ROOT / "examples" / "own-ports.yaml"
    assert in_process("lint", str(example), "--flavor", "ovs-doca").returncode == 2  # two passes
    broken = in_process("lint", str(example), "--flavor", "ovs-kernel")
    assert broken.returncode == 1
    assert "DNS001 error" in broken.stdout and "to do:" in broken.stdout
    text = (
        example.read_text()
        + "\nlint:\n  accept:\n    - {code: DNS010, reason: measured}\n    - {code: DNS015, reason: set by hand}\n"
        "    - {code: DNS004, reason: measured too}\n"
    )
    accepted = tmp_path / "accepted.yaml"
    accepted.write_text(text)
    done = in_process("lint", str(accepted), "--flavor", "ovs-doca")
    assert done.returncode == 0, done.stdout
    assert "accepted: measured" in done.stdout


@pytest.mark.parametrize("example", ["authoritative", "resolvers"])
def test_probes_of_the_agent_are_no_masks_too_many(example: str) -> None:
    """Their port is the agent's alone, and the bound is of what others send."""
    done = in_process("lint", str(ROOT / "examples" / f"{example}.yaml"))
    assert done.returncode == 0 and "DNS031" not in done.stdout, done.stdout
    found = seen(example, "ovs-doca")
    assert (
        0 < found.masks < len({mask_of_match(j.flow.match) for j in found.judged if isinstance(j.flow, DatapathFlow)})
    )


def test_lint_writes_sarif_explains_codes_and_refuses_wrong_names(tmp_path: Path) -> None:
    file = tmp_path / "out.sarif"
    done = in_process("lint", str(QUICKSTART), "--flavor", "ovs-doca", "--sarif", str(file))
    assert done.returncode == 0
    results = json.loads(file.read_text())["runs"][0]["results"]
    assert {r["ruleId"] for r in results} >= {"DNS011", "DNS021"}
    page = in_process("lint", "--explain", "dns011")
    assert page.returncode == 0 and page.stdout.startswith("# DNS011")
    wrong = in_process("lint", "--explain", "DNS999")
    assert wrong.returncode == 64 and "DNS011" in wrong.stderr
    flavor = in_process("lint", str(QUICKSTART), "--flavor", "ovs-magic")
    assert flavor.returncode == 64 and "ovs-doca-2" in flavor.stderr
    assert in_process("lint").returncode == 64


def test_a_spec_of_the_userspace_datapath_is_judged_for_hardware() -> None:
    """Its own flavor has none, and the first line says so. A flavor that is asked for is what is judged."""
    asked = in_process("lint", str(QUICKSTART), "--flavor", "ovs-doca").stdout.splitlines()
    first, *rest = in_process("lint", str(QUICKSTART)).stdout.splitlines()
    assert (
        first == f"{QUICKSTART}: flavor ovs-netdev has no hardware; judged as ovs-doca (override: --flavor ovs-netdev)"
    )
    assert rest == asked
    told = json.loads(in_process("lint", str(QUICKSTART), "--json").stdout)
    assert (told["flavor"], told["profile"], told["offloaded_share"]) == ("ovs-netdev", "ovs-doca-3", 1.0)
    soft = in_process("lint", str(QUICKSTART), "--flavor", "ovs-netdev").stdout
    assert soft.splitlines()[0] == f"{QUICKSTART} on Open vSwitch with the userspace datapath"
    assert "DNS005 note: Open vSwitch with the userspace datapath: the CPU forwards everything" in soft
