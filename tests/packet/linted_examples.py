# SPDX-License-Identifier: Apache-2.0
"""Examples that were examined and linted, once each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dnsteer.checks.load import check_document, load_spec
from dnsteer.lint.finding import LintFinding
from dnsteer.lint.run import LintReport, run_finders
from dnsteer.offload.examine import Examination, examine
from dnsteer.offload.profile import profile
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document

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
def report(example: str, flavor: str) -> LintReport:
    return run_finders(seen(example, flavor))


def codes_of(report: LintReport) -> set[str]:
    return {f.code.code for f in report.findings}


def found_as(report: LintReport, code: str) -> list[LintFinding]:
    return [f for f in report.findings if f.code.code == code]
