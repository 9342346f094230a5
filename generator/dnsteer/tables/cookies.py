# SPDX-License-Identifier: Apache-2.0
"""Cookies and numbers for names, and the subjects that cookies stand for.

Numbers are stable across runs and machines, and unaffected when other objects come and go.

A name's number is a hash of it, so adding a backend does not renumber the others and a change touches only the flows
that it must. Of names with the same hash, the later in sorted order gets the next free number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from dnsteer.spec.errors import Path

COOKIE_TAG = 0xD453
"""Upper 16 bits of every dnsteer cookie."""
COOKIE_MASK = 0xFFFF000000000000
GROUP_BASE, GROUP_LAST = 53_000_000, 53_000_000 + 0xFFFF
"""The range of OpenFlow group numbers that dnsteer uses; groups carry no cookie."""
FENCE = GROUP_LAST + 1
"""The group of switch/restart_fence.py."""
METER_BASE, BUCKET_METERS, METER_LAST = 0x80000000, 0xA0000000, 0xBFFFFFFF
"""The range of OpenFlow meter numbers that dnsteer uses; meters carry no cookie either. From the second number on they are
those of clients' buckets. The range is that large so that a new limit practically never has the number of another, which
would then get the next free one."""


class Category(IntEnum):
    """The kind of object that a cookie stands for; bits 40 to 47 of the cookie."""

    PIPELINE = 1
    PORT = 2
    GATEWAY = 3
    VIP = 4
    SERVICE = 5
    POOL = 6
    SLOT = 7
    BACKEND = 8
    RETURN = 9
    STATE = 10
    EXTENSION = 11
    PROBE = 12
    METER = 13
    ACCESS = 15
    CONNECTIONS = 16
    OWN_TRAFFIC = 17
    TUNNEL = 18


OBJECT_BITS = 40


def number_names(names: Iterable[str], bits: int, used: Iterable[int] = ()) -> dict[str, int]:
    """Return a number of at most *bits* bits, never 0 and none of those *used*, for each name.

    Raises ValueError if there are too many names.
    """
    out: dict[str, int] = {}
    taken = {0, *used}
    size = 1 << bits
    for name in sorted(set(names)):
        if len(taken) >= size:
            raise ValueError(f"more than {size - 1} names for {bits} bits")
        number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") % size
        while number in taken:
            number = (number + 1) % size
        taken.add(number)
        out[name] = number
    return out


def cookie(category: Category, number: int) -> int:
    """Return the 64-bit cookie of an object: tag (16 bits), category (8), number (40)."""
    return COOKIE_TAG << 48 | category << OBJECT_BITS | number


class Subject(NamedTuple):
    """The object of the spec that a flow stands for: its title and its place in the spec.

    *part* is the file, relative to the folder of the spec's own; empty for that file itself.

    A tuple, since there is one per service of each VIP and creating it is four times as fast as a frozen dataclass.
    """

    cookie: int
    title: str
    path: Path
    line: int
    part: str = ""
