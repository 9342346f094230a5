# SPDX-License-Identifier: Apache-2.0
"""The query of a health check, encoded once, and the judgement of an answer.

Most answers are the same each time, so an answer is compared with the last good one first, byte by byte; dnspython reads
only those that differ, and only where the check asks for more than the header shows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype

from dnsteer.spec.health_checks import EffectiveQuery
from dnsteer.spec.model.health import RANDOM_LABEL, RANDOM_LABEL_OCTETS

_HEADER = 12
_OPCODE, _AA, _TC, _RA, _RCODE = 0x7800, 0x0400, 0x0200, 0x0080, 0x000F
_HALF = 1 << 31
_LABEL_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
"""Alphabet of a random label: with its length 82 bits, so that none comes twice."""


class Verdict(NamedTuple):
    """What is wrong with an answer, empty when it is as the check expects, and the serial of its SOA where that counts.

    *answered*: a bad answer is one to the query all the same, other than SERVFAIL, by which a server says that it cannot.
    """

    why: str = ""
    serial: int | None = None
    answered: bool = False


class Question:
    """A query as bytes, but for what is another one each time, which `wire` adds. Judges answers to it."""

    def __init__(self, query: EffectiveQuery) -> None:
        self.query = query
        self._random = query.name.startswith(RANDOM_LABEL)
        name = "a" * RANDOM_LABEL_OCTETS + query.name[1:] if self._random else query.name
        message = dns.message.make_query(
            name,
            query.type,
            query.rdclass,
            id=0,
            use_edns=0 if query.edns_size else None,
            payload=query.edns_size or None,
            want_dnssec=query.do,
        )
        for flag, wanted in ((dns.flags.RD, query.recursion), (dns.flags.CD, query.cd)):
            message.flags = message.flags | flag if wanted else message.flags & ~flag
        self._wire = message.to_wire()
        question = dns.message.make_query(name, query.type, query.rdclass, id=0).to_wire()
        self._end = len(question)
        """Where the question section ends."""
        self._rcodes, self._aa_rcodes, self._recursion_rcodes = (
            frozenset(int(dns.rcode.from_text(rcode)) for rcode in rcodes)
            for rcodes in (query.rcodes, query.aa_rcodes, query.recursion_rcodes)
        )
        self._type = dns.rdatatype.from_text(query.type)
        rdclass = dns.rdataclass.from_text(query.rdclass)
        self._answer = frozenset(
            dns.rdata.from_text(rdclass, self._type, text).to_digestable() for text in query.answer
        )
        self._wants_serial = query.serial_at_least is not None or query.serial_lag is not None
        self._wants_data = bool(self._answer) or self._wants_serial
        self._good, self._good_verdict = b"", Verdict()

    def wire(self, number: int) -> bytes:
        """The query with the ID *number*."""
        begin, rest = number.to_bytes(2, "big") + self._wire[2 : _HEADER + 1], self._wire[_HEADER + 1 :]
        if self._random:
            label = "".join(random.choices(_LABEL_CHARACTERS, k=RANDOM_LABEL_OCTETS))
            rest = label.encode() + rest[RANDOM_LABEL_OCTETS:]
        return begin + rest

    def is_answer(self, data: bytes, wire: bytes) -> bool:
        """Whether *data* answers the query *wire*; anything else is not the backend's business with us.

        An error may come without the question: servers send a bare header where they do not want to read the query.
        """
        if len(data) < _HEADER or data[:2] != wire[:2] or not data[2] & 0x80:
            return False
        if data[4:6] == b"\0\0":
            return bool(data[3] & _RCODE)
        return data[4:6] == b"\0\1" and data[_HEADER : self._end].lower() == wire[_HEADER : self._end].lower()

    def judge(self, data: bytes) -> Verdict:
        """Say what is wrong with an answer."""
        if data[2:] != self._good:
            return self._judge(data)._replace(answered=data[3] & _RCODE != dns.rcode.SERVFAIL)
        return self._good_verdict._replace(answered=True)

    def _judge(self, data: bytes) -> Verdict:
        why = self._judge_header(data)
        if why:
            return Verdict(why)
        flags = int.from_bytes(data[2:4], "big")
        if flags & _RCODE or not (self.query.answers or self._wants_data):
            return Verdict()
        if flags & _TC:
            cut = "answered with TC: it is rate-limited, or the answer is too long for UDP (check: tcp)"
            return Verdict(cut if self._wants_data else "")
        verdict = self._judge_records(data)
        if not verdict.why:
            self._good, self._good_verdict = data[2:], verdict
        return verdict

    def _judge_header(self, data: bytes) -> str:
        flags, query = int.from_bytes(data[2:4], "big"), self.query
        if flags & _OPCODE:
            return f"answered with opcode {(flags & _OPCODE) >> 11}"
        code = dns.rcode.Rcode(flags & _RCODE)
        bare = data[4:6] == b"\0\0"
        if code not in self._rcodes or (bare and code is dns.rcode.REFUSED):
            return f"answered {dns.rcode.to_text(code)}{self._about_rcode(code, flags, bare)}{_extended_error(data)}"
        if bare:
            return ""
        if query.aa is not None and bool(flags & _AA) != query.aa and code in self._aa_rcodes:
            return "answered without AA: not as a server of the zone" if query.aa else "answered with AA"
        wants_ra, ra = query.recursion_available, bool(flags & _RA)
        if wants_ra is not None and ra != wants_ra and code in self._recursion_rcodes:
            if wants_ra:
                return "answered without RA: no recursion for the probe's address"
            return "answered with RA"
        return ""

    def _about_rcode(self, code: dns.rcode.Rcode, flags: int, bare: bool) -> str:
        """What an unwanted response code means, where that is known."""
        refused, recurses = code is dns.rcode.REFUSED, bool(flags & _RA)
        if bare:
            return " without the question" + (": is the probe's address allowed?" if refused else "")
        wanted = f", not {' or '.join(self.query.rcodes)}"
        if refused and not recurses:
            return f"{wanted}: it serves no such zone, or the probe's address is not allowed"
        if refused and not self.query.recursion:
            return f"{wanted}: a resolver, which wants RD in a query (serves: resolver)"
        return wanted

    def _judge_records(self, data: bytes) -> Verdict:
        try:
            message = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError) as err:
            return Verdict(f"answered what is no DNS message ({err or type(err).__name__})")
        rrsets = [rrset for rrset in message.answer if self._type in (rrset.rdtype, dns.rdatatype.ANY)]
        records = [record for rrset in rrsets for record in rrset]
        aliases = 0 if rrsets else sum(rrset.rdtype == dns.rdatatype.CNAME for rrset in message.answer)
        if len(records) + aliases < self.query.answers:
            return Verdict(self._too_few(message, len(records)))
        missing = self._answer - {record.to_digestable() for record in records}
        if missing:
            return Verdict(f"answered without {len(missing)} of the expected records")
        return self._judge_serial(records) if self._wants_serial else Verdict()

    def _too_few(self, message: dns.message.Message, number: int) -> str:
        """What an answer with this *number* of records has instead of those that are expected."""
        kinds = {rrset.rdtype for rrset in message.authority}
        if not message.answer and dns.rdatatype.NS in kinds and dns.rdatatype.SOA not in kinds:
            return "answered with a referral to other servers"
        of_type = self.query.type
        return "answered with " + (
            f"{number} {of_type} records, not {self.query.answers}" if number else f"no {of_type} record"
        )

    def _judge_serial(self, records: Iterable[Any]) -> Verdict:
        serial = next((record.serial for record in records if self._type == dns.rdatatype.SOA), None)
        if serial is None:
            return Verdict("answered without SOA")
        least = self.query.serial_at_least
        if least is not None and is_before(serial, least):
            return Verdict(f"answered serial {serial}, which is before {least}")
        return Verdict(serial=serial)


def is_before(serial: int, other: int) -> bool:
    """Whether an SOA serial is before another one, as RFC 1982 compares them."""
    return (serial - other) % (1 << 32) >= _HALF


def _extended_error(data: bytes) -> str:
    """The extended DNS error (RFC 8914) that an answer has, in brackets."""
    try:
        errors = dns.message.from_wire(data, ignore_trailing=True).extended_errors()
    except (dns.exception.DNSException, ValueError):
        return ""
    texts = [f"{int(e.code)} {e.text}".strip() for e in errors]
    return f" (EDE {', '.join(texts)})" if texts else ""
