"""What the extension's program holds in hardware: its pipes, their entries, and the way of a packet through them.

Counted from the plan as datapath_ext/src does it (its README draws the pipes). An entry is one rule that the program asks
for; how many rules of hardware the library makes of it is not published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dnsteer.plan.extension.build import OWN_COUNTERS
from dnsteer.plan.extension.program import ExtendedService, Extension
from dnsteer.spec.derived import IPV4_HEADER, IPV6_HEADER
from dnsteer.spec.model.families import Family

STRAYS = 6
"""Entries of each classifier for what is dropped: malformed headers and fragments of both families, wrong checksums, all
else."""
_REWRITES = {"l2": 1, "ipip": 1, "siit": 3}
"""What an entry writes of a query: the MAC address; a new header; a new header, an address in it and the MAC address."""
_REWRITES_OF_ANSWERS = 2
"""A new header, and an address in it."""


@dataclass(frozen=True)
class Pipe:
    """A pipe of the program, and how many entries it has."""

    name: str
    entries: int


@dataclass(frozen=True)
class Passage:
    """What packets of a service meet between the two ports: names of *pipes* one after the other, rewritten header fields.

    *entries* are those of the service alone, and of the selector that it may share. *grows* is by how many bytes packets
    become longer, the mean over the slots; *most* the greatest.
    """

    pipes: tuple[str, ...]
    rewrites: int
    entries: int
    grows: float
    most: int


def outer(extension: Extension, target: str) -> Family:
    """The family of the address by which a target is reached."""
    return "ipv6" if ":" in extension.targets[target].address else "ipv4"


def pipes_of(extension: Extension) -> tuple[Pipe, ...]:
    """All pipes that a program of this plan has."""
    services = [s for s in extension.services if s.slots]
    forwards = {s.forward for s in services}
    answers = {(s.name, t) for s in services if s.forward == "siit" for t in s.slots}
    out = [Pipe("classifier (queries)", len(services) + STRAYS), Pipe("classifier (answers)", len(answers) + STRAYS)]
    out += [
        Pipe(name, slots) for name, slots in {_selector(s): (selector_name(s), len(s.slots)) for s in services}.values()
    ]
    out += [Pipe(f"slots-{f}", sum(len(s.slots) for s in services if s.forward == f)) for f in sorted(forwards)]
    if "ipip" in forwards:
        for family in ("ipv4", "ipv6"):
            ends = {
                (t, s.family) for s in services if s.forward == "ipip" for t in s.slots if outer(extension, t) == family
            }
            out.append(Pipe(f"encap{family[-1]}", len(ends)))
        out.append(Pipe("plain", 1))
    if "siit" in forwards:
        ends = {(t, s.family) for s in services if s.forward == "siit" for t in s.slots}
        translated = sum(s.forward == "siit" for s in services)
        out += [Pipe("to-ipv6", 1), Pipe("translated", len(ends)), Pipe("to-ipv4", 1), Pipe("answers", translated)]
    return tuple(out)


def counters_of(extension: Extension) -> int:
    """Counters in use: one for each slot, and the program's own."""
    return sum(len(s.slots) for s in extension.services) + OWN_COUNTERS


def entries(pipes: Iterable[Pipe]) -> int:
    """Entries of all these pipes."""
    return sum(pipe.entries for pipe in pipes)


def selector_name(service: ExtendedService) -> str:
    """The name of the pipe that chooses a service's slot."""
    return f"{service.select}{len(service.slots)}-{service.forward}"


def queries_through(extension: Extension, service: ExtendedService) -> Passage:
    """What a service's queries meet; the longest way, where backends differ."""
    targets = set(service.slots)
    families = {outer(extension, t) for t in targets}
    way = ["classifier", selector_name(service), f"slots-{service.forward}"]
    tunnels = any(s.forward == "ipip" and s.slots for s in extension.services)
    if service.forward == "ipip":
        way += ["encap4", "encap6"] if "ipv6" in families else ["encap4"]
    else:
        way += ["to-ipv6", "translated"] if service.forward == "siit" else []
        # What needs no tunnel passes the pipes of those that do, and misses them.
        way += ["encap4", "encap6", "plain"] if tunnels else []
    grows = [_grows(service, outer(extension, t)) for t in service.slots]
    own = 1 + 2 * len(service.slots) + (0 if service.forward == "l2" else len(targets))
    return Passage(tuple(way), _REWRITES[service.forward], own, sum(grows) / max(1, len(grows)), max(grows, default=0))


def answers_through(service: ExtendedService) -> Passage:
    """What answers to translate meet."""
    way = ("classifier", "to-ipv4", "answers")
    own = len(set(service.slots)) + 1
    return Passage(way, _REWRITES_OF_ANSWERS, own, IPV4_HEADER - IPV6_HEADER, IPV4_HEADER - IPV6_HEADER)


def _grows(service: ExtendedService, family: Family) -> int:
    if service.forward == "ipip":
        return IPV4_HEADER if family == "ipv4" else IPV6_HEADER
    return IPV6_HEADER - IPV4_HEADER if service.forward == "siit" else 0


def _selector(service: ExtendedService) -> tuple[object, ...]:
    """What services have in common that share a selector (datapath_ext/src/selector.c)."""
    fields, family, protocol = frozenset(service.hash_fields), "", ""
    if service.select == "slots":
        protocol = service.protocol
    elif service.select == "client":
        family = service.family if fields & {"src_ip", "dst_ip"} else ""
        protocol = service.protocol if fields & {"src_port", "dst_port"} else ""
    return service.select, service.forward, len(service.slots), fields, family, protocol
