"""Values that several parts of the spec have: times, shares, words of a list, and lists whose only entry may stand alone."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from dnsteer.spec.model.part import Spelled, bounds, whole
from dnsteer.spec.model.types import wanted

_DURATION = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(ms|s|m|h)?\Z")
_UNIT = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_PERCENT = re.compile(r"([0-9]{1,3})%\Z")


def duration(low: float, high: float) -> Spelled:
    """A validator of durations from *low* to *high* seconds."""

    def check(value: Any) -> float:
        expected = f"a time from {spelt(low)} to {spelt(high)}, such as 500ms, 2s or 5m"
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        m = _DURATION.match(text)
        if m is None:
            raise wanted(expected)
        seconds = float(m[1]) * _UNIT[m[2] or ""]
        if not low <= seconds <= high:
            raise wanted(expected)
        return round(seconds, 3)

    return Spelled(check, spell=spelt)


def spelt(seconds: float) -> str:
    """A duration as the spec spells it, in the largest unit that makes it a whole number."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    unit = next(unit for unit in ("h", "m", "s") if unit == "s" or (seconds and seconds % _UNIT[unit] == 0))
    return f"{seconds / _UNIT[unit]:.10g}{unit}"


def _percent(value: Any) -> int:
    m = _PERCENT.match(value) if isinstance(value, str) else None
    if m is None or int(m[1]) > 100:
        raise wanted(
            "a share from 0% to 100%", f"write {value}%" if isinstance(value, int) and 0 <= value <= 100 else ""
        )
    return int(m[1])


def word(words: tuple[str, ...], what: str) -> BeforeValidator:
    """A validator of one of *words*, which are upper case; any case is taken."""

    def check(value: Any) -> str:
        text = value.upper() if isinstance(value, str) else ""
        if text not in words:
            raise wanted(f"{what}: {', '.join(words)}")
        return text

    return BeforeValidator(check)


def as_list(value: Any) -> Any:
    """A value that stands alone, as a list."""
    return value if isinstance(value, list) else [value]


class OneOrList:
    """The JSON Schema of a list whose only entry may stand alone."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        schema = handler(core)
        return {"anyOf": [schema["items"], schema]}


def text_schema(example: str) -> WithJsonSchema:
    """The JSON Schema of what is written as text or as a number."""
    return WithJsonSchema({"type": ["string", "number"], "examples": [example]})


PERCENT = Spelled(_percent, spell=lambda percent: f"{percent}%")
Percent = Annotated[int, PERCENT, WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,3}%$"})]
Count = Annotated[int, whole(1, 100), bounds(1, 100)]
