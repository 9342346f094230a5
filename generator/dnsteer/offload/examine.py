"""Load a spec into the private switch, send it representative traffic, and judge every datapath flow that comes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from dnsteer.offload.capabilities import Profile
from dnsteer.offload.flow import Flow, Unreadable, read_flow
from dnsteer.offload.judge import Around, Judgement, judge
from dnsteer.offload.owners import Owner, Owners
from dnsteer.offload.path import Path, Verdict
from dnsteer.offload.split import shared_rules
from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan, ServiceRow
from dnsteer.proof.harness import Harness
from dnsteer.proof.reference import Frame, Reference
from dnsteer.proof.vectors import Vector, vectors
from dnsteer.proof.wire import TCP, UDP
from dnsteer.spec.load import Loaded
from dnsteer.spec.model import Hardware, Selection
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.tools import ovs_version

KINDS = ("query", "answer", "neighbor", "echo", "fragment", "odd", "drop")
"""Kinds of traffic in the order in which they are sent: a flow counts for the first kind that makes it."""
QUERIES = 8_000
"""Queries sent at most; of larger specs a sample of each service's slots. Reading 8,000 flows takes about ten seconds."""
_LEAST_SLOTS = 2
_ICMP = (1, 58)
_IN_HARDWARE = ("yes", "unknown")
_WORST: tuple[Verdict, ...] = ("no", "partial", "unknown", "yes")


@dataclass(frozen=True)
class Judged:
    """A datapath flow, the kind of traffic that made it, whose it is, and what hardware does with it."""

    flow: Flow | Unreadable
    kind: str
    owners: tuple[Owner, ...]
    judgement: Judgement


@dataclass
class Examination:
    """Everything that was seen. *sampled* is how many slots of each service were asked; None: all of them."""

    loaded: Loaded
    plan: Plan
    profile: Profile
    ovs: str
    judged: list[Judged] = field(default_factory=list)
    packets: dict[str, int] = field(default_factory=dict)
    sampled: int | None = None

    @cached_property
    def masks(self) -> int:
        """Distinct masks of all flows."""
        return _masks(j.flow for j in self.judged if isinstance(j.flow, Flow))

    @cached_property
    def of_owner(self) -> dict[Owner, list[Judged]]:
        """The flows that carry a service's usual queries and answers."""
        out: dict[Owner, list[Judged]] = defaultdict(list)
        for judged in self.judged:
            if judged.kind in ("query", "answer"):
                for owner in judged.owners:
                    out[owner].append(judged)
        return out

    @cached_property
    def paths(self) -> list[Path]:
        """One for each service, family and direction whose packets pass the switch."""
        rows = {(self._vip(row), f"{row.protocol}/{row.port}", row.family): row for row in self.plan.services}
        return [
            self._path(owner, rows[owner.vip, owner.service, owner.family], found)
            for owner, found in sorted(self.of_owner.items())
        ]

    def share_of(self, slots: int) -> float:
        """How many flows of a service one that was seen stands for."""
        return slots / self.sampled if self.sampled is not None and self.sampled < slots else 1.0

    def _vip(self, row: ServiceRow) -> str:
        return self._names[row.address]

    @cached_property
    def _names(self) -> dict[str, str]:
        return {str(a): name for name, vip in self.loaded.spec.vips.items() for a in vip.addresses}

    @cached_property
    def _slots(self) -> dict[int, int]:
        return {members.number: members.slots for members in self.plan.members}

    def _path(self, owner: Owner, row: ServiceRow, found: Sequence[Judged]) -> Path:
        vip = self.loaded.spec.vips[owner.vip]
        flows = [(j.flow, j.judgement) for j in found if isinstance(j.flow, Flow)]
        first = [judgement for flow, judgement in flows if not flow.recirculated]
        later = [judgement for flow, judgement in flows if flow.recirculated]
        slots = self._slots[row.pool]
        unseen = 0.0
        if owner.direction == "query" and row.slot_bits:
            unseen = sum(judgement.verdict in _IN_HARDWARE for judgement in first) * (self.share_of(slots) - 1)
        elif 0 < len(later) < slots:  # the hash was not asked for every slot
            unseen = slots - len(later)
        depths = [max((max(1, j.tables) for j in each), default=0) for each in (first, later)]
        return Path(
            vip=owner.vip,
            service=owner.service,
            family=owner.family,
            direction=owner.direction,
            mode=vip.forwarding.value,
            selection=self.loaded.spec.pools[vip.pool].selection.value,
            slots=slots,
            rules=rules_of(found) + round(unseen),
            passes=2 if later else 1,
            masks=_masks(flow for flow, _ in flows),
            match_bytes=max((judgement.match_bytes for _, judgement in flows), default=0),
            depth=max(1, sum(depths)),
            rewrites=max((sum(a.name.startswith("set.") for a in flow.every_action()) for flow, _ in flows), default=0),
            conntrack=any(a.name == "ct" for flow, _ in flows for a in flow.every_action()),
            offloaded=min((judgement.verdict for _, judgement in flows), key=_WORST.index, default="unknown"),
        )


