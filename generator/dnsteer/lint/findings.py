"""A finding of lint: which code, where in the spec, what was found and why; and whether the spec accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dnsteer.lint.codes import NOTHING_TO_ACCEPT, Code, Severity
from dnsteer.offload.judge import Reason
from dnsteer.spec.errors import Path, show_path
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.lint import Accept


@dataclass(frozen=True)
class Finding:
    """One thing that lint found. *flows* are datapath flows that show it, *accepted* is why the spec accepts it."""

    code: Code
    path: Path
    line: int
    text: str
    advice: str = ""
    reasons: tuple[Reason, ...] = ()
    flows: tuple[str, ...] = ()
    accepted: str = ""

    @property
    def open(self) -> bool:
        """Whether somebody should do something about it."""
        return not self.accepted and self.code.severity is not Severity.NOTE

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "code": self.code.code,
            "severity": self.code.severity.value,
            "title": self.code.title,
            "line": self.line,
            "path": show_path(self.path),
            "text": self.text,
            "advice": self.advice,
            "reasons": [reason.as_json() for reason in self.reasons],
            "flows": list(self.flows),
            "accepted": self.accepted,
        }


def accept(findings: Iterable[Finding], loaded: Loaded, own: bool = True) -> list[Finding]:
    """Mark what the spec accepts, and find entries that accept nothing.

    These are for the spec's *own* flavor: by another it may well be found.
    """
    entries = loaded.spec.lint.accept
    used: set[int] = set()
    out: list[Finding] = []
    for finding in findings:
        nth = next((i for i, entry in enumerate(entries) if _covers(entry, finding)), None)
        if nth is not None:
            used.add(nth)
            finding = replace(finding, accepted=entries[nth].reason)
        out.append(finding)
    for i, entry in enumerate(entries):
        if own and i not in used:
            path: Path = ("lint", "accept", i)
            where = f" at {entry.at}" if entry.at else ""
            text = f"{entry.code}{where} is accepted and was not found"
            out.append(Finding(NOTHING_TO_ACCEPT, path, loaded.document.line(path), text, "take the entry away"))
    return out


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, what is worst first."""
    rank = list(Severity)
    return sorted(findings, key=lambda f: (bool(f.accepted), rank.index(f.code.severity), f.code.code, f.line, f.text))


def worst(findings: Sequence[Finding]) -> Severity | None:
    """The worst severity of what is not accepted; None when nothing is open."""
    open_ = [f.code.severity for f in findings if f.open]
    return min(open_, key=list(Severity).index) if open_ else None


def _covers(entry: Accept, finding: Finding) -> bool:
    if entry.code != finding.code.code:
        return False
    if entry.at is None:
        return True
    at, path = entry.at.removeprefix("$").removeprefix("."), show_path(finding.path).removeprefix("$").removeprefix(".")
    return path == at or path.startswith((f"{at}.", f"{at}["))
