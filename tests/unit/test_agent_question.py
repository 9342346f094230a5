# SPDX-License-Identifier: Apache-2.0
"""Judging answers: whatever a backend sends is an answer, or a sentence about what is wrong with it."""

from __future__ import annotations

from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent.probes.question import Question
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import HealthCheck
from dnsteer.spec.model.spec import Pool

NUMBER = 4711
BACKEND = {"name": "b", "ipv4": "192.0.2.11", "mac": "02:00:00:00:01:01"}


def question(serves: str | None = None, **query: object) -> Question:
    """The question of a check; without a name that of a check that has no query."""
    pool = Pool.model_validate({"backends": [BACKEND], "serves": serves})
    return Question(effective_query(pool, HealthCheck.model_validate({"query": query})))


def answer(
    asked: Question,
    *records: str,
    rcode: int = 0,
    flags: int = dns.flags.QR | dns.flags.AA,
    number: int = NUMBER,
    type: str = "",
) -> bytes:
    """An answer with these *records*, of the *type* that was asked where none is given."""
    query = dns.message.from_wire(asked.wire(number))
    message = dns.message.make_response(query)
    message.flags = flags
    message.set_rcode(dns.rcode.Rcode(rcode))
    for text in records:
        name, rdclass = query.question[0].name, asked.query.rdclass
        message.answer.append(dns.rrset.from_text(name, 300, rdclass, type or asked.query.type, text))
    return message.to_wire()


SOA = "ns.example.org. hostmaster.example.org. {} 3600 600 86400 300"


NAMED = {"name": "example.org"}
QR, AA, TC, RD, RA = dns.flags.QR, dns.flags.AA, dns.flags.TC, dns.flags.RD, dns.flags.RA
NO_AA = "answered without AA: not as a server of the zone"
NOT_RECURSIVE = ": a resolver, which wants RD in a query (serves: resolver)"
NOT_ALLOWED = ": it serves no such zone, or the probe's address is not allowed"


