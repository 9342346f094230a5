# SPDX-License-Identifier: Apache-2.0
"""The extension's part of a path: between the bridge's two extension ports, another program handles the packets.

No profile judges that part, since it is not a datapath flow. Known are only the program's hardware needs, from the plan, and
that none of it has run on hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dnsteer.modes import BY_PROGRAM
from dnsteer.modes.extension import ExtendedService
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.offload.judge import Judgement, weakest
from dnsteer.offload.owners import Owner
from dnsteer.offload.packet_path import Hop, Verdict
from dnsteer.plan.extension.pipes import (
    PipePath,
    answers_through,
    counters_of,
    entries,
    pipes_of,
    queries_through,
)
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.plan.plan import Plan
from dnsteer.tables.vip import ServiceRow

_NOT_RUN = (
    "it has never run on a BlueField; public programs and documents show its parts, but never all of them together"
)
_NOT_SHOWN = "no public program shows how answers are translated from IPv6 to IPv4"
WORST_FIRST: tuple[Verdict, ...] = ("no", "partial", "unknown", "yes")
Pairs = Sequence[tuple[DatapathFlow, Judgement]]


def untested_text(*, siit: bool) -> str:
    """Return which of the extension's features are untested on hardware; *siit*: translation is one of them."""
    return f"{_NOT_RUN}; {_NOT_SHOWN}" if siit else _NOT_RUN


def untested_text_of(part: ExtensionPlan) -> str:
    """Return untested_text for all services of a program."""
    return untested_text(siit=any(BY_PROGRAM[service.forward].translates for service in part.services))


@dataclass(frozen=True)
class ExtensionPart:
    """A service's queries or answers between the extension's ports; *returned* counts the datapath flows after it."""

    enters: str
    leaves: str
    pipe_paths: tuple[PipePath, ...]
    returned: int

    @property
    def hop(self) -> Hop:
        """The part as a hop; tables, rewrites and pipes are those of the longest path."""
        longest = max(self.pipe_paths, key=lambda p: (len(p.pipes), p.rewrites))
        return Hop(
            by="extension",
            enters=(self.enters,),
            leaves=(self.leaves,),
            rules=sum(p.entries for p in self.pipe_paths),
            tables=len(longest.pipes),
            rewrites=longest.rewrites,
            offloaded="unknown",
            certainty="unknown",
            grows=sum(p.grows for p in self.pipe_paths) / len(self.pipe_paths),
            most=max(p.most for p in self.pipe_paths),
            pipes=longest.pipes,
        )


def extension_parts(plan: Plan) -> Mapping[Owner, ExtensionPart]:
    """Return the extension's part of each path through it, by owner."""
    part = plan.extension
    if part is None:
        return {}
    names = {
        (row.address, row.protocol, row.port): str(row.subject.path[1])
        for row in plan.rows.of(ServiceRow)
        if row.extended
    }
    by_owner: dict[Owner, list[ExtendedService]] = {}
    for service in part.services:
        if service.slots:
            name = names[service.address, service.protocol, service.port]
            owner = Owner(name, f"{service.protocol}/{service.port}", service.family, "query")
            by_owner.setdefault(owner, []).append(service)
    out: dict[Owner, ExtensionPart] = {}
    for owner, services in by_owner.items():
        queries = tuple(queries_through(part, service) for service in services)
        out[owner] = ExtensionPart(part.ingress.name, part.egress.name, queries, _returned(part, services))
        if BY_PROGRAM[services[0].forward].translates:
            answers = tuple(answers_through(service) for service in services)
            answers_owner = Owner(owner.vip, owner.service, owner.family, "answer")
            out[answers_owner] = ExtensionPart(part.egress.name, part.ingress.name, answers, 1)
    return out


def _returned(part: ExtensionPlan, services: Sequence[ExtendedService]) -> int:
    """Return the number of datapath flows for returned packets: one for each MAC address, family and protocol."""
    ends = ((service, part.targets[name]) for service in services for name in service.slots)
    return len({(target.mac, BY_PROGRAM[s.forward].returned_as(s, target)) for s, target in ends})


def hops_of(part: ExtensionPart, flows: Pairs, rules: Callable[[Pairs], int]) -> tuple[Hop, ...]:
    """Return a path's hops: the switch towards the extension, the extension, and the switch for the returned packets."""
    ports = (part.enters, part.leaves)
    outbound = [(flow, judgement) for flow, judgement in flows if in_port_of(flow) not in ports]
    returned = [(flow, judgement) for flow, judgement in flows if in_port_of(flow) in ports]
    switched = [_switched(pairs, rules(pairs)) if pairs else None for pairs in (outbound, returned)]
    return tuple(hop for hop in (switched[0], part.hop, switched[1]) if hop is not None)


def in_port_of(flow: DatapathFlow) -> str:
    """Return the port by which a flow's packets come in; empty if the flow does not match it."""
    found = flow.get("in_port")
    return str(found.value) if found is not None else ""


def _switched(flows: Pairs, rules: int) -> Hop:
    actions = [action for flow, _ in flows for action in flow.every_action()]
    verdict: Verdict = min((judgement.verdict for _, judgement in flows), key=WORST_FIRST.index)
    return Hop(
        by="switch",
        enters=tuple(dict.fromkeys(sorted(in_port_of(flow) for flow, _ in flows))),
        leaves=tuple(sorted({action.port for action in actions if action.port})),
        rules=rules,
        tables=max(max(1, judgement.tables) for _, judgement in flows),
        rewrites=max(sum(a.name.startswith("set.") for a in flow.every_action()) for flow, _ in flows),
        offloaded=verdict,
        certainty=weakest(judgement.certainty for _, judgement in flows if judgement.verdict == verdict),
        match_bytes=max(judgement.match_bytes for _, judgement in flows),
    )


def program_json(plan: Plan) -> dict[str, Any] | None:
    """Return the program's hardware needs as a JSON object; None if there is no extension."""
    part = plan.extension
    if part is None:
        return None
    pipes = pipes_of(part)
    return {
        "ingress": part.ingress.name,
        "egress": part.egress.name,
        "offload": "unknown",
        "certainty": "unknown",
        "about": f"this is the program's work and not Open vSwitch's, so it is not judged; {untested_text_of(part)}",
        "pipes": [{"name": pipe.name, "entries": pipe.entries} for pipe in pipes],
        "entries": entries(pipes),
        "counters": counters_of(part),
        "budgets": dict(part.budgets),
    }
