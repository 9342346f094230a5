"""How a pool's load is balanced while it runs. docs/balance.md explains it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.metric_source import LoadSource
from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.types import parse_name, wanted
from dnsteer.spec.model.values import Percent, duration, spelt, text_schema

_LEVEL = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(%|ms|s)?\Z")
_UNITS = {"%": 0.01, "ms": 0.001, "s": 1.0, "": 1.0}


def _level(value: Any) -> float:
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    m = _LEVEL.match(text)
    if m is None or not float(m[1]):
        raise wanted("a level of the metric above 0: 80%, a time such as 5ms, or a number")
    return float(m[1]) * _UNITS[m[2] or ""]


def _target(value: Any) -> str:
    pool, slash, backend = value.partition("/") if isinstance(value, str) else ("", "", value)
    return f"{parse_name(pool)}/{parse_name(backend)}" if slash else parse_name(pool or backend)


Target = Annotated[str, BeforeValidator(_target), WithJsonSchema({"type": "string"})]
Level = Annotated[float, BeforeValidator(_level), text_schema("80%")]


class Balance(Part):
    """What balances the load, and how fast."""

    by: Literal["slots", "metric"] = Field(
        description="`slots`: single slots go from backends that get more packets than their weight says to those that get "
        "less, by the packets that the switch counts in each slot. `metric`: slots go from backends whose `source` says "
        "that they bear more than the others to those that bear less. With `policy: spill` it may be left out."
    )
    policy: Literal["even", "spill"] = Field(
        default="even",
        description="`even`: the backends share the load. `spill`: the backend `to` gets slots of the others only while "
        "the metric of these is above `above`, and gives them back below `below`.",
    )
    source: LoadSource | None = Field(
        default=None, description="Where the metric comes from: a number of each backend that grows with its load."
    )
    to: Target | None = Field(
        default=None,
        description="With `spill`: the backend of this pool that gets slots, as BACKEND or POOL/BACKEND; its weight is 0.",
    )
    above: Level | None = Field(
        default=None,
        description="With `spill`: the metric above which a backend gives slots to `to`: 80%, 5ms or a number.",
    )
    below: Level | None = Field(
        default=None,
        description="With `spill`: the metric below which a backend gets its slots back. Left out: 3/4 of `above`.",
    )
    tolerance: Percent = Field(
        default=10,
        description="How much more than its share by weight a backend may get, or its metric above the mean of all, before "
        "slots leave it. What chance makes of few packets does not count.",
    )
    change: Percent = Field(
        default=10,
        description="By metric: the largest part of its load that a backend gives away or gets in an interval.",
    )
    least: Percent = Field(
        default=10,
        description="By metric, not with `spill`: the part of its share by weight that a backend keeps in any case.",
    )
    half_life: Annotated[float, duration(0, 3600), text_schema("20s")] | None = Field(
        default=None,
        description="By metric: the time after which a value counts half. 0: only the last counts. Left out: `interval`.",
    )
    moves: Annotated[int, whole(1, 1000), bounds(1, 1000)] = Field(
        default=16, description="Most slots of the pool that move in a minute."
    )
    interval: Annotated[float, duration(0.1, 3600), text_schema("10s")] = Field(
        default=10.0,
        description="Time from one look at the load to the next, 1s or more by slots; a number without a unit is seconds.",
    )

    @property
    def gives_back_below(self) -> float:
        """The metric below which slots go back."""
        assert self.above is not None
        return self.below if self.below is not None else 0.75 * self.above

    @property
    def spills_to(self) -> str:
        """The name of the backend that gets slots of the others; empty where none does."""
        return (self.to or "").rpartition("/")[2] if self.policy == "spill" else ""

    def __str__(self) -> str:
        how = f"tolerance {self.tolerance}%" if self.policy == "even" else f"spill to {self.to} above {self.above:g}"
        return f"by {self.by}, {how}, {self.moves} moves a minute, every {spelt(self.interval)}"


def _mapping(value: Any) -> Any:
    if not isinstance(value, dict | Balance):
        raise wanted("a mapping with by", "for example balance: {by: slots}")
    if isinstance(value, dict) and value.get("policy") == "spill" and "by" not in value:
        return {"by": "metric", **value}
    return value


PoolBalance = Annotated[Balance, BeforeValidator(_mapping)]