@pytest.mark.parametrize(
    ("query", "records", "changes", "why"),
    [
        (NAMED, [SOA.format(1)], {}, ""),
        (NAMED, [], {}, "answered with no SOA record"),
        (NAMED, [], {"rcode": 2}, "answered SERVFAIL, not NOERROR"),
        (NAMED, [], {"rcode": 3}, "answered NXDOMAIN, not NOERROR"),
        (NAMED, [], {"rcode": 5}, f"answered REFUSED, not NOERROR{NOT_ALLOWED}"),
        (NAMED, [], {"rcode": 5, "flags": QR | RA}, f"answered REFUSED, not NOERROR{NOT_RECURSIVE}"),
        ({**NAMED, "recursion": True}, [], {"rcode": 5, "flags": QR | RA}, "answered REFUSED, not NOERROR"),
        ({**NAMED, "expect": {"rcode": "NXDOMAIN"}}, [], {"rcode": 3}, ""),
        ({**NAMED, "expect": {"rcode": ["NXDOMAIN", "NOERROR"]}}, [], {"rcode": 3}, ""),
        ({**NAMED, "expect": {"rcode": ["NXDOMAIN", "NOERROR"]}}, [], {}, "answered with no SOA record"),
        (
            {**NAMED, "expect": {"rcode": ["NXDOMAIN", "NOERROR"]}},
            [],
            {"rcode": 2},
            "answered SERVFAIL, not NXDOMAIN or NOERROR",
        ),
        ({**NAMED, "expect": {"aa": True}}, [], {"flags": QR}, NO_AA),
        ({**NAMED, "expect": {"aa": False}}, [], {}, "answered with AA"),
        ({**NAMED, "expect": {"recursion_available": False}}, [], {"flags": QR | RA}, "answered with RA"),
        (NAMED, [], {"flags": QR | 0x2000}, "answered with opcode 4"),
        ({**NAMED, "type": "A", "expect": {"answer": "192.0.2.1"}}, ["192.0.2.1"], {}, ""),
        (
            {**NAMED, "type": "A", "expect": {"answer": "192.0.2.1"}},
            ["192.0.2.2"],
            {},
            "answered without 1 of the expected records",
        ),
        ({**NAMED, "type": "A", "expect": {"answer": ["192.0.2.1", "192.0.2.2"]}}, ["192.0.2.2", "192.0.2.1"], {}, ""),
        ({**NAMED, "type": "A", "expect": {"answers": 2}}, ["192.0.2.2", "192.0.2.1"], {}, ""),
        ({**NAMED, "type": "A", "expect": {"answers": 2}}, ["192.0.2.2"], {}, "answered with 1 A records, not 2"),
        ({**NAMED, "type": "A"}, ["www.example.net."], {"type": "CNAME"}, ""),
        ({**NAMED, "type": "A"}, ["2001:db8::1"], {"type": "AAAA"}, "answered with no A record"),
        ({**NAMED, "type": "ANY"}, ["2001:db8::1"], {"type": "AAAA"}, ""),
        ({**NAMED, "expect": {"answers": 0}}, [], {}, ""),
        ({**NAMED, "expect": {"serial_at_least": 7}}, [SOA.format(7)], {}, ""),
        ({**NAMED, "expect": {"serial_at_least": 7}}, [SOA.format(6)], {}, "answered serial 6, which is before 7"),
        ({**NAMED, "expect": {"serial_at_least": 4294967290}}, [SOA.format(3)], {}, ""),
        ({**NAMED, "expect": {"serial_at_least": 7, "answers": 0}}, [], {}, "answered without SOA"),
        (
            {**NAMED, "expect": {"serial_at_least": 7}},
            [],
            {"flags": QR | TC},
            "answered with TC: it is rate-limited, or the answer is too long for UDP (check: tcp)",
        ),
        (NAMED, [], {"flags": QR | TC}, ""),
        # Nothing is said: what answers is alive.
        ({}, [], {}, ""),
        ({}, [], {"rcode": 3}, ""),
        ({}, [], {"rcode": 5, "flags": QR}, ""),
        ({}, [], {"rcode": 2}, "answered SERVFAIL, not NOERROR or NXDOMAIN or REFUSED"),
        # Servers of zones.
        ({"serves": "authoritative", **NAMED}, [SOA.format(1)], {}, ""),
        ({"serves": "authoritative", **NAMED}, [SOA.format(1)], {"flags": QR}, NO_AA),
        ({"serves": "authoritative", **NAMED}, [], {}, "answered with no SOA record"),
        ({"serves": "authoritative", **NAMED, "expect": {"aa": False}}, [SOA.format(1)], {"flags": QR}, ""),
        ({"serves": "authoritative", **NAMED, "expect": {"rcode": "REFUSED"}}, [], {"flags": QR, "rcode": 5}, ""),
        (
            {"serves": "authoritative", **NAMED, "expect": {"rcode": ["NOERROR", "REFUSED"]}},
            [],
            {"flags": QR, "rcode": 5},
            "",
        ),
        (
            {"serves": "authoritative", **NAMED, "expect": {"rcode": ["NOERROR", "NXDOMAIN"]}},
            [],
            {"flags": QR, "rcode": 3},
            NO_AA,
        ),
        (
            {"serves": "authoritative", **NAMED, "expect": {"rcode": ["NOERROR", "REFUSED"], "aa": True}},
            [],
            {"flags": QR, "rcode": 5},
            NO_AA,
        ),
        ({"serves": "authoritative", "name": "id.server", "type": "TXT", "class": "CH"}, ['"ns1"'], {"flags": QR}, ""),
        # Resolvers.
        ({"serves": "resolver"}, ["a.root-servers.net."], {"flags": QR | RA}, ""),
        ({"serves": "resolver"}, [], {"flags": QR | RA}, "answered with no NS record"),
        ({"serves": "resolver"}, [], {"flags": QR | RA | TC}, ""),
        (
            {"serves": "resolver"},
            ["a.root-servers.net."],
            {"flags": QR},
            "answered without RA: no recursion for the probe's address",
        ),
        ({"serves": "resolver"}, [], {"flags": QR | RA, "rcode": 2}, "answered SERVFAIL, not NOERROR"),
        ({"serves": "resolver", "expect": {"rcode": ["NOERROR", "SERVFAIL"]}}, [], {"flags": QR, "rcode": 2}, ""),
        ({"serves": "resolver", **NAMED}, ["192.0.2.1"], {"flags": QR | RA}, ""),
    ],
)
def test_answers_are_judged_by_the_expected_values(
    query: dict[str, object], records: list[str], changes: dict[str, Any], why: str
) -> None:
    asked = question(**query)
    data = answer(asked, *records, **changes)
    assert asked.is_answer(data, asked.wire(NUMBER))
    assert asked.judge(data).why == why
    assert asked.judge(data).why == why, "the second time as well, which takes the shorter way"


