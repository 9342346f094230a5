"""What lint says of an examined spec: the findings, and the totals that an operator needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dnsteer.offload import codes
from dnsteer.offload.capacity.data import published
from dnsteer.offload.examine import Examination, Judged, hashes, rules_of, tracks
from dnsteer.offload.findings import Finding, accept, ordered, worst
from dnsteer.offload.flow import Flow, Unreadable
from dnsteer.offload.judge import Reason
from dnsteer.offload.masks.bound import Bound, mask_bound
from dnsteer.offload.path import Path
from dnsteer.offload.said import finding, why
from dnsteer.offload.services import of_services
from dnsteer.spec.errors import Path as SpecPath

FLOW_LIMIT = 200_000
"""`other_config:flow-limit` where it is not set (vswitch.xml of Open vSwitch)."""
_SWITCH: SpecPath = ("switch",)


@dataclass
class Report:
    """The result: *rules* and *flows* are estimates of the whole where slots were sampled."""

    examination: Examination
    findings: list[Finding]
    paths: list[Path]
    bound: Bound
    rules: int
    flows: int

    @property
    def offloaded(self) -> float:
        """The share of the services' datapath flows that hardware takes, 0 to 1."""
        found = [j for flows in self.examination.of_owner.values() for j in flows]
        return sum(j.judgement.verdict == "yes" for j in found) / len(found) if found else 0.0

    @property
    def in_software(self) -> dict[str, Counter[str]]:
        """What the CPU forwards: by kind of traffic, the reasons and how many flows have them."""
        out: dict[str, Counter[str]] = defaultdict(Counter)
        for judged in self.examination.judged:
            if judged.judgement.verdict != "yes":
                out[judged.kind][why(judged)] += 1
        return dict(out)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        seen = self.examination
        severity = worst(self.findings)
        return {
            "ok": severity is None,
            "worst": severity.value if severity else None,
            "file": seen.loaded.file,
            "profile": seen.profile.name,
            "ovs": seen.ovs,
            "packets": seen.packets,
            "sampled_slots": seen.sampled,
            "offloaded_share": round(self.offloaded, 4),
            "hardware_rules": self.rules,
            "datapath_flows": self.flows,
            "masks_seen": seen.masks,
            "masks_bound": self.bound.total,
            "masks_budget": seen.loaded.spec.lint.masks,
            "paths": [asdict(path) for path in self.paths],
            "in_software": {kind: dict(found) for kind, found in self.in_software.items()},
            "findings": [finding.as_json() for finding in self.findings],
        }


def lint(seen: Examination) -> Report:
    """Judge an examination as a whole."""
    bound = mask_bound(seen.plan)
    paths = seen.paths
    flows, rules = _totals(seen, paths)
    found: list[Finding] = []
    if not seen.profile.hardware:
        found.append(finding(seen, codes.SOFTWARE_FLAVOR, _SWITCH, f"{seen.profile.title}: the CPU forwards everything",
                                   "see what hardware would do: --flavor ovs-doca"))  # fmt: skip
    else:
        found += of_services(seen)
        found += _of_the_rest(seen)
        found += _of_the_whole(seen, flows, rules)
    found += _of_masks(seen, bound)
    found += _of_unreadable(seen)
    return Report(seen, ordered(accept(found, seen.loaded)), paths, bound, rules, flows)


def _of_the_rest(seen: Examination) -> Iterator[Finding]:
    """Fragments, neighbours, unusual packets and what is dropped: one finding for each reason."""
    sorts = {
        "fragment": (codes.FRAGMENTS, "fragments"),
        "neighbor": (codes.NEIGHBORS, "ARP and neighbour discovery"),
        "echo": (codes.NEIGHBORS, "echo requests"),
        "odd": (codes.UNUSUAL, "unusual packets"),
        "drop": (codes.REFUSED, "dropped packets"),
    }
    found: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for judged in seen.judged:
        if judged.kind in sorts and judged.judgement.verdict != "yes":
            found[judged.kind, why(judged)].append(judged)
    for (kind, reason), flows in found.items():
        code, what = sorts[kind]
        yield finding(seen, code, _SWITCH, f"{what}: {len(flows)} datapath flows not in hardware: {reason}", "", flows)