def examine(
    loaded: Loaded, profile: Profile, *, queries: int = QUERIES, progress: Callable[[int], None] = lambda _: None
) -> Examination:
    """Send every kind of traffic that the spec knows of and judge the datapath flows by *profile*.

    Where the slots of all services are more than *queries*, a sample of each service's is asked.

    Raises SwitchError or UnavailableError when the private switch fails.
    """
    plan = build_plan(loaded)
    reference = Reference(loaded.spec)
    per_service = _sample(plan, queries)
    owners = Owners(loaded.spec, plan)
    out = Examination(loaded, plan, profile, ovs_version(), sampled=per_service)
    seen: dict[str, tuple[str, Flow | Unreadable]] = {}
    with Harness(plan) as harness:
        for kind, group in _by_kind(vectors(loaded.spec, reference, per_service=per_service)):
            frames = [Frame(v.port, v.data) for v in group]
            harness.send(frames)
            out.packets[kind] = len(frames)
            progress(len(frames))
            for line in harness.switch.dump("dpctl/dump-flows", "-m").splitlines():
                ufid = line.partition(",")[0]
                if ufid.startswith("ufid:") and ufid not in seen:
                    seen[ufid] = kind, read_flow(line)
    whose = owners.of(flow for _, flow in seen.values() if isinstance(flow, Flow))
    around = around_of(loaded, plan, conntrack=not hashes(loaded))  # bring-up turns it off for a hash
    for kind, flow in seen.values():
        found = whose[flow] if isinstance(flow, Flow) else ()
        out.judged.append(Judged(flow, _kind(kind, flow), found, judge(flow, profile, around)))
    return out


def _kind(kind: str, flow: Flow | Unreadable) -> str:
    """The kind of traffic; unusual neighbour requests are sent among what is unusual, and are neighbours' all the same."""
    if kind == "odd" and isinstance(flow, Flow) and flow.proto not in (UDP, TCP):
        asked = any(f.key.startswith(("arp.", "nd.")) for f in flow.match)
        return "neighbor" if asked else "echo" if flow.proto in _ICMP else kind
    return kind


def around_of(loaded: Loaded, plan: Plan, *, conntrack: bool) -> Around:
    """What verdicts depend on besides the flows. *conntrack*: it is offloaded where it is used."""
    switch = loaded.spec.switch
    wide = switch.hardware is Hardware.BLUEFIELD_3
    return Around(conntrack=conntrack and tracks(plan), inner=frozenset(switch.ports), wide=wide)


def rules_of(judged: Iterable[Judged]) -> int:
    """Hardware rules that flows take together: first rules of split ones that are the same are there once."""
    found = [j.judgement for j in judged if j.judgement.verdict in _IN_HARDWARE]
    own = sum(j.rules - len(j.parts) for j in found)
    return own + shared_rules(j.parts for j in found)


def tracks(plan: Plan) -> bool:
    """Whether the connection tracker is used at all."""
    return any(row.family == "ipv4" for row in plan.fragments)


def hashes(loaded: Loaded) -> list[str]:
    """The pools whose slots the switch's hash chooses, and that a VIP uses."""
    used = {vip.pool for vip in loaded.spec.vips.values()}
    return [n for n, pool in loaded.spec.pools.items() if pool.selection is Selection.DP_HASH and n in used]


def _masks(flows: Iterable[Flow]) -> int:
    return len({mask_of_match(flow.match) for flow in flows})


def _sample(plan: Plan, queries: int) -> int | None:
    """Slots to ask of each service; None where all of them are few enough."""
    slots = {members.number: members.slots for members in plan.members}
    if sum(slots[row.pool] for row in plan.services) <= queries:
        return None
    return max(_LEAST_SLOTS, queries // len(plan.services))


def _by_kind(stream: Iterable[Vector]) -> Iterable[tuple[str, list[Vector]]]:
    found = sorted(stream, key=lambda v: (KINDS.index(v.kind), v.port))
    return ((kind, list(group)) for kind, group in groupby(found, key=lambda v: v.kind))