def test_whether_it_was_an_answer_is_known_the_second_time_too() -> None:
    """A zone that is behind others' fails for its serial alone."""
    asked = question(**NAMED, expect={"serial_lag": "10m"})
    data = answer(asked, SOA.format(5))
    assert asked.judge(data) == asked.judge(data) == ("", 5, True)
    assert asked.judge(answer(asked, rcode=2)).answered is False
    assert asked.judge(answer(asked, rcode=3)).answered is True


def test_a_referral_is_no_answer() -> None:
    """What a BIND without upstream makes of a name that it does not have, from its root hints."""
    asked = question(serves="resolver")
    message = dns.message.from_wire(answer(asked, flags=QR | RA))
    message.authority.append(dns.rrset.from_text(".", 300, "IN", "NS", "a.root-servers.net."))
    assert asked.judge(message.to_wire()).why == "answered with a referral to other servers"


@pytest.mark.parametrize(
    ("rcode", "expected", "why"),
    [
        (5, {}, "answered REFUSED without the question: is the probe's address allowed?"),
        (
            5,
            {"rcode": ["REFUSED", "NOERROR"]},
            "answered REFUSED without the question: is the probe's address allowed?",
        ),
        (1, {}, "answered FORMERR without the question"),
        (4, {}, "answered NOTIMP without the question"),
        (4, {"rcode": "NOTIMP"}, ""),
        (4, {"rcode": "NOTIMP", "aa": True}, ""),
    ],
)
def test_an_error_without_the_question_is_an_answer(rcode: int, expected: dict[str, object], why: str) -> None:
    """A bare header, as Unbound's access list sends it, and NSD and BIND for what they do not read."""
    asked = question(expect=expected)
    wire = asked.wire(NUMBER)
    bare = wire[:2] + bytes([0x80, rcode]) + bytes(8)
    assert asked.is_answer(bare, wire)
    assert asked.judge(bare).why == why
    assert not asked.is_answer(wire[:2] + bytes([0x80, 0]) + bytes(8), wire), "NOERROR about nothing is no answer"


def test_an_extended_error_is_named() -> None:
    asked = question(name="example.org", edns_size=1232, recursion=True)
    message = dns.message.from_wire(answer(asked, rcode=5, flags=QR | RA))
    message.use_edns(0, options=[dns.edns.EDEOption(dns.edns.EDECode.PROHIBITED, "not you")])
    assert asked.judge(message.to_wire()).why == "answered REFUSED, not NOERROR (EDE 18 not you)"


