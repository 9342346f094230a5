"""Addresses left out of text, for those who may read the console and no more."""

from __future__ import annotations

import re

MASK = "(address)"
_IPV4 = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")
_GROUPS = re.compile(r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,}")
_LEAST_COLONS = 5
"""A time has two, a MAC address five; an IPv6 address fewer only with `::`."""


def masked(text: str) -> str:
    """The text without IPv4, IPv6 and MAC addresses. Prefix lengths stay."""
    return _GROUPS.sub(_mask, _IPV4.sub(MASK, text))


def _mask(found: re.Match[str]) -> str:
    return MASK if "::" in found[0] or found[0].count(":") >= _LEAST_COLONS else found[0]
