# SPDX-License-Identifier: Apache-2.0
"""Which fields dropped packets must unwildcard, so that all packets of a kind have the same mask.

Open vSwitch's classifier looks at as few bits as tell that a flow does not match: of an address just missed at bit 20, the
first 20 bits. So a list of flows with "everything else" below it makes a mask for each prefix length, and fields multiply.
A flow that copies a field into a register looks at all of it. Where "everything else" does so for each field that the flows
above match, what passes and what is dropped make one mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from dnsteer.plan.plan import Plan
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.tables.address import FAMILY_BITS, AddressRow
from dnsteer.tables.egress import EgressRow
from dnsteer.tables.error import CopyRow
from dnsteer.tables.ingress import QUERY
from dnsteer.tables.return_ import FragmentRow, NatReturnRow, TranslatedRow
from dnsteer.tables.table import Table
from dnsteer.tables.vip import ServiceRow

LOW_BITS = 8
"""Bits of the destination port that are looked at first; then the other 8: 255 megaflows each, in place of 65,535."""


class TrafficKind(NamedTuple):
    """A transport protocol in an address family: as flows match it, and the names of its fields.

    What is dropped looks at *slot_bits* of *slot_field* from *slot_low* on, and at the source MAC where *router*, as queries
    of the kind do.
    """

    match: str
    protocol: str
    family: Family
    low_ports: tuple[int, ...]
    ports: tuple[int, ...]
    slot_bits: int
    slot_field: str
    slot_low: int
    router: bool

    @property
    def source(self) -> str:
        return "ip_src" if self.family == "ipv4" else "ipv6_src"

    @property
    def destination(self) -> str:
        return "ip_dst" if self.family == "ipv4" else "ipv6_dst"


class MaskPolicy:
    """Which fields flows of a plan must not leave wildcarded."""

    native = ("2000::/3", "e000::/3")
    """Clients over IPv6 by three bits: global addresses, and local ones. 64:ff9b::/96 is in neither. By them a backend's
    answers to translated clients are told from the usual ones, so that these show no more of the client."""
    translated = "ipv6_dst[32..127]"
    """The bits that tell translated clients from all others."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    port_bits = LOW_BITS
    """Bits of the destination port that are matched before the others."""

    def windows(self, table: Table) -> Iterator[tuple[Family, str]]:
        """Yield the families that have a window of VIPs in a table of addresses.

        With each are the bits of the address that other addresses are dropped by, in brackets; empty for all.
        """
        return self._windows((table.name, False))

    def own_windows(self, table: Table) -> Iterator[tuple[Family, str]]:
        """Yield the same of backends' addresses."""
        return self._windows((table.name, True))

    def _windows(self, of: tuple[str, bool]) -> Iterator[tuple[Family, str]]:
        for family in FAMILIES:
            rows = self._plan.rows.of(AddressRow)
            row = next((r for r in rows if (r.table, r.inbound, r.family) == (*of, family)), None)
            if row is not None:
                width = FAMILY_BITS[family]
                first = width - int(row.prefix.partition("/")[2] or width)
                yield family, f"[{first}..{width - 1}]" if first else ""

    @cached_property
    def source_set(self) -> bool:
        """Whether queries that leave by an uplink have the source MAC in their mask, because it is rewritten."""
        return any(e.path == QUERY and e.set_source for e in self._plan.rows.of(EgressRow))

    @cached_property
    def copies_by_uplink(self) -> bool:
        """Whether copies of ICMP errors that leave by an uplink have the source MAC in their mask, because it is written."""
        return any(copy.set_source for row in self._plan.rows.of(CopyRow) for copy in row.copies)

    @cached_property
    def answer_kinds(self) -> tuple[str, ...]:
        """Protocols and families of answers that are translated, as flows match them."""
        found = dict.fromkeys((r.protocol, r.family) for r in self._plan.rows.of(NatReturnRow))
        rows = self._plan.rows.of(TranslatedRow)
        found |= dict.fromkeys((r.protocol, "ipv6") for r in rows)
        return tuple(protocol if family == "ipv4" else f"{protocol}6" for protocol, family in found)

    @cached_property
    def translates(self) -> bool:
        """Whether the extension translates answers; IPv6 answers are then matched by destination."""
        return bool(self._plan.rows.of(TranslatedRow))

    @cached_property
    def translated_fragments(self) -> tuple[str, ...]:
        """Backends whose fragments are rewritten by NAT, other than those to translated clients."""
        rows = self._plan.rows.of(TranslatedRow)
        restored = {row.backend for row in self._plan.rows.of(FragmentRow) if row.family == "ipv6"}
        return tuple(dict.fromkeys(row.backend for row in rows if row.backend in restored))

    @cached_property
    def kinds(self) -> tuple[TrafficKind, ...]:
        """Protocols and families of the services, with the ports that they have."""
        ports: dict[tuple[str, Family], dict[int, None]] = {}
        for s in self._plan.rows.of(ServiceRow):
            ports.setdefault((s.protocol, s.family), {})[s.port] = None
        return tuple(
            TrafficKind(
                match=protocol if family == "ipv4" else f"{protocol}6",
                protocol=protocol,
                family=family,
                low_ports=tuple(dict.fromkeys(port % (1 << LOW_BITS) for port in found)),
                ports=tuple(found),
                **self._shared(protocol, family),
            )
            for (protocol, family), found in ports.items()
        )

    def _shared(self, protocol: str, family: Family) -> dict[str, Any]:
        """Return the query mask that dropped packets share: the slot's bits, and whether it has the source MAC.

        The widest is that of hashed queries, whose source MAC is written later; then that of those for the extension; then
        that of the fewest bits of the source port, and of the source address.
        """
        found = [s for s in self._plan.rows.of(ServiceRow) if s.family == family]
        hashed = any(_sort(s) == "hashed" for s in found)
        fewest = min(found, key=lambda s: (s.slot_field.startswith("ip"), s.slot_bits))
        if hashed or not fewest.slot_bits:
            return {"slot_bits": 0, "slot_field": "", "slot_low": 0, "router": not hashed and self.source_set}
        field = fewest.slot_field if fewest.slot_field.startswith("ip") else f"{protocol}_src"
        return {
            "slot_bits": fewest.slot_bits,
            "slot_field": field,
            "slot_low": fewest.slot_low,
            "router": self.source_set,
        }


def _sort(service: ServiceRow) -> str:
    """Return how a service's queries are matched later in the pipeline, which determines their mask."""
    return "extended" if service.extended else "slots" if service.slot_bits else "hashed"
