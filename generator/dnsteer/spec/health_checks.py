# SPDX-License-Identifier: Apache-2.0
"""The services that health checks are about, and what a check asks and expects where the spec leaves it out.

The defaults fit what servers answer as their distributions ship them (docs/servers.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.spec.derived import Endpoint, dns_transport, endpoints
from dnsteer.spec.model.health import CheckKind, Expect, HealthCheck
from dnsteer.spec.model.spec import Backend, Pool, Protocol, Spec
from dnsteer.spec.workers import Worker

SERVICE_OF_CHECK = {
    CheckKind.DNS: (Protocol.UDP, "dns", 53),
    CheckKind.TCP: (Protocol.TCP, "dns", 53),
    CheckKind.TLS: (Protocol.TCP, "dot", 853),
    CheckKind.QUIC: (Protocol.UDP, "doq", 853),
    CheckKind.HTTPS: (Protocol.TCP, "doh", 443),
}
"""Protocol, service and default port that a check is about."""


def checked_services(spec: Spec, pool: str, check: HealthCheck) -> dict[str, None]:
    """Return the services of a pool's VIPs that a check asks, such as `853/tcp`, in the order of the VIPs."""
    return {service_name(e.protocol.value, e.port): None for e in _checked(spec, pool, check)}


def _checked(spec: Spec, pool: str, check: HealthCheck) -> Iterator[Endpoint]:
    protocol, word, _ = SERVICE_OF_CHECK.get(check.check, (None, "", 0))
    for e in _services(spec, pool):
        if e.protocol is protocol and dns_transport(e) == word and check.port in (None, e.port):
            yield e


def _services(spec: Spec, pool: str) -> Iterator[Endpoint]:
    return (e for vip in spec.vips.values() if vip.pool == pool for e in endpoints(vip))


def own_port(spec: Spec, pool: str, check: HealthCheck, backend: Backend) -> int:
    """Return the port at which a check asks a backend itself.

    It is that of the check. For a worker it is its own port of the service that is asked; where that is none, the check's
    port plus the worker's number, or for a command without a port its own port of the pool's first service.
    """
    usual = check.port or SERVICE_OF_CHECK.get(check.check, (None, "", 0))[2]
    if not isinstance(backend, Worker):
        return usual
    service = next(_checked(spec, pool, check), None) or (None if usual else next(_services(spec, pool), None))
    return (service.target_port if service is not None else usual) + backend.number


def service_name(protocol: str, port: int) -> str:
    """Return what messages call a service: `853/tcp`."""
    return f"{port}/{protocol}"


def own_slots(spec: Spec, pool: str) -> tuple[str, ...]:
    """Return the services of a pool that have slots of their own, since a check takes backends out of them alone."""
    checks = [check for check in spec.pools[pool].health or () if check.per == "service"]
    return tuple(dict.fromkeys(service for check in checks for service in checked_services(spec, pool, check)))


LIVENESS = ("NOERROR", "NXDOMAIN", "REFUSED")
"""Response codes that only show that a server answers: what it is asked for, it need not have."""
_OF_ZONES = ("NOERROR", "NXDOMAIN")
"""Response codes with which a server answers of a zone or by recursion: others say that it does not, without AA or RA."""
_OF_SERVERS_THAT_FAIL = {"REFUSED", "SERVFAIL"}
"""Response codes of servers that have lost a zone, or their way to the Internet."""
TIMEOUT, _RESOLVER_TIMEOUT = 0.5, 1.0
"""Seconds that an answer may take where nothing is said about what the pool serves, and by a resolver."""
_EDNS_SIZE = 1232
"""Size of an answer that is not fragmented on any usual path (DNS flag day 2020)."""


@dataclass(frozen=True)
class EffectiveQuery:
    """A query and what a good answer has, with nothing left out. *edns_size* is 0 without EDNS, *serial_lag* in seconds.

    *answers* is the lowest number of records of the type, or CNAMEs, of an answer with NOERROR; *answer* their data as in a
    zone file. The flags *aa* and *recursion_available* are None where either is good; they are wanted in answers with the
    response codes *aa_rcodes* and *recursion_rcodes*.
    """

    name: str
    type: str
    rdclass: str
    recursion: bool
    cd: bool
    do: bool
    edns_size: int
    rcodes: tuple[str, ...]
    aa: bool | None
    aa_rcodes: tuple[str, ...]
    recursion_available: bool | None
    recursion_rcodes: tuple[str, ...]
    answers: int
    answer: tuple[str, ...]
    serial_at_least: int | None
    serial_lag: float | None


def effective_query(pool: Pool, check: HealthCheck) -> EffectiveQuery:
    """Return what a check of *pool* asks, and expects."""
    query, expect, resolver = check.query, check.query.expect, pool.serves == "resolver"
    name = query.name or ("id.server." if query.rdclass == "CH" else ".")
    rcodes = tuple(expect.rcode) or (LIVENESS if _is_unspecified(pool, check) else ("NOERROR",))
    of_zones = tuple(rcode for rcode in rcodes if rcode in _OF_ZONES and query.rdclass == "IN")
    aa, aa_rcodes = _flag(expect.aa, pool.serves == "authoritative", rcodes, of_zones)
    recursion, recursion_rcodes = _flag(expect.recursion_available, resolver, rcodes, of_zones)
    answers = int(rcodes != LIVENESS and "NOERROR" in rcodes) if expect.answers is None else expect.answers
    return EffectiveQuery(
        name=name,
        type=query.type or _default_type(query.rdclass, name, resolver),
        rdclass=query.rdclass,
        recursion=resolver if query.recursion is None else query.recursion,
        cd=query.cd,
        do=query.do,
        edns_size=query.edns_size or (_EDNS_SIZE if query.do else 0),
        rcodes=rcodes,
        aa=aa,
        aa_rcodes=aa_rcodes,
        recursion_available=recursion,
        recursion_rcodes=recursion_rcodes,
        answers=answers,
        answer=tuple(expect.answer),
        serial_at_least=expect.serial_at_least,
        serial_lag=expect.serial_lag,
    )


def _default_type(rdclass: str, name: str, resolver: bool) -> str:
    """The type of records that is asked for where the spec does not say it."""
    if rdclass == "CH":
        return "TXT"
    if not resolver:
        return "SOA"
    return "NS" if name == "." else "A"


def _flag(
    said: bool | None, usual: bool, rcodes: tuple[str, ...], of_zones: tuple[str, ...]
) -> tuple[bool | None, tuple[str, ...]]:
    """A flag and the response codes with which it is checked: as *said*, else by what the pool serves."""
    if said is not None:
        return said, rcodes
    return (True, of_zones) if usual and of_zones else (None, ())


def effective_timeout(pool: Pool, check: HealthCheck) -> float:
    """Return the seconds that an answer may take."""
    if check.timeout is not None:
        return check.timeout
    return min(_RESOLVER_TIMEOUT if pool.serves == "resolver" else TIMEOUT, check.interval)


def is_liveness_only(pool: Pool, check: HealthCheck) -> bool:
    """Whether a check passes with any server that answers: it asks for the server's identity, or accepts an error."""
    query = effective_query(pool, check)
    fails = bool(_OF_SERVERS_THAT_FAIL & {*query.rcodes})
    return check.check is not CheckKind.COMMAND and (query.rdclass == "CH" or fails)


def _is_unspecified(pool: Pool, check: HealthCheck) -> bool:
    """Whether the spec says neither what servers serve nor what to ask them."""
    query = check.query
    asks = query.name or query.type or query.rdclass != "IN"
    return check.check is not CheckKind.COMMAND and pool.serves is None and not asks and query.expect == Expect()
