"""Words of messages about wrong input: the value as it was written, and the known word that is nearest to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from dnsteer.spec.errors import shorten

_MAX_KNOWN = 2000  # known words that are looked at
_MAX_COMPARED = 100  # known words that a wrong one is compared with


def near(word: object, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or lists the known ones."""
    words = list(islice(known, _MAX_KNOWN))
    if not words:
        return "there are none yet"
    text = str(word).lower()
    if len(text) <= 64:
        import difflib  # here, since the quick verbs do without

        folded = {w.lower(): w for w in reversed(words)}
        if len(folded) > _MAX_COMPARED:
            alike = (w for w in reversed(folded) if w[:1] == text[:1] and abs(len(w) - len(text)) <= 2)
            folded = {w: folded[w] for w in islice(alike, _MAX_COMPARED)}
        match = difflib.get_close_matches(text, folded, n=1, cutoff=0.6)
        if match:
            return f'did you mean "{folded[match[0]]}"?'
    return f"known here: {', '.join(words[:8])}{', ...' if len(words) > 8 else ''}"


def show_value(value: Any) -> str:
    """A value as the operator wrote it, short."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return f'"{shorten(value)}"' if isinstance(value, str) else str(value)
