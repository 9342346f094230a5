"""Another pool whose backends help while too few of a pool's own are in service. docs/agent.md explains it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dnsteer.spec.model.part import Part
from dnsteer.spec.model.types import Name, wanted
from dnsteer.spec.model.values import Count


class Backup(Part):
    """The pool that helps, and when."""

    pool: Name = Field(description="The pool whose backends join, with their weights there.")
    below: Count = Field(
        default=1, description="They join while fewer than this many of the pool's own backends are in service."
    )

    def __str__(self) -> str:
        return f"{self.pool} below {self.below}"


class _NameOrMapping:
    """The JSON Schema of a backup whose pool may stand alone."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, handler(core)]}


def _name_alone(value: Any) -> Any:
    if isinstance(value, str):
        return {"pool": value}
    if not isinstance(value, dict | Backup):
        raise wanted("the name of a pool, or a mapping with pool and below", "for example {pool: spare, below: 2}")
    return value


BackupPool = Annotated[Backup, BeforeValidator(_name_alone), _NameOrMapping()]
