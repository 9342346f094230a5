# SPDX-License-Identifier: Apache-2.0
"""Load a spec into the private switch, send representative traffic, and judge every datapath flow that results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from dnsteer.modes import MODES
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable, read_flow
from dnsteer.offload.extension_part import WORST_FIRST, ExtensionPart, extension_parts, hops_of
from dnsteer.offload.judge import Judgement, OffloadContext, judge, weakest
from dnsteer.offload.offload_context import CT_IPV6, dp_hash_pools, needs_ct_ipv6, offload_context_of
from dnsteer.offload.owners import Owner, Owners
from dnsteer.offload.packet_path import PacketPath, Verdict
from dnsteer.offload.split import shared_rules
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.reference.wire import TCP, UDP
from dnsteer.proof.traffic.vectors import Vector, vectors
from dnsteer.slots import dp_hash
from dnsteer.spec import derived
from dnsteer.spec.derived import slot_count
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Flavor, Selection
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.megaflow_fields import Field
from dnsteer.tables.passes import passes_of
from dnsteer.tables.vip import ServiceRow

IN_HARDWARE = ("yes", "unknown")
MatchFields = tuple[Field, ...]
_SLOT = ("dp_hash", "udp.src", "tcp.src", "ipv4.src", "ipv6.src")


def match_without_slot(flow: DatapathFlow) -> MatchFields:
    """Return the match without the fields that select the slot: equal for all slots of a service at one uplink."""
    return tuple(f for f in flow.match if f.key not in _SLOT)


def flow_weights(flows: Iterable[tuple[DatapathFlow, int]]) -> dict[DatapathFlow, float]:
    """Return how many flows each flow represents, given its service's number of slots, or hash values, per uplink."""
    alike: dict[MatchFields, dict[DatapathFlow, int]] = defaultdict(dict)
    for flow, many in flows:
        alike[match_without_slot(flow)][flow] = many
    return {flow: max(1.0, many / len(group)) for group in alike.values() for flow, many in group.items()}


def recirculates(flow: DatapathFlow) -> bool:
    """Whether its packets pass the datapath again."""
    return any(action.name == "recirc" for action in flow.every_action())


def rules_of(
    found: Iterable[tuple[DatapathFlow | Unreadable, Judgement]], weights: Mapping[DatapathFlow, float]
) -> int:
    """Return the number of hardware rules of all flows together: identical first rules of split matches count once.

    *weights* is how many flows each flow represents; 1 if it is not listed.
    """
    held = [(flow, j) for flow, j in found if j.verdict in IN_HARDWARE and isinstance(flow, DatapathFlow)]
    more = sum((weights.get(flow, 1.0) - 1) * _own(j) for flow, j in held)
    return sum(j.rules - len(j.parts) for _, j in held) + shared_rules(j.parts for _, j in held) + round(more)


def _own(judgement: Judgement) -> int:
    """Return the rules that one more such flow takes. If the first of several rules matches the hash, none is shared."""
    first = judgement.parts[0].fields if len(judgement.parts) > 1 else ()
    shared = len(judgement.parts) - 1 if all(f.key != "dp_hash" for f in first) else 0
    return judgement.rules - shared


KINDS = ("query", "answer", "probe", "neighbor", "echo", "error", "own", "fragment", "unusual", "drop")
"""Kinds of traffic in the order in which they are sent: a flow counts for the first kind that creates it."""
QUERIES = 8_000
"""Maximum queries sent; larger specs get a sample of each service's slots. Reading 8,000 flows takes about 3 s."""
_LEAST_SLOTS = 2
_ICMP = (1, 58)


@dataclass(frozen=True)
class JudgedFlow:
    """A datapath flow, the kind of traffic that created it, its owners, and the verdict on it."""

    flow: DatapathFlow | Unreadable
    kind: str
    owners: tuple[Owner, ...]
    judgement: Judgement

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "flow": self.flow.text,
            "kind": self.kind,
            "owners": [asdict(owner) for owner in self.owners],
            "judgement": self.judgement.as_json(),
        }


