"""Table return: turns answers back into the VIP's. Its rows are of the forwarding modes. (`return` is a word of Python.)"""

from __future__ import annotations

from typing import NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.subject import Subject
from dnsteer.tables.table import Table

PREFIX = "64:ff9b::/96"
"""Where IPv4 clients are in the IPv6 that backends see (RFC 6052)."""


class NatReturnRow(NamedTuple):
    """Answers of a backend address, protocol and port that become a VIP's. *port* is 0 when the port stays."""

    subject: Subject
    family: Family
    protocol: str
    backend: str
    target_port: int
    vip: str
    port: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What the flow matches."""
        return self.backend, self.protocol, self.target_port


class FragmentRow(NamedTuple):
    """Fragments of UDP answers of a backend address. *port* is the VIP's port, 0 when it stays."""

    subject: Subject
    family: Family
    backend: str
    vip: str
    port: int
    zone: int

    @property
    def key(self) -> str:
        """What the flow matches."""
        return self.backend


class OwnReturnRow(NamedTuple):
    """Answers that a backend sends as a VIP, whose address it owns, and that pass the switch."""

    subject: Subject
    family: Family
    vip: str
    protocols: tuple[str, ...]

    @property
    def key(self) -> str:
        """What the flows match."""
        return self.vip

    def merged(self, other: OwnReturnRow) -> OwnReturnRow:
        """The row of VIPs that share the address."""
        from dnsteer.spec.model.spec import Protocol  # here, since the quick verbs do without it

        both = {*self.protocols, *other.protocols}
        return self._replace(protocols=tuple(p.value for p in Protocol if p.value in both))


class TranslatedRow(NamedTuple):
    """Answers of a backend over IPv6 to clients over IPv4, which the extension translates."""

    subject: Subject
    backend: str
    protocol: str
    port: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What the flow matches."""
        return self.backend, self.protocol, self.port


TABLE = Table(
    name="return",
    matches="source address, protocol and port of an answer",
    does="rewrites the source to the VIP, also in fragments",
    uses={
        "nat_returns": NatReturnRow,
        "translated": TranslatedRow,
        "fragments": FragmentRow,
        "own_returns": OwnReturnRow,
    },
)
