"""One page of the console for all browsers: what it has, since when, and how it is sent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from dnsteer.console.content import Content
from dnsteer.console.desk import Picture


@dataclass(frozen=True)
class Page:
    """A page as HTML; *status* is that of HTTP."""

    status: int
    text: str


@dataclass
class Topic:
    """One page: its parts and numbers, made of *picture*, each with the version at which it changed last."""

    key: str
    shape: str = ""
    shaped: int = 0
    version: int = 0
    parts: dict[str, tuple[int, str]] = field(default_factory=dict)
    numbers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    watchers: int = 0
    used: float = 0.0
    page: tuple[int, Page] = (-1, Page(500, ""))
    message: tuple[int, int, bytes] = (-1, -1, b"")
    picture: Picture | None = None

    def update(self, content: Content, version: int) -> None:
        """Take what is new."""
        changed = content.shape != self.shape
        if changed:
            self.shape, self.shaped, self.parts, self.numbers = content.shape, version, {}, {}
        for mine, theirs in ((self.parts, content.parts), (self.numbers, content.numbers)):
            for name, value in theirs.items():
                known = mine.get(name)
                if known is None or known[1] != value:
                    mine[name] = version, value
                    changed = True
            for name in mine.keys() - theirs.keys():
                del mine[name]
        if changed:
            self.version = version

    def since(self, version: int, epoch: int) -> bytes:
        """A message with what is newer than a *version*."""
        if self.message[:2] != (version, self.version):
            if version < self.shaped:
                kind, data = "reload", {}
            else:
                kind = "update"
                data = {
                    "parts": {name: value for name, (at, value) in self.parts.items() if at > version},
                    "numbers": {name: value for name, (at, value) in self.numbers.items() if at > version},
                }
            text = json.dumps(data, separators=(",", ":"))
            made = f"id: {epoch}.{self.version}\nevent: {kind}\ndata: {text}\n\n".encode()
            self.message = version, self.version, made
        return self.message[2]
