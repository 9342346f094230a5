# SPDX-License-Identifier: Apache-2.0
"""Findings about masks: a bound above the budget, with its causes, and masks observed outside the computed bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from dnsteer.lint.finder import SWITCH, LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.lint.masks.bound import MaskBound, mask_bound
from dnsteer.modes import MODES
from dnsteer.offload.datapath_flow import DatapathFlow
from dnsteer.plan.build import build_plan
from dnsteer.spec.derived import slot_count
from dnsteer.spec.errors import Path, counted
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Forwarding, Selection, Vip
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
        why = "; ".join(explain_bound(context.loaded, bound))
        text = f"traffic can create up to {counted(bound.total, 'mask')}, and the budget is {budget}: {why}"
        advice = (
            f"remove the cause, or set lint.masks: {bound.total} if only trusted hosts send packets (--explain DNS030)"
        )
        yield context.finding(MASK_BUDGET, _BUDGET, text, advice)
    first = {
        mask_of_match(j.flow.match): j
        for j in reversed(examination.judged)
        if isinstance(j.flow, DatapathFlow) and not examination.is_agent_flow(j.flow)
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


_MAX = 3

MaskCause = Callable[[Loaded], tuple[str, Loaded] | None]
"""Return a description of a cause of masks and the spec without it; None if the spec does not have this cause."""


def explain_bound(loaded: Loaded, bound: MaskBound) -> list[str]:
    """Explain a spec's mask bound by causes in the spec that raise it; if there are none, by the tables with most masks."""
    out: list[str] = []
    without = loaded
    for change in _CHANGES:
        alone = change(loaded)
        if alone is not None and (total := _total(alone[1])) < bound.total:
            out.append(f"{alone[0]} it is at most {total}")
            with_the_others = change(without)
            without = with_the_others[1] if with_the_others is not None else without
    if len(out) > 1:
        out.append(f"with all of this at most {_total(without)}")
    if out:
        return out
    tables = bound.why
    return [*tables[:_MAX], *([f"and {len(tables) - _MAX} more"] if len(tables) > _MAX else [])]


def _total(loaded: Loaded) -> int:
    return mask_bound(build_plan(loaded)).total


def _one_number(loaded: Loaded, selection: Selection) -> tuple[str, Loaded] | None:
    """Give all pools of a selection the same number of slots; which number does not matter."""
    spec = loaded.spec
    used = {vip.pool for vip in spec.vips.values()}
    pools = {name: pool for name, pool in spec.pools.items() if name in used and pool.selection is selection}
    numbers = sorted({slot_count(spec, pool) for pool in pools.values()})
    if len(numbers) < 2:
        return None
    most = max(len(pool.backends) for pool in pools.values())
    number = next((n for n in numbers if n >= most), numbers[-1])
    same = {name: pool.model_copy(update={"slots": number}) for name, pool in pools.items()}
    shown = ", ".join(map(str, numbers))
    cause = f"{selection.value} pools have {len(numbers)} different numbers of slots ({shown}): with one number for all"
    return cause, _with(loaded, pools={**spec.pools, **same})


def _one_mode(loaded: Loaded) -> tuple[str, Loaded] | None:
    """Give all VIPs of dp-hash pools the same forwarding mode: of those in use, the one with most masks."""
    spec = loaded.spec
    hashed = {n: vip for n, vip in spec.vips.items() if spec.pools[vip.pool].selection is Selection.DP_HASH}
    modes = sorted({vip.forwarding for vip in hashed.values()})
    if len(modes) < 2:
        return None
    cause = f"VIPs of dp-hash pools forward by {' and '.join(mode.value for mode in modes)}: with one of these for all"
    return cause, max((_with(loaded, vips={**spec.vips, **_by(hashed, mode)}) for mode in modes), key=_total)


def _without_extended(loaded: Loaded, *, siit: bool) -> tuple[str, Loaded] | None:
    """Remove the VIPs that the extension serves: with *siit* those whose answers it translates, else the others."""
    spec = loaded.spec
    found = [
        name
        for name, vip in spec.vips.items()
        if MODES[vip.forwarding].uses_extension(spec.pools[vip.pool]) and MODES[vip.forwarding].translates == siit
    ]
    if not found or len(found) == len(spec.vips):
        return None
    what = "answers for siit VIPs" if siit else "VIPs that the extension serves"
    cause = f"{what} ({', '.join(found)}) need masks of their own: with these on another switch"
    return cause, _with(loaded, vips={name: vip for name, vip in spec.vips.items() if name not in found})


def _by(vips: dict[str, Vip], mode: Forwarding) -> dict[str, Vip]:
    return {name: vip.model_copy(update={"forwarding": mode}) for name, vip in vips.items()}


def _with(loaded: Loaded, **changes: object) -> Loaded:
    return replace(loaded, spec=loaded.spec.model_copy(update=changes))


_CHANGES: tuple[MaskCause, ...] = (
    *(partial(_one_number, selection=selection) for selection in Selection),
    _one_mode,
    *(partial(_without_extended, siit=siit) for siit in (False, True)),
)
