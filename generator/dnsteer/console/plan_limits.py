"""How large a spec may be that the agent makes a plan of for a browser: a short text can stand for very many flows."""

from __future__ import annotations

from pydantic import ValidationError

from dnsteer.plan.spec_size import SpecSize, size_of_spec
from dnsteer.spec.document import parse_document
from dnsteer.spec.errors import SpecError
from dnsteer.spec.model.spec import Spec

MAX = SpecSize(200_000, 4_000_000)
"""Flows, and choices of slots by backends; or twice those of the applied spec, where that is more."""


def too_large(file: str, text: str, applied: Spec | None) -> str:
    """Why a spec is too large for a plan from the console; empty if it is not, or is none: then the plan says why."""
    try:
        spec = Spec.model_validate(parse_document(file, text).value)
    except (SpecError, ValidationError):
        return ""
    size, now = size_of_spec(spec), size_of_spec(applied) if applied is not None else SpecSize(0, 0)
    for what, found, most in (
        ("flows", size.flows, max(MAX.flows, 2 * now.flows)),
        ("choices of slots (slots times backends)", size.choices, max(MAX.choices, 2 * now.choices)),
    ):
        if found > most:
            return (
                f"{file}: found about {found:,} {what}; expected at most {most:,} for a plan from the console, "
                f"which the agent makes; on the machine: dnsteer plan {file}\n"
            )
    return ""
