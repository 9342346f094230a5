"""The plan: what each table of the pipeline must hold, as rows. Templates spell the rows as flows."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.spec.errors import Path
from dnsteer.spec.meaning import Family


@dataclass(frozen=True)
class Subject:
    """The object of the spec that a flow stands for: what it is called, and where in the spec it is."""

    cookie: int
    title: str
    path: Path
    line: int


@dataclass(frozen=True)
class PortRow:
    """A port of the bridge. *answers_out* is the number of the port that its answers leave by; None: dropped."""

    subject: Subject
    name: str
    number: int
    uplink: bool
    next_hop: str | None
    answers_out: int | None


@dataclass(frozen=True)
class NeighborRow:
    """An address that the switch answers for: a VIP (at uplinks) or a gateway (*router*, at any port)."""

    subject: Subject
    address: str
    family: Family
    mac: str
    router: bool
    echo: bool


@dataclass(frozen=True)
class ServiceRow:
    """A service of a VIP address. *target_port* is 0 when the port stays; *slot_bits* is 0 when a group selects."""

    subject: Subject
    address: str
    family: Family
    protocol: str
    port: int
    target_port: int
    pool: int
    mode: str
    slot_bits: int


@dataclass(frozen=True)
class SlotRow:
    """A slot of a pool (in one family where its families have different backends), and the backend that it names."""

    subject: Subject
    pool: int
    slot: int
    backend: int


@dataclass(frozen=True)
class GroupRow:
    """An OpenFlow select group with one bucket of weight 1 per slot; *backends* has the backend of each slot."""

    subject: Subject
    pool: int
    group: int
    backends: tuple[int, ...]


@dataclass(frozen=True)
class ForwardRow:
    """What to do for a backend. *address* is rewritten with NAT only; *out* 0: the port that the query came in by."""

    subject: Subject
    mode: str
    family: Family
    pool: int
    backend: int
    mac: str
    address: str
    out: int


@dataclass(frozen=True)
class NatReturnRow:
    """Answers of a backend address, protocol and port that become a VIP's. *port* is 0 when the port stays."""

    subject: Subject
    family: Family
    protocol: str
    backend: str
    target_port: int
    vip: str
    port: int


@dataclass(frozen=True)
class FragmentRow:
    """Fragments of UDP answers of a backend address. *port* is the VIP's port, 0 when it stays."""

    subject: Subject
    family: Family
    backend: str
    vip: str
    port: int
    zone: int


@dataclass(frozen=True)
class DsrReturnRow:
    """Answers that a backend sends as a VIP and that pass the switch."""

    subject: Subject
    family: Family
    vip: str
    protocols: tuple[str, ...]


@dataclass(frozen=True)
class EgressRow:
    """A way out: for queries or answers, to port *out*, and when *hairpin* back out of the port it came in by."""

    subject: Subject
    path: int
    out: int
    name: str
    in_port: str
    set_source: bool
    next_hop: str


@dataclass
class Plan:
    """All rows, in the order of the spec, and the bridge that they are for."""

    bridge: str
    mac: str
    gateway_mac: str
    pipeline: Subject
    digest: str
    ports: list[PortRow] = field(default_factory=list)
    neighbors: list[NeighborRow] = field(default_factory=list)
    services: list[ServiceRow] = field(default_factory=list)
    slots: list[SlotRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    forwards: list[ForwardRow] = field(default_factory=list)
    nat_returns: list[NatReturnRow] = field(default_factory=list)
    fragments: list[FragmentRow] = field(default_factory=list)
    dsr_returns: list[DsrReturnRow] = field(default_factory=list)
    egress: list[EgressRow] = field(default_factory=list)
    subjects: dict[int, Subject] = field(default_factory=dict)

    @property
    def has_gateways(self) -> bool:
        """Whether answers can come in at all."""
        return any(row.router for row in self.neighbors)
