# SPDX-License-Identifier: Apache-2.0
"""All finders of lint in their order, and the report: their findings and totals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dnsteer.lint.access_lists import access_list_flows
from dnsteer.lint.affinity import uneven_clients
from dnsteer.lint.bonds import bonds_in_hardware
from dnsteer.lint.connections import full_tracker, kept_connections, tracked_answers
from dnsteer.lint.extension_services import extension_services
from dnsteer.lint.finder import Finder, LintContext, first_reason
from dnsteer.lint.finding import NOTHING_TO_ACCEPT, Code, LintFinding, mark_accepted, worst_first, worst_severity
from dnsteer.lint.limits import bucket_flows, syn_flows
from dnsteer.lint.mask_count import mask_count
from dnsteer.lint.masks.bound import MaskBound
from dnsteer.lint.masks.megaflows import MegaflowBound
from dnsteer.lint.megaflow_count import bound_as_json, megaflow_count
from dnsteer.lint.other_traffic import other_traffic, software_flavor, unreadable_flows
from dnsteer.lint.own_traffic import own_traffic
from dnsteer.lint.passes import over_budget, second_passes
from dnsteer.lint.quic import quic_by_port
from dnsteer.lint.service_offload import service_offload
from dnsteer.lint.slot_numbers import slot_numbers
from dnsteer.lint.switch_limits import flow_totals, ipv6_connections, setup_assumptions
from dnsteer.offload.examine import KINDS, Examination, JudgedFlow
from dnsteer.offload.extension_part import program_json
from dnsteer.offload.judge import Reason, without_value
from dnsteer.offload.packet_path import PacketPath, Verdict
from dnsteer.offload.profile import JUDGED_AS, profile
from dnsteer.spec.errors import DefinitionError

FINDERS: tuple[Finder, ...] = (
    software_flavor,
    service_offload,
    other_traffic,
    flow_totals,
    setup_assumptions,
    ipv6_connections,
    bonds_in_hardware,
    extension_services,
    mask_count,
    megaflow_count,
    slot_numbers,
    access_list_flows,
    bucket_flows,
    syn_flows,
    second_passes,
    kept_connections,
    tracked_answers,
    full_tracker,
    own_traffic,
    over_budget,
    uneven_clients,
    quic_by_port,
    unreadable_flows,
)
"""All finders. To add one, write a module with a Code and a @finder function, a line here and a page in docs/lint."""


def codes_of(finders: Iterable[Finder]) -> dict[str, Code]:
    """Return the codes of finders by their words, sorted. Raises DefinitionError for a word of two codes, or no finder."""
    found = {NOTHING_TO_ACCEPT.code: NOTHING_TO_ACCEPT}
    finders = list(finders)
    for each in finders:
        if not isinstance(each, Finder):
            raise DefinitionError(
                f"dnsteer/lint/run.py: {getattr(each, '__name__', each)} in FINDERS is no finder; declare it by "
                "@finder(CODE)"
            )
    for by, code in [(each, code) for each in finders for code in each.codes]:
        other = found.setdefault(code.code, code)
        if other is not code:
            raise DefinitionError(
                f"{by.file}: {code.code} is the code of two findings, {other.title!r} and {code.title!r}; give the new "
                "one a code that no page of docs/lint has"
            )
    return dict(sorted(found.items()))


CODES = codes_of(FINDERS)
"""All codes, sorted."""
_VERDICTS: tuple[Verdict, ...] = ("yes", "unknown", "partial", "no")


@dataclass
class LintReport:
    """The result of lint. *rules* and *flows* are estimates if traffic covered only a sample of the slots or hash values."""

    examination: Examination
    findings: list[LintFinding]
    paths: list[PacketPath]
    bound: MaskBound
    rules: int
    flows: int
    megaflows: tuple[MegaflowBound, MegaflowBound]

    @property
    def offloaded(self) -> float:
        """The share of the services' datapath flows that are offloaded, 0 to 1."""
        return self.shares["yes"]

    @cached_property
    def shares(self) -> dict[Verdict, float]:
        """The share of each verdict among the services' datapath flows, 0 to 1 each."""
        found = [j for flows in self.examination.of_owner.values() for j in flows]
        total = max(1, self.examination.flow_count(found))
        return {v: self.examination.flow_count(j for j in found if j.judgement.verdict == v) / total for v in _VERDICTS}

    @property
    def in_software(self) -> dict[str, Counter[str]]:
        """Flows that the CPU forwards: for each kind of traffic, the number of flows by reason."""
        return self._why("no", "partial")

    @property
    def unknown(self) -> dict[str, Counter[str]]:
        """Flows whose offload nobody has published, in the form of in_software."""
        return self._why("unknown")

    def _why(self, *verdicts: Verdict) -> dict[str, Counter[str]]:
        found: dict[tuple[str, str], list[JudgedFlow]] = defaultdict(list)
        for judged in self.examination.judged:
            if judged.judgement.verdict in verdicts:
                found[judged.kind, first_reason(judged)].append(judged)
        out: dict[str, Counter[str]] = defaultdict(Counter)
        for (kind, reason), flows in sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1])):
            out[kind][reason] = self.examination.flow_count(flows)
        return dict(out)

    @cached_property
    def remarks(self) -> dict[PacketPath, tuple[Reason, ...]]:
        """Remarks on each path's verdicts: the statements of the profile that a "yes" is based on."""
        return {
            path: tuple(dict.fromkeys(without_value(r) for j in judged for r in j.judgement.remarks))
            for path, (_, judged) in zip(self.paths, sorted(self.examination.of_owner.items()), strict=True)
        }

    def source(self, reason: Reason) -> str:
        """Return a reason's source as title and place; its key if the profile does not list it."""
        return self.examination.profile.cite(reason.source)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        examination = self.examination
        severity = worst_severity(self.findings)
        return {
            "ok": severity is None,
            "worst": severity.value if severity else None,
            "file": examination.loaded.file,
            "flavor": examination.loaded.spec.switch.flavor.value,
            "profile": examination.profile.name,
            "ovs": examination.ovs,
            "packets": examination.packets,
            "sampled_slots": examination.sampled,
            "offloaded_share": round(self.offloaded, 4),
            "shares": {verdict: round(share, 4) for verdict, share in self.shares.items()},
            "hardware_rules": self.rules,
            "datapath_flows": self.flows,
            "extension": program_json(examination.plan) if examination.extension_parts else None,
            "masks_seen": examination.masks,
            "masks_bound": self.bound.total,
            "masks_budget": examination.loaded.spec.lint.masks,
            "megaflows_bound": [bound_as_json(bound) for bound in self.megaflows],
            "megaflows_budget": examination.loaded.spec.lint.megaflows,
            "paths": [{**asdict(path), "remarks": [r.as_json() for r in self.remarks[path]]} for path in self.paths],
            "in_software": {kind: dict(found) for kind, found in self.in_software.items()},
            "unknown": {kind: dict(found) for kind, found in self.unknown.items()},
            "findings": [finding.as_json(examination.loaded.file) for finding in self.findings],
            "flows": [judged.as_json() for judged in examination.judged],
            "sources": {key: source.model_dump() for key, source in examination.profile.sources.items()},
        }


def run_finders(examination: Examination) -> LintReport:
    """Run all finders on an examination and return the report."""
    context = LintContext.of(examination)
    found = [finding for find in FINDERS for finding in find(context)]
    findings = mark_accepted(found, examination.loaded, CODES, own_flavor=_is_own_flavor(examination))
    return LintReport(
        examination,
        worst_first(findings),
        examination.paths,
        context.bound,
        context.rules,
        context.flows,
        context.megaflows,
    )


def _is_own_flavor(examination: Examination) -> bool:
    """Whether lint judges by the profile of the spec's own flavor, or by the substitute in JUDGED_AS."""
    flavor = examination.loaded.spec.switch.flavor.value
    return examination.profile.name == profile(JUDGED_AS.get(flavor, flavor)).name
