# SPDX-License-Identifier: Apache-2.0
"""Queries that make every backend of a running switch answer: by each VIP address and service, or directly.

A pool that selects by the client's source port is asked from ports of each backend's slots. Where another hash, or chance,
selects, nobody can say who will answer: such a service is asked as often as it has backends. What is asked, and which
answers are good, is what the health checks of the VIP's pool say.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.modes import MODES
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import owners_of
from dnsteer.spec import derived
from dnsteer.spec.derived import Endpoint
from dnsteer.spec.health_checks import LIVENESS as LIVENESS_RCODES
from dnsteer.spec.health_checks import TIMEOUT as DEFAULT_TIMEOUT
from dnsteer.spec.health_checks import effective_query, effective_timeout
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Selection, Spec, State, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.workers import named
from dnsteer.status.record import RecordReading, read_record
from dnsteer.switch.tools import SwitchError

FIRST_PORT = 1024
"""Source ports begin here: those below are for root."""
_NOT_ASKED = {"doq": "DoQ", "doh": "DoH", "doh3": "DoH by HTTP/3"}


@dataclass(frozen=True)
class ProbeQuery:
    """What is asked: *name* and *type*, with RD where *recursion* is set. `*.` at the start stands for a random label.

    *edns_size* is 0 without EDNS; *timeout* is the seconds that an answer may take.
    """

    name: str = "."
    type: str = "SOA"
    recursion: bool = False
    rdclass: str = "IN"
    cd: bool = False
    do: bool = False
    edns_size: int = 0
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True)
class ProbeExpect:
    """What a good answer has: one of the *rcode*s; AA and RA as given (None: either), if it has one of *aa_rcodes* and
    *ra_rcodes*. With NOERROR and without TC also at least *answers* records of the type (or a CNAME), the data in *answer*,
    and for SOA a serial from *serial_at_least*.

    The default is a test of liveness: whatever is answered by a server that understands the query.
    """

    rcode: tuple[str, ...] = LIVENESS_RCODES
    aa: bool | None = None
    aa_rcodes: tuple[str, ...] = ()
    ra: bool | None = None
    ra_rcodes: tuple[str, ...] = ()
    answers: int = 0
    answer: tuple[str, ...] = ()
    serial_at_least: int | None = None


LIVENESS = ProbeQuery(), ProbeExpect()
"""What is asked where the pool's checks name no query, and what is good then."""


@dataclass(frozen=True)
class ProbeQuestion:
    """One question to *address* and *port*, by *transport*: udp, tcp or tls (DoT).

    Through a VIP it is for *backend*, which a query from any of *source_ports* reaches; no ports: any will do, and
    *backend* is empty where the switch selects another way. Ports of a backend come in random order: a client must not use
    the same one twice within a minute, because of TIME_WAIT.
    """

    address: str
    transport: str
    port: int
    vip: str
    pool: str
    backend: str
    source_ports: tuple[int, ...] = ()
    query: ProbeQuery = LIVENESS[0]
    expect: ProbeExpect = LIVENESS[1]


@dataclass
class Probes:
    """The questions, and in words which services are not asked and why, and what the questions do not test."""

    questions: list[ProbeQuestion] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def use_queries_of_checks(self, spec: Spec) -> None:
        """Give each question the query of its pool's checks, and say of which pools only liveness is tested."""
        asked = {pool: query_of(spec, pool) for pool in dict.fromkeys(q.pool for q in self.questions) if pool}
        self.questions = [
            replace(q, query=query, expect=expect)
            for q in self.questions
            for query, expect in (asked.get(q.pool, LIVENESS),)
        ]
        liveness = [
            p for p, (query, expect) in asked.items() if (replace(query, timeout=DEFAULT_TIMEOUT), expect) == LIVENESS
        ]
        of = [f"pool {pool}: no health check names a query" for pool in liveness]
        of += [f"{q.address}: no VIP has it" for q in self.questions if not q.pool]
        self.notes += [f"{each}, so only that something answers is tested" for each in of]

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        questions = [asdict(q) for q in self.questions]
        return {"ok": True, "questions": questions, "unasked": self.unasked, "notes": self.notes}


