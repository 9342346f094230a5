"""Health checks of a pool, and what the agent does with their results. docs/agent.md explains them."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import Part, Spelled, bounds, whole
from dnsteer.spec.model.types import wanted

_DURATION = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)(ms|s|m|h)?\Z")
_UNIT = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_PERCENT = re.compile(r"([0-9]{1,3})%\Z")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\Z")


class CheckKind(str, Enum):
    """How a backend is asked: the transport of the DNS query, or a command."""

    DNS = "dns"
    TCP = "tcp"
    TLS = "tls"
    HTTPS = "https"
    QUIC = "quic"
    COMMAND = "command"


def duration(low: float, high: float) -> Spelled:
    """A validator of durations from *low* to *high* seconds."""

    def check(value: Any) -> float:
        expected = f"a time from {spelt(low)} to {spelt(high)}, such as 500ms, 2s or 5m"
        text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
        m = _DURATION.match(text)
        if m is None:
            raise wanted(expected)
        seconds = float(m[1]) * _UNIT[m[2] or ""]
        if not low <= seconds <= high:
            raise wanted(expected)
        return round(seconds, 3)

    return Spelled(check, spell=spelt)


def spelt(seconds: float) -> str:
    """A duration as the spec spells it."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds / 3600:g}h" if seconds >= 3600 else f"{seconds:g}s"


def _percent(value: Any) -> int:
    m = _PERCENT.match(value) if isinstance(value, str) else None
    if m is None or int(m[1]) > 100:
        raise wanted(
            "a share from 0% to 100%", f"write {value}%" if isinstance(value, int) and 0 <= value <= 100 else ""
        )
    return int(m[1])


def _query_name(value: Any) -> str:
    expected = "a domain name such as example.org"
    if not isinstance(value, str) or not value or not value.isascii():
        raise wanted(expected, "names with other letters are written in their ASCII form (xn--...)")
    if value == ".":
        return value
    labels = value.removesuffix(".").split(".")
    wrong = next((label for label in labels if not _LABEL.match(label)), None)
    if wrong is not None:
        raise wanted(expected, f'the label "{wrong[:63]}" is not one' if wrong else "it has an empty label")
    if len(value) > 253:
        raise wanted("a domain name of at most 253 characters", f"this one has {len(value)}")
    return ".".join(labels) + "."


_TYPES = (
    "A", "AAAA", "ANY", "CAA", "CNAME", "DNSKEY", "DS", "HINFO", "HTTPS", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "SVCB",
    "TXT",
)  # fmt: skip
_RCODES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")


def _word(words: tuple[str, ...], what: str) -> BeforeValidator:
    def check(value: Any) -> str:
        text = value.upper() if isinstance(value, str) else ""
        if text not in words:
            raise wanted(f"{what}: {', '.join(words)}")
        return text

    return BeforeValidator(check)


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _OneOrList:
    """The JSON Schema of a list whose only entry may stand alone."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        schema = handler(core)
        return {"anyOf": [schema["items"], schema]}


def text_schema(example: str) -> WithJsonSchema:
    """The JSON Schema of what is written as text or as a number."""
    return WithJsonSchema({"type": ["string", "number"], "examples": [example]})


PERCENT = Spelled(_percent, spell=lambda percent: f"{percent}%")
Percent = Annotated[int, PERCENT, WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,3}%$"})]
QueryName = Annotated[str, BeforeValidator(_query_name), WithJsonSchema({"type": "string"})]
QueryType = Annotated[str, _word(_TYPES, "a query type"), WithJsonSchema({"type": "string", "enum": list(_TYPES)})]
Rcode = Annotated[str, _word(_RCODES, "a response code"), WithJsonSchema({"type": "string", "enum": list(_RCODES)})]
Count = Annotated[int, whole(1, 100), bounds(1, 100)]


class Expect(Part):
    """What a good answer has."""

    rcode: Rcode = Field(default="NOERROR", description="Its response code.")
    aa: bool | None = Field(default=None, strict=True, description="Whether it is authoritative. Left out: either.")
    answer: Annotated[list[str], BeforeValidator(_as_list), _OneOrList()] = Field(
        default_factory=list,
        description="Data of records that the answer section must have, as in a zone file. Left out: any.",
    )
    serial_at_least: Annotated[int, whole(0, 4294967295), bounds(0, 4294967295)] | None = Field(
        default=None, description="For SOA: the lowest serial, compared as RFC 1982 says."
    )


class Query(Part):
    """The query of a check."""

    name: QueryName = Field(default=".", examples=["example.org"], description="The name. Left out: the root.")
    type: QueryType = Field(default="SOA", description="The type.")
    expect: Expect = Field(default_factory=Expect, description="What a good answer has.")


class HealthCheck(Part):
    """One way in which the backends of a pool are asked whether they work."""

    check: CheckKind = Field(
        default=CheckKind.DNS,
        description="`dns`: a query by UDP. `tcp`, `tls` (DoT), `https` (DoH), `quic` (DoQ): a query by that transport. "
        "`command`: a program's exit code.",
    )
    query: Query = Field(default_factory=Query, description="The query.")
    command: list[str] = Field(
        default_factory=list,
        description="For `command`: the program and its arguments; {address}, {port}, {pool} and {backend} are replaced.",
    )
    port: Annotated[int, whole(1, 65535), bounds(1, 65535)] | None = Field(
        default=None, description="Port that is asked. Left out: 53, 853 for `tls` and `quic`, 443 for `https`."
    )
    interval: Annotated[float, duration(0.1, 3600), text_schema("1s")] = Field(
        default=1.0, description="Time from one probe of a backend to the next; a number without a unit is seconds."
    )
    timeout: Annotated[float, duration(0.01, 60), text_schema("500ms")] = Field(
        default=0.5, description="Time that an answer may take; at most `interval`."
    )
    rise: Count = Field(default=3, description="Good probes in a row after which a backend is healthy again.")
    fall: Count = Field(default=2, description="Failed probes in a row after which a backend is unhealthy.")
    jitter: Percent = Field(default=10, description="Share of `interval` by which each probe is moved at random.")
    per: Literal["backend", "service"] = Field(
        default="backend",
        description="What a failing check takes a backend out of. `backend`: the pool. `service`: only the service that is "
        "asked, such as 853/tcp; the VIPs' other services keep the backend. Such a service has slots of its own.",
    )
    via: Literal["datapath", "network"] | None = Field(
        default=None,
        description="The path of the probes. `datapath`: to each VIP of the pool, through the bridge, as clients' queries "
        "go; needs `switch.probe`; not for `command`. `network`: to the backend's own address. Left out: `datapath` where "
        "it is possible.",
    )


SlowStart = Annotated[float, duration(0, 3600), text_schema("30s")]
HoldMax = Annotated[float, duration(0, 86400), text_schema("5m")]
Health = Annotated[list[HealthCheck], BeforeValidator(_as_list), _OneOrList()]
