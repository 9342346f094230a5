"""The input of the finders: the examined spec, its totals and its mask bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dnsteer.lint.finding import Code, LintFinding
from dnsteer.lint.masks.bound import MaskBound, mask_bound
from dnsteer.lint.reasons import reasons_of
from dnsteer.offload.capabilities import Profile
from dnsteer.offload.examine import Examination, JudgedFlow
from dnsteer.offload.judge import Reason
from dnsteer.plan.plan import Plan
from dnsteer.spec.errors import DefinitionError, Path, near
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Spec

SWITCH: Path = ("switch",)
"""The path of findings about the switch rather than one VIP or pool."""
_SHOWN_FLOWS = 3


@dataclass(frozen=True)
class LintContext:
    """An examined spec. *flows* and *rules* are the numbers of datapath flows and hardware rules for all test traffic."""

    examination: Examination
    bound: MaskBound
    flows: int
    rules: int

    @classmethod
    def of(cls, examination: Examination) -> LintContext:
        """Compute the totals and the mask bound of an examination."""
        flows, rules = examination.flow_count(examination.judged), examination.rule_count(examination.judged)
        return cls(examination, mask_bound(examination.plan), flows, rules)

    @property
    def loaded(self) -> Loaded:
        """The spec with its document."""
        return self.examination.loaded

    @property
    def spec(self) -> Spec:
        """The spec."""
        return self.loaded.spec

    @property
    def plan(self) -> Plan:
        """The spec's plan."""
        return self.examination.plan

    @property
    def profile(self) -> Profile:
        """The capability profile that flows were judged by."""
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
        path, line = document.written(path), document.line(path)
        return LintFinding(code, path, line, text, advice, reasons or reasons_of(flows), shown)
