"""Findings about masks: a bound above the budget, with its causes, and masks observed outside the computed bound."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint.context import SWITCH, LintContext
from dnsteer.lint.finder import finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.lint.masks.causes import why_many
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.spec.errors import Path, counted
from dnsteer.switch.masks import mask_of_match, show_mask

MASK_BUDGET = Code("DNS030", Severity.ERROR, "Hostile traffic can make more masks than the budget")
MASK_BOUND_WRONG = Code("DNS031", Severity.ERROR, "More masks were seen than were computed")

_BUDGET: Path = ("lint", "masks")
_SHOWN = 200


@finder(MASK_BUDGET, MASK_BOUND_WRONG)
def mask_count(context: LintContext) -> Iterator[LintFinding]:
    """Report a mask bound above the budget, and observed masks that the bound does not contain."""
    examination, bound, budget = context.examination, context.bound, context.spec.lint.masks
    if bound.total > budget:
        why = "; ".join(why_many(context.loaded, bound))
        text = f"traffic can create up to {counted(bound.total, 'mask')}, and the budget is {budget}: {why}"
        advice = (
            f"remove the cause, or set lint.masks: {bound.total} if only trusted hosts send packets (--explain DNS030)"
        )
        yield context.finding(MASK_BUDGET, _BUDGET, text, advice)
    first = {
        mask_of_match(j.flow.match): j
        for j in reversed(examination.judged)
        if isinstance(j.flow, DatapathFlow) and not examination.is_of_agent(j.flow)
    }
    strays = [(mask, judged) for mask, judged in first.items() if not bound.allows(mask)]
    for mask, judged in strays:
        about = f"{show_mask(mask)} (Open vSwitch {examination.ovs})"
        text = f"a mask that lint did not compute: {about}: {judged.flow.text[:_SHOWN]}"
        yield context.finding(MASK_BOUND_WRONG, SWITCH, text, "please report this flow", [judged])
    if not strays and len(first) > bound.total:
        counts = f"masks seen: {len(first)}, but lint computed at most {bound.total}"
        text = f"{counts} (Open vSwitch {examination.ovs})"
        yield context.finding(MASK_BOUND_WRONG, SWITCH, text, "please report this")
