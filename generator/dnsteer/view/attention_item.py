# SPDX-License-Identifier: Apache-2.0
"""An item of attention: its level, its text, and the commands that show or fix it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

AttentionLevel = Literal["critical", "warning", "note"]
"""critical: queries are lost or may be. warning: less is in service than should be. note: what people did on purpose."""


@dataclass(frozen=True)
class Command:
    """A command line, and what it is for: `To fix it`."""

    purpose: str
    line: str


@dataclass(frozen=True)
class AttentionItem:
    """Something that needs attention. *pool* is the name of the pool that it is about, *decision* the id of the decision
    behind it; empty for none. *vips* do not serve because of it. *said* is how it is said in one line, where that is not
    title and detail.
    """

    level: AttentionLevel
    title: str
    detail: str = ""
    commands: tuple[Command, ...] = ()
    pool: str = ""
    decision: str = ""
    vips: tuple[str, ...] = ()
    said: str = ""
    differs: bool = False
    """The switch is not as it was applied."""
    stale: bool = False
    """What else is shown may be as it was before: pages say so on top, and are grey."""
    listed: bool = False
    """It is an entry of the overlay, which lists of maintenance have too."""
    backend: str = ""
    """The backend of the pool that it is about alone; empty: not one alone."""

    @property
    def line(self) -> str:
        """In one line."""
        return self.said or ": ".join(filter(None, (self.title, _within(self.detail))))

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "level": self.level,
            "title": self.title,
            "detail": self.detail or None,
            "pool": self.pool or None,
            "vips_that_do_not_serve": [*self.vips],
            "decision": self.decision or None,
            "commands": [{"purpose": c.purpose, "command": c.line} for c in self.commands],
        }


def _within(text: str) -> str:
    """A text as it goes on after a colon: its first word without the upper case of a sentence."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def dnsteer_command(verb: str, options: str, *more: str) -> str:
    """A command of dnsteer."""
    return " ".join(filter(None, ["dnsteer", verb, *map(shlex.quote, more), options]))


def bridge_options(bridge: str | None) -> str:
    """The options of commands for a bridge that was named, as where there are several."""
    return shlex.join(["--bridge", bridge]) if bridge is not None else ""


def sentence(text: str) -> str:
    """A text with its first letter in upper case, unless it begins with a name such as `farm/ns1`."""
    return text if "/" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def count_levels(items: Sequence[AttentionItem]) -> dict[str, int]:
    """The number of items of each level."""
    return {level: sum(item.level == level for item in items) for level in ("critical", "warning", "note")}
