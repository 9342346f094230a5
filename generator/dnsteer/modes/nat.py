# SPDX-License-Identifier: Apache-2.0
"""Stateless NAT: the query's destination becomes the backend's address, the answer's source the VIP's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dnsteer.modes.base import BackendEnd, Mode, NamedVip, backend_addresses, forward_row, return_numbers
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.health_checks import own_slots, service_name
from dnsteer.spec.loaded import Conflict, Scope
from dnsteer.spec.model.families import ANY, FAMILIES, Family, Reach
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Protocol, Vip
from dnsteer.spec.model.types import Address
from dnsteer.spec.workers import Worker, has_workers
from dnsteer.tables.context import Context, PoolSlots
from dnsteer.tables.cookies import Category, number_names
from dnsteer.tables.forward import ForwardRow, PortRewrite
from dnsteer.tables.return_ import FragmentRow, NatReturnRow

_WORDS = (Forwarding.NAT, Forwarding.CT_NAT)
"""The modes that translate addresses without the extension."""


class Nat(Mode):
    """Answers from a backend's address and port are rewritten to come from the VIP; so a backend's port serves one VIP."""

    word = Forwarding.NAT
    number = 2
    translates_ports = True
    answers_by = "NAT"
    why_unsupported = "the extension cannot translate answers back to the VIP for NAT"
    fragments = ""
    why_no_errors = (
        "the packet in the error has the VIP's address, which OpenFlow cannot translate, so a backend's kernel would not "
        "find the connection it is about"
    )

    def check(self, scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
        """Report backends whose answers cannot be attributed to one VIP.

        Those of all modes that translate so are checked at once, by the mode of the first.
        """
        pools = scope.spec.pools
        alike = [
            NamedVip(name, vip, pools[vip.pool])
            for name, vip in scope.spec.vips.items()
            if vip.forwarding in _WORDS and vip.pool in pools
        ]
        return check_nat(scope, alike) if alike and alike[0].vip.forwarding is self.word else iter(())

    def backend_end(self, backend: Backend, address: Address) -> BackendEnd | None:
        """Return the backend's address in the family of *address*."""
        own = derived.address_of(backend, derived.family_of(address))
        return BackendEnd(own) if own is not None else None

    def forward_rows(self, ctx: Context, slots: PoolSlots, index: int, reached: Reach) -> Iterator[ForwardRow]:
        """Yield the row that sets the destination MAC and IP address, for each family that the backend has."""
        if reached == ANY:
            return
        backend = slots.pool.backends[index]
        address = derived.address_of(backend, reached)
        if address is None:
            return
        key = f"ports of {slots.members.number} in {reached}"
        ports = ctx.once(key, lambda: tuple(_target_ports(ctx, slots, reached)))
        rewrites = tuple(PortRewrite(protocol, port, port + backend.port_offset) for protocol, port in ports)
        yield forward_row(ctx, slots, index, self, reached, str(address), rewrites)

    def stand_in(self, pool: Pool, family: Family) -> str:
        """Return the address of the pool's first backend of the family."""
        return str(derived.address_of(derived.members(pool, family)[0], family))

    def return_rows(self, ctx: Context, name: str, vip: Vip, address: Address) -> Iterator[NatReturnRow | FragmentRow]:
        """Yield rows that rewrite the source of answers, and of fragments of UDP answers, which carry no port."""
        family = derived.family_of(address)
        numbers = return_numbers(ctx)
        zones = ctx.once("zones", lambda: number_names(backend_addresses(ctx), 16, _zones_of_connections(ctx)))
        zone_of_answers = derived.zone_of(ctx.spec, vip) if derived.tracks_answers(vip) else 0
        for i, backend in enumerate(ctx.spec.pools[vip.pool].backends):
            found = derived.address_of(backend, family)
            if found is None:
                continue
            own = str(found)
            path: Path = ("pools", vip.pool, "backends", i)
            title, more = f"answers of backend {backend.name}", backend.port_offset
            about = f"({own}) as VIP {name} {address}"
            for e in derived.endpoints(vip):
                protocol, from_port = e.protocol.value, e.target_port + more
                port = e.port if e.port != from_port else 0
                number = numbers[f"{own}/{protocol}/{from_port}"]
                subject = ctx.subject(Category.RETURN, number, f"{title} {about} port {e.port}/{protocol}", path)
                zone = zone_of_answers if e.protocol is Protocol.TCP else 0
                yield NatReturnRow(subject, family, protocol, own, from_port, str(address), port, zone)
                if vip.fragments == "restore" and e.protocol is Protocol.UDP:
                    # One row for the fragments of all workers, whose ports differ: so the VIP's is written in any case.
                    port = e.port if isinstance(backend, Worker) else port
                    what = f"fragments of answers of backend {backend.host} {about}"
                    subject = ctx.subject(Category.RETURN, numbers[own], what, path)
                    yield FragmentRow(subject, family, own, str(address), port, zones[own])


