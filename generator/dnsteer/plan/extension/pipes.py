# SPDX-License-Identifier: Apache-2.0
"""The hardware resources of the extension's program: its pipes, their entries, and a packet's path through them.

Counted from the plan as datapath_ext/src does it (its README draws the pipes). An entry is one rule that the program asks
for; how many rules of hardware the library makes of it is not published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dnsteer.modes import BY_PROGRAM
from dnsteer.modes.extension import ExtendedService, Pipe
from dnsteer.plan.extension.build import OWN_COUNTERS
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.spec.derived import IPV4_HEADER, IPV6_HEADER

DROP_ENTRIES = 6
"""Entries of each classifier for what is dropped: malformed headers and fragments of both families, wrong checksums, all
else."""
_REWRITES_OF_ANSWERS = 2
"""A new header, and an address in it."""


@dataclass(frozen=True)
class PipePath:
    """A packet's path between the two ports: names of *pipes* in order, and rewritten header fields.

    *entries* are those of the service alone, and of the selector that it may share. *grows* is by how many bytes packets
    become longer, the mean over the slots; *most* the greatest.
    """

    pipes: tuple[str, ...]
    rewrites: int
    entries: int
    grows: float
    most: int


def pipes_of(extension: ExtensionPlan) -> tuple[Pipe, ...]:
    """All pipes that a program of this plan has."""
    services = [s for s in extension.services if s.slots]
    probed = [s for s in extension.services if s.probes]
    answers = [(s.name, t) for s in services if BY_PROGRAM[s.forward].translates for t in set(s.slots)]
    answers += [(s.name, t) for s in probed if BY_PROGRAM[s.forward].translates for t in s.probes]
    out = [
        Pipe("classifier (queries)", len(services) + len(probed) + DROP_ENTRIES),
        Pipe("classifier (answers)", len(answers) + DROP_ENTRIES),
    ]
    selectors = {_selector(s): Pipe(selector_name(s), len(s.slots)) for s in services}
    selectors |= {_probe_selector(s): Pipe(f"probes{len(s.probes)}-{s.forward}", len(s.probes)) for s in probed}
    out += selectors.values()
    reached = [s for s in extension.services if s.reached]
    used = {f: [s for s in reached if s.forward == f] for f in sorted({s.forward for s in reached})}
    out += [Pipe(f"slots-{forward}", sum(map(_slots, own))) for forward, own in used.items()]
    for forward, own in used.items():
        out += BY_PROGRAM[forward].pipes(own, extension.targets)
    return tuple(out)


def counters_of(extension: ExtensionPlan) -> int:
    """Counters in use: one for each slot and each backend that is probed, and the program's own."""
    return sum(map(_slots, extension.services)) + OWN_COUNTERS


def entries(pipes: Iterable[Pipe]) -> int:
    """Entries of all these pipes."""
    return sum(pipe.entries for pipe in pipes)


def selector_name(service: ExtendedService) -> str:
    """The name of the pipe that chooses a service's slot."""
    return f"{service.select}{len(service.slots)}-{service.forward}"


def queries_through(extension: ExtensionPlan, service: ExtendedService) -> PipePath:
    """Return the path of a service's queries, the longest if backends differ."""
    mode, targets = BY_PROGRAM[service.forward], [extension.targets[name] for name in service.slots]
    pipes = (
        "classifier",
        selector_name(service),
        f"slots-{service.forward}",
        *mode.stages({t.family for t in targets}),
    )
    grows = [mode.added_bytes(target) for target in targets]
    own = 1 + 2 * len(service.slots) + (len(set(service.slots)) if mode.by_extension else 0)
    return PipePath(pipes, mode.query_rewrites, own, sum(grows) / max(1, len(grows)), max(grows, default=0))


def answers_through(service: ExtendedService) -> PipePath:
    """Return the path of answers that are translated."""
    pipes = ("classifier", "to-ipv4", "answers")
    own = len(set(service.slots)) + 1
    return PipePath(pipes, _REWRITES_OF_ANSWERS, own, IPV4_HEADER - IPV6_HEADER, IPV4_HEADER - IPV6_HEADER)


def _slots(service: ExtendedService) -> int:
    return len(service.slots) + len(service.probes)


def _probe_selector(service: ExtendedService) -> tuple[object, ...]:
    return "probes", service.forward, tuple(service.probes.values()), service.protocol


def _selector(service: ExtendedService) -> tuple[object, ...]:
    """Return the key by which services share a selector (datapath_ext/src/selector.c)."""
    fields, family, protocol = frozenset(service.hash_fields), "", ""
    if service.select == "slots":
        protocol = service.protocol
    elif service.select == "client":
        family = service.family if fields & {"src_ip", "dst_ip"} else ""
        protocol = service.protocol if fields & {"src_port", "dst_port"} else ""
    return service.select, service.forward, len(service.slots), fields, family, protocol
