"""Sets of masks: for each field the masks that it may have, all combinations of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from dnsteer.lint.masks import fields
from dnsteer.switch.masks import Mask

Box = frozenset[tuple[str, frozenset[int]]]
"""The masks that are possible for each field, in every combination. A field that is left out has mask 0."""

EMPTY: Box = frozenset()
_NONE = frozenset((0,))


def folded(box: Box, more: Mapping[str, int | Sequence[int]]) -> Box:
    """The box after these bits were looked at too. Several masks for a field: one of them, nobody knows which."""
    return _folded(box, tuple((n, (m,) if isinstance(m, int) else tuple(m)) for n, m in more.items()))


@lru_cache(maxsize=1 << 16)
def _folded(box: Box, more: tuple[tuple[str, tuple[int, ...]], ...]) -> Box:
    known = dict(box)
    for name, masks in more:
        if fields.in_packet(name):
            have = known.get(name, _NONE)
            known[name] = frozenset(a | b for a in have for b in masks)
    return frozenset((n, m) for n, m in known.items() if m != _NONE)


def size(box: Box) -> int:
    """How many masks a box has."""
    count = 1
    for _, masks in box:
        count *= len(masks)
    return count


def masks_in(box: Box) -> Iterator[Mask]:
    """The masks of a box."""
    names = [name for name, _ in box]
    for chosen in product(*(masks for _, masks in box)):
        yield frozenset((name, mask) for name, mask in zip(names, chosen, strict=True) if mask)


def holds(box: Box, mask: Mask) -> bool:
    """Whether the mask is in the box."""
    have = dict(mask)
    known = dict(box)
    return all(have.get(n, 0) in m for n, m in known.items()) and have.keys() <= known.keys()


def covers(one: Box, other: Box) -> bool:
    """Whether all masks of the other box are in the one."""
    a, b = dict(one), dict(other)
    return all(b.get(n, _NONE) <= a.get(n, _NONE) for n in a.keys() | b.keys())


def tidy(boxes: Iterable[Box]) -> set[Box]:
    """Without boxes that others cover. Very many become one that covers them all."""
    found = sorted(set(boxes), key=size, reverse=True)
    if len(found) > _MANY:
        names = {n for box in found for n, _ in box}
        known = [dict(box) for box in found]
        return {frozenset((n, frozenset(m for each in known for m in each.get(n, _NONE))) for n in names)}
    kept: list[Box] = []
    for box in found:
        if not any(covers(other, box) for other in kept):
            kept.append(box)
    return set(kept)


_MANY = 3000