@dataclass
class Examination:
    """The datapath flows that traffic created. *sampled* is how many slots of each service were tested; None: all."""

    loaded: Loaded
    plan: Plan
    profile: Profile
    ovs: str
    context: OffloadContext = field(default_factory=OffloadContext)
    judged: list[JudgedFlow] = field(default_factory=list)
    packets: dict[str, int] = field(default_factory=dict)
    sampled: int | None = None

    @cached_property
    def masks(self) -> int:
        """The number of distinct masks of all flows but those of the agent's probes."""
        return _masks(
            j.flow for j in self.judged if isinstance(j.flow, DatapathFlow) and not self.is_agent_flow(j.flow)
        )

    def is_agent_flow(self, flow: DatapathFlow) -> bool:
        """Whether packets of a flow come by the port for probes, which only the agent uses."""
        probe = self.loaded.spec.switch.probe
        return probe is not None and f"in_port({probe.port})" in flow.text

    @cached_property
    def of_owner(self) -> dict[Owner, list[JudgedFlow]]:
        """The flows that carry a service's usual queries or answers, by owner."""
        out: dict[Owner, list[JudgedFlow]] = defaultdict(list)
        for judged in self.judged:
            if judged.kind in ("query", "answer"):
                for owner in judged.owners:
                    out[owner].append(judged)
        return out

    @cached_property
    def paths(self) -> list[PacketPath]:
        """One path for each service, family and direction whose packets pass the switch."""
        return [self._path(owner, found) for owner, found in sorted(self.of_owner.items())]

    @cached_property
    def weights(self) -> dict[DatapathFlow, float]:
        """How many flows each flow represents, including those of slots not tested and hash values not seen."""
        usual = [
            (j.flow, j.owners[0])
            for j in self.judged
            if j.kind == "query" and j.owners and isinstance(j.flow, DatapathFlow)
        ]
        own = [(flow, owner) for flow, owner in usual if owner not in self.extension_parts]
        hashed = [(flow, self.hash_values(owner)) for flow, owner in own if flow.get("dp_hash")]
        direct = [
            (flow, self._slots[owner])
            for flow, owner in own
            if not self._hashed(owner)
            and flow.recirculated
            == (self.has_two_passes(owner) or self.is_listed(owner) or self.has_client_limit(owner))
            and any(f.key in _SLOT for f in flow.match)
            and not (self.has_client_limit(owner) and recirculates(flow))
        ]
        return flow_weights([*hashed, *direct, *self._of_buckets()])

    def _of_buckets(self) -> Iterator[tuple[DatapathFlow, int]]:
        """Yield the flows in which queries find their client's bucket, with the number of buckets."""
        for j in self.judged:
            flow, owner = j.flow, next(iter(j.owners), None)
            if j.kind != "query" or not isinstance(flow, DatapathFlow):
                continue
            if owner is None or not self.has_client_limit(owner):
                continue
            limits = self.loaded.spec.vips[owner.vip].limits
            of_pass = flow.recirculated == self.is_listed(owner) and recirculates(flow)
            if of_pass and limits is not None and limits.clients is not None and flow.get(f"{owner.family}.src"):
                yield flow, limits.clients.buckets

    @cached_property
    def extension_parts(self) -> Mapping[Owner, ExtensionPart]:
        """The extension's part of the path, by owner."""
        return extension_parts(self.plan)

    def flow_count(self, judged: Iterable[JudgedFlow]) -> int:
        """Return the number of flows that these represent."""
        return round(sum(self.weights.get(j.flow, 1.0) if isinstance(j.flow, DatapathFlow) else 1.0 for j in judged))

    def rule_count(self, judged: Iterable[JudgedFlow]) -> int:
        """Return the number of hardware rules of all flows that these represent."""
        return self._rules((j.flow, j.judgement) for j in judged)

    def _rules(self, found: Iterable[tuple[DatapathFlow | Unreadable, Judgement]]) -> int:
        return rules_of(found, self.weights)

    def hash_values(self, owner: Owner) -> int:
        """Return how many values the hash of the owner's pool has, in the Open vSwitch release with most."""
        return dp_hash.hash_values_newer(self._slots[owner])

    def has_two_passes(self, owner: Owner) -> bool:
        """Whether the owner's queries find their slot in a second pass, which the hash does not select."""
        twice = self._passes.get(self.loaded.spec.vips[owner.vip].pool) == 2
        return owner.direction == "query" and (twice or self.is_kept(owner)) and not self._hashed(owner)

    def is_kept(self, owner: Owner) -> bool:
        """Whether the connections of the owner's clients are kept, by a pass of their own."""
        return derived.keeps(self.loaded.spec.vips[owner.vip]) and owner.service.startswith("tcp")

    def is_listed(self, owner: Owner) -> bool:
        """Whether an access list looks at the owner's queries, in a pass of its own."""
        spec = self.loaded.spec
        lists = spec.switch.access, spec.vips[owner.vip].access
        return owner.direction == "query" and any(each is not None for each in lists)

    def has_client_limit(self, owner: Owner) -> bool:
        """Whether the clients of the owner's queries have a limit, whose bucket is found in a pass of its own."""
        limits = self.loaded.spec.vips[owner.vip].limits
        return owner.direction == "query" and limits is not None and limits.clients is not None

    def _pass_count(self, owner: Owner, recirculated: bool, hops: bool) -> int:
        """How often the owner's packets pass the datapath."""
        if owner.direction != "query":
            return 2 if recirculated or hops else 1
        again = hops or self.has_two_passes(owner)
        hashes = 1 + self.is_kept(owner) if self._hashed(owner) else 0
        return 1 + self.is_listed(owner) + self.has_client_limit(owner) + again + hashes

    @cached_property
    def _passes(self) -> Mapping[str, int]:
        return passes_of(self.loaded.spec, MODES)

    def _hashed(self, owner: Owner) -> bool:
        return self.loaded.spec.pools[self.loaded.spec.vips[owner.vip].pool].selection is Selection.DP_HASH

    @cached_property
    def _slots(self) -> dict[Owner, int]:
        pools = slots_by_pool(self.loaded)
        return {owner: pools[self.loaded.spec.vips[owner.vip].pool] for j in self.judged for owner in j.owners}

    def _path(self, owner: Owner, found: Sequence[JudgedFlow]) -> PacketPath:
        vip, part = self.loaded.spec.vips[owner.vip], self.extension_parts.get(owner)
        flows = [(j.flow, j.judgement) for j in found if isinstance(j.flow, DatapathFlow)]
        first = [judgement for flow, judgement in flows if not flow.recirculated]
        later = [judgement for flow, judgement in flows if flow.recirculated]
        hops = hops_of(part, flows, self._rules) if part is not None else ()
        depths = [max((max(1, j.tables) for j in each), default=0) for each in (first, later)]
        if hops:  # two paths through the switch, one after the other
            depths = [hop.tables for hop in hops if hop.by == "switch"]
        verdict: Verdict = min((judgement.verdict for _, judgement in flows), key=WORST_FIRST.index, default="unknown")
        return PacketPath(
            vip=owner.vip,
            service=owner.service,
            family=owner.family,
            direction=owner.direction,
            mode=vip.forwarding.value,
            selection=self.loaded.spec.pools[vip.pool].selection.value,
            slots=self._slots[owner],
            rules=self.rule_count(found),
            shared=self._rules((f, j) for f, j in flows if f.recirculated) if self.has_two_passes(owner) else 0,
            passes=self._pass_count(owner, bool(later), bool(hops)),
            masks=_masks(flow for flow, _ in flows),
            match_bytes=max((judgement.match_bytes for _, judgement in flows), default=0),
            depth=max(1, sum(depths)),
            rewrites=max((sum(a.name.startswith("set.") for a in flow.every_action()) for flow, _ in flows), default=0),
            conntrack=any(a.name == "ct" for flow, _ in flows for a in flow.every_action()),
            offloaded=verdict,
            certainty=weakest(judgement.certainty for _, judgement in flows if judgement.verdict == verdict),
            hops=hops,
            pushed=_pushed(flow for flow, _ in flows),
        )


