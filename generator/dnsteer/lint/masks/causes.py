"""Which parts of a spec cause many masks, and how many masks would remain without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dnsteer.lint.masks.bound import MaskBound, mask_bound
from dnsteer.modes import MODES
from dnsteer.plan.build import build_plan
from dnsteer.spec.derived import slot_count
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Forwarding, Selection, Vip

_MAX = 3

MaskCause = Callable[[Loaded], tuple[str, Loaded] | None]
"""Return a description of a cause of masks and the spec without it; None if the spec does not have this cause."""


def why_many(loaded: Loaded, bound: MaskBound) -> list[str]:
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
