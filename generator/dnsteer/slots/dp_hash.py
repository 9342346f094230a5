# SPDX-License-Identifier: Apache-2.0
"""How many dp_hash values Open vSwitch spreads over the buckets of a select group: at least 16, newer releases use more.

For groups whose buckets all have the same weight, as ours do (ofproto-dpif.c, group_setup_dp_hash_table). "Newer" are
releases from 3.5 on and, on older branches, from 3.4.1, 3.3.3, 3.2.4 and 3.1.6 on.
"""

from __future__ import annotations

LEAST = 16
"""Number of hash values of the smallest group."""
SAME_IN_ALL_RELEASES = 4
"""Largest number of buckets for which all releases use the same number of hash values."""


def hash_values(buckets: int) -> int:
    """Return the number of hash values in older releases."""
    return max(LEAST, 1 << max(buckets - 1, 0).bit_length())


def hash_values_newer(buckets: int) -> int:
    """Return the number in newer releases: four times the buckets, up to 256 values."""
    return max(LEAST, 1 << (max(buckets, min(4 * buckets, 256)) - 1).bit_length())


def hash_bits(buckets: int) -> tuple[int, int]:
    """Return the number of hash bits in older and in newer releases."""
    return hash_values(buckets).bit_length() - 1, hash_values_newer(buckets).bit_length() - 1
