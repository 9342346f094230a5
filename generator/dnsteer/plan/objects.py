"""The plan: what each table of the pipeline must hold, as rows. Templates spell the rows as flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dnsteer.plan.extension.program import Extension
from dnsteer.plan.membership import Membership
from dnsteer.plan.numbers import OBJECT_BITS, Category, cookie
from dnsteer.plan.pipeline import GROUP_BASE
from dnsteer.plan.subject import Subject
from dnsteer.spec.model.families import Family


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


class ServiceRow(NamedTuple):
    """A service of a VIP address; a tuple, as Subject is. *target_port* is 0 when the port stays.

    *slot_bits* is 0 when a group selects the slot, or the extension, which serves it when it is *extended*.
    """

    subject: Subject
    address: str
    family: Family
    protocol: str
    port: int
    target_port: int
    pool: int
    mode: str
    slot_bits: int
    extended: bool = False


@dataclass(frozen=True)
class SlotTable:
    """The slots of a pool (in one family where its families have different backends).

    *owners* has the name of each slot's backend; it is empty where nobody is left and the pool drops then. *backends* has
    the subject of each backend by name; it is empty where nobody reads comments.
    """

    members: Membership
    owners: tuple[str, ...]
    backends: Mapping[str, Subject] = field(default_factory=dict)

    @property
    def cookie(self) -> int:
        """The cookie of slot 0; that of another has its number in the lowest 16 bits."""
        return cookie(Category.SLOT, self.members.number << 16)

    def subject(self, slot: int) -> Subject:
        """The subject of one slot."""
        owner = self.owners[slot]
        at = self.backends[owner]
        title = f"{self.members.title} slot {slot} -> {owner}"
        return Subject(self.cookie | slot, title, at.path, at.line)


@dataclass(frozen=True)
class GroupRow:
    """An OpenFlow select group with one bucket of weight 1 per slot; *backends* has the backend of each slot."""

    subject: Subject
    pool: int
    group: int
    backends: tuple[int, ...]


def group_row(members: Membership, owners: tuple[str, ...], line: int = 0) -> GroupRow:
    """The group of a pool whose slots the switch's hash chooses."""
    numbers = {m.name: m.number for m in members.members}
    key = cookie(Category.POOL, members.number)
    subject = Subject(key, f"{members.title}, by dp-hash", ("pools", members.pool), line)
    return GroupRow(subject, members.number, GROUP_BASE + members.number, tuple(numbers[o] for o in owners))


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
    marker: int
    ports: list[PortRow] = field(default_factory=list)
    neighbors: list[NeighborRow] = field(default_factory=list)
    services: list[ServiceRow] = field(default_factory=list)
    slots: list[SlotTable] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    forwards: list[ForwardRow] = field(default_factory=list)
    nat_returns: list[NatReturnRow] = field(default_factory=list)
    fragments: list[FragmentRow] = field(default_factory=list)
    dsr_returns: list[DsrReturnRow] = field(default_factory=list)
    egress: list[EgressRow] = field(default_factory=list)
    subjects: dict[int, Subject] = field(default_factory=dict)

    members: list[Membership] = field(default_factory=list)
    extension: Extension | None = None
    any_vlan: bool = False

    @property
    def state(self) -> Subject:
        """The subject of the flow that tells which spec and overlay the tables were made from."""
        return Subject(
            cookie(Category.STATE, self.marker),
            "spec and overlay of the tables",
            self.pipeline.path,
            self.pipeline.line,
        )

    def subject(self, key: int) -> Subject | None:
        """The subject of a cookie; None when nothing of the spec has it."""
        found = self.state if key == self.state.cookie else self.subjects.get(key)
        if found is None and key >> OBJECT_BITS == cookie(Category.SLOT, 0) >> OBJECT_BITS:
            pool, slot = key >> 16 & 0xFFFFFF, key & 0xFFFF
            tables = [t for t in self.slots if t.members.number == pool and slot < len(t.owners)]
            return tables[0].subject(slot) if tables else None
        return found

    @property
    def has_gateways(self) -> bool:
        """Whether answers can come in at all."""
        return any(row.router for row in self.neighbors)
