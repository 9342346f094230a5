# SPDX-License-Identifier: Apache-2.0
"""A lint finding and its code, and the spec's `lint.accept` entries: what they cover, and those that cover nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib import resources
from pathlib import Path as FilePath
from typing import Any

from dnsteer.offload.judge import Reason
from dnsteer.spec.errors import Path, file_of_part, near, show_path
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.lint import Accept


class Severity(str, Enum):
    """A finding's severity. Errors make lint exit with code 1, warnings with 2; notes do not change the exit code."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Code:
    """The kind of a finding. Codes are stable: a code keeps its meaning, and a retired code is never reused.

    Each has a page in docs/lint, which `dnsteer lint --explain CODE` prints.
    """

    code: str
    severity: Severity
    title: str

    def page(self) -> str:
        """Return the Markdown page that explains the code."""
        return (_pages() / f"{self.code}.md").read_text(encoding="utf-8")


def _pages() -> FilePath:
    """Return the directory of the pages: inside the installed package, or docs/lint of a source checkout."""
    packaged = FilePath(str(resources.files("dnsteer"))) / "lint_pages"
    return packaged if packaged.is_dir() else FilePath(__file__).resolve().parents[3] / "docs" / "lint"


@dataclass(frozen=True)
class LintFinding:
    """One finding. *flows* are example datapath flows; *accepted* is the spec's reason to accept it, empty if none.

    *part* is the file, relative to the folder of the spec's own; empty for that file itself.
    """

    code: Code
    path: Path
    line: int
    text: str
    advice: str = ""
    reasons: tuple[Reason, ...] = ()
    flows: tuple[str, ...] = ()
    accepted: str = ""
    part: str = ""

    @property
    def needs_action(self) -> bool:
        """Whether the finding needs action: neither accepted nor a note."""
        return not self.accepted and self.code.severity is not Severity.NOTE

    def as_json(self, file: str) -> dict[str, Any]:
        """As a JSON object; *file* is the spec's own."""
        return {
            "code": self.code.code,
            "severity": self.code.severity.value,
            "title": self.code.title,
            "file": file_of_part(file, self.part),
            "line": self.line,
            "path": show_path(self.path),
            "text": self.text,
            "advice": self.advice,
            "reasons": [reason.as_json() for reason in self.reasons],
            "flows": list(self.flows),
            "accepted": self.accepted,
        }


def worst_first(findings: Iterable[LintFinding]) -> list[LintFinding]:
    """Return the findings by severity, code, line and text, worst first; accepted ones come last."""
    rank = list(Severity)
    return sorted(findings, key=lambda f: (bool(f.accepted), rank.index(f.code.severity), f.code.code, f.line, f.text))


def worst_severity(findings: Sequence[LintFinding]) -> Severity | None:
    """Return the worst severity of the open findings; None when there are none."""
    open_ = [f.code.severity for f in findings if f.needs_action]
    return min(open_, key=list(Severity).index) if open_ else None


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
        place = loaded.document.place(path)
        if entry.code not in known:
            text, advice = (
                f"{entry.code} is not a code of lint",
                f"{near(entry.code, known)} dnsteer lint --explain all lists them",
            )
            out.append(LintFinding(NOTHING_TO_ACCEPT, path, place.line, text, advice, part=place.part))
        elif own_flavor and i not in used:
            where = f" at {entry.at}" if entry.at else ""
            text = f"{entry.code}{where} is accepted, but lint does not find it"
            out.append(LintFinding(NOTHING_TO_ACCEPT, path, place.line, text, "remove the entry", part=place.part))
    return out


def _covers(entry: Accept, finding: LintFinding) -> bool:
    if entry.code != finding.code.code:
        return False
    if entry.at is None:
        return True
    at, path = entry.at.removeprefix("$").removeprefix("."), show_path(finding.path).removeprefix("$").removeprefix(".")
    return path == at or path.startswith((f"{at}.", f"{at}["))
