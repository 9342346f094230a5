"""How many values the datapath's hash of a dp-hash group has: at least 16, and in newer releases more.

All buckets of our groups weigh the same (Open vSwitch, ofproto-dpif.c, group_setup_dp_hash_table). Newer are releases since
3.5 and, in older branches, since 3.4.1, 3.3.3, 3.2.4 and 3.1.6.
"""

from __future__ import annotations

LEAST = 16
"""Values of the hash of the smallest group."""
ALIKE = 4
"""Buckets of which all releases make the same number of values."""


def values(buckets: int) -> int:
    """Values of the hash in older releases."""
    return max(LEAST, 1 << max(buckets - 1, 0).bit_length())


def values_fourfold(buckets: int) -> int:
    """Values in newer ones: four times as many as buckets, where that is no more than 256."""
    return max(LEAST, 1 << (max(buckets, min(4 * buckets, 256)) - 1).bit_length())


def widths(buckets: int) -> tuple[int, int]:
    """Bits of the hash in older releases and in newer ones."""
    return values(buckets).bit_length() - 1, values_fourfold(buckets).bit_length() - 1