def _zones_of_connections(ctx: Context) -> set[int]:
    """The zone of connections that are kept, which no fragments may have."""
    return {derived.tracking(ctx.spec).zone} if ctx.keeping else set()


def _target_ports(ctx: Context, slots: PoolSlots, family: Reach) -> Iterator[tuple[str, int]]:
    """Yield protocol and target port of each service whose queries come to a pool with workers by these slots."""
    if not has_workers(slots.pool):
        return
    name, own = slots.members.pool, own_slots(ctx.spec, slots.members.pool)
    found: dict[tuple[str, int], None] = {}
    for vip in ctx.spec.vips.values():
        if vip.pool != name or all(derived.family_of(a) != family for a in vip.addresses):
            continue
        for e in derived.endpoints(vip):
            service = service_name(e.protocol.value, e.port)
            if (service if service in own else "") == slots.members.service:
                found[e.protocol.value, e.target_port] = None
    yield from found


@dataclass
class _Mixed(Conflict):
    """Two translations whose answers cannot be told apart."""

    own: Address | None = None
    vip: Address | None = None
    both: str = ""
    fragments: bool = False
    one_address: bool = False
    workers: int = 1
    """The most workers that the backend has for one of the two."""


@dataclass(frozen=True)
class _Translation:
    """The NAT translation of one service at one address of a VIP, for number *worker* of a backend's *workers*."""

    name: str
    vip: Address
    protocol: Protocol
    port: int
    target_port: int
    restore: bool
    service: Path
    address: Path
    worker: int = 0
    workers: int = 1

    @property
    def own_port(self) -> int:
        """The port that the worker listens on."""
        return self.target_port + self.worker

    @property
    def back(self) -> tuple[Address, int]:
        """The source address and port that answers must get."""
        return self.vip, self.port


def check_nat(scope: Scope, vips: Sequence[NamedVip]) -> Iterator[Finding]:
    """Report backends whose answers, or fragments of them, belong to two VIP addresses or ports, and too many flows."""
    count = 0
    for _, vip, pool in vips:
        members = (len(derived.members(pool, derived.family_of(a))) for a in vip.addresses)
        count += len(derived.endpoints(vip)) * sum(members)
    if count > derived.MAX_TRANSLATIONS:
        what = f"{count} NAT translations (services times backends)"
        advice = "each is a flow: split the spec by switch"
        yield scope.finding(("vips",), what, f"at most {derived.MAX_TRANSLATIONS}", advice)
        return
    pairs: dict[tuple[str, str], _Mixed] = {}
    translations = _translations(vips)
    for own, pools in _shared(scope, translations):
        items = [
            replace(t, worker=i, workers=n) if n > 1 else t
            for name, family, n in pools
            for t in translations[name, family]
            for i in range(n)
        ]
        for fragments, found in ((False, _same_port(items)), (True, _fragments(items))):
            for item, first in found:
                pair = pairs.setdefault((item.name, first.name), _mixed(own, item, first, fragments))
                if pair.own == own and pair.fragments == fragments:
                    pair.shared.append(f"{item.own_port}/{item.protocol.value}")
    for pair in pairs.values():
        yield _ambiguous(scope, pair)


