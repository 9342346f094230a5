# SPDX-License-Identifier: Apache-2.0
"""Frame sizes that can be requested: fixed, DNS queries and answers, and a mix. In bytes with FCS, without preamble."""

from __future__ import annotations

from dataclasses import dataclass

from dnsteer.spec.model.families import Family

MIN_FRAME, MAX_FRAME = 64, 9600
"""Ethernet's smallest frame, and the largest that BlueField cards accept."""
TAG = 4
"""The tag of a VLAN (IEEE 802.1Q)."""
JUMBO = 9018
"""A jumbo frame with 9000 bytes of IP."""
QUERY_BYTES, ANSWER_BYTES = 54, 844
"""DNS messages: the means over UDP at k.root-servers.net on 2024-06-05, from the operators' daily figures (RSSAC002,
github.com/rssac-caucus/RSSAC002-data, traffic-sizes; each 16-byte bin counted at its middle)."""
IMIX = ((64, 7), (594, 4), (1518, 1))
"""Sizes and shares of the simple Internet mix: IP packets of 40, 576 and 1500 bytes as 7 : 4 : 1."""
DEFAULT = ("64", "query", "answer", "imix", "jumbo")
NAMED = ("query", "answer", "imix", "jumbo")

_ETHERNET = 18  # header and FCS
_IP: dict[Family, int] = {"ipv4": 20, "ipv6": 40}
_UDP = 8
_TCP = 32  # header with time stamps
_LENGTH = 2  # of the message, before it in TCP (RFC 1035, 4.2.2)


class FrameError(ValueError):
    """A frame name that is unknown, or a size out of range."""


@dataclass(frozen=True)
class DnsSizes:
    """Sizes of DNS messages in bytes, without headers; *tag* is that of a VLAN around them."""

    query: int = QUERY_BYTES
    answer: int = ANSWER_BYTES
    tag: int = 0


def parse_frame(text: str) -> str:
    """Return a frame's name or size in normal form. Raises FrameError if it is not valid."""
    word = text.strip().lower()
    if word in NAMED:
        return word
    if not word.isascii() or not word.isdecimal() or not MIN_FRAME <= int(word) <= MAX_FRAME:
        raise FrameError(f"found {text!r}; expected {', '.join(NAMED)} or a size of {MIN_FRAME} to {MAX_FRAME} bytes")
    return str(int(word))


def message(size: int, family: Family, protocol: str, tag: int = 0) -> int:
    """Return the frame size of a DNS message of *size* bytes in one packet, with a *tag* of so many bytes."""
    return max(MIN_FRAME, tag + size + _ETHERNET + _IP[family] + (_UDP if protocol == "udp" else _TCP + _LENGTH))


def empty_segment(family: Family, tag: int = 0) -> int:
    """Return the frame size of a TCP segment without data, such as an acknowledgement, with a *tag* of so many bytes."""
    return max(MIN_FRAME, tag + _ETHERNET + _IP[family] + _TCP)


def mix(frame: str, family: Family, protocol: str, sizes: DnsSizes) -> tuple[tuple[int, int], ...]:
    """Return the sizes, in bytes, and shares that a frame's name stands for."""
    if frame == "imix":
        return IMIX
    if frame == "jumbo":
        return ((JUMBO, 1),)
    if frame == "query":
        return ((message(sizes.query, family, protocol, sizes.tag), 1),)
    if frame == "answer":
        return ((message(sizes.answer, family, protocol, sizes.tag), 1),)
    return ((int(frame), 1),)


def mean(sizes: tuple[tuple[int, int], ...]) -> float:
    """Return the mean frame size of a mix, in bytes."""
    return sum(size * share for size, share in sizes) / sum(share for _, share in sizes)
