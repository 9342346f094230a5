# SPDX-License-Identifier: Apache-2.0
"""Queries that ask who answers (NSID, RFC 5001), and what an answer says, as bytes."""

from __future__ import annotations

import struct
from functools import lru_cache

import dns.edns
import dns.exception
import dns.message
import dns.rcode

_NSID = dns.edns.GenericOption(dns.edns.OptionType.NSID, b"")


@lru_cache(maxsize=4096)
def _body(name: str) -> bytes:
    query = dns.message.make_query(name, "A", id=0, use_edns=0, options=[_NSID])
    return query.to_wire()[2:]


def query(name: str, number: int) -> bytes:
    """A query for the address of *name*, with the message id *number*."""
    return struct.pack("!H", number) + _body(name)


def answered(data: bytes) -> tuple[int, str, str]:
    """The message id, the response code, and the server's name ("" when it is not told)."""
    code, server = _read(data[2:])
    return int.from_bytes(data[:2], "big"), code, server


@lru_cache(maxsize=65536)
def _read(body: bytes) -> tuple[str, str]:
    try:
        message = dns.message.from_wire(b"\0\0" + body)
    except dns.exception.DNSException:
        return "nonsense", ""
    told = next((o.to_wire() for o in message.options if o.otype == dns.edns.OptionType.NSID), b"")
    return dns.rcode.to_text(message.rcode()), (told or b"").decode("ascii", "backslashreplace")
