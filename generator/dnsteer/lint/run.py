"""What lint says of an examined spec: the findings, and the totals that an operator needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dnsteer.lint import codes
from dnsteer.lint.extension import of_the_extension
from dnsteer.lint.findings import Finding, accept, ordered, worst
from dnsteer.lint.mask_findings import of_masks
from dnsteer.lint.masks.bound import Bound, mask_bound
from dnsteer.lint.services import of_services
from dnsteer.lint.slot_numbers import of_slot_numbers
from dnsteer.lint.totals import of_scans, of_the_settings, of_the_whole
from dnsteer.lint.wording import finding, plain, why
from dnsteer.offload.examine import KINDS, Examination, Judged
from dnsteer.offload.extension import program_json
from dnsteer.offload.flow import Unreadable
from dnsteer.offload.judge import Reason
from dnsteer.offload.path import Path, Verdict
from dnsteer.offload.profile import JUDGED_AS, profile
from dnsteer.spec.errors import Path as SpecPath

_SWITCH: SpecPath = ("switch",)
_VERDICTS: tuple[Verdict, ...] = ("yes", "unknown", "partial", "no")


@dataclass
class Report:
    """The result: *rules* and *flows* are estimates of the whole where not all slots or values of a hash were seen."""

    examination: Examination
    findings: list[Finding]
    paths: list[Path]
    bound: Bound
    rules: int
    flows: int

    @property
    def offloaded(self) -> float:
        """The share of the services' datapath flows that hardware takes, 0 to 1."""
        return self.shares["yes"]

    @cached_property
    def shares(self) -> dict[Verdict, float]:
        """The share of each verdict among the services' datapath flows, 0 to 1 each."""
        found = [j for flows in self.examination.of_owner.values() for j in flows]
        total = max(1, self.examination.flows_of(found))
        return {v: self.examination.flows_of(j for j in found if j.judgement.verdict == v) / total for v in _VERDICTS}

    @property
    def in_software(self) -> dict[str, Counter[str]]:
        """What the CPU forwards: by kind of traffic, the reasons and how many flows have them."""
        return self._why("no", "partial")

    @property
    def unknown(self) -> dict[str, Counter[str]]:
        """What nobody has published, in the same form."""
        return self._why("unknown")

    def _why(self, *verdicts: Verdict) -> dict[str, Counter[str]]:
        found: dict[tuple[str, str], list[Judged]] = defaultdict(list)
        for judged in self.examination.judged:
            if judged.judgement.verdict in verdicts:
                found[judged.kind, why(judged)].append(judged)
        out: dict[str, Counter[str]] = defaultdict(Counter)
        for (kind, reason), flows in sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1])):
            out[kind][reason] = self.examination.flows_of(flows)
        return dict(out)

    @cached_property
    def remarks(self) -> dict[Path, tuple[Reason, ...]]:
        """What to know of the verdicts of each path besides the reasons against hardware: what they rest on."""
        return {
            path: tuple(dict.fromkeys(plain(r) for j in judged for r in j.judgement.remarks))
            for path, (_, judged) in zip(self.paths, sorted(self.examination.of_owner.items()), strict=True)
        }

    def source(self, reason: Reason) -> str:
        """Where a reason is from, to be read by people."""
        source = self.examination.profile.sources.get(reason.source)
        return f"{source.title}: {source.place}" if source is not None else reason.source

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        seen = self.examination
        severity = worst(self.findings)
        return {
            "ok": severity is None,
            "worst": severity.value if severity else None,
            "file": seen.loaded.file,
            "flavor": seen.loaded.spec.switch.flavor.value,
            "profile": seen.profile.name,
            "ovs": seen.ovs,
            "packets": seen.packets,
            "sampled_slots": seen.sampled,
            "offloaded_share": round(self.offloaded, 4),
            "shares": {verdict: round(share, 4) for verdict, share in self.shares.items()},
            "hardware_rules": self.rules,
            "datapath_flows": self.flows,
            "extension": program_json(seen.plan) if seen.beyond else None,
            "masks_seen": seen.masks,
            "masks_bound": self.bound.total,
            "masks_budget": seen.loaded.spec.lint.masks,
            "paths": [{**asdict(path), "remarks": [r.as_json() for r in self.remarks[path]]} for path in self.paths],
            "in_software": {kind: dict(found) for kind, found in self.in_software.items()},
            "unknown": {kind: dict(found) for kind, found in self.unknown.items()},
            "findings": [finding.as_json() for finding in self.findings],
            "flows": [judged.as_json() for judged in seen.judged],
            "sources": {key: source.model_dump() for key, source in seen.profile.sources.items()},
        }


def lint(seen: Examination) -> Report:
    """Judge an examination as a whole."""
    bound = mask_bound(seen.plan)
    flows, rules = seen.flows_of(seen.judged), seen.rules_of(seen.judged)
    found: list[Finding] = []
    if not seen.profile.hardware:
        model = ", and the extension runs on its software model" if seen.beyond else ""
        text = f"{seen.profile.title}: the CPU forwards everything{model}"
        found.append(
            finding(seen, codes.SOFTWARE_FLAVOR, _SWITCH, text, "see what hardware would do: without --flavor")
        )
    else:
        found += of_services(seen)
        found += _of_the_rest(seen)
        found += of_the_whole(seen, flows, rules, bound.total)
        found += of_the_settings(seen)
    found += of_the_extension(seen)
    found += of_masks(seen, bound)
    found += of_scans(seen, flows)
    found += of_slot_numbers(seen)
    found += _of_unreadable(seen)
    return Report(seen, ordered(accept(found, seen.loaded, _is_own(seen))), seen.paths, bound, rules, flows)


def _is_own(seen: Examination) -> bool:
    """Whether it is judged by the profile of the spec's own flavor, or by the one that stands for it."""
    flavor = seen.loaded.spec.switch.flavor.value
    return seen.profile.name == profile(JUDGED_AS.get(flavor, flavor)).name


def _of_the_rest(seen: Examination) -> Iterator[Finding]:
    """Fragments, neighbours, unusual packets and what is dropped: one finding for each reason."""
    sorts = {
        "fragment": (codes.FRAGMENTS, "fragments"),
        "neighbor": (codes.NEIGHBORS, "ARP and neighbour discovery"),
        "echo": (codes.NEIGHBORS, "echo requests"),
        "unusual": (codes.UNUSUAL, "unusual packets"),
        "drop": (codes.REFUSED, "dropped packets"),
    }
    found: dict[tuple[str, bool, str], list[Judged]] = defaultdict(list)
    for judged in seen.judged:
        if judged.kind in sorts and judged.judgement.verdict != "yes":
            found[judged.kind, judged.judgement.verdict == "unknown", why(judged)].append(judged)
    for (kind, unknown, reason), flows in found.items():
        code, what = sorts[kind]
        where = "may be in hardware or not, which is not published" if unknown else "not in hardware"
        yield finding(seen, code, _SWITCH, f"{what}: {len(flows)} datapath flows {where}: {reason}", "", flows)


def _of_unreadable(seen: Examination) -> Iterator[Finding]:
    for judged in seen.judged:
        if isinstance(judged.flow, Unreadable):
            text = f"{judged.flow.problem}: {judged.flow.text[:200]}"
            yield finding(seen, codes.UNREADABLE, _SWITCH, text, "report it with this line", [judged])
