"""Sets of masks: for each field the masks that it may have, all combinations of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from dnsteer.lint.masks import fields
from dnsteer.switch.masks import Mask

MaskSet = frozenset[tuple[str, frozenset[int]]]
"""The masks that are possible for each field, in every combination. A field that is left out has mask 0."""

EMPTY: MaskSet = frozenset()
_NONE = frozenset((0,))


def unwildcarded(mask_set: MaskSet, more: Mapping[str, int | Sequence[int]]) -> MaskSet:
    """The set after these bits were unwildcarded too. Several masks for a field: one of them, nobody knows which."""
    return _unwildcarded(mask_set, tuple((n, (m,) if isinstance(m, int) else tuple(m)) for n, m in more.items()))


@lru_cache(maxsize=1 << 16)
def _unwildcarded(mask_set: MaskSet, more: tuple[tuple[str, tuple[int, ...]], ...]) -> MaskSet:
    known = dict(mask_set)
    for name, masks in more:
        if fields.in_packet(name):
            have = known.get(name, _NONE)
            known[name] = frozenset(a | b for a in have for b in masks)
    return frozenset((n, m) for n, m in known.items() if m != _NONE)


def size(mask_set: MaskSet) -> int:
    """How many masks a set has."""
    count = 1
    for _, masks in mask_set:
        count *= len(masks)
    return count


def masks_in(mask_set: MaskSet) -> Iterator[Mask]:
    """The masks of a set."""
    names = [name for name, _ in mask_set]
    for chosen in product(*(masks for _, masks in mask_set)):
        yield frozenset((name, mask) for name, mask in zip(names, chosen, strict=True) if mask)


def contains(mask_set: MaskSet, mask: Mask) -> bool:
    """Whether the mask is in the set."""
    have = dict(mask)
    known = dict(mask_set)
    return all(have.get(n, 0) in m for n, m in known.items()) and have.keys() <= known.keys()


def covers(one: MaskSet, other: MaskSet) -> bool:
    """Whether all masks of the other set are in the one."""
    a, b = dict(one), dict(other)
    return all(b.get(n, _NONE) <= a.get(n, _NONE) for n in a.keys() | b.keys())


def merged(mask_sets: Iterable[MaskSet]) -> set[MaskSet]:
    """Without sets that others cover. Very many become one that covers them all."""
    found = sorted(set(mask_sets), key=size, reverse=True)
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
