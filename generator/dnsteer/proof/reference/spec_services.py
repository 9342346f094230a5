# SPDX-License-Identifier: Apache-2.0
"""The services of a spec, and the backend of each of their slots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dnsteer.proof.reference.connections import keepers
from dnsteer.proof.reference.selections import SELECTIONS
from dnsteer.proof.reference.service import AddressService, ModeReference, TargetBackend
from dnsteer.proof.reference.slots import (
    Outage,
    PoolOutage,
    no_backend_in_service,
    number_of_slots,
    reference_table,
    table_with_changes,
)
from dnsteer.proof.reference.topology import packed_mac
from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.spec.model.spec import Backend, Forwarding, Pool, Protocol, Spec, State, Vip
from dnsteer.spec.workers import Worker

_NUMBERS = {Protocol.UDP: UDP, Protocol.TCP: TCP}
_WORDS = {UDP: "udp", TCP: "tcp"}
_SHORTHANDS: dict[str, tuple[tuple[int, int], ...]] = {
    "dns": ((UDP, 53), (TCP, 53)),
    "dot": ((TCP, 853),),
    "doq": ((UDP, 853),),
    "doh": ((TCP, 443),),
    "doh3": ((UDP, 443),),
}


class ServicePorts(NamedTuple):
    """IP protocol number, the port that clients send queries to, and the port that backends listen on."""

    protocol: int
    port: int
    target_port: int


def service_ports(vip: Vip) -> list[ServicePorts]:
    """The VIP's protocols and ports, in the order of the spec."""
    found: list[ServicePorts] = []
    for entry in vip.services:
        if isinstance(entry, str):
            found += (ServicePorts(protocol, port, port) for protocol, port in _SHORTHANDS[entry])
        else:
            found.append(ServicePorts(_NUMBERS[entry.protocol], entry.port, entry.target_port or entry.port))
    return found


def target_backends(pool: Pool, mode: ModeReference, version: int) -> list[TargetBackend]:
    """The backends of a pool that queries of an IP version can reach."""
    found = ((backend, mode.backend_address(backend, version)) for backend in pool.backends)
    return [
        TargetBackend(
            backend.name,
            address.packed,
            packed_mac(backend.mac),
            backend.port,
            worker_number(backend),
            mode.topology.vlans.of_backend(backend),
        )
        for backend, address in found
        if address is not None
    ]


def worker_number(backend: Backend) -> int:
    """The number of a worker, which is the last part of its name (docs/forwarding.md, section 3); 0 for other backends."""
    return int(backend.name.rpartition(".")[2]) if isinstance(backend, Worker) else 0


def services_of(
    spec: Spec, modes: Mapping[Forwarding, ModeReference], outages: Iterable[PoolOutage]
) -> Iterator[tuple[AddressService, list[TargetBackend]]]:
    """Yield each service of the spec with the backends that its queries can reach, including those that are down."""
    out: defaultdict[str, list[PoolOutage]] = defaultdict(list)
    for outage in outages:
        out[outage.pool].append(outage)
    tables: dict[
        tuple[str, Forwarding, int, str], tuple[list[TargetBackend], tuple[str, ...], tuple[TargetBackend, ...]]
    ] = {}
    for name, vip in spec.vips.items():
        pool, mode = spec.pools[vip.pool], modes[vip.forwarding]
        selection = SELECTIONS[pool.selection]
        for address in vip.addresses:
            for endpoint in service_ports(vip):
                about = f"{endpoint.port}/{_WORDS[endpoint.protocol]}"
                concerned = [outage for outage in out[vip.pool] if outage.service in ("", about)]
                only = about if any(outage.service for outage in concerned) else ""
                key = vip.pool, vip.forwarding, address.version, only
                if key not in tables:
                    reached = target_backends(pool, mode, address.version)
                    tables[key] = reached, *_slots(spec, pool, reached, concerned)
                reached, base, slots = tables[key]
                keeps = (vip.keep is not None or mode.keeps_connections) and endpoint.protocol == TCP
                down = [b.name for b in pool.backends if b.state is State.DOWN]
                down += [a.backend for a in concerned if a.kind in ("down", "health") and not a.returns]
                yield (
                    AddressService(
                        name,
                        address.packed,
                        *endpoint,
                        mode,
                        selection,
                        selection.hash_fields(pool),
                        selection.client_prefix(pool, address.version),
                        vip.fragments == "restore",
                        slots,
                        base,
                        tuple(dict.fromkeys(slots)),
                        keeps,
                        keepers(reached, down) if keeps else (),
                    ),
                    reached,
                )


def _slots(
    spec: Spec, pool: Pool, reached: Sequence[TargetBackend], outages: Sequence[Outage]
) -> tuple[tuple[str, ...], tuple[TargetBackend, ...]]:
    """Return the name of each slot's backend with all backends in service, and each slot's backend now.

    The latter is empty if no backend may serve, the former if the spec gives no reachable backend a weight above 0.
    """
    here = {target.name: target for target in reached}
    weights = {backend.name: backend.weight for backend in pool.backends if backend.name in here}
    changes = [outage for outage in outages if outage.backend in here]
    sharing = sum(len(v.addresses) * len(service_ports(v)) for v in spec.vips.values() if spec.pools[v.pool] is pool)
    slots = number_of_slots(spec.switch, pool, sharing)
    base = reference_table(tuple(weights.items()), slots) if any(weights.values()) else ()
    down = [backend.name for backend in pool.backends if backend.name in here and backend.state is State.DOWN]
    if pool.on_all_down == "drop" and no_backend_in_service(weights, down, changes):
        return base, ()
    return base, tuple(here[name] for name in table_with_changes(weights, slots, down, changes))
