"""What the parts of the spec have in common: strictness, and whole numbers with bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dnsteer.spec.model.types import wanted


class Part(BaseModel):
    """A mapping of the spec: unknown keys are errors, and it does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A key that may be left out has a value where it is there (`check_empty_keys`), unless it may be empty."""
        schema = handler.resolve_ref_schema(handler(core))
        for value in schema.get("properties", {}).values():
            if value.get("default", "") is not None:
                continue
            del value["default"]
            kinds = [one for one in value.pop("anyOf", ()) if one != {"type": "null"}]
            value |= {"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else {}
        return schema


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The keys of a mapping as the spec spells them: a word of Python's has another name in the model."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@dataclass(frozen=True)
class Spelled(BeforeValidator):
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
            raise wanted(f"a whole number from {low} to {high}", number_hint(value))
        return value

    return BeforeValidator(check)


def bounds(low: int, high: int) -> WithJsonSchema:
    """The same for the JSON Schema."""
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})