@pytest.mark.parametrize(
    ("query", "name", "flags", "edns"),
    [
        ({}, ". IN SOA", 0, -1),
        ({"serves": "resolver"}, ". IN NS", RD, -1),
        ({"serves": "resolver", "recursion": False}, ". IN NS", 0, -1),
        ({"serves": "resolver", "name": "www.example.org"}, "www.example.org. IN A", RD, -1),
        ({"serves": "authoritative", "name": "example.org"}, "example.org. IN SOA", 0, -1),
        ({"name": "example.org", "recursion": True, "cd": True}, "example.org. IN SOA", RD | dns.flags.CD, -1),
        ({"name": "version.bind", "class": "CH"}, "version.bind. CH TXT", 0, -1),
        ({"serves": "authoritative", "class": "CH"}, "id.server. CH TXT", 0, -1),
        ({"serves": "resolver", "class": "CH"}, "id.server. CH TXT", RD, -1),
        ({"name": "example.org", "edns_size": 4096}, "example.org. IN SOA", 0, 4096),
        ({"name": "example.org", "do": True}, "example.org. IN SOA", 0, 1232),
        ({"name": r"\*.example.org", "type": "A"}, "*.example.org. IN A", 0, -1),
        ({"name": "128/26.2.0.192.in-addr.arpa", "type": "PTR"}, "128/26.2.0.192.in-addr.arpa. IN PTR", 0, -1),
    ],
)
def test_the_query_has_the_configured_fields(query: dict[str, object], name: str, flags: int, edns: int) -> None:
    sent = dns.message.from_wire(question(**query).wire(NUMBER))
    assert [q.to_text() for q in sent.question] == [name]
    assert (sent.id, sent.flags, sent.payload if sent.edns >= 0 else -1) == (NUMBER, flags, edns)
    assert bool(sent.ednsflags & dns.flags.DO) == bool(query.get("do"))


def test_the_longest_name_with_a_random_label_can_be_asked_for() -> None:
    asked = question(name=".".join(("*", *["a" * 63] * 3, "b" * 44)), type="A")
    assert len(dns.message.from_wire(asked.wire(NUMBER)).question[0].name.to_wire()) == 255


def test_a_random_label_is_another_one_each_time() -> None:
    asked = question(serves="resolver", name="*.check.example.org")
    wires = [asked.wire(NUMBER) for _ in range(50)]
    names = {dns.message.from_wire(wire).question[0].name for wire in wires}
    assert len(names) == 50 and {len(name.labels[0]) for name in names} == {16}
    assert {name.parent().to_text() for name in names} == {"check.example.org."}
    good = [dns.message.make_response(dns.message.from_wire(wire)) for wire in wires[:2]]
    for message in good:
        message.flags |= RA
        message.answer.append(dns.rrset.from_text(message.question[0].name, 300, "IN", "A", "192.0.2.1"))
    assert asked.is_answer(good[0].to_wire(), wires[0]) and asked.judge(good[0].to_wire()).why == ""
    assert not asked.is_answer(good[1].to_wire(), wires[0]), "what another query was asked"


def test_a_good_answer_is_not_taken_for_another_one() -> None:
    asked = question(**NAMED, type="A", expect={"answer": "192.0.2.1"})
    assert asked.judge(answer(asked, "192.0.2.1")).why == ""
    assert asked.judge(answer(asked, "192.0.2.1", number=1)).why == "", "the ID is the caller's business"
    assert asked.judge(answer(asked, "192.0.2.9")).why != ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 11,
        question(**NAMED).wire(NUMBER),
        answer(question(**NAMED), number=1),
        answer(question(**NAMED), flags=0),
        answer(question(name="example.net")),
        answer(question(**NAMED, type="NS")),
        answer(question(**NAMED))[:12],
        answer(question(**NAMED, **{"class": "CH"})),
    ],
)
def test_a_message_that_does_not_match_the_query_is_no_answer(data: bytes) -> None:
    """Nothing, half of it, the query itself, another ID, another question."""
    asked = question(**NAMED)
    assert not asked.is_answer(data, asked.wire(NUMBER))


@given(st.binary(max_size=600), st.sampled_from([{}, {**NAMED, "type": "A", "expect": {"answer": "192.0.2.1"}}]))
def test_garbage_is_judged_without_an_exception(garbage: bytes, query: dict[str, object]) -> None:
    asked = question(**query)
    data = answer(asked)[:-1] + garbage
    if asked.is_answer(data, asked.wire(NUMBER)):
        assert isinstance(asked.judge(data).why, str)
