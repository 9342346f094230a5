"""Queries that make every backend of a running switch answer: by each VIP address and service, or directly.

A pool that selects by the client's source port is asked from ports of each backend's slots. Where another hash, or chance,
selects, nobody can say who will answer: such a service is asked as often as it has backends.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dnsteer.deploy.recorded import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.modes import MODES
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import owners_of
from dnsteer.spec import derived
from dnsteer.spec.derived import Endpoint
from dnsteer.spec.model.spec import Selection, Spec, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.workers import named
from dnsteer.status.record import RecordReading, read_record
from dnsteer.switch.tools import SwitchError

FIRST_PORT = 1024
"""Source ports begin here: those below are for root."""
_NOT_ASKED = {"doq": "DoQ", "doh": "DoH"}


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


@dataclass
class Probes:
    """The questions, and in words which services are not asked and why."""

    questions: list[ProbeQuestion] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"ok": True, "questions": [asdict(q) for q in self.questions], "unasked": self.unasked}


@dataclass(frozen=True)
class ProbeFilter:
    """What the operator wants asked: only these *addresses* (all where there are none), without *skip* (protocol, port)."""

    addresses: Sequence[Address] = ()
    skip: Collection[tuple[str, int]] = ()
    count: int = 1
    """Source ports for each question, at most: as many tries."""


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
    known = {a for vip in spec.vips.values() for a in vip.addresses}
    out.questions += [ProbeQuestion(str(a), "udp", 53, "", "", "") for a in wanted.addresses if a not in known]
    return out


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
    kind = derived.spoken(endpoint)
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