def _of_the_whole(seen: Examination, flows: int, rules: int) -> Iterator[Finding]:
    if flows > FLOW_LIMIT:
        text = f"about {flows:,} datapath flows, and flow-limit is {FLOW_LIMIT:,} where it is not set"
        yield finding(
            seen, codes.FLOW_LIMIT, _SWITCH, text, f"set other_config:flow-limit to {2 * flows:,} (bringup does)"
        )
    counters = seen.profile.limits.get("counters")
    if counters is not None and counters.value is not None and flows > counters.value:
        text = (
            f"about {flows:,} datapath flows, and there are {counters.value:,} counters, one for each that is offloaded"
        )
        reason = Reason("limit", "counters", "no", counters.note or text, counters.source, counters.certainty)
        advice = "fewer slots or services, or several switches"
        yield finding(seen, codes.COUNTERS, _SWITCH, text, advice, reasons=(reason,))
    yield from of_the_card(seen, rules)
    pools = hashes(seen.loaded)
    if pools and tracks(seen.plan) and "dp_hash_with_conntrack" in seen.profile.limits:
        limit = seen.profile.limits["dp_hash_with_conntrack"]
        text = f"pool {', '.join(pools)} selects by dp-hash, and NAT VIPs restore IPv4 fragments by tracking them"
        reason = Reason("limit", "dp_hash_with_conntrack", "no", limit.note or text, limit.source, limit.certainty)
        advice = "hw-offload-ct-size=0 (bringup sets it), or selection: source-port, or fragments: drop"
        yield finding(seen, codes.HASH_AND_CONNTRACK, ("pools", pools[0], "selection"), text, advice, reasons=(reason,))


def of_the_card(seen: Examination, rules: int) -> Iterator[Finding]:
    """More rules than the card is known to hold, where the spec names it."""
    hardware = seen.loaded.spec.switch.hardware
    facts = published(hardware).facts if hardware is not None else None
    if hardware is not None and facts is not None and rules > facts.max_entries.value:
        most = facts.max_entries
        text = (
            f"about {rules:,} hardware rules, and {hardware.value} has {most.value:,.0f} ({most.about}; {most.source})"
        )
        advice = "fewer slots or services, or several switches"
        yield finding(seen, codes.TABLE_SIZE, (*_SWITCH, "hardware"), text, advice)


def _of_masks(seen: Examination, bound: Bound) -> Iterator[Finding]:
    budget = seen.loaded.spec.lint.masks
    if bound.total > budget:
        text = f"any traffic can make up to {bound.total} masks, and the budget is {budget}: {'; '.join(bound.why)}"
        yield finding(seen, codes.MASK_BUDGET, ("lint", "masks"), text, "see --explain DNS030")
    if seen.masks > bound.total:
        text = f"{seen.masks} masks were seen and {bound.total} were computed (Open vSwitch {seen.ovs})"
        yield finding(seen, codes.MASK_BOUND_WRONG, _SWITCH, text, "report it")


def _of_unreadable(seen: Examination) -> Iterator[Finding]:
    for judged in seen.judged:
        if isinstance(judged.flow, Unreadable):
            text = f"{judged.flow.problem}: {judged.flow.text[:200]}"
            yield finding(seen, codes.UNREADABLE, _SWITCH, text, "report it with this line", [judged])


def _totals(seen: Examination, paths: Sequence[Path]) -> tuple[int, int]:
    """Datapath flows and hardware rules of the whole, with the slots that were not asked."""
    flows, rules = len(seen.judged), rules_of(seen.judged)
    for path, (_, judged) in zip(paths, sorted(seen.of_owner.items()), strict=True):
        more = path.rules - rules_of(judged)
        rules += more
        if path.direction == "query" and path.selection == "source-port":
            first = [j for j in judged if isinstance(j.flow, Flow) and not j.flow.recirculated]
            flows += round(len(first) * (seen.share_of(path.slots) - 1))
    return flows, rules