def _ambiguous(scope: Scope, pair: _Mixed) -> Finding:
    if pair.fragments:
        found = f"UDP answers of backend {pair.own} for both {pair.both}"
        expected = "one VIP address and port for all UDP answers of a backend: fragments of large ones carry no port"
        advice = "give each VIP backend addresses of its own, or set fragments: drop in all of these VIPs"
        if pair.one_address:
            advice = "leave out target_port in all UDP services of these backends, or set fragments: drop"
            if pair.workers > 1:
                advice = "workers have ports of their own: set fragments: drop, or give each UDP service a VIP and pool"
    else:
        found = f"answers of backend {pair.own} from port {pair.shown()} for both {pair.both}"
        expected = "one VIP address and port for what comes from a backend's address and port"
        port = "target_port that the servers listen on too"
        if pair.workers > 1:
            port += f" (each of its {pair.workers} workers has one: {pair.workers} apart)"
        if any(m.endswith("udp") for m in pair.shared):
            port += ", with fragments: drop" if pair.one_address else ", with fragments: drop in both VIPs"
        if pair.one_address:
            ways = f"give one of the services another {port}"
        else:
            own = pair.path[2] == "addresses"
            vip = f"make {pair.vip} a VIP of its own" if own else f"give VIP {pair.path[1]}"
            ways = f"{vip}{', with' if own else ''} a pool that has a second address of each server, or another {port}"
        advice = f"NAT keeps no state, so an answer is known by the backend's address and port alone: {ways}"
    return scope.finding(pair.path, found, expected, f"{advice}; see {scope.where(pair.earlier)}")


def _mixed(own: Address, item: _Translation, first: _Translation, fragments: bool) -> _Mixed:
    workers = max(item.workers, first.workers)
    if item.vip == first.vip:
        both = f"port {item.port} and port {first.port} of {item.vip}"
        return _Mixed(item.service, first.service, [], own, item.vip, both, fragments, True, workers)
    both = f"{item.vip} and {first.vip}"
    if item.name == first.name:
        return _Mixed(item.address, first.address, [], own, item.vip, both, fragments, workers=workers)
    return _Mixed(item.service, first.service, [], own, item.vip, both, fragments, workers=workers)


def _translations(vips: Sequence[NamedVip]) -> dict[tuple[str, Family], list[_Translation]]:
    """Return the translations of the NAT VIPs, by pool and family."""
    out: dict[tuple[str, Family], list[_Translation]] = defaultdict(list)
    for name, vip, _ in vips:
        restore = vip.fragments == "restore"
        for address in dict.fromkeys(vip.addresses):
            place: Path = ("vips", name, "addresses", vip.addresses.index(address))
            for e in derived.endpoints(vip):
                service: Path = ("vips", name, "services", e.index)
                item = _Translation(name, address, e.protocol, e.port, e.target_port, restore, service, place)
                out[vip.pool, derived.family_of(address)].append(item)
    return out


_Membership = tuple[str, Family, int]
"""A pool and family that an address is in, and with how many workers."""


def _shared(
    scope: Scope, translations: Iterable[tuple[str, Family]]
) -> Iterator[tuple[Address, tuple[_Membership, ...]]]:
    """Yield each set of memberships that some backend address has, with the first such address."""
    pools_of: dict[Address, list[_Membership]] = defaultdict(list)
    wanted = set(translations)
    for name, pool in scope.spec.pools.items():
        for family in FAMILIES:
            if (name, family) in wanted:
                workers: dict[Address, int] = {}
                for backend in pool.backends:
                    own = derived.address_of(backend, family)
                    if own is not None:
                        workers[own] = max(workers.get(own, 0), backend.port_offset + 1)
                for address, number in workers.items():
                    pools_of[address].append((name, family, number))
    first: dict[tuple[_Membership, ...], Address] = {}
    for address, pools in pools_of.items():
        first.setdefault(tuple(pools), address)
    for shared, address in first.items():
        yield address, shared


def _same_port(items: list[_Translation]) -> Iterator[tuple[_Translation, _Translation]]:
    """Yield translations whose answers come from the same port as an earlier one's but belong elsewhere, with that one."""
    seen: dict[tuple[Protocol, int], _Translation] = {}
    for item in items:
        first = seen.setdefault((item.protocol, item.own_port), item)
        if first.back != item.back:
            yield item, first


def _fragments(items: list[_Translation]) -> Iterator[tuple[_Translation, _Translation]]:
    """Yield UDP translations with ambiguous fragments, each with the first one whose fragments are restored.

    Fragments are matched by the backend's address only. All get the same source address and, if ports are translated,
    the same port. This includes VIPs with `fragments: drop`: their fragments would be restored as another VIP's.
    """
    udp = [t for t in items if t.protocol is Protocol.UDP and not t.worker]
    first = next((t for t in udp if t.restore), None)
    if first is None:
        return
    moved = any(t.port != t.target_port or t.workers > 1 for t in udp)
    for item in udp:
        if item.vip != first.vip or (moved and item.port != first.port):
            yield item, first
