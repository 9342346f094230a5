# SPDX-License-Identifier: Apache-2.0
"""Which values packets of one path can have, as far as flows and an attacker's means tell, and how many under a mask.

Bits are packet bits (value_sources.py). All is an upper bound: what is not known to be impossible counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import log2
from typing import NamedTuple

Values = frozenset[int]
"""Values of some packet bits."""


class OneOf(NamedTuple):
    """The packet's bits *mask* have one of some values: of *values*, or of *number* that are not known where it is None."""

    mask: int
    values: Values | None
    number: int


class NoneOf(NamedTuple):
    """The packet's bits *mask* have none of these values."""

    mask: int
    values: Values


class Choices(NamedTuple):
    """What is known of the packets of a path, which an attacker sends: those of several are followed together."""

    allowed: frozenset[OneOf] = frozenset()
    excluded: frozenset[NoneOf] = frozenset()
    attacker: int = 0

    def with_one_of(self, mask: int, values: Values) -> Choices | None:
        """These packets, with bits that have one of *values*. None if no packet is left."""
        if not mask:
            return self
        for each in self.allowed:
            values = _matching(values, mask, each)
        for none in self.excluded:
            if not none.mask & ~mask:
                values = _not_excluded(values, none)
        if not values:
            return None
        kept = {each for each in self.allowed if each.mask & ~mask}
        left = frozenset(each for each in self.excluded if each.mask & ~mask)
        return Choices(frozenset({*kept, OneOf(mask, values, len(values))}), left, self.attacker)

    def with_none_of(self, mask: int, values: Values) -> Choices | None:
        """These packets, with bits that have none of *values*. None if no packet is left."""
        for each in self.allowed:
            values = _matching(values, mask, each)
        if not values:
            return self
        for each in self.allowed:
            if each.values is not None and not mask & ~each.mask:
                kept = _not_excluded(each.values, NoneOf(mask, values))
                if not kept:
                    return None
                allowed = self.allowed - {each} | {OneOf(each.mask, kept, len(kept))}
                return Choices(allowed, self.excluded, self.attacker)
        same = {each for each in self.excluded if each.mask == mask}
        every = values.union(*(each.values for each in same))
        return Choices(self.allowed, self.excluded - same | {NoneOf(mask, every)}, self.attacker)

    def count(self, mask: int) -> int:
        """Return how many values the bits *mask* can have, at most."""
        return _count(self, mask)


class _Factor(NamedTuple):
    """Bits that are chosen together. *values* is None where it is not known which."""

    bits: int
    number: int
    values: Values | None

    @property
    def saved(self) -> float:
        """By how much it has fewer values than its bits could have, as a power of two."""
        return self.bits.bit_count() - log2(self.number)


class _Fixed(NamedTuple):
    """Bits *mask* have one value."""

    mask: int
    value: int


@lru_cache(maxsize=1 << 16)
def _count(choices: Choices, mask: int) -> int:
    """A product: of what is known of bits together, those first that leave the fewest; the bits that are left are free."""
    fixed = _all_fixed(choices.allowed)
    free = mask & ~fixed.mask
    factors: list[_Factor] = []
    todo = {each for each in choices.allowed if each.mask & free}
    while todo:
        best, of = max(((_factor(each, free), each) for each in todo), key=lambda item: (item[0].saved, item[1].mask))
        todo.discard(of)
        if best.saved > 0:
            free &= ~best.bits
            factors.append(best)
    total = 1
    for none in sorted(choices.excluded, key=lambda each: (each.mask.bit_count(), each.mask)):
        inside = [factor for factor in factors if factor.bits & none.mask]
        chosen = none.mask & (free | fixed.mask)
        for factor in inside:
            chosen |= factor.bits
        if chosen != none.mask or any(factor.values is None for factor in inside):
            continue  # it is about bits that do not count, are chosen with others, or were left out with others already
        values = _matching(none.values, none.mask, OneOf(fixed.mask, frozenset((fixed.value,)), 1))
        combinations = 1 << (none.mask & free).bit_count()
        for factor in inside:
            values = _matching(values, none.mask, OneOf(factor.bits, factor.values, factor.number))
            combinations *= factor.number
            factors.remove(factor)
        free &= ~none.mask
        total *= combinations - len(values)
    for factor in factors:
        total *= factor.number
    return total << free.bit_count()


@lru_cache(maxsize=1 << 14)
def _all_fixed(allowed: frozenset[OneOf]) -> _Fixed:
    mask = value = 0
    for each in allowed:
        one = _fixed(each)
        mask |= one.mask
        value |= one.value
    return _Fixed(mask, value)


@lru_cache(maxsize=1 << 14)
def _fixed(each: OneOf) -> _Fixed:
    """Return the bits that are the same in all values."""
    if each.values is None:
        return _Fixed(0, 0)
    first = min(each.values)
    varying = 0
    for value in each.values:
        varying |= value ^ first
    return _Fixed(each.mask & ~varying, first & ~varying)


def _factor(each: OneOf, left: int) -> _Factor:
    bits = each.mask & left
    values = None if each.values is None else _projected(each.values, bits)
    return _Factor(bits, min(each.number if values is None else len(values), 1 << bits.bit_count()), values)


@lru_cache(maxsize=1 << 14)
def _projected(values: Values, bits: int) -> Values:
    return frozenset(value & bits for value in values)


@lru_cache(maxsize=1 << 14)
def _matching(values: Values, mask: int, each: OneOf) -> Values:
    """Return those of *values*, of the bits *mask*, that agree with what is allowed."""
    both = mask & each.mask
    if not both or each.values is None:
        return values
    allowed = _projected(each.values, both)
    return frozenset(value for value in values if value & both in allowed)


@lru_cache(maxsize=1 << 14)
def _not_excluded(values: Values, none: NoneOf) -> Values:
    return frozenset(value for value in values if value & none.mask not in none.values)


def common(found: Iterable[tuple[int, int]]) -> tuple[int, Values]:
    """Return the bits that some masks have in common, and the values under it; *found* has masks and values."""
    pairs = list(found)
    mask = pairs[0][0]
    for other, _ in pairs:
        mask &= other
    return mask, frozenset(value & mask for _, value in pairs)


def joined(batch: Mapping[Choices, int]) -> Mapping[Choices, int]:
    """Join packets of one state that differ in the values of the same bits alone, where each choice counts as often."""
    if len(batch) < 2:
        return batch
    by_attacker: dict[int, dict[Choices, int]] = {}
    for choices, number in batch.items():
        by_attacker.setdefault(choices.attacker, {})[choices] = number
    out: dict[Choices, int] = {}
    for one in by_attacker.values():
        out |= _joined(one) if len(one) > 1 else one
    return out


def _joined(batch: dict[Choices, int]) -> dict[Choices, int]:
    common_part = frozenset.intersection(*(choices.allowed for choices in batch))
    masks = {each.mask for choices in batch for each in choices.allowed - common_part if each.values is not None}
    for mask in sorted(masks):
        found: dict[tuple[Choices, int], set[int]] = {}
        out: dict[Choices, int] = {}
        for choices, number in batch.items():
            mine = next((each for each in choices.allowed if each.mask == mask), None)
            if mine is None or mine.values is None:
                out[choices] = out.get(choices, 0) + number
            else:
                rest = choices._replace(allowed=choices.allowed - {mine})
                found.setdefault((rest, number), set()).update(mine.values)
        for (rest, number), values in found.items():
            every = OneOf(mask, frozenset(values), len(values))
            together = rest._replace(allowed=rest.allowed | {every})
            out[together] = out.get(together, 0) + number
        batch = out
    return batch
