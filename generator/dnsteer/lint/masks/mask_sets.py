# SPDX-License-Identifier: Apache-2.0
"""Sets of masks, stored as the possible masks of each field; the set is all combinations of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from dnsteer.lint.masks import fields
from dnsteer.switch.masks import Mask

MaskSet = frozenset[tuple[str, frozenset[int]]]
"""The possible masks of each field, in every combination. A field that is not listed has mask 0."""

EMPTY: MaskSet = frozenset()
_NONE = frozenset((0,))


def unwildcarded(mask_set: MaskSet, more: Mapping[str, int | Sequence[int]]) -> MaskSet:
    """Return the set with the bits of *more* unwildcarded as well. Several masks for a field: any one of them may apply."""
    return _unwildcarded(mask_set, tuple((n, (m,) if isinstance(m, int) else tuple(m)) for n, m in more.items()))


@lru_cache(maxsize=1 << 16)
def _unwildcarded(mask_set: MaskSet, more: tuple[tuple[str, tuple[int, ...]], ...]) -> MaskSet:
    known = dict(mask_set)
    for name, masks in more:
        if fields.is_packet_field(name):
            have = known.get(name, _NONE)
            known[name] = frozenset(a | b for a in have for b in masks)
    return frozenset((n, m) for n, m in known.items() if m != _NONE)


@lru_cache(maxsize=1 << 16)
def combined(one: MaskSet, other: MaskSet) -> MaskSet:
    """Return the set after the bits of both were unwildcarded: each mask of *one* with each of *other*."""
    if not one or not other:
        return one or other
    known = dict(one)
    for name, masks in other:
        have = known.get(name)
        known[name] = masks if have is None else frozenset(a | b for a in have for b in masks)
    return frozenset(known.items())


def size(mask_set: MaskSet) -> int:
    """Return the number of masks in a set."""
    count = 1
    for _, masks in mask_set:
        count *= len(masks)
    return count


def masks_in(mask_set: MaskSet) -> Iterator[Mask]:
    """Yield the masks of a set."""
    names = [name for name, _ in mask_set]
    for chosen in product(*(masks for _, masks in mask_set)):
        yield frozenset((name, mask) for name, mask in zip(names, chosen, strict=True) if mask)


def contains(mask_set: MaskSet, mask: Mask) -> bool:
    """Whether the mask is in the set."""
    have = dict(mask)
    known = dict(mask_set)
    return all(have.get(n, 0) in m for n, m in known.items()) and have.keys() <= known.keys()


def covers(one: MaskSet, other: MaskSet) -> bool:
    """Whether *one* contains all masks of *other*."""
    a, b = dict(one), dict(other)
    return all(b.get(n, _NONE) <= a.get(n, _NONE) for n in a.keys() | b.keys())


def merged_masks(mask_sets: Iterable[MaskSet]) -> set[MaskSet]:
    """Return the sets without those that another covers; more than _MANY sets become one set that covers them all."""
    distinct = set(mask_sets)
    if len(distinct) < 2:
        return distinct
    found = sorted(distinct, key=size, reverse=True)
    if len(found) > _MANY:
        names = {n for mask_set in found for n, _ in mask_set}
        known = [dict(mask_set) for mask_set in found]
        return {frozenset((n, frozenset(m for each in known for m in each.get(n, _NONE))) for n in names)}
    kept: list[MaskSet] = []
    for mask_set in found:
        if not any(covers(other, mask_set) for other in kept):
            kept.append(mask_set)
    return set(kept)


_MANY = 3000
