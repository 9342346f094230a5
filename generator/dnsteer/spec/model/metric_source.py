"""Where the metric by which a pool's load is balanced comes from. docs/balance.md explains it."""

from __future__ import annotations

import ipaddress
import re
import string
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from dnsteer.spec.model.part import Part
from dnsteer.spec.model.types import wanted
from dnsteer.spec.model.values import duration, text_schema

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
        raise wanted(
            expected, f"{{{unknown[0]}}} is not replaced; {{address}}, {{pool}}, {{backend}} and {{worker}} are"
        )
    if not good:
        raise wanted(expected)
    return text


def _series(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    try:
        parse_series(text)
    except ValueError:
        hint = "functions of PromQL are not known here; rate: true takes the rate of a counter" if "(" in text else ""
        raise wanted(
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
        raise wanted("a number above 0")
    return float(value)


def _network(value: Any) -> Network:
    try:
        return ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError as err:
        hint = "bits behind the prefix are set: write the network itself" if "host bits" in str(err) else ""
        raise wanted("an address or a network such as 192.0.2.0/24", hint) from None


def _word(value: Any) -> Any:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if not isinstance(value, dict | MetricSource):
        raise wanted("probe-latency, push, or a mapping with prometheus and metric")
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

    @property
    def kinds(self) -> list[str]:
        """Which of the ways are chosen: one, in a spec without errors."""
        return [key for key in ("prometheus", "push", "probe") if getattr(self, key)]


LoadSource = Annotated[MetricSource, BeforeValidator(_word)]
