# SPDX-License-Identifier: Apache-2.0
"""Health checks of a pool: what is asked, what a good answer has, what the agent does then. docs/agent.md explains them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.part import (
    Count,
    OneOrList,
    Part,
    Percent,
    as_list,
    bounds,
    duration,
    text_schema,
    whole,
    word,
    word_schema,
)
from dnsteer.spec.model.types import wrong_value

RANDOM_LABEL = "*."
"""What a name begins with whose first label is another one in each query."""
RANDOM_LABEL_OCTETS = 16
"""The length of that label."""

QUERY_TYPES = (
    "A",
    "AAAA",
    "ANY",
    "CAA",
    "CNAME",
    "DNSKEY",
    "DS",
    "HINFO",
    "HTTPS",
    "MX",
    "NAPTR",
    "NS",
    "PTR",
    "SOA",
    "SRV",
    "SVCB",
    "TXT",
)
_RCODES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")


def parse_query_name(value: Any) -> str:
    """Check the name that a query asks for: a name of any labels, in the spelling of zone files, with its final dot."""
    import dns.exception
    import dns.name  # here: specs without such a name need not load it

    expected = "a domain name such as example.org"
    if not isinstance(value, str) or not value:
        raise wrong_value(expected, f'a name is text: write "{value}"' if isinstance(value, int) else "")
    if not value.isascii():
        raise wrong_value(expected, "names with other letters are written in their ASCII form (xn--...)")
    if value == "@":
        raise wrong_value(expected, 'the root is written "."')
    if value != value.strip():
        raise wrong_value(expected, "remove the space before or after it")
    try:
        name = dns.name.from_text(value)
        if value.startswith(RANDOM_LABEL):
            dns.name.Name((b"a" * RANDOM_LABEL_OCTETS, *name.labels[1:]))  # as it is asked for
    except dns.name.EmptyLabel:
        raise wrong_value(expected, "it has an empty label") from None
    except dns.name.LabelTooLong:
        raise wrong_value(expected, "a label has at most 63 octets") from None
    except dns.name.NameTooLong:
        asked = (
            f'a label of {RANDOM_LABEL_OCTETS} octets stands in place of "*"' if value.startswith(RANDOM_LABEL) else ""
        )
        raise wrong_value(
            "a domain name of at most 255 octets with the lengths of its labels (RFC 1035)", asked
        ) from None
    except dns.exception.DNSException:
        raise wrong_value(expected, "a backslash is followed by a character, or by three digits up to 255") from None
    text = name.to_text()
    literal = text.startswith("*") and not value.startswith("*")  # an asterisk that was escaped
    return f"\\{text}" if literal else text


QueryName = Annotated[str, BeforeValidator(parse_query_name), WithJsonSchema({"type": "string"})]
QueryType = Annotated[str, word(QUERY_TYPES, "a query type"), word_schema(QUERY_TYPES)]
QueryClass = Annotated[Literal["IN", "CH"], word(("IN", "CH"), "a class"), word_schema(("IN", "CH"))]
Rcode = Annotated[str, word(_RCODES, "a response code"), word_schema(_RCODES)]


class Expect(Part):
    """What a good answer has."""

    rcode: Annotated[list[Rcode], Field(min_length=1), BeforeValidator(as_list), OneOrList()] = Field(
        default_factory=list,
        description="Its response code, or a list of those that are good. Left out: `NOERROR`; of a query that is left out "
        "too, where nothing is said about what the pool `serves`, `[NOERROR, NXDOMAIN, REFUSED]`.",
    )
    aa: bool | None = Field(
        default=None,
        strict=True,
        description="Whether it is authoritative. Left out: either; with `serves: authoritative` it must be, if its "
        "response code is NOERROR or NXDOMAIN.",
    )
    recursion_available: bool | None = Field(
        default=None,
        strict=True,
        description="Whether it has RA set. Left out: either; with `serves: resolver` it must, if its response "
        "code is NOERROR or NXDOMAIN.",
    )
    answers: Annotated[int, whole(0, 1000), bounds(0, 1000)] | None = Field(
        default=None,
        description="How many records of the query's type, or CNAMEs, an answer with NOERROR has at least; one that is cut "
        "(TC) counts as enough. Left out: 1; of a query that is left out too, 0 where nothing is said about what the pool "
        "`serves`.",
    )
    answer: Annotated[list[str], Field(min_length=1), BeforeValidator(as_list), OneOrList()] = Field(
        default_factory=list,
        description="Data of records that the answer section must have, as in a zone file, with names that end with a dot. "
        "Left out: any.",
    )
    serial_at_least: Annotated[int, whole(0, 4294967295), bounds(0, 4294967295)] | None = Field(
        default=None, description="For SOA: the lowest serial, compared as RFC 1982 says."
    )
    serial_lag: Annotated[float, duration(1, 604800), text_schema("10m")] | None = Field(
        default=None,
        description="For SOA: how long its serial may be behind the newest that a backend of the pool answers. Left out: "
        "serials are not compared.",
    )


class Query(Part):
    """The query of a check."""

    name: QueryName | None = Field(
        default=None,
        examples=["example.org"],
        description="The name, with the escapes of zone files. `*.` at its beginning stands for a label that is another one "
        "in each query, so that no cache has it; `\\*.` for the asterisk itself. Left out: the root; with `serves: "
        "authoritative` it must be given: a zone that the servers have.",
    )
    type: QueryType | None = Field(
        default=None,
        description="The type. Left out: `SOA`; with `serves: resolver` `NS` of the root and `A` of other names.",
    )
    rdclass: QueryClass = Field(
        default="IN",
        alias="class",
        description="The class. `CH` is for what servers say of themselves: `id.server` of type `TXT`, unless name and "
        "type are given.",
    )
    recursion: bool | None = Field(
        default=None,
        strict=True,
        description="Whether recursion is desired (RD). Left out: only with `serves: resolver`.",
    )
    cd: bool = Field(
        default=False, strict=True, description="Whether CD is set: a validating resolver does not validate."
    )
    do: bool = Field(default=False, strict=True, description="Whether signatures are asked for (DO, by EDNS).")
    edns_size: Annotated[int, whole(512, 65535), bounds(512, 65535)] | None = Field(
        default=None,
        description="The size of answers by UDP that the query allows (EDNS). Left out: no EDNS, or 1232 with `do`.",
    )
    expect: Expect = Field(default_factory=Expect, description="What a good answer has.")


class CheckKind(str, Enum):
    """How a backend is asked: the transport of the DNS query, or a command."""

    DNS = "dns"
    TCP = "tcp"
    TLS = "tls"
    HTTPS = "https"
    QUIC = "quic"
    COMMAND = "command"


class HealthCheck(Part):
    """One way in which the backends of a pool are asked whether they work."""

    check: CheckKind = Field(
        default=CheckKind.DNS,
        description="`dns`: a query by UDP. `tcp`, `tls` (DoT), `https` (DoH), `quic` (DoQ): a query by that transport. "
        "`command`: a program's exit code.",
    )
    query: Query = Field(
        default_factory=Query, description="The query. What it leaves out, `serves` of the pool chooses."
    )
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
    timeout: Annotated[float, duration(0.01, 60), text_schema("500ms")] | None = Field(
        default=None,
        description="Time that an answer may take; at most `interval`. Left out: `500ms`, or `1s` for `serves: resolver`, "
        "which may have to ask others first; `interval` where that is shorter.",
    )
    rise: Count = Field(default=3, description="Good probes in a row after which a backend is healthy again.")
    fall: Count = Field(default=2, description="Failed probes in a row after which a backend is unhealthy.")
    jitter: Percent = Field(default=10, description="Share of `interval` by which each probe is moved at random.")
    on_failure: Literal["out", "warn"] = Field(
        default="out",
        description="What happens to a backend that fails this check. `out`: it is taken out of service. `warn`: it stays, "
        "and only the log, the metrics and the console say so: for what fails at all backends at once, such as the way to "
        "the Internet.",
    )
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
Health = Annotated[list[HealthCheck], BeforeValidator(as_list), OneOrList()]
