"""Health checks of a pool, and what the agent does with their results. docs/agent.md explains them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.query import Query
from dnsteer.spec.model.values import Count, OneOrList, Percent, as_list, duration, text_schema


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
