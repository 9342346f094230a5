"""What rows of the plan stand for."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.spec.errors import Path


@dataclass(frozen=True)
class Subject:
    """The object of the spec that a flow stands for: what it is called, and where in the spec it is."""

    cookie: int
    title: str
    path: Path
    line: int
