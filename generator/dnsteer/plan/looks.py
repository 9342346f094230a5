"""What packets that are dropped have looked at, so that all packets of a kind make the same mask.

Open vSwitch's classifier looks at as few bits as tell that a flow does not match: of an address just missed at bit 20, the
first 20 bits. So a list of flows with "everything else" below it makes a mask for each prefix length, and fields multiply.
A flow that copies a field into a register looks at all of it. Where "everything else" does so for each field that the flows
above match, what passes and what is dropped make one mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dnsteer.plan.objects import Plan
from dnsteer.plan.pipeline import PATH_QUERY

LOW_BITS = 12
"""Bits of the destination port that are looked at before the address. A flow for every port would be as many as there are
ports; so there is one for 4,095 of the low bits, and for those of a service's port 15 for each slot."""


class Kind(NamedTuple):
    """A transport protocol in an address family: as flows match it, and the names of its fields."""

    match: str
    protocol: str
    family: str
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
        hashed = any(s.slot_bits == 0 for s in plan.services)
        # Hashed services have a mask without slot bits in any case: what is dropped shares it. With hashed and other
        # services and answers by NAT there is no room for one more mask in a budget of 16.
        mixed = hashed and any(s.slot_bits for s in plan.services)
        self.port_bits = 0 if mixed and plan.nat_returns else LOW_BITS
        self.kinds = tuple(self._kinds(plan, hashed))
        self.source_set = any(e.path == PATH_QUERY and e.set_source for e in plan.egress)
        """Whether queries that leave by an uplink show all of their source MAC, because it is written."""
        self.answer_kinds = tuple(
            dict.fromkeys((r.protocol if r.family == "ipv4" else f"{r.protocol}6") for r in plan.nat_returns)
        )

    def _kinds(self, plan: Plan, hashed: bool) -> Iterator[Kind]:
        low = (1 << LOW_BITS) - 1
        for protocol, family in dict.fromkeys((s.protocol, s.family) for s in plan.services):
            mine = [s for s in plan.services if (s.protocol, s.family) == (protocol, family)]
            bits = 0 if hashed else min(s.slot_bits for s in plan.services if s.family == family)
            match = protocol if family == "ipv4" else f"{protocol}6"
            yield Kind(match, protocol, family, tuple(dict.fromkeys(s.port & low for s in mine)), bits)
