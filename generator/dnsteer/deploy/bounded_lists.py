# SPDX-License-Identifier: Apache-2.0
"""Lists of bounded length for people: how many there are, the first few, and how to see all. Programs get all, by --json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MANY, FEW = 10, 5
"""More sentences of a kind than *MANY* are counted, and the first *FEW* of them are shown."""
_NUMBER = re.compile(r"\d[\d.]*")


@dataclass(frozen=True)
class SentenceGroup:
    """Sentences of one kind, and a *title* that counts what they are about: `200 VIPs added`."""

    title: str
    sentences: Sequence[str]


def bounded_lines(groups: Iterable[SentenceGroup], *, how: str = "-v") -> list[str]:
    """The sentences of all groups, a line each; of a large group the title and the first few. *how* shows all of them."""
    lines = list[str]()
    for group in groups:
        if len(group.sentences) <= MANY:
            lines += group.sentences
            continue
        lines.append(f"{group.title}:")
        lines += [f"  {text}" for text in group.sentences[:FEW]]
        lines.append(f"  and {len(group.sentences) - FEW:,} more ({how} shows all)")
    return lines


def kind_of(text: str) -> str:
    """What a text says, whatever it is about: what stands after its last colon, numbers aside."""
    return _NUMBER.sub("N", text.rpartition(": ")[2])


def bounded_alike(texts: Iterable[str], *, how: str = "--json") -> list[str]:
    """Reasons or warnings, a line each; of those of a kind the first few where they are many.

    *how* shows all; empty: nothing does any more.
    """
    kinds: dict[str, list[str]] = {}
    for text in texts:
        kinds.setdefault(kind_of(text), []).append(text)
    lines = list[str]()
    for same in kinds.values():
        many = len(same) > MANY
        lines += same[:FEW] if many else same
        if many:
            all_by = f" ({how} shows all)" if how else ""
            lines.append(f"and {len(same) - FEW:,} more of which this is said{all_by}")
    return lines
