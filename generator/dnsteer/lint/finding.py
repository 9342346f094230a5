"""A finding of lint, its code, and the function that finds it: what every finder module is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from dnsteer.offload.judge import Reason
from dnsteer.spec.errors import Path, show_path

if TYPE_CHECKING:
    from dnsteer.lint.context import LintContext


class Severity(str, Enum):
    """How bad it is. Errors end lint with exit code 1, warnings with 2; notes are for reading."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Code:
    """What kind of finding it is. Codes are stable: one keeps its meaning, and is not used again when it goes.

    Each has a page in docs/lint, which `dnsteer lint --explain CODE` prints.
    """

    code: str
    severity: Severity
    title: str

    def page(self) -> str:
        """The page that explains it, as Markdown."""
        return (_pages() / f"{self.code}.md").read_text(encoding="utf-8")


def _pages() -> FilePath:
    """The folder of the pages: inside the installed package, or in docs of a source checkout."""
    packaged = FilePath(str(resources.files("dnsteer"))) / "lint_pages"
    return packaged if packaged.is_dir() else FilePath(__file__).resolve().parents[3] / "docs" / "lint"


@dataclass(frozen=True)
class LintFinding:
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


Find = Callable[["LintContext"], Iterator[LintFinding]]


@dataclass(frozen=True)
class Finder:
    """A function that finds things, and the codes of its findings. *hardware*: only where the profile has hardware."""

    find: Find
    codes: tuple[Code, ...]
    hardware: bool = False

    def __call__(self, context: LintContext) -> Iterator[LintFinding]:
        """Its findings. Raises ValueError for one whose code it does not declare."""
        if self.hardware and not context.profile.hardware:
            return
        for finding in self.find(context):
            if finding.code not in self.codes:
                raise ValueError(f"{self.find.__name__} does not declare {finding.code.code}")
            yield finding


def finder(*codes: Code, hardware: bool = False) -> Callable[[Find], Finder]:
    """Declare a function as the finder of *codes*; lint/run.py lists all finders."""
    return lambda find: Finder(find, codes, hardware)


def worst_first(findings: Iterable[LintFinding]) -> list[LintFinding]:
    """The findings, accepted ones last."""
    rank = list(Severity)
    return sorted(findings, key=lambda f: (bool(f.accepted), rank.index(f.code.severity), f.code.code, f.line, f.text))


def worst_severity(findings: Sequence[LintFinding]) -> Severity | None:
    """The worst severity of what is not accepted; None when nothing is open."""
    open_ = [f.code.severity for f in findings if f.open]
    return min(open_, key=list(Severity).index) if open_ else None
