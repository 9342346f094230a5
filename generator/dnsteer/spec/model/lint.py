"""What the spec says to `dnsteer lint`: findings that are accepted, and the budget of masks."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.types import wanted

MASKS = 16
"""Masks that hostile traffic may make of the tables, when the spec sets no budget."""
CODES = (
    "DNS001", "DNS002", "DNS003", "DNS004", "DNS005", "DNS010", "DNS011", "DNS012", "DNS013", "DNS014", "DNS015",
    "DNS016", "DNS017", "DNS018", "DNS019", "DNS020", "DNS021", "DNS022", "DNS023", "DNS030", "DNS031", "DNS032",
    "DNS033", "DNS034",
    "DNS040", "DNS050", "DNS060", "DNS061", "DNS062", "DNS063",
)  # fmt: skip
"""The codes of all findings; what they mean is in lint/codes.py. One that goes stays here: recorded specs may have it."""


def _code(value: object) -> str:
    if isinstance(value, str) and value in CODES:
        return value
    from dnsteer.spec.schema_errors import near  # here, since that module reads the parts of this one

    hint = near(value, CODES) if isinstance(value, str) else ""
    hint = f"{hint} " if hint.startswith("did you mean") else ""
    raise wanted("a finding's code, such as DNS010", f"{hint}dnsteer lint --explain all lists them")


def _reason(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wanted("why the finding is accepted, in words")
    return value


def _at(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wanted("the path of an object of the spec, such as vips.resolver", "leave the key out for every object")
    return value


class Accept(Part):
    """A finding that is accepted."""

    code: Annotated[str, BeforeValidator(_code), WithJsonSchema({"type": "string", "enum": list(CODES)})] = Field(
        examples=["DNS010"], description="The finding's code."
    )
    reason: Annotated[str, BeforeValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})] = Field(
        description="Why it is accepted; shown with it."
    )
    at: Annotated[str | None, BeforeValidator(_at), WithJsonSchema({"type": "string", "minLength": 1})] = Field(
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
