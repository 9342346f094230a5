"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_MOST_FAILURES = 20
"""Failures that are kept with their details; all are counted."""


@dataclass(frozen=True)
class Failure:
    """A packet that did not fare as the spec says. *vector* names it, *port* is where it came in."""

    vector: str
    port: str
    problem: str
    detail: tuple[str, ...]


@dataclass
class Report:
    """What a check found. Megaflows, masks and recirculations are those of queries and answers, by the switch's count.

    *packets* counts them by kind, *coverage* says which slots were asked. *complaints* are warnings of the switch about
    something wrong, *notes* those about a machine that gave it no time, and what was repeated for it. *extended* packets
    went through the extension, and *extension* names its program; empty where there is none.
    """

    ovs: str
    flows: int
    groups: int
    packets: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    megaflows: int = 0
    masks: int = 0
    recirculations: int = 0
    extension: str = ""
    extended: int = 0
    coverage: str = ""
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything was as the spec says."""
        return self.failed == 0 and not self.complaints

    def add(self, failure: Failure) -> None:
        """Count a failure, and keep it if it is one of the first."""
        self.failed += 1
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(failure)

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"ok": self.ok, **asdict(self)}
