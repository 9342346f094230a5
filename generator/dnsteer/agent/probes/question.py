"""The query of a health check, encoded once, and the judgement of an answer.

Most answers are the same each time, so an answer is compared with the last good one first, byte by byte; dnspython reads
only those that differ, and only where the check asks for more than the header shows.
"""

from __future__ import annotations

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from dnsteer.spec.model.health import Query

_HEADER = 12
_QR, _OPCODE, _AA, _TC, _RCODE = 0x8000, 0x7800, 0x0400, 0x0200, 0x000F
_HALF = 1 << 31


def is_usable(data: bytes) -> bool:
    """Whether an answer says anything but SERVFAIL, by which a server says that it cannot answer."""
    return data[3] & _RCODE != dns.rcode.SERVFAIL


class Question:
    """A query as bytes, without its ID, which `wire` adds. Judges answers to it."""

    def __init__(self, query: Query) -> None:
        self.query = query
        message = dns.message.make_query(query.name, query.type, id=0)
        message.flags &= ~dns.flags.RD  # what an authoritative server has, and a resolver in its cache
        self._wire = message.to_wire()
        self._section = self._wire[_HEADER:].lower()
        self._rcode = int(dns.rcode.from_text(query.expect.rcode))
        kind = dns.rdatatype.from_text(query.type)
        self._answer = frozenset(
            dns.rdata.from_text(dns.rdataclass.IN, kind, text).to_digestable() for text in query.expect.answer
        )
        self._needs_answer = bool(self._answer) or query.expect.serial_at_least is not None
        self._good = b""

    def wire(self, number: int) -> bytes:
        """The query with the ID *number*."""
        return number.to_bytes(2, "big") + self._wire[2:]

    def is_answer(self, data: bytes, number: int) -> bool:
        """Whether *data* answers the query of that ID; anything else is not the backend's business with us."""
        return (
            len(data) >= _HEADER
            and int.from_bytes(data[:2], "big") == number
            and bool(data[2] & 0x80)
            and (data[4:6] == b"\0\1" and data[_HEADER : _HEADER + len(self._section)].lower() == self._section)
        )

    def judge(self, data: bytes) -> str:
        """Say what is wrong with an answer; empty when it is as the check expects."""
        if data[2:] == self._good:
            return ""
        flags = int.from_bytes(data[2:4], "big")
        if flags & _OPCODE:
            return f"answered with opcode {(flags & _OPCODE) >> 11}"
        if flags & _RCODE != self._rcode:
            return f"answered {dns.rcode.to_text(dns.rcode.Rcode(flags & _RCODE))}, not {self.query.expect.rcode}"
        aa = self.query.expect.aa
        if aa is not None and bool(flags & _AA) != aa:
            return f"answered {'without' if aa else 'with'} AA"
        if not self._needs_answer:
            return ""
        if flags & _TC:
            return "answered with TC set: the answer does not fit, use check: tcp"
        why = self._judge_records(data)
        if not why:
            self._good = data[2:]
        return why

    def _judge_records(self, data: bytes) -> str:
        try:
            message = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError) as err:
            return f"answered what is no DNS message ({err or type(err).__name__})"
        kind = dns.rdatatype.from_text(self.query.type)
        records = [record for rrset in message.answer if rrset.rdtype == kind for record in rrset]
        missing = self._answer - {record.to_digestable() for record in records}
        if missing:
            return f"answered without {len(missing)} of the expected records"
        serial = self.query.expect.serial_at_least
        if serial is None:
            return ""
        found = next((record.serial for record in records if kind == dns.rdatatype.SOA), None)
        if found is None:
            return "answered without SOA"
        if (found - serial) % (1 << 32) >= _HALF:  # RFC 1982
            return f"answered serial {found}, which is before {serial}"
        return ""
