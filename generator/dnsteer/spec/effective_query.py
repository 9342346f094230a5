"""What a health check asks and expects where the spec leaves it out: by what the pool serves.

The defaults fit what servers answer as their distributions ship them (docs/servers.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.query import Expect
from dnsteer.spec.model.spec import Pool

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
    rcodes = tuple(expect.rcode) or (LIVENESS if _asks_nothing(pool, check) else ("NOERROR",))
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
    """The value of a flag, and the response codes with which it counts: as *said*, else those of servers that have it."""
    if said is not None:
        return said, rcodes
    return (True, of_zones) if usual and of_zones else (None, ())


def effective_timeout(pool: Pool, check: HealthCheck) -> float:
    """Return the seconds that an answer may take."""
    if check.timeout is not None:
        return check.timeout
    return min(_RESOLVER_TIMEOUT if pool.serves == "resolver" else TIMEOUT, check.interval)


def tests_only_liveness(pool: Pool, check: HealthCheck) -> bool:
    """Whether a check passes with servers that answer, but not with what clients ask for: by who they are, or an error."""
    query = effective_query(pool, check)
    fails = bool(_OF_SERVERS_THAT_FAIL & {*query.rcodes})
    return check.check is not CheckKind.COMMAND and (query.rdclass == "CH" or fails)


def _asks_nothing(pool: Pool, check: HealthCheck) -> bool:
    """Whether the spec says neither what servers serve nor what to ask them."""
    query = check.query
    asks = query.name or query.type or query.rdclass != "IN"
    return check.check is not CheckKind.COMMAND and pool.serves is None and not asks and query.expect == Expect()