@dataclass(frozen=True)
class ProbeFilter:
    """What the operator wants asked: only these *addresses* (all where there are none), without *skip* (protocol, port).

    With a *coming* spec, which is not applied yet: only what it serves too, as its own health checks ask.
    """

    addresses: Sequence[Address] = ()
    skip: Collection[tuple[str, int]] = ()
    count: int = 1
    """Source ports for each question, at most: as many tries."""
    coming: Spec | None = None


def query_of(spec: Spec, pool: str) -> tuple[ProbeQuery, ProbeExpect]:
    """What the first health check of a pool asks that takes backends out by DNS, and what is good then.

    LIVENESS where there is none, unless the pool's servers are resolvers.
    """
    found = spec.pools[pool]
    checks = [c for c in found.health or () if c.check is not CheckKind.COMMAND and c.on_failure == "out"]
    if not checks and found.serves != "resolver":
        return LIVENESS
    check = checks[0] if checks else HealthCheck()
    asks, timeout = effective_query(found, check), effective_timeout(found, check)
    return (
        ProbeQuery(asks.name, asks.type, asks.recursion, asks.rdclass, asks.cd, asks.do, asks.edns_size, timeout),
        ProbeExpect(
            asks.rcodes,
            asks.aa,
            asks.aa_rcodes,
            asks.recursion_available,
            asks.recursion_rcodes,
            asks.answers,
            asks.answer,
            asks.serial_at_least,
        ),
    )


def through_vips(switch: TargetSwitch, bridge: str | None, wanted: ProbeFilter) -> Probes:
    """Questions through the VIPs of a running switch, as its slots are now.

    An address of *wanted* that no VIP has is asked too, by UDP at port 53: it may be translated on the way. Raises
    SwitchError where the record has no state, is damaged, or has a spec that this version does not take.
    """
    reading = read_record(switch.remote, bridge, switch.timeout)
    spec, memberships = _applied(reading)
    overlay = reading.overlay
    if overlay is None:
        raise SwitchError("; ".join(reading.damage))
    out = Probes()
    slots = {m: owners_of(m, overlay.of(m.pool)) for m in memberships}
    for name, vip in spec.vips.items():
        for address in (a for a in dict.fromkeys(vip.addresses) if a in wanted.addresses or not wanted.addresses):
            members = _membership(spec, vip, address, memberships)
            for endpoint in derived.endpoints(vip):
                where = f"VIP {name} {address} {endpoint.protocol.value}/{endpoint.port}"
                transport = _transport(endpoint, wanted.skip, where, out.unasked)
                if transport and not slots[members]:
                    out.unasked.append(f"{where}: no backend of pool {vip.pool} is left to answer")
                elif transport:
                    asked = (str(address), transport, endpoint.port, name, vip.pool)
                    out.questions += _each(asked, members, slots[members], wanted.count)
    if wanted.coming is not None:
        out.questions = list(_served_by(wanted.coming, out.questions))
    coming = wanted.coming or spec
    known = {a for each in (spec, coming) for vip in each.vips.values() for a in vip.addresses}
    out.questions += [ProbeQuestion(str(a), "udp", 53, "", "", "") for a in wanted.addresses if a not in known]
    out.use_queries_of_checks(coming)
    return out


def _served_by(spec: Spec, questions: Iterable[ProbeQuestion]) -> Iterator[ProbeQuestion]:
    """Those whose service a spec has, with the pool and the backend that are to answer."""
    services = {
        (str(address), endpoint.protocol.value, endpoint.port)
        for vip in spec.vips.values()
        for address in vip.addresses
        for endpoint in derived.endpoints(vip)
    }
    backends = {
        (p, b.name) for p, pool in spec.pools.items() for b in pool.backends if b.state is State.UP and b.weight
    }
    for q in questions:
        served = (q.address, "udp" if q.transport == "udp" else "tcp", q.port) in services and q.pool in spec.pools
        if served and (not q.backend or (q.pool, q.backend) in backends):
            yield q


