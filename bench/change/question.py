# SPDX-License-Identifier: Apache-2.0
"""The one question of the probes, "who are you?", as bytes, and what an answer says."""

from __future__ import annotations

import struct
from functools import lru_cache

import dns.exception
import dns.message
import dns.rcode
import dns.rdatatype

from dnsteer.lab.zone import WHOAMI

_BODY = dns.message.make_query(WHOAMI, "TXT", id=0).to_wire()[2:]


def query(number: int) -> bytes:
    """The query with the message id *number* (its low 16 bits)."""
    return struct.pack("!H", number & 0xFFFF) + _BODY


def number_of(answer: bytes) -> int:
    """The message id of *answer*; -1 when it is too short for one."""
    return int(struct.unpack_from("!H", answer)[0]) if len(answer) >= 2 else -1


def backend_of(answer: bytes) -> str | None:
    """The name that the server gives; None when the answer is an error or not one to this question."""
    return _read(answer[2:])


@lru_cache(maxsize=1024)
def _read(body: bytes) -> str | None:
    # A server's answers differ in their id alone, so that of a load only a few are taken apart.
    try:
        message = dns.message.from_wire(b"\0\0" + body)
        texts = [
            text.decode("ascii", "backslashreplace")
            for rrset in message.answer
            if rrset.rdtype == dns.rdatatype.TXT
            for record in rrset
            for text in record.strings
        ]
    except dns.exception.DNSException:
        return None
    return texts[0] if message.rcode() == dns.rcode.NOERROR and len(texts) == 1 else None
