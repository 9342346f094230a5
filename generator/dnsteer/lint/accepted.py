"""The spec's `lint.accept` entries: mark the findings that they cover, and report entries that cover none."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.spec.errors import Path, near, show_path
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.lint import Accept

NOTHING_TO_ACCEPT = Code("DNS050", Severity.WARNING, "An accepted finding does not occur")


def mark_accepted(
    findings: Iterable[LintFinding], loaded: Loaded, known: Collection[str], *, own_flavor: bool = True
) -> list[LintFinding]:
    """Return the findings, accepted ones marked with the spec's reason, plus a finding for each entry that covers none.

    *known* are all codes. Without *own_flavor* (lint judged another flavor than the spec's) unused entries are not
    reported, since they may be for findings of the spec's own flavor.
    """
    entries = loaded.spec.lint.accept
    used: set[int] = set()
    out: list[LintFinding] = []
    for finding in findings:
        nth = next((i for i, entry in enumerate(entries) if _covers(entry, finding)), None)
        if nth is not None:
            used.add(nth)
            finding = replace(finding, accepted=entries[nth].reason)
        out.append(finding)
    for i, entry in enumerate(entries):
        path: Path = ("lint", "accept", i)
        line = loaded.document.line(path)
        if entry.code not in known:
            text, advice = (
                f"{entry.code} is not a code of lint",
                f"{near(entry.code, known)} dnsteer lint --explain all lists them",
            )
            out.append(LintFinding(NOTHING_TO_ACCEPT, path, line, text, advice))
        elif own_flavor and i not in used:
            place = f" at {entry.at}" if entry.at else ""
            text = f"{entry.code}{place} is accepted, but lint does not find it"
            out.append(LintFinding(NOTHING_TO_ACCEPT, path, line, text, "remove the entry"))
    return out


def _covers(entry: Accept, finding: LintFinding) -> bool:
    if entry.code != finding.code.code:
        return False
    if entry.at is None:
        return True
    at, path = entry.at.removeprefix("$").removeprefix("."), show_path(finding.path).removeprefix("$").removeprefix(".")
    return path == at or path.startswith((f"{at}.", f"{at}["))
