# SPDX-License-Identifier: Apache-2.0
"""Codes of lint are stable, and each has its page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

import pytest

from dnsteer.checks.lint_entries import LINT_CODES
from dnsteer.checks.load import check_document
from dnsteer.cli import lint as lint_verb
from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import NOTHING_TO_ACCEPT, Code, LintFinding, Severity, mark_accepted, worst_severity
from dnsteer.lint.other_traffic import NEIGHBORS
from dnsteer.lint.run import CODES, FINDERS, codes_of
from dnsteer.lint.sarif import sarif
from dnsteer.lint.service_offload import ANSWERS_IN_SOFTWARE, PASSES, QUERIES_IN_SOFTWARE, SPLIT
from dnsteer.offload.capabilities import LimitName
from dnsteer.offload.examine import KINDS
from dnsteer.spec.errors import DefinitionError
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document

PAGES = Path(__file__).resolve().parents[2] / "docs" / "lint"
QUICKSTART = (PAGES.parents[1] / "examples" / "quickstart.yaml").read_text()


def with_lint(section: str) -> Loaded:
    return check_document(parse_document("spec.yaml", f"{QUICKSTART}\nlint:\n{section}"))


def found(code: Code, *path: str | int) -> LintFinding:
    return LintFinding(code, path, 7, f"something about {path}", "do something")


def test_a_spec_knows_the_codes_that_lint_has() -> None:
    assert {*CODES} == LINT_CODES


def test_finders_have_codes_of_their_own() -> None:
    declared = [code.code for finder in FINDERS for code in finder.codes]
    assert len(declared) == len(set(declared)) == len(CODES) - 1
    assert list(CODES) == sorted(CODES)


def test_a_code_that_two_findings_have_is_refused() -> None:
    taken = replace(SPLIT, code=PASSES.code)
    message = f"test_lint_codes.py: {PASSES.code} is the code of two findings, {PASSES.title!r} and {SPLIT.title!r}"
    with pytest.raises(DefinitionError, match=re.escape(message)):
        codes_of([finder(PASSES)(lambda _: iter(())), finder(taken)(lambda _: iter(()))])


def test_a_finder_without_codes_is_refused() -> None:
    def find(_: LintContext) -> Iterator[LintFinding]:
        yield from ()

    with pytest.raises(DefinitionError, match=r"declared with its codes, as @finder\(CODE\): found 'find'"):
        finder(find)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="found none"):
        finder()
    with pytest.raises(DefinitionError, match=r"lint/run.py: find in FINDERS is no finder; declare it by @finder"):
        codes_of([find])  # type: ignore[list-item]


def test_a_finding_at_no_place_of_the_spec_is_refused() -> None:
    context = cast("LintContext", None)  # looked at only where the path is one
    with pytest.raises(DefinitionError, match=rf"{PASSES.code}: a finding at \('pool', 'farm'\); .*\"pools\""):
        LintContext.finding(context, PASSES, ("pool", "farm"), "text")


def test_a_finding_that_its_finder_does_not_declare_is_refused() -> None:
    context = cast("LintContext", None)  # a finder for all flavors hands it on only
    with pytest.raises(DefinitionError, match=rf"test_lint_codes.py: .* yields {SPLIT.code}, which its @finder"):
        list(finder(PASSES)(lambda _: iter([found(SPLIT)]))(context))


def test_every_code_has_its_page_and_every_page_its_code() -> None:
    assert {file.stem for file in PAGES.glob("DNS*.md")} == set(CODES)


@pytest.mark.parametrize("code", CODES.values(), ids=lambda c: c.code)
def test_the_page_says_what_the_code_says(code: Code) -> None:
    page = code.page()
    assert page.startswith(f"# {code.code}: {code.title}\n\nSeverity: {code.severity.value}.\n")
    headings = re.findall(r"^## (.*)$", page, re.M)
    assert headings[:3] == ["What it means", "Why it matters", "What to do"]
    assert all(body.strip() for body in re.split(r"^##? .*$", page, flags=re.M)[1:])


def test_limits_that_pages_send_to_exist() -> None:
    sent = {
        name
        for code in CODES.values()
        for names in re.findall(r"profile's limits? ((?:`\w+`(?:, | and )?)+)", code.page())
        for name in re.findall(r"`(\w+)`", names)
    }
    assert {"match_bytes_per_rule", "dp_hash_with_conntrack", "counters", "masks"} <= sent <= set(get_args(LimitName))


def test_a_finding_is_accepted_everywhere_or_at_a_path_and_below() -> None:
    loaded = with_lint(
        "  accept:\n"
        "    - {code: DNS010, reason: two passes are enough}\n"
        "    - {code: DNS001, at: vips.dns, reason: tried}\n"
        "    - {code: DNS002, at: $.vips.dns, reason: tried too}\n"
    )
    wanted = [
        found(PASSES, "pools", "a"),
        found(QUERIES_IN_SOFTWARE, "vips", "dns", "services", 0),
        found(QUERIES_IN_SOFTWARE, "vips", "dns2"),
        found(ANSWERS_IN_SOFTWARE, "vips", "dns"),
    ]
    out = mark_accepted(wanted, loaded, CODES)
    assert [f.accepted for f in out] == ["two passes are enough", "tried", "", "tried too"]
    assert worst_severity(out) is Severity.ERROR
    assert worst_severity([f for f in out if f.accepted]) is None


def test_an_accepted_code_that_does_not_occur_is_found_with_its_line() -> None:
    loaded = with_lint("  accept:\n    - {code: DNS010, at: pools.b, reason: old}\n")
    (out,) = mark_accepted([], loaded, CODES)
    line = next(n for n, text in enumerate(loaded.document.text.splitlines(), 1) if "DNS010" in text)
    assert (out.code, out.line) == (NOTHING_TO_ACCEPT, line)
    assert "DNS010 at pools.b" in out.text


def test_notes_leave_nothing_open() -> None:
    assert worst_severity([found(NEIGHBORS, "switch")]) is None
    assert worst_severity([found(NEIGHBORS), found(PASSES)]) is Severity.WARNING


def test_sarif_names_rules_places_and_what_is_accepted() -> None:
    loaded = with_lint("  accept:\n    - {code: DNS010, reason: two passes are enough}\n")
    out = sarif("dir/spec.yaml", mark_accepted([found(PASSES, "pools", "a"), found(SPLIT)], loaded, CODES))
    (run,) = out["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == list(CODES)
    assert out["version"] == "2.1.0"
    accepted, other = run["results"]
    assert rules[accepted["ruleIndex"]]["id"] == accepted["ruleId"] == "DNS010"
    assert accepted["suppressions"] == [{"kind": "inSource", "justification": "two passes are enough"}]
    place = accepted["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "dir/spec.yaml"
    assert place["physicalLocation"]["region"]["startLine"] == 7
    assert place["logicalLocations"] == [{"fullyQualifiedName": "$.pools.a"}]
    assert "suppressions" not in other and other["level"] == "note"
    assert accepted["level"] == "warning"


def test_each_kind_of_traffic_has_a_word() -> None:
    assert set(lint_verb._KINDS) == set(KINDS)
