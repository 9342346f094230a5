# SPDX-License-Identifier: Apache-2.0
"""The targets of the demo's load: every address and plain DNS service of every VIP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.lab import traffic
from dnsteer.lab.topology import Topology, service_kind
from dnsteer.modes import MODES
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec import derived
from dnsteer.spec.derived import Endpoint
from dnsteer.spec.model.families import Reach
from dnsteer.spec.model.spec import Pool, Selection, Spec
from dnsteer.spec.model.types import Address

FEW_SOCKETS = 16
"""Number of sockets that one dnsperf handles with little CPU time."""
MAX_WINDOWS = 4
"""Runs that a target's source ports are divided into, unless one dnsperf cannot have so many sockets."""


@dataclass(frozen=True)
class LoadTarget:
    """One address and service of a VIP, with the backend that the direct runs ask."""

    vip: str
    pool: str
    reached: Reach
    selection: Selection
    address: Address
    endpoint: Endpoint
    direct_server: str
    direct_address: Address
    direct_port: int
    source_ports: int
    """Source ports that reach every slot equally often."""
    hash_fields: tuple[str, ...] = ()
    """The fields that determine the slot, with selection `client` or `source-address`."""

    @property
    def label(self) -> str:
        """The target in a few words."""
        return f"{self.vip} IPv{self.address.version} {self.endpoint.protocol.value}/{self.endpoint.port}"

    @property
    def clients(self) -> int:
        """Sockets of one dnsperf: few, since it polls each in turn for answers, but enough to avoid many runs."""
        return min(max(FEW_SOCKETS, self.source_ports // MAX_WINDOWS), traffic.MAX_CLIENTS)

    @property
    def windows(self) -> int:
        """Runs needed to use all source ports once."""
        return self.source_ports // self.clients

    @property
    def client_affinity(self) -> bool:
        """Whether all queries of one client address get the same slot."""
        kept = self.selection in (Selection.CLIENT, Selection.SOURCE_ADDRESS)
        return kept and "src_port" not in self.hash_fields

    def hashed(self, local: str) -> tuple[str, ...]:
        """What the hash sees of queries from the address *local*."""
        values = {"src_ip": local, "dst_ip": str(self.address), "dst_port": str(self.endpoint.port)}
        return tuple(values[name] for name in self.hash_fields if name in values)


def targets_of(spec: Spec, topology: Topology) -> Iterator[LoadTarget]:
    """Every plain DNS service of every VIP address."""
    for name, vip in spec.vips.items():
        pool = spec.pools[vip.pool]
        for address in dict.fromkeys(vip.addresses):
            family = derived.family_of(address)
            reached = MODES[vip.forwarding].reach(family)
            held = slots_of(spec, pool, reached)
            if not held:  # all are down, and the queries dropped
                continue
            backends = [b for b in pool.backends if b.name in held]
            # Tunnels and translation reach servers without an address in the VIP's family: those are asked in the other.
            backend = next((b for b in backends if derived.address_of(b, family) is not None), backends[0])
            own = derived.address_of(backend, family) or backend.ipv6 or backend.ipv4
            assert own is not None
            fields = _fields(pool)
            ports = _source_ports(pool.selection, len(held), fields)
            for endpoint in derived.endpoints(vip):
                if service_kind(endpoint) == "dns":
                    server = topology.server_of[vip.pool, backend.name]
                    # The target port is the service's own unless NAT changes it.
                    own_port = endpoint.target_port + backend.port_offset
                    yield LoadTarget(
                        name,
                        vip.pool,
                        reached,
                        pool.selection,
                        address,
                        endpoint,
                        server,
                        own,
                        own_port,
                        max(ports, FEW_SOCKETS),
                        fields,
                    )


def _fields(pool: Pool) -> tuple[str, ...]:
    if pool.selection is Selection.SOURCE_ADDRESS:
        return ("src_ip",)
    return tuple(derived.hash_fields(pool)) if pool.selection is Selection.CLIENT else ()


def _source_ports(selection: Selection, slots: int, fields: tuple[str, ...]) -> int:
    """The number of source ports that makes the shares as precise as possible."""
    if selection is Selection.SOURCE_PORT:
        return 2 * slots  # the lowest bit of the source port does not affect the slot
    if selection is Selection.DP_HASH or "src_port" in fields:
        return traffic.MAX_CLIENTS
    return FEW_SOCKETS  # they do not matter
