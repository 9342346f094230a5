# SPDX-License-Identifier: Apache-2.0
"""How a pool's load is balanced while it runs, and where the metric for it comes from. docs/balance.md explains it."""

from __future__ import annotations

import ipaddress
import re
import string
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, PlainSerializer, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dnsteer.spec.model.part import Part, Percent, bounds, duration, show_duration, text_schema, whole
from dnsteer.spec.model.types import parse_name, wrong_value

PLACEHOLDERS = {"address": "192.0.2.1", "pool": "pool", "backend": "backend", "worker": "0"}
"""What a URL may have in braces, with an example: replaced for each backend."""
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\Z")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|\Z)')
_WORDS: dict[str, dict[str, Any]] = {"probe-latency": {"probe": "latency"}, "push": {"push": True}}
_MAX = 1e12

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _url(value: Any) -> str:
    expected = "an http or https URL such as http://{address}:9100/metrics"
    text = value if isinstance(value, str) else ""
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        parts = urlsplit(text.format(**PLACEHOLDERS))
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"[\s\x00-\x1f]", text)
        good = good and (parts.port is None or parts.port > 0)
    except (ValueError, KeyError, IndexError, AttributeError):
        good, fields = False, {*re.findall(r"\{(\w*)\}", text)}
    unknown = sorted(fields - {*PLACEHOLDERS})
    if unknown:
        raise wrong_value(
            expected, f"{{{unknown[0]}}} is not replaced; {{address}}, {{pool}}, {{backend}} and {{worker}} are"
        )
    if not good:
        raise wrong_value(expected)
    return text


def _series(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    try:
        parse_series(text)
    except ValueError:
        hint = "functions of PromQL are not known here; rate: true takes the rate of a counter" if "(" in text else ""
        raise wrong_value(
            'a metric\'s name, with labels where it has several: node_load1, dns_load{server="a"}', hint
        ) from None
    return text


def parse_series(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the labels of a series. Raises ValueError."""
    m = _SERIES.match(text)
    if m is None:
        raise ValueError(text)
    labels, rest = dict[str, str](), m[2] or ""
    while rest.strip():
        label = _LABEL.match(rest)
        if label is None:
            raise ValueError(text)
        labels[label[1]] = re.sub(r"\\(.)", lambda e: "\n" if e[1] == "n" else e[1], label[2])
        rest = rest[label.end() :]
    return m[1], labels


def _full(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX:
        raise wrong_value("a number above 0")
    return float(value)


def _network(value: Any) -> Network:
    try:
        return ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError as err:
        hint = "bits behind the prefix are set: write the network itself" if "host bits" in str(err) else ""
        raise wrong_value("an address or a network such as 192.0.2.0/24", hint) from None


def _word(value: Any) -> Any:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if not isinstance(value, dict | MetricSource):
        raise wrong_value("probe-latency, push, or a mapping with prometheus and metric")
    return value


Sender = Annotated[Network, BeforeValidator(_network), PlainSerializer(str), WithJsonSchema({"type": "string"})]


class MetricSource(Part):
    """A metric of each backend: scraped, pushed, or measured by the health checks."""

    prometheus: Annotated[str, BeforeValidator(_url), WithJsonSchema({"type": "string"})] | None = Field(
        default=None,
        description="URL of a page of metrics in Prometheus's format; {address}, {pool}, {backend} and {worker}, the number "
        "of one of several workers, are replaced.",
    )
    metric: Annotated[str, BeforeValidator(_series), WithJsonSchema({"type": "string"})] | None = Field(
        default=None,
        description="With `prometheus`: the metric there, with labels where it has several; {backend} and {worker} in the "
        "value of a label are replaced.",
    )
    rate: bool = Field(
        default=False,
        strict=True,
        description="With `prometheus`: the metric is a counter, and its growth a second counts.",
    )
    timeout: Annotated[float, duration(0.01, 60), text_schema("1s")] = Field(
        default=1.0, description="With `prometheus`: time that the whole page may take."
    )
    push: bool = Field(
        default=False,
        strict=True,
        description="Backends send it: POST /load/POOL/BACKEND at the address of the agent's --push.",
    )
    allow: list[Sender] = Field(
        default_factory=list,
        description="With `push`: addresses that may send it. Left out: the backend's own, each for itself.",
    )
    probe: Literal["latency"] | None = Field(
        default=None,
        description="`latency`: the time in seconds that the pool's health checks take, of the slowest one.",
    )
    full: Annotated[float, BeforeValidator(_full), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] = Field(
        default=1.0, description="The value that means a full load, of which `above: 80%` is a part; not for latency."
    )

    at_most: (
        Annotated[float, BeforeValidator(_full), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})] | None
    ) = Field(
        default=None,
        description="The largest value that counts, in the unit of `full` and at least that; not for latency. What is above "
        "it is a mistake: it is refused, and the last value counts. Left out: 1e15 times `full`.",
    )

    @property
    def kinds(self) -> list[str]:
        """Which of the ways are chosen: one, in a spec without errors."""
        return [key for key in ("prometheus", "push", "probe") if getattr(self, key)]


class _WordOrMapping:
    """The JSON Schema of a source that may be a word."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "enum": [*_WORDS]}, handler(core)]}


LoadSource = Annotated[MetricSource, BeforeValidator(_word), _WordOrMapping()]


_METRIC_LEVEL = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(%|ms|s)?\Z")
_METRIC_UNITS = {"%": 0.01, "ms": 0.001, "s": 1.0, "": 1.0}


def _metric_level(value: Any) -> float:
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    m = _METRIC_LEVEL.match(text)
    if m is None or not float(m[1]):
        raise wrong_value("a level of the metric above 0: 80%, a time such as 5ms, or a number")
    return float(m[1]) * _METRIC_UNITS[m[2] or ""]


def _target(value: Any) -> str:
    pool, slash, backend = value.partition("/") if isinstance(value, str) else ("", "", value)
    return f"{parse_name(pool)}/{parse_name(backend)}" if slash else parse_name(pool or backend)


Target = Annotated[
    str, BeforeValidator(_target), WithJsonSchema({"type": ["string", "integer"], "examples": ["accelerator"]})
]
MetricLevel = Annotated[float, BeforeValidator(_metric_level), text_schema("80%")]


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
    above: MetricLevel | None = Field(
        default=None,
        description="With `spill`: the metric above which a backend gives slots to `to`: 80%, 5ms or a number.",
    )
    below: MetricLevel | None = Field(
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

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """`by` may be left out with one of the policies."""
        schema = super().__get_pydantic_json_schema__(core, handler)
        schema |= {"if": {"required": ["policy"]}, "else": {"required": schema.pop("required", ["by"])}}
        return schema

    @property
    def gives_back_below(self) -> float:
        assert self.above is not None
        return self.below if self.below is not None else 0.75 * self.above

    @property
    def spills_to(self) -> str:
        """The name of the backend that gets slots of the others; empty where none does."""
        return (self.to or "").rpartition("/")[2] if self.policy == "spill" else ""

    def __str__(self) -> str:
        how = f"tolerance {self.tolerance}%" if self.policy == "even" else f"spill to {self.to} above {self.above:g}"
        return f"by {self.by}, {how}, {self.moves} moves a minute, every {show_duration(self.interval)}"


def _mapping(value: Any) -> Any:
    if not isinstance(value, dict | Balance):
        raise wrong_value("a mapping with by", "for example balance: {by: slots}")
    if isinstance(value, dict) and value.get("policy") == "spill" and "by" not in value:
        return {"by": "metric", **value}
    return value


PoolBalance = Annotated[Balance, BeforeValidator(_mapping)]