def _pushed(flows: Iterable[DatapathFlow]) -> float:
    """The mean of the bytes that tunnels put before a packet, of the flows that make some."""
    actions = (action for flow in flows for action in flow.every_action() if action.name == "tnl_push")
    sizes = [int(action.args["header"]["size"]) for action in actions]
    return sum(sizes) / len(sizes) if sizes else 0.0


def examine(
    loaded: Loaded, profile: Profile, *, queries: int = QUERIES, progress: Callable[[int], None] = lambda _: None
) -> Examination:
    """Send every kind of traffic that concerns the spec and judge the datapath flows by *profile*.

    If all services together have more slots than *queries*, only a sample of each service's slots is tested. *progress* is
    called with the number of packets sent since the last call.

    Raises SwitchError or UnavailableError if the private switch fails.
    """
    plan = build_plan(loaded)
    reference = Reference(loaded.spec)
    per_service = _sample(plan, queries)
    owners = Owners(plan)
    # Bring-up turns the offload of connection tracking off if a pool uses dp-hash.
    conntrack, enabled = not dp_hash_pools(loaded), [CT_IPV6] if needs_ct_ipv6(loaded, plan) else []
    context = offload_context_of(loaded, plan, conntrack=conntrack, enabled=enabled, flavor=Flavor(profile.flavor))
    by_ufid: dict[str, tuple[str, DatapathFlow | Unreadable]] = {}
    with Harness(plan) as harness:
        out = Examination(loaded, plan, profile, harness.switch.version(), context, sampled=per_service)
        for kind, group in _by_kind(vectors(loaded.spec, reference, per_service=per_service)):
            frames = [Frame(v.port, v.data) for v in group]
            for way in harness.bond_ways():
                if not way.down:  # by each member of a bond, while all have a link
                    harness.use_bonds(way)
                    harness.send(frames)
                    out.packets[kind] = out.packets.get(kind, 0) + len(frames)
                    progress(len(frames))
            for line in harness.switch.dump("dpctl/dump-flows", "-m").splitlines():
                ufid = line.partition(",")[0]
                if ufid.startswith("ufid:") and ufid not in by_ufid:
                    by_ufid[ufid] = kind, read_flow(line)
    whose = owners.of(flow for _, flow in by_ufid.values() if isinstance(flow, DatapathFlow))
    slots = slots_by_pool(loaded)
    usual = {match_without_slot(f) for kind, f in by_ufid.values() if kind == "query" and isinstance(f, DatapathFlow)}
    for kind, flow in by_ufid.values():
        found = whose[flow] if isinstance(flow, DatapathFlow) else ()
        own_context = context
        if isinstance(flow, DatapathFlow) and flow.get("dp_hash") and found:
            own_context = replace(context, hash_bits=dp_hash.hash_bits(slots[loaded.spec.vips[found[0].vip].pool]))
            if match_without_slot(flow) in usual:  # a hash value that no query had
                kind = "query"
        out.judged.append(JudgedFlow(flow, _kind(kind, flow), found, judge(flow, profile, own_context)))
    out.judged.sort(key=_place)  # dumps are in random order, and the output must be reproducible
    return out


