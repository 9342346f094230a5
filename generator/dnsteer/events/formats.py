# SPDX-License-Identifier: Apache-2.0
"""An event as one line: text, logfmt or JSON. Whatever the values hold, it stays one line that a terminal can show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum

from dnsteer.events.event import Event
from dnsteer.spec.errors import escape


class Format(str, Enum):
    """How lines are written."""

    TEXT = "text"
    LOGFMT = "logfmt"
    JSON = "json"


MAX_VALUE_CHARACTERS = 8192
"""Characters of a value; a longer one is cut."""
_BARE = re.compile(r'[^\s"=\\]+\Z')


def values(event: Event) -> dict[str, object]:
    """All fields of an event, in order; lists of words stay lists."""
    head = {"time": utc_stamp(event), "level": event.level, "event": event.name}
    rest = {name: _value(value) for name, value in event.fields.items() if value not in (None, "", (), [])}
    bridge = {"bridge": rest.pop("bridge")} if "bridge" in rest else {}
    return {**head, **bridge, **rest, "message": _cut(event.text)}


def utc_stamp(event: Event) -> str:
    """Its time: UTC, ISO 8601, milliseconds."""
    return event.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _value(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_cut(str(word)) for word in value]
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 3]}..."


def as_text(event: Event) -> str:
    """What people read, without time and level, which the journal adds."""
    return escape(event.text)


def event_as_json(event: Event) -> str:
    """A JSON object."""
    return _printable(json.dumps(values(event), ensure_ascii=False))


def as_logfmt(event: Event) -> str:
    """`name=value` pairs; a value with spaces and the like is a JSON string."""
    return " ".join(f"{name}={_word(value_text(value))}" for name, value in values(event).items())


def value_text(value: object) -> str:
    """A value as text: the words of a list with commas, `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _word(text: str) -> str:
    if _BARE.match(text) and text.isprintable():
        return text
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    """A JSON text with what a terminal would not show, or would obey, as JSON's escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


LINE: Mapping[Format, Callable[[Event], str]] = {
    Format.TEXT: as_text,
    Format.LOGFMT: as_logfmt,
    Format.JSON: event_as_json,
}
