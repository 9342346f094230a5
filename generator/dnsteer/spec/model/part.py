# SPDX-License-Identifier: Apache-2.0
"""What the parts of the spec have in common: strictness, numbers, times, shares, lists, mappings by name, devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dnsteer.spec.model.types import DeviceType, Option, OptionKey, wrong_value

FIRST_VERSION = "0.1"
"""The version of dnsteer that came with all keys that say nothing else."""
_SINCE = "x-since"
"""Annotation of each key in the JSON Schema. Editors and validators ignore keywords that they do not know."""


class Part(BaseModel):
    """A mapping of the spec: unknown keys are errors, and it does not change."""

    since: ClassVar[str] = FIRST_VERSION
    """The version of dnsteer in which its keys came, but for those with `came_in`."""
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A key that may be left out has a value where it is there (`check_empty_keys`), unless it may be empty. Each says
        since which version there is such a key."""
        schema = handler.resolve_ref_schema(handler(core))
        for key, value in schema.get("properties", {}).items():
            if cls.since:
                value[_SINCE] = since_of(cls, key)
            if value.get("default", "") is not None:
                continue
            del value["default"]
            kinds = [one for one in value.pop("anyOf", ()) if one != {"type": "null"}]
            value |= {"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else {}
        return schema


class TextOrMapping:
    """The JSON Schema of a mapping for whose first key a text may stand."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(core)]}


class DataPart(Part):
    """A mapping of a file that comes with dnsteer, such as a capability profile: its keys are those of the same version."""

    since = ""


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys of a mapping as the spec spells them: a word of Python's has another name in the model."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def came_in(version: str) -> JsonDict:
    """What `Field(json_schema_extra=...)` gets for a key that is younger than its part, such as `came_in("0.2")`."""
    return {_SINCE: version}


def since_of(part: type[Part], key: str) -> str:
    """The version of dnsteer in which *key*, as the spec spells it, came. The docs and the JSON Schema have it from here."""
    extra = keys_of(part)[key].json_schema_extra
    return str(extra[_SINCE]) if isinstance(extra, dict) and _SINCE in extra else part.since


@dataclass(frozen=True)
class SpelledValidator(BeforeValidator):
    """A validator of values that are written otherwise than they are kept: *spell* returns how the spec has one."""

    spell: Callable[[Any], str] = str


def number_hint(value: Any) -> str:
    """What to do about text where a number is wanted. Unquoted numbers in unusual spelling are read as text too."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 5:
        return ""
    return "write it without leading zeros" if value[:1] == "0" != value else "write it without quotes"


def whole(low: int, high: int) -> BeforeValidator:
    """A validator of whole numbers from *low* to *high*."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise wrong_value(f"a whole number from {low} to {high}", number_hint(value))
        return value

    return BeforeValidator(check)


def bounds(low: int, high: int) -> WithJsonSchema:
    """The JSON Schema of `whole(low, high)`."""
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})


_DURATION = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(ms|s|m|h)?\Z")
_UNIT = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_PERCENT = re.compile(r"([0-9]{1,3})%\Z")


def duration(low: float, high: float) -> SpelledValidator:
    """A validator of durations from *low* to *high* seconds."""

    def check(value: Any) -> float:
        expected = f"a time from {show_duration(low)} to {show_duration(high)}, such as 500ms, 2s or 5m"
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        m = _DURATION.match(text)
        if m is None:
            raise wrong_value(expected)
        seconds = float(m[1]) * _UNIT[m[2] or ""]
        if not low <= seconds <= high:
            raise wrong_value(expected)
        return round(seconds, 3)

    return SpelledValidator(check, spell=show_duration)


def show_duration(seconds: float) -> str:
    """A duration as the spec spells it, in the largest unit that makes it a whole number."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    unit = next(unit for unit in ("h", "m", "s") if unit == "s" or (seconds and seconds % _UNIT[unit] == 0))
    return f"{seconds / _UNIT[unit]:.10g}{unit}"


def _percent(value: Any) -> int:
    m = _PERCENT.match(value) if isinstance(value, str) else None
    if m is None or int(m[1]) > 100:
        raise wrong_value(
            "a share from 0% to 100%", f"write {value}%" if isinstance(value, int) and 0 <= value <= 100 else ""
        )
    return int(m[1])


def word(words: tuple[str, ...], what: str) -> BeforeValidator:
    """A validator of one of *words*, which are upper case; any case is taken."""

    def check(value: Any) -> str:
        text = value.upper() if isinstance(value, str) else ""
        if text not in words:
            raise wrong_value(f"{what}: {', '.join(words)}")
        return text

    return BeforeValidator(check)


def word_schema(words: tuple[str, ...]) -> WithJsonSchema:
    """The JSON Schema of `word(words, ...)`: the words as editors offer them, and the same in any case."""
    any_case = "|".join("".join(f"[{c}{c.lower()}]" if c.isalpha() else c for c in each) for each in words)
    others = {"$comment": "in any case", "type": "string", "pattern": f"^({any_case})$"}
    return WithJsonSchema({"anyOf": [{"type": "string", "enum": [*words]}, others]})


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


PERCENT = SpelledValidator(_percent, spell=lambda percent: f"{percent}%")
Percent = Annotated[int, PERCENT, WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,3}%$"})]
Count = Annotated[int, whole(1, 100), bounds(1, 100)]


class MayBeEmpty:
    """An entry without a value (`p0:`) stands for one that leaves every key out."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(lambda v: {} if v is None else v, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "null"}]}


class ByName:
    """Says in the JSON Schema that a mapping has no keys but those of its pattern; pydantic's schema leaves that open."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "additionalProperties": False}


class Device(Part):
    """What OVSDB needs to open a port's network device."""

    type: DeviceType | None = Field(
        default=None,
        description="Interface type in OVSDB. Left out: `dpdk` for ovs-doca and ovs-dpdk, a system device otherwise.",
    )
    options: Annotated[dict[OptionKey, Option], ByName()] = Field(
        default_factory=dict,
        description="Interface options in OVSDB, such as `dpdk-devargs` (which type `dpdk` needs, except with ovs-doca).",
    )
