"""Addresses left out of text, for those who may read the console and no more."""

from __future__ import annotations

from dnsteer.console.addresses import replace_addresses

MASK = "(address)"


def masked(text: str) -> str:
    """The text without IPv4, IPv6 and MAC addresses. Prefix lengths stay."""
    return replace_addresses(text, lambda kind, address: MASK)
