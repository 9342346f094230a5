"""Slots that are not predicted: queries that show how they are chosen, and what must hold for all of them together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from dnsteer.proof.reference.outcome import Expectation, Frame
from dnsteer.proof.reference.services import Service
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.craft import Talk
from dnsteer.proof.traffic.senders import Scene, Vector
from dnsteer.spec.model.spec import Selection

_CHANCE = 1e-9
"""A spread that could come by chance to look like none is not asked for."""
_MOST = 256
"""Queries of a spread, at most."""


def spreads(service: Service, count: int) -> bool:
    """Whether *count* queries with slots of their own can be told from as many with one slot."""
    shares = Counter(service.slots)
    return sum((share / len(service.slots)) ** count for share in shares.values()) < _CHANCE


def name_of(service: Service) -> str:
    """The spread of the queries of a service that are all different."""
    return f"the queries for {service.label}"


def twin(scene: Scene, service: Service, talk: Talk, nth: int, vector: Vector) -> Iterator[Vector]:
    """Yield a query that has in common with that of *talk* what its slot depends on, and nothing else."""
    if service.selection is not Selection.CLIENT:
        return
    fields = service.hash_fields
    if not {"src_port", "dst_port"} & set(fields):  # then UDP and TCP have the slot in common
        ours = [s for s in scene.reference.services.values() if (s.vip, s.address) == (service.vip, service.address)]
        service = ours[nth % len(ours)]
    other = scene.asks(service, scene.uplinks[(nth + 1) % len(scene.uplinks)])
    if "src_ip" in fields:
        other = replace(other, source=talk.source)
    if "src_port" in fields:
        other = replace(other, sport=talk.sport)
    uplink = scene.uplinks[(nth + 1) % len(scene.uplinks)]
    yield Vector(f"twin of {vector.name}", uplink, craft.query(other, service.protocol), "query")


def fans(scene: Scene, service: Service) -> Iterator[Vector]:
    """Yield queries that differ in nothing but what must make their slots differ."""
    count = next((n for n in range(2, _MOST + 1) if spreads(service, n)), None)
    if count is None:
        return
    first = scene.asks(service, scene.uplinks[0])
    if service.selection is Selection.SPRAY:
        varied = ["nothing"]
    elif service.selection is Selection.CLIENT:
        varied = [name for name in ("src_ip", "src_port") if name in service.hash_fields]
    else:
        varied = []
    for name in varied:
        spread = f"queries for {service.label} that differ in {name}"
        for nth in range(count):
            talk = scene.asks(service, scene.uplinks[0])
            if name != "src_ip":
                talk = replace(talk, source=first.source)
            talk = replace(talk, sport=(first.sport + nth) % 65536 if name == "src_port" else first.sport)
            data = craft.query(talk, service.protocol)
            yield Vector(f"{spread}, {nth}", scene.uplinks[0], data, "query", spread)


@dataclass
class Choices:
    """Where queries went whose slots are not predicted."""

    _bonds: dict[Hashable, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _spreads: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, vector: Vector, expected: Expectation, left: Frame) -> None:
        """Take note of what left for a query."""
        taker = dict(expected.takers).get(left)
        if taker is None:
            return
        if expected.bond is not None:
            self._bonds[expected.bond].setdefault(taker, vector.name)
        if vector.spread:
            self._spreads[vector.spread][taker] += 1

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong, and about which query or queries."""
        for found in self._bonds.values():
            if len(found) > 1:
                (one, first), (other, second) = list(found.items())[:2]
                yield second, f"went to {other}, and {first}, which hashes the same, to {one}"
        for spread, count in self._spreads.items():
            if len(count) == 1:
                yield spread, f"all {count.total()} went to {next(iter(count))}"
