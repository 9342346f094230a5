# SPDX-License-Identifier: Apache-2.0
"""Finders, functions that yield findings of the codes that they declare, and their input, the LintContext."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dnsteer.lint.finding import Code, LintFinding
from dnsteer.lint.masks.attackers import network_attacker, routed_attacker
from dnsteer.lint.masks.bound import MaskBound, mask_bound
from dnsteer.lint.masks.megaflows import MegaflowBound, megaflow_bounds
from dnsteer.offload.capabilities import Limit, LimitName, Profile
from dnsteer.offload.examine import Examination, JudgedFlow
from dnsteer.offload.judge import Reason, without_value
from dnsteer.plan.plan import Plan
from dnsteer.spec.errors import DefinitionError, Path, near
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec


def reasons_of(judged: Iterable[JudgedFlow]) -> tuple[Reason, ...]:
    """Return the reasons of these flows, each once: sorted by their earliest position in any flow, then by name."""
    rank: dict[Reason, int] = {}
    for each in judged:
        for place, reason in enumerate(each.judgement.reasons):
            general = without_value(reason)
            rank[general] = min(place, rank.get(general, place))
    return tuple(sorted(rank, key=lambda reason: (rank[reason], reason.name, reason.text)))


def first_reason(judged: JudgedFlow) -> str:
    """Return the main reason why a flow is not in hardware; flows that differ only in values get the same text."""
    reasons = judged.judgement.reasons
    if not reasons:
        return "no reason known"
    # If one of several reasons is that ovs-vswitchd itself must handle the packet, that is the main one.
    return without_value(next((r for r in reasons if r.name == "userspace"), reasons[0])).text


def limit_reason(name: LimitName, limit: Limit) -> Reason:
    """Return a limit of the profile as a Reason."""
    verdict = "no" if limit.verdict == "split" else limit.verdict
    return Reason(
        "limit", name, verdict, limit.note or f"at most {limit.value} {limit.unit}", limit.source, limit.certainty
    )


SWITCH: Path = ("switch",)
"""The path of findings about the switch rather than one VIP or pool."""
_SHOWN_FLOWS = 3


@dataclass(frozen=True)
class LintContext:
    """An examined spec. *flows* and *rules* are the numbers of datapath flows and hardware rules for all test traffic.

    *megaflows* has the most that somebody behind a router, and somebody on the network itself, can make.
    """

    examination: Examination
    bound: MaskBound
    flows: int
    rules: int
    megaflows: tuple[MegaflowBound, MegaflowBound]

    @classmethod
    def of(cls, examination: Examination) -> LintContext:
        """Compute the totals and the bounds of an examination."""
        flows, rules = examination.flow_count(examination.judged), examination.rule_count(examination.judged)
        spec = examination.loaded.spec
        routed, local = megaflow_bounds(examination.plan, (routed_attacker(spec), network_attacker(spec)))
        return cls(examination, mask_bound(examination.plan), flows, rules, (routed, local))

    @property
    def loaded(self) -> Loaded:
        return self.examination.loaded

    @property
    def spec(self) -> Spec:
        return self.loaded.spec

    @property
    def plan(self) -> Plan:
        return self.examination.plan

    @property
    def profile(self) -> Profile:
        return self.examination.profile

    def finding(
        self,
        code: Code,
        path: Path,
        text: str,
        advice: str = "",
        judged: Iterable[JudgedFlow] = (),
        reasons: tuple[Reason, ...] = (),
    ) -> LintFinding:
        """Return a finding about *path* of the spec, with *reasons* or those of *judged*, and up to three example flows.

        Raises DefinitionError for a path that begins with no key of the spec.
        """
        if path and path[0] not in Spec.model_fields:
            raise DefinitionError(f"{code.code}: a finding at {path}; {near(str(path[0]), Spec.model_fields)}")
        flows = list(judged)
        shown = tuple(j.flow.text for j in flows[:_SHOWN_FLOWS])
        document = self.loaded.document
        place = document.place(path)
        path = document.path_in_document(path)
        return LintFinding(code, path, place.line, text, advice, reasons or reasons_of(flows), shown, part=place.part)


Find = Callable[[LintContext], Iterator[LintFinding]]


@dataclass(frozen=True)
class Finder:
    """A finder function and the codes that it may yield. *hardware*: it runs only if the profile has hardware."""

    find: Find
    codes: tuple[Code, ...]
    hardware: bool = False

    @property
    def file(self) -> str:
        return f"{self.find.__module__.replace('.', '/')}.py"

    def __call__(self, context: LintContext) -> Iterator[LintFinding]:
        """Yield the function's findings. Raises DefinitionError for a finding with a code that it does not declare."""
        if self.hardware and not context.profile.hardware:
            return
        for finding in self.find(context):
            if finding.code not in self.codes:
                raise DefinitionError(
                    f"{self.file}: {self.find.__name__} yields {finding.code.code}, which its @finder(...) does not name"
                )
            yield finding


def finder(*codes: Code, hardware: bool = False) -> Callable[[Find], Finder]:
    """Declare a function as the finder of *codes*; lint/run.py lists all finders. Raises DefinitionError without codes."""
    for code in codes or (None,):
        if not isinstance(code, Code):
            what = f"found {getattr(code, '__name__', code)!r}" if codes else "found none"
            raise DefinitionError(f"a finder is declared with its codes, as @finder(CODE): {what}")
    return lambda find: Finder(find, codes, hardware)
