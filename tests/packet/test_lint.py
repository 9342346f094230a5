"""`lint` on the examples: what hardware does with the datapath flows that a real switch makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dnsteer.offload.examine import Examination, examine
from dnsteer.offload.lint import Report, lint, of_the_card
from dnsteer.offload.profile import profile
from dnsteer.spec.document import parse_document
from dnsteer.spec.load import Loaded, check_document, load_spec
from tests.unit.commands import dnsteer

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.yaml"


def changed(example: str, *changes: tuple[str, str]) -> Loaded:
    text = (ROOT / "examples" / f"{example}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return check_document(parse_document("spec.yaml", text))


@cache
def seen(example: str, flavor: str) -> Examination:
    return examine(load_spec(ROOT / "examples" / f"{example}.yaml"), profile(flavor))


@cache
def report(example: str, flavor: str) -> Report:
    return lint(seen(example, flavor))


def codes_of(report: Report) -> set[str]:
    return {f.code.code for f in report.findings}


def test_all_of_the_quickstart_is_offloaded_in_one_pass() -> None:
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
    assert codes_of(found) == {"DNS011", "DNS021", "DNS022"}


def test_a_split_rule_names_its_fields_and_they_sum_up() -> None:
    (split,) = [f for f in report("quickstart", "ovs-doca").findings if f.code.code == "DNS011"]
    assert "IPv6 (tcp/53, udp/53)" in split.text
    assert "ipv6.dst 16" in split.text
    sizes = [int(part.rsplit(" ", 1)[1]) for part in split.text.split("(")[2].split(")")[0].split(", ")]
    assert sum(sizes) == max(p.match_bytes for p in report("quickstart", "ovs-doca").paths)


@pytest.mark.parametrize("flavor", ["ovs-dpdk", "ovs-kernel"])
def test_a_hash_is_not_offloaded_there_and_the_finding_says_what_to_change(flavor: str) -> None:
    found = report("own-ports", flavor)
    errors = [f for f in found.findings if f.code.code == "DNS001"]
    assert errors and all("hash" in f.text for f in errors)
    assert all("pools.hashed.selection: source-port" in f.advice for f in errors)
    assert all(reason.source and reason.certainty for f in errors for reason in f.reasons)
    hashed = [p for p in found.paths if p.vip == "nat" and p.direction == "query"]
    assert {p.offloaded for p in hashed} <= {"no", "partial"}
    assert {p.offloaded for p in found.paths if p.vip == "direct"} == {"yes"}


def test_a_hash_takes_two_passes_on_doca_and_no_connection_tracking_beside_it() -> None:
    found = report("own-ports", "ovs-doca")
    assert {"DNS010", "DNS015"} <= codes_of(found)
    hashed = [p for p in found.paths if p.vip == "nat" and p.direction == "query"]
    assert hashed and all((p.passes, p.offloaded) == (2, "yes") for p in hashed)
    assert all(p.rules >= p.slots for p in hashed)


def test_without_tracked_fragments_the_hash_has_nothing_beside_it() -> None:
    loaded = changed("own-ports", ("forwarding: nat", "forwarding: nat\n    fragments: drop"))
    assert "DNS015" not in codes_of(lint(examine(loaded, profile("ovs-doca"))))


def test_answers_that_are_translated_are_judged_too() -> None:
    answers = [p for p in report("one-armed-nat", "ovs-doca").paths if p.direction == "answer"]
    assert {(p.service, p.family) for p in answers} == {
        (service, family) for service in ("udp/53", "tcp/53") for family in ("ipv4", "ipv6")
    }
    assert all(p.offloaded == "yes" and p.rewrites == 3 for p in answers)
    fragments = [f for f in report("one-armed-nat", "ovs-doca").findings if f.code.code == "DNS020"]
    assert fragments and all("frag" in f.text or "ct" in f.text for f in fragments)


def test_what_runs_on_the_cpu_is_told_for_every_kind() -> None:
    software = report("two-uplinks", "ovs-doca").in_software
    assert {"neighbor", "echo", "fragment"} <= set(software)
    assert not {"query", "answer"} & set(software)
    assert any("ovs-vswitchd itself" in reason for reason in software["echo"])


def test_software_is_told_once() -> None:
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
    assert lint(seen).flows >= 4 * slots


def test_more_flows_than_the_limit_are_found() -> None:
    services = ", ".join(f"{{protocol: udp, port: {port}}}" for port in range(1000, 1030))
    loaded = changed("quickstart", ("slots: 64 ", "slots: 4096 "), ("services: [dns]", f"services: [{services}]"))
    seen = examine(loaded, profile("ovs-doca"), queries=300)
    found = lint(seen)
    assert found.flows > 200_000
    assert {"DNS013", "DNS016"} & codes_of(found) == {"DNS013"}
    older = [f for f in lint(replace(seen, profile=profile("ovs-doca-2"))).findings if f.code.code == "DNS016"]
    assert older and "65,536 counters" in older[0].text and older[0].reasons[0].source


def test_more_rules_than_the_card_holds_are_found() -> None:
    loaded = changed("quickstart", ("  bridge: br-dns", "  hardware: bluefield-2\n  bridge: br-dns"))
    on_card = replace(seen("quickstart", "ovs-doca"), loaded=loaded)
    assert list(of_the_card(on_card, 4_000_000)) == []
    (large,) = of_the_card(on_card, 4_000_001)
    assert (large.code.code, large.path) == ("DNS014", ("switch", "hardware"))
    assert "4,000,001" in large.text and "bluefield-2 has 4,000,000" in large.text
    assert list(of_the_card(seen("quickstart", "ovs-doca"), 5_000_000)) == []  # the spec names no card


def test_exit_codes(tmp_path: Path) -> None:
    clean = dnsteer("lint", str(QUICKSTART), "--flavor", "ovs-doca", "--json")
    assert clean.returncode == 0, clean.stdout
    assert json.loads(clean.stdout)["ok"] is True
    example = ROOT / "examples" / "own-ports.yaml"
    assert dnsteer("lint", str(example), "--flavor", "ovs-doca").returncode == 2  # two passes
    broken = dnsteer("lint", str(example), "--flavor", "ovs-kernel")
    assert broken.returncode == 1
    assert "DNS001 error" in broken.stdout and "to do:" in broken.stdout
    text = (
        example.read_text()
        + "\nlint:\n  accept:\n    - {code: DNS010, reason: measured}\n    - {code: DNS015, reason: set by hand}\n"
    )
    accepted = tmp_path / "accepted.yaml"
    accepted.write_text(text)
    done = dnsteer("lint", str(accepted), "--flavor", "ovs-doca")
    assert done.returncode == 0, done.stdout
    assert "accepted: measured" in done.stdout


def test_sarif_and_explain_and_wrong_names(tmp_path: Path) -> None:
    file = tmp_path / "out.sarif"
    done = dnsteer("lint", str(QUICKSTART), "--flavor", "ovs-doca", "--sarif", str(file))
    assert done.returncode == 0
    results = json.loads(file.read_text())["runs"][0]["results"]
    assert {r["ruleId"] for r in results} >= {"DNS011", "DNS021"}
    page = dnsteer("lint", "--explain", "dns011")
    assert page.returncode == 0 and page.stdout.startswith("# DNS011")
    wrong = dnsteer("lint", "--explain", "DNS999")
    assert wrong.returncode == 64 and "DNS011" in wrong.stderr
    flavor = dnsteer("lint", str(QUICKSTART), "--flavor", "ovs-magic")
    assert flavor.returncode == 64 and "ovs-doca-2" in flavor.stderr
    assert dnsteer("lint").returncode == 64