def of_backend(switch: TargetSwitch, bridge: str | None, pool: str, backend: str, wanted: ProbeFilter) -> Probes:
    """Questions to a backend itself, or to all workers of one: at its addresses in the spec, or those of *wanted*, by what
    its pool's VIPs serve.

    Raises SwitchError as `through_vips` does, and where the spec does not have that backend.
    """
    spec, _ = _applied(read_record(switch.remote, bridge, switch.timeout))
    asked = named(spec.pools[pool], backend) if pool in spec.pools else []
    if not asked:
        known = ", ".join(f"{p}/{b.name}" for p, each in spec.pools.items() for b in each.backends)
        raise SwitchError(f"found {pool}/{backend}; expected a backend of the spec that is applied: {known}")
    addresses = wanted.addresses or [a for a in (asked[0].ipv4, asked[0].ipv6) if a is not None]
    out = Probes()
    served: dict[tuple[str, int], None] = {}
    for name, vip in spec.vips.items():
        for endpoint in derived.endpoints(vip) if vip.pool == pool else ():
            where = f"VIP {name} {endpoint.protocol.value}/{endpoint.port}"
            transport = _transport(endpoint, wanted.skip, where, out.unasked)
            if transport:
                served[transport, endpoint.target_port] = None
    out.questions = [
        ProbeQuestion(str(a), transport, port + found.port_offset, "", pool, found.name)
        for found in asked
        for a in addresses
        for transport, port in served
    ]
    out.use_queries_of_checks(spec)
    return out


def _applied(reading: RecordReading) -> tuple[Spec, Sequence[Membership]]:
    """The spec that is applied, and the members of its pools."""
    if reading.state is None:
        why = "; ".join(reading.damage) or "no state is recorded: apply a spec first"
        raise SwitchError(f"{reading.record.bridge}: {why}")
    return load_state(reading.state).spec, reading.state.members


def _membership(spec: Spec, vip: Vip, address: Address, memberships: Sequence[Membership]) -> Membership:
    """The members who take queries to *address*."""
    reached = MODES[vip.forwarding].reach(derived.family_of(address))
    weights = {b.name: b.weight for b in derived.members(spec.pools[vip.pool], reached)}
    return next(m for m in memberships if m.pool == vip.pool and m.weights == weights)


def _transport(endpoint: Endpoint, skip: Collection[tuple[str, int]], where: str, unasked: list[str]) -> str:
    """Return how a service is asked; empty, with a sentence in *unasked*, if it is not."""
    kind = derived.dns_transport(endpoint)
    if (endpoint.protocol.value, endpoint.port) in skip:
        unasked.append(f"{where}: left out by --skip")
    elif kind in _NOT_ASKED:
        unasked.append(f"{where}: {_NOT_ASKED[kind]} is not asked")
    else:
        return "tls" if kind == "dot" else endpoint.protocol.value
    return ""


def _each(
    asked: tuple[str, str, int, str, str], members: Membership, slots: Sequence[str], count: int
) -> Iterator[ProbeQuestion]:
    """A question for each backend that has slots."""
    own: Mapping[str, list[int]] = {name: [] for name in members.weights if name in set(slots)}
    if members.selection != Selection.SOURCE_PORT.value:
        for _ in own:
            yield ProbeQuestion(*asked, backend="")
        return
    for slot, name in enumerate(slots):
        own[name].append(slot)
    for name, held in own.items():
        yield ProbeQuestion(*asked, backend=name, source_ports=_ports(held, len(slots), count))


def _ports(held: Sequence[int], slots: int, count: int) -> tuple[int, ...]:
    """At most *count* source ports of the slots *held*, different slots first, in random order."""
    found: dict[int, None] = {}
    for _ in range(count):
        for slot in random.sample(held, min(len(held), count - len(found))):
            first = 2 * slot + -(-max(FIRST_PORT - 2 * slot, 0) // (2 * slots)) * 2 * slots
            found[random.randrange(first, 65_535, 2 * slots) + random.randrange(2)] = None
        if len(found) >= count:
            break
    return tuple(found)
