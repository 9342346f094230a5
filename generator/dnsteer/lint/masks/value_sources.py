# SPDX-License-Identifier: Apache-2.0
"""Where the value of each field comes from: bits of the packet as it arrived, after actions wrote and copied fields.

All bits of all packet fields are one number, the packet bits: a set of bits is a mask of it, a value of them is another.
A second copy of them stands for what the switch itself chose: the datapath's hash, the connection tracker's state, and
addresses that NAT wrote.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from dnsteer.lint.masks.fields import BitRange
from dnsteer.switch.masks import WIDTHS

_FIRST = dict(zip(WIDTHS, accumulate(WIDTHS.values(), initial=0), strict=False))
_ALL = sum(WIDTHS.values())


class BitSegment(NamedTuple):
    """*bits* bits of a field, from bit *low* on, are those of the packet bits from bit *first* on."""

    low: int
    bits: int
    first: int

    @property
    def mask(self) -> int:
        """The segment's bits, as a mask of its field."""
        return (1 << self.bits) - 1 << self.low


class BitOrigin(NamedTuple):
    """What bits of a field are: *mask* has packet bits. Of the *written* bits of the field the value is *value*.

    *whole*: all of them are one or the other; else some are unknown.
    """

    mask: int
    written: int
    value: int
    whole: bool


class Written(NamedTuple):
    """Bits *mask* of a field have a constant value."""

    mask: int
    value: int


Segments = tuple[BitSegment, ...]
_CLEARED = Written((1 << 32) - 1, 0)
"""What registers have as packets arrive."""
_NOTHING = Written(0, 0)


def packet_bits(field: str, bits: int) -> int:
    """Return bits of a field of the packet that arrived, as packet bits."""
    return bits << _FIRST[field]


def fields_in(mask: int) -> Iterator[str]:
    """Yield the fields that packet bits are of; what the switch chose counts as the field it is in."""
    return (name for name in WIDTHS if mask & whole_field(name))


@cache
def whole_field(name: str) -> int:
    """Return all packet bits of a field, and those that the switch chose."""
    return packet_bits(name, (1 << WIDTHS[name]) - 1) * (1 + (1 << _ALL))


class ValueSources:
    """What each field has: packet bits, constants that actions wrote, or what is not known.

    Registers are 0 at first, other fields as they arrived. An object does not change: each change returns another.
    """

    def __init__(self, copied: dict[str, Segments] | None = None, written: dict[str, Written] | None = None) -> None:
        self._copied = copied or {}
        self._written = written or {}
        self._key = frozenset(self._copied.items()), frozenset(self._written.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueSources) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def part(self, names: Iterable[str]) -> frozenset[tuple[str, Segments, Written]]:
        """Return what was changed of some fields; equal for equal sources of these."""
        return frozenset(
            (name, self._segments(name), self._constant(name))
            for name in names
            if name in self._copied or name in self._written
        )

    def only(self, names: Container[str]) -> ValueSources:
        """Return the sources without what was changed of other fields."""
        if all(name in names for name in (*self._copied, *self._written)):
            return self
        copied = {name: found for name, found in self._copied.items() if name in names}
        written = {name: found for name, found in self._written.items() if name in names}
        return ValueSources(copied, written)

    def origin(self, field: str, mask: int) -> BitOrigin:
        """Return what the bits *mask* of a field are."""
        bits, covered = 0, 0
        for low, count, first in self._segments(field):
            here = mask >> low & (1 << count) - 1
            bits |= here << first
            covered |= here << low
        constant = self._constant(field)
        written = constant.mask & mask
        return BitOrigin(bits, written, constant.value & mask, covered | written == mask)

    def of_mask(self, mask: Iterable[tuple[str, int]]) -> int:
        """Return the packet bits that a mask looks at."""
        found = 0
        for field, bits in mask:
            found |= self.origin(field, bits).mask
        return found

    def held(self) -> int:
        """Return the packet bits of which registers have copies."""
        found = 0
        for field, segments in self._copied.items():
            if field not in WIDTHS:
                for segment in segments:
                    found |= (1 << segment.bits) - 1 << segment.first
        return found

    def written(self, field: str, mask: int, value: int | None) -> ValueSources:
        """After an action wrote bits of a field: a constant, or None for what is not followed."""
        before = self._constant(field)
        if value is None:
            after = Written(before.mask & ~mask, before.value & ~mask)
        else:
            after = Written(before.mask | mask, before.value & ~mask | value & mask)
        return self._with(field, tuple(_without(self._segments(field), mask)), after)

    def moved(self, source: BitRange, target: BitRange) -> ValueSources:
        """After an action copied bits of a field to another."""
        moved = []
        for low, count, first in self._segments(source.field):
            begin, end = max(low, source.low), min(low + count, source.low + source.bits)
            if begin < end:
                moved.append(BitSegment(begin - source.low + target.low, end - begin, first + begin - low))
        kept = _without(self._segments(target.field), target.mask)
        constant, before = self._constant(source.field), self._constant(target.field)
        copied = (constant.mask & source.mask) >> source.low << target.low & target.mask
        value = (constant.value & source.mask) >> source.low << target.low & copied
        after = Written(before.mask & ~target.mask | copied, before.value & ~target.mask | value)
        return self._with(target.field, tuple(sorted((*kept, *moved))), after)

    def chosen_by_switch(self, names: Iterable[str]) -> ValueSources:
        """After the switch itself chose the values of fields."""
        found = self
        for name in names:
            found = found._with(name, (BitSegment(0, WIDTHS[name], _ALL + _FIRST[name]),), _NOTHING)
        return found

    def _segments(self, field: str) -> Segments:
        found = self._copied.get(field)
        if found is None:
            found = (BitSegment(0, WIDTHS[field], _FIRST[field]),) if field in WIDTHS else ()
        return found

    def _constant(self, field: str) -> Written:
        return self._written.get(field, _CLEARED if field.startswith("reg") else _NOTHING)

    def _with(self, field: str, segments: Segments, constant: Written) -> ValueSources:
        copied, written = self._copied, self._written
        if segments != self._segments(field):
            copied = {**copied, field: segments}
        if constant != self._constant(field):
            written = {**written, field: constant}
        return self if copied is self._copied and written is self._written else ValueSources(copied, written)


def _without(segments: Segments, mask: int) -> Iterator[BitSegment]:
    """Yield the segments but for the bits *mask*."""
    for segment in segments:
        low, count, first = segment
        if not segment.mask & mask:
            yield segment
            continue
        begin = None
        for at in range(low, low + count + 1):
            kept = at < low + count and not mask >> at & 1
            if kept and begin is None:
                begin = at
            elif not kept and begin is not None:
                yield BitSegment(begin, at - begin, first + begin - low)
                begin = None
