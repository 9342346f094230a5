# SPDX-License-Identifier: Apache-2.0
"""Addresses masked or replaced in any text: flows, messages, specs, notes."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
_DOTTED = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_GROUP, _BYTE = "[0-9A-Fa-f]{1,4}", "[0-9A-Fa-f]{2}"
# A word before a group is not part of it: of `set_field:fd00::1` only `fd00::1` is an address. An IPv4 address may touch
# letters; of more than four numbers with dots it is the first four, as in `192.0.2.1.53`.
_ADDRESS = re.compile(
    rf"""
    (?<![0-9A-Za-z_])(?:
        (?P<IPv6>
            (?:{_GROUP}(?::{_GROUP}){{0,6}})?::(?:(?:{_GROUP}:){{0,6}}(?:{_DOTTED}|{_GROUP}))?
            | (?:{_GROUP}:){{6}}{_DOTTED}
            | {_GROUP}(?::{_GROUP}){{7}}
        )
        | (?P<MAC>{_BYTE}(?::{_BYTE}){{5}})
    )(?![0-9A-Za-z_])
    | (?<![0-9])(?<![0-9]\.)(?P<IPv4>{_DOTTED})(?![0-9])
    """,
    re.VERBOSE,
)


def replace_addresses(text: str, word: Callable[[str, str], str]) -> str:
    """The text with *word*(kind, address) in place of each address; *kind* is `IPv4`, `IPv6` or `MAC`.

    The address is spelled as Python does it, however the text has it. Prefix lengths, ports and brackets stay in the text.
    """

    def found(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        return word(kind, _spelled(match[0].lower(), kind))

    return _ADDRESS.sub(found, text) if ":" in text or "." in text else text


def _spelled(address: str, kind: str) -> str:
    try:
        return address if kind == "MAC" else str(ip_address(address))
    except ValueError:  # leading zeros, or more groups than an address has: masked as it stands rather than left
        return address


MASK = "(address)"


def masked(text: str) -> str:
    """The text without IPv4, IPv6 and MAC addresses. Prefix lengths stay."""
    return replace_addresses(text, lambda kind, address: MASK)
