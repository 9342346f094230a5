"""The services of a spec and the backends of their slots, as the reference sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address

from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import Absence
from dnsteer.slots.overlay import nobody_left, without
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Protocol, Selection, Spec, State, Switch, Vip

_NUMBERS = {Protocol.UDP: UDP, Protocol.TCP: TCP}
_NAMES = {UDP: "udp", TCP: "tcp"}
_WORDS: dict[str, tuple[tuple[int, int], ...]] = {
    "dns": ((UDP, 53), (TCP, 53)),
    "dot": ((TCP, 853),),
    "doq": ((UDP, 853),),
    "doh": ((TCP, 443),),
}


@dataclass(frozen=True)
class Target:
    """A backend as the queries to an address reach it. *port* is None where it sits behind the query's uplink."""

    name: str
    address: bytes
    mac: bytes
    port: str | None


@dataclass(frozen=True)
class Service:
    """A protocol and port of a VIP's address. *slots* names the backend of each slot."""

    vip: str
    address: bytes
    protocol: int
    port: int
    target_port: int
    mode: Forwarding
    selection: Selection
    hash_fields: tuple[str, ...]
    """What `client` hashes; empty with another selection."""
    slots: tuple[Target, ...]
    owners: tuple[Target, ...]
    """The backends that own at least one slot, in the order of their first."""

    @cached_property
    def label(self) -> str:
        """The service in a reader's words."""
        return f"{self.vip} {ip_address(self.address)} {_NAMES[self.protocol]}/{self.port}"

    @property
    def nat(self) -> bool:
        """Whether the switch rewrites addresses."""
        return self.mode is Forwarding.NAT

    @property
    def extended(self) -> bool:
        """Whether the extension serves it."""
        return extended(self.mode, self.selection)

    @property
    def hashed(self) -> bool:
        """Whether it is not predicted which slot a query gets."""
        return self.selection is not Selection.SOURCE_PORT


def extended(mode: Forwarding, selection: Selection) -> bool:
    """Whether the extension serves what is forwarded and selected so."""
    return mode in (Forwarding.IPIP, Forwarding.SIIT) or selection in (Selection.CLIENT, Selection.SPRAY)


def service_of(
    name: str, vip: Vip, pool: Pool, address: bytes, what: tuple[int, int, int], table: tuple[Target, ...]
) -> Service:
    """The service of a VIP's address with protocol, port and target port *what*, and the slots of *table*."""
    fields = tuple(pool.hash_fields or ("src_ip",)) if pool.selection is Selection.CLIENT else ()
    return Service(name, address, *what, vip.forwarding, pool.selection, fields, table, tuple(dict.fromkeys(table)))


def packed_mac(text: str) -> bytes:
    """Pack a MAC address."""
    return bytes.fromhex(text.replace(":", ""))


def gateway_mac(switch: Switch) -> bytes:
    """Return the packed MAC address of the virtual gateways."""
    if switch.gateway_mac is not None:
        return packed_mac(switch.gateway_mac)
    mac = packed_mac(switch.mac)
    return mac[:5] + bytes((mac[5] ^ 1,))


def endpoints(vip: Vip) -> list[tuple[int, int, int]]:
    """Return protocol number, port and target port of each of the VIP's services."""
    found: list[tuple[int, int, int]] = []
    for entry in vip.services:
        if isinstance(entry, str):
            found += ((protocol, port, port) for protocol, port in _WORDS[entry])
        else:
            found.append((_NUMBERS[entry.protocol], entry.port, entry.target_port or entry.port))
    return found


def target(backend: Backend, mode: Forwarding, version: int) -> Target | None:
    """Return the backend as queries of an IP version reach it by *mode*; None when they cannot.

    A tunnel ends at the backend's address of that version, or else at its other one; a translation at the one over IPv6.
    """
    own, other = (backend.ipv4, backend.ipv6) if version == 4 else (backend.ipv6, backend.ipv4)
    if mode is Forwarding.IPIP:
        own = own or other
    elif mode is Forwarding.SIIT:
        own = backend.ipv6
    if own is None:
        return None
    return Target(backend.name, own.packed, packed_mac(backend.mac), backend.port)


def targets(pool: Pool, mode: Forwarding, version: int) -> list[Target]:
    """Return the backends of a pool that queries of an IP version can reach."""
    found = [target(backend, mode, version) for backend in pool.backends]
    return [each for each in found if each is not None]


def own_of(spec: Spec, pool: Pool, mode: Forwarding, version: int) -> tuple[str, ...]:
    """Return the name of each slot's backend when nobody is out; empty where no backend can be reached."""
    usable = {backend.name: backend.weight for backend in pool.backends if target(backend, mode, version) is not None}
    return assign(usable, derived.slot_count(spec, pool)) if usable else ()


def table_of(
    spec: Spec, pool: Pool, mode: Forwarding, version: int, absences: Sequence[Absence] = ()
) -> tuple[Target, ...]:
    """Return the backend of each slot, with *absences* besides who is down by the spec.

    Empty where nobody is left and the queries are dropped.
    """
    here = {found.name: found for found in targets(pool, mode, version)}
    base = own_of(spec, pool, mode, version)
    if not base:
        return ()
    usable = {backend.name: backend.weight for backend in pool.backends if backend.name in here}
    down = [backend.name for backend in pool.backends if backend.name in here and backend.state is State.DOWN]
    gone = [absence for absence in absences if absence.backend in here]
    if pool.on_all_down == "drop" and nobody_left(usable, down, gone):
        return ()
    return tuple(here[name] for name in without(base, usable, down, gone))


def exit_of(switch: Switch, place: str) -> tuple[str, bytes] | None:
    """Return uplink and next hop by which answers that come in by *place* leave."""
    uplinks = switch.uplinks
    own = uplinks[place] if place in uplinks else switch.ports[place]
    return _first_hop(switch, [place, *uplinks] if own.answers is None else [own.answers])


def first_exit(switch: Switch) -> tuple[str, bytes] | None:
    """Return the first uplink with a next hop, and that."""
    return _first_hop(switch, list(switch.uplinks))


def _first_hop(switch: Switch, candidates: list[str]) -> tuple[str, bytes] | None:
    for name in candidates:
        next_hop = switch.uplinks[name].next_hop if name in switch.uplinks else None
        if next_hop is not None:
            return name, packed_mac(next_hop)
    return None
