"""What packets that are dropped have looked at, so that all packets of a kind make the same mask.

Open vSwitch's classifier looks at as few bits as tell that a flow does not match: of an address just missed at bit 20, the
first 20 bits. So a list of flows with "everything else" below it makes a mask for each prefix length, and fields multiply.
A flow that copies a field into a register looks at all of it. Where "everything else" does so for each field that the flows
above match, what passes and what is dropped make one mask.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from dnsteer.plan.objects import Plan
from dnsteer.plan.pipeline import PATH_QUERY
from dnsteer.spec.families import Family

LOW_BITS = 12
"""Bits of the destination port that are looked at before the address. A flow for every port would be as many as there are
ports; so there is one for 4,095 of the low bits, and for those of a service's port 15 for each slot."""


class Kind(NamedTuple):
    """A transport protocol in an address family: as flows match it, and the names of its fields."""

    match: str
    protocol: str
    family: Family
    low_ports: tuple[int, ...]
    slot_bits: int

    @property
    def source(self) -> str:
        """The source address."""
        return "ip_src" if self.family == "ipv4" else "ipv6_src"

    @property
    def destination(self) -> str:
        """The destination address."""
        return "ip_dst" if self.family == "ipv4" else "ipv6_dst"


class Looks:
    """What flows of a plan must look at."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _slot_bits(self) -> frozenset[int]:
        return frozenset(service.slot_bits for service in self._plan.services)

    @cached_property
    def port_bits(self) -> int:
        """Bits of the destination port that are looked at before the address; 0: none."""
        # Hashed services have a mask without slot bits in any case: what is dropped shares it. With hashed and other
        # services and answers by NAT there is no room for one more mask in a budget of 16.
        mixed = 0 in self._slot_bits and len(self._slot_bits) > 1
        return 0 if mixed and self._plan.nat_returns else LOW_BITS

    @cached_property
    def source_set(self) -> bool:
        """Whether queries that leave by an uplink show all of their source MAC, because it is written."""
        return any(e.path == PATH_QUERY and e.set_source for e in self._plan.egress)

    @cached_property
    def answer_kinds(self) -> tuple[str, ...]:
        """Protocols and families of answers that are translated, as flows match them."""
        found = dict.fromkeys((r.protocol, r.family) for r in self._plan.nat_returns)
        return tuple(protocol if family == "ipv4" else f"{protocol}6" for protocol, family in found)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Protocols and families of the services, with the ports that they have."""
        low = (1 << LOW_BITS) - 1
        ports: dict[tuple[str, Family], dict[int, None]] = {}
        bits: dict[Family, int] = {}
        for s in self._plan.services:
            ports.setdefault((s.protocol, s.family), {})[s.port & low] = None
            bits[s.family] = min(s.slot_bits, bits.get(s.family, s.slot_bits))
        return tuple(
            Kind(
                protocol if family == "ipv4" else f"{protocol}6", protocol, family, tuple(found),
                0 if 0 in self._slot_bits else bits[family],
            )
            for (protocol, family), found in ports.items()
        )  # fmt: skip