def _place(judged: JudgedFlow) -> tuple[int, str]:
    """Return the sort key of a flow: its kind, then its match without the ufid."""
    match = judged.flow.text.partition(", packets:")[0]
    return KINDS.index(judged.kind), match[max(0, match.find("recirc_id(")) :]


def slots_by_pool(loaded: Loaded) -> dict[str, int]:
    """Return the number of slots of each pool."""
    return {name: slot_count(loaded.spec, pool) for name, pool in loaded.spec.pools.items()}


def _kind(kind: str, flow: DatapathFlow | Unreadable) -> str:
    """Return the kind of a flow; "unusual" packets of ARP, neighbour discovery or ICMP become "neighbor" or "echo"."""
    if kind == "unusual" and isinstance(flow, DatapathFlow) and flow.proto not in (UDP, TCP):
        asked = any(f.key.startswith(("arp.", "nd.")) for f in flow.match)
        return "neighbor" if asked else "echo" if flow.proto in _ICMP else kind
    return kind


def _masks(flows: Iterable[DatapathFlow]) -> int:
    return len({mask_of_match(flow.match) for flow in flows})


def _sample(plan: Plan, queries: int) -> int | None:
    """Return how many slots to test of each service; None to test all, if that takes at most *queries* queries."""
    slots = {members.number: members.slots for members in plan.members}
    if sum(slots[row.pool] for row in plan.rows.of(ServiceRow)) <= queries:
        return None
    return max(_LEAST_SLOTS, queries // len(plan.rows.of(ServiceRow)))


def _by_kind(stream: Iterable[Vector]) -> Iterable[tuple[str, list[Vector]]]:
    found = sorted(stream, key=lambda v: (KINDS.index(v.kind), v.port))
    return ((kind, list(group)) for kind, group in groupby(found, key=lambda v: v.kind))
