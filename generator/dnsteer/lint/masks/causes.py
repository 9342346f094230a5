"""What of a spec makes its masks many, and how many there would be without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dnsteer.lint.masks.bound import Bound, mask_bound
from dnsteer.modes import MODES
from dnsteer.plan.build import build_plan
from dnsteer.spec.derived import slot_count
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Forwarding, Selection, Vip

_MOST = 3

Change = Callable[[Loaded], tuple[str, Loaded] | None]
"""Takes a reason for further masks out of a spec, and says which it is; None where the spec does not have it."""


def why_many(loaded: Loaded, bound: Bound) -> list[str]:
    """Why a spec has the masks of its bound, in the spec's words where it can be said in them, else by tables."""
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
    return [*tables[:_MOST], *([f"and {len(tables) - _MOST} more"] if len(tables) > _MOST else [])]


def _total(loaded: Loaded) -> int:
    return mask_bound(build_plan(loaded)).total


def _one_number(loaded: Loaded, selection: Selection) -> tuple[str, Loaded] | None:
    """One number of slots for the pools of a selection. Which one does not matter."""
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
    said = f"{selection.value} pools have {len(numbers)} different numbers of slots ({shown}): with one number for all"
    return said, _with(loaded, pools={**spec.pools, **same})


def _one_way(loaded: Loaded) -> tuple[str, Loaded] | None:
    """One way of forwarding for what the hash selects; of the two the one with more masks."""
    spec = loaded.spec
    hashed = {n: vip for n, vip in spec.vips.items() if spec.pools[vip.pool].selection is Selection.DP_HASH}
    ways = sorted({vip.forwarding for vip in hashed.values()})
    if len(ways) < 2:
        return None
    said = f"VIPs of dp-hash pools forward by {' and '.join(way.value for way in ways)}: with one of these for all"
    return said, max((_with(loaded, vips={**spec.vips, **_by(hashed, way)}) for way in ways), key=_total)


def _apart(loaded: Loaded, *, siit: bool) -> tuple[str, Loaded] | None:
    """Without the VIPs that the extension serves: those whose answers it translates, or all others of them."""
    spec = loaded.spec
    found = [
        name
        for name, vip in spec.vips.items()
        if MODES[vip.forwarding].extended(spec.pools[vip.pool]) and MODES[vip.forwarding].translates == siit
    ]
    if not found or len(found) == len(spec.vips):
        return None
    what = "answers for siit VIPs" if siit else "VIPs that the extension serves"
    said = f"{what} ({', '.join(found)}) are told from the others: with these on a switch of their own"
    return said, _with(loaded, vips={name: vip for name, vip in spec.vips.items() if name not in found})


def _by(vips: dict[str, Vip], way: Forwarding) -> dict[str, Vip]:
    return {name: vip.model_copy(update={"forwarding": way}) for name, vip in vips.items()}


def _with(loaded: Loaded, **changes: object) -> Loaded:
    return replace(loaded, spec=loaded.spec.model_copy(update=changes))


_CHANGES: tuple[Change, ...] = (
    *(partial(_one_number, selection=selection) for selection in Selection),
    _one_way,
    *(partial(_apart, siit=siit) for siit in (False, True)),
)
