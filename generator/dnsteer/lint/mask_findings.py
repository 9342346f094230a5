"""Findings about masks: more than the budget, and why; and any that was seen and not computed."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.lint import codes
from dnsteer.lint.findings import Finding
from dnsteer.lint.masks.bound import Bound
from dnsteer.lint.masks.causes import why_many
from dnsteer.lint.wording import finding
from dnsteer.offload.examine import Examination
from dnsteer.offload.flow import Flow
from dnsteer.spec.errors import Path
from dnsteer.switch.masks import mask_of_match, show

_SWITCH: Path = ("switch",)
_BUDGET: Path = ("lint", "masks")
_SHOWN = 200


def of_masks(seen: Examination, bound: Bound) -> Iterator[Finding]:
    """Findings about all masks together, computed and seen."""
    budget = seen.loaded.spec.lint.masks
    if bound.total > budget:
        why = "; ".join(why_many(seen.loaded, bound))
        text = f"any traffic can make up to {bound.total} masks, and the budget is {budget}: {why}"
        advice = (
            f"change that, or set lint.masks: {bound.total} where no stranger can send packets; see --explain DNS030"
        )
        yield finding(seen, codes.MASK_BUDGET, _BUDGET, text, advice)
    first = {mask_of_match(j.flow.match): j for j in reversed(seen.judged) if isinstance(j.flow, Flow)}
    strays = [(mask, judged) for mask, judged in first.items() if not bound.allows(mask)]
    for mask, judged in strays:
        text = f"a mask that was not computed: {show(mask)} (Open vSwitch {seen.ovs}): {judged.flow.text[:_SHOWN]}"
        yield finding(seen, codes.MASK_BOUND_WRONG, _SWITCH, text, "report it with this flow", [judged])
    if not strays and seen.masks > bound.total:
        text = f"{seen.masks} masks were seen and at most {bound.total} were computed (Open vSwitch {seen.ovs})"
        yield finding(seen, codes.MASK_BOUND_WRONG, _SWITCH, text, "report it")
