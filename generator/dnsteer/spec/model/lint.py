# SPDX-License-Identifier: Apache-2.0
"""What the spec says to `dnsteer lint`: findings that are accepted, and the budgets of masks and megaflows."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.types import wrong_value

MASKS = 44
"""Masks that hostile traffic may make of the tables, when the spec sets no budget."""
MEGAFLOWS = 60_000
"""Megaflows beyond those of good traffic that somebody behind a router may make, when the spec sets no budget."""
CODE = r"DNS[0-9]{3}"
"""The form of a code. Which there are lint knows: it reports an entry for another, and recorded specs may have old ones."""


def _code(value: object) -> str:
    text = value.upper() if isinstance(value, str) else ""
    well_formed = re.fullmatch(CODE, text) is not None
    if well_formed and text == value:
        return text
    hint = f'did you mean "{text}"? ' if well_formed else ""
    raise wrong_value("a finding's code, such as DNS010", f"{hint}dnsteer lint --explain all lists them")


def _reason(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_value("why the finding is accepted, in words")
    return value


def _at(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise wrong_value(
            "the path of an object of the spec, such as vips.resolver", "leave the key out for every object"
        )
    return value


class Accept(Part):
    """A finding that is accepted."""

    code: Annotated[str, BeforeValidator(_code), WithJsonSchema({"type": "string", "pattern": f"^{CODE}$"})] = Field(
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
        description="The most masks that hostile traffic may make of the tables. Software looks masks up one after "
        "another, and hardware has a table for each.",
    )
    megaflows: Annotated[int, whole(1, 10_000_000), bounds(1, 10_000_000)] = Field(
        default=MEGAFLOWS,
        description="The most megaflows that somebody behind a router may make, whatever they send, beyond those of good "
        "traffic. Open vSwitch keeps as many as `other_config:flow-limit` says, 200,000 as `dnsteer bringup` sets it.",
    )
