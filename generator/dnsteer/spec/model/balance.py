"""How a pool's load is balanced while it runs. docs/balance.md explains it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dnsteer.spec.model.health import Percent, duration, spelt, text_schema
from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.types import wanted


class Balance(Part):
    """What balances the load, and how fast."""

    by: Literal["slots"] = Field(
        description="`slots`: single slots go from backends that get more packets than their weight says to those that get "
        "less, by the packets that the switch counts in each slot."
    )
    tolerance: Percent = Field(
        default=10,
        description="How much more than its share by weight a backend may get, before slots leave it. What chance makes of "
        "few packets does not count.",
    )
    moves: Annotated[int, whole(1, 1000), bounds(1, 1000)] = Field(
        default=16, description="Most slots of the pool that move in a minute."
    )
    interval: Annotated[float, duration(1, 3600), text_schema("10s")] = Field(
        default=10.0, description="Time from one look at the load to the next; a number without a unit is seconds."
    )

    def __str__(self) -> str:
        return f"by {self.by}, tolerance {self.tolerance}%, {self.moves} moves a minute, every {spelt(self.interval)}"


def _mapping(value: Any) -> Any:
    if not isinstance(value, dict | Balance):
        raise wanted("a mapping with by", "for example balance: {by: slots}")
    return value


PoolBalance = Annotated[Balance, BeforeValidator(_mapping)]
