# SPDX-License-Identifier: Apache-2.0
"""Findings of `lint` about masks and about what is accepted, and its tables where no terminal shows them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.lint.finder import LintContext
from dnsteer.lint.mask_count import mask_count
from dnsteer.lint.run import run_finders
from dnsteer.offload.datapath_flow import DatapathFlow, read_flow
from dnsteer.offload.examine import Examination, examine
from dnsteer.offload.profile import profile
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.masks import mask_of_match
from tests.packet.switches import SMALL, spec_of
from tests.unit.commands import ENV, dnsteer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ON_DOCA = SMALL.replace("flavor: ovs-netdev", "flavor: ovs-doca")


@cache
def seen(text: str, flavor: str) -> Examination:
    return examine(spec_of(text), profile(flavor))


def test_a_mask_that_was_not_computed_is_named_with_its_flow() -> None:
    """Though there are fewer masks than were computed."""
    small = seen(SMALL, "ovs-doca")
    assert list(mask_count(LintContext.of(small))) == []
    query = next(j for j in small.judged if j.kind == "query")
    flow = read_flow(re.sub(r"\bttl=\d+/0\b", "ttl=64", query.flow.text))
    assert isinstance(flow, DatapathFlow)
    one = replace(small, judged=[replace(query, flow=flow)])
    context = LintContext.of(one)
    assert one.masks == 1 < context.bound.total
    (found,) = mask_count(context)
    assert found.code.code == "DNS031"
    assert "a mask that lint did not compute:" in found.text and " nw_ttl " in found.text
    assert flow.text[:100] in found.text and found.flows == (flow.text,)


@pytest.mark.parametrize("example", ["authoritative", "resolvers"])
def test_masks_of_the_agents_own_probes_are_not_counted(example: str) -> None:
    """Nobody else sends to the port for probes, so that the bound for any traffic leaves them out."""
    examination = examine(load_spec(EXAMPLES / f"{example}.yaml"), profile("ovs-netdev"))
    context = LintContext.of(examination)
    all_ = {mask_of_match(j.flow.match) for j in examination.judged if isinstance(j.flow, DatapathFlow)}
    assert len(all_) > context.bound.total >= examination.masks
    assert list(mask_count(context)) == []


def test_an_exceeded_mask_budget_is_named_with_advice() -> None:
    pools = "".join(
        f"  {name}:\n    slots: {slots}\n    backends:\n"
        f"      - {{name: ns1, ipv4: 192.0.2.1{nth}, mac: '02:00:00:00:01:0{nth}'}}\n"
        for nth, (name, slots) in enumerate([("a", 16), ("b", 64), ("c", 128)], 1)
    )
    head, _, _ = ON_DOCA.partition("pools:\n")
    vips = "".join(
        f"  {name}: {{addresses: [198.51.100.{nth}], services: [dns], pool: {name}}}\n"
        for nth, name in enumerate("abc")
    )
    loaded = spec_of(f"{head}pools:\n{pools}vips:\n{vips}lint:\n  masks: 4\n")
    found = next(f for f in run_finders(examine(loaded, profile("ovs-doca"))).findings if f.code.code == "DNS030")
    assert "source-port pools have 3 different numbers of slots (16, 64, 128)" in found.text
    assert "table" not in found.text and "--explain DNS030" in found.advice


def accepting(code: str) -> Loaded:
    return spec_of(f"{ON_DOCA}lint:\n  accept:\n    - {{code: {code}, reason: measured}}\n")


@pytest.mark.parametrize(("flavor", "found"), [("ovs-doca", True), ("ovs-doca-2", False), ("ovs-netdev", False)])
def test_an_accepted_code_without_a_finding_is_a_finding_for_the_specs_flavor(flavor: str, found: bool) -> None:
    judged = replace(seen(ON_DOCA, flavor), loaded=accepting("DNS010"))
    assert ("DNS050" in {f.code.code for f in run_finders(judged).findings}) == found


def test_an_accepted_code_that_lint_does_not_have_is_found_by_any_flavor() -> None:
    judged = replace(seen(ON_DOCA, "ovs-doca-2"), loaded=accepting("DNS101"))
    (found,) = [f for f in run_finders(judged).findings if f.code.code == "DNS050"]
    assert found.text == "DNS101 is not a code of lint"
    assert found.advice == 'did you mean "DNS061"? dnsteer lint --explain all lists them'


@pytest.mark.parametrize("columns", [None, "60"])
def test_no_name_or_verdict_is_cut_in_a_pipe(
    columns: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "resolver-anycast-of-the-second-site"
    file = tmp_path / "spec.yaml"
    file.write_text(ON_DOCA.replace("  dns: {", f"  {name}: {{").replace("p0:\n", "p0:\n    p1:\n", 1))
    if columns is None:
        monkeypatch.delitem(ENV, "COLUMNS")
    else:
        monkeypatch.setitem(ENV, "COLUMNS", columns)
    done = dnsteer("lint", str(file), "--flavor", "ovs-dpdk")
    assert "…" not in done.stdout
    rows = [line for line in done.stdout.splitlines() if " ipv4 " in line and " queries " in line]
    assert rows and all(row.split()[0] == name for row in rows)
    assert all(any(f" {verdict} " in row for verdict in ("yes", "no", "partial", "unknown")) for row in rows)


def test_no_column_of_a_prediction_is_lost_in_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(ON_DOCA.replace("  dns: {", f"  {63 * 'x'}: {{"))
    monkeypatch.delitem(ENV, "COLUMNS")
    done = dnsteer("capacity", str(file), "--hardware", "bluefield-3", "-v")
    heading = next(line for line in done.stdout.splitlines() if line.startswith("VIP "))
    assert heading.split()[-1] == "basis"
    assert re.search(rf"^{63 * 'x'} +IPv4 .* extrapolation \d", done.stdout, re.M)
