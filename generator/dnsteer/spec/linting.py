"""What the spec says to `dnsteer lint`: findings that are accepted, and the budget of masks."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.part import Part, bounds, whole
from dnsteer.spec.types import wanted

MASKS = 16
"""Masks that hostile traffic may make of the tables, when the spec sets no budget."""
_CODE = r"^DNS\d{3}$"


def _code(value: object) -> str:
    if not isinstance(value, str) or len(value) != 6 or not value.startswith("DNS") or not value[3:].isdecimal():
        raise wanted("a finding's code, such as DNS101", "see docs/lint")
    return value


def _reason(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wanted("why the finding is accepted, in words")
    return value


class Accept(Part):
    """A finding that is accepted."""

    code: Annotated[str, BeforeValidator(_code), WithJsonSchema({"type": "string", "pattern": _CODE})] = Field(
        examples=["DNS101"], description="The finding's code."
    )
    reason: Annotated[str, BeforeValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})] = Field(
        description="Why it is accepted; shown with it."
    )
    at: str | None = Field(
        default=None,
        examples=["vips.resolver"],
        description="Path of the object whose findings are accepted, with all below it. Left out: wherever it is found.",
    )


class Lint(Part):
    """For `dnsteer lint`."""

    accept: list[Accept] = Field(default_factory=list, description="Findings that are accepted.")
    masks: Annotated[int, whole(1, 65536), bounds(1, 65536)] = Field(
        default=MASKS,
        description="The most masks that hostile traffic may make of the tables. Software looks them up one after "
        "another, and hardware has a table for each.",
    )
