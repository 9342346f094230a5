# SPDX-License-Identifier: Apache-2.0
"""The result of a check: its failures, its counts, and the switch's warnings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

_MAX_FAILURES = 20
"""Failures that are kept with their details; all are counted."""


@dataclass(frozen=True)
class Failure:
    """A packet that the switch did not handle as the spec says. *vector* is its name, *port* where it came in."""

    vector: str
    port: str
    problem: str
    detail: tuple[str, ...]


@dataclass
class CheckReport:
    """The result of a check. Megaflows, masks and recirculations are the switch's counts for queries and answers.

    *packets* counts the packets sent by kind; *coverage* says which slots were tested. *complaints* are warnings of the
    switch about real problems; *notes* are those about a lack of CPU time, and attempts repeated because of it. *extended*
    counts the packets that went through the extension; *extension* names its program, empty without one.
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
        """Whether no packet failed and the switch logged no complaints."""
        return self.failed == 0 and not self.complaints

    @property
    def is_full(self) -> bool:
        """Whether further failures are only counted."""
        return len(self.failures) >= _MAX_FAILURES

    def add(self, failure: Failure) -> None:
        """Count a failure, and keep it if it is one of the first."""
        self.failed += 1
        if not self.is_full:
            self.failures.append(failure)

    def include(self, other: CheckReport, covers: str) -> None:
        """Add the result of a second run; *covers* describes what it covers. Flows and megaflows stay those of the first."""
        self.packets = {kind: n + other.packets.get(kind, 0) for kind, n in self.packets.items()}
        self.failures = [*self.failures, *other.failures][:_MAX_FAILURES]
        self.failed += other.failed
        self.extended += other.extended
        self.coverage += f", {covers}"
        self.complaints += other.complaints
        self.notes += other.notes

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"ok": self.ok, **asdict(self)}
