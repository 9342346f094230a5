"""Judging answers: whatever a backend sends is an answer, or a sentence about what is wrong with it."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.agent.probes.question import Question
from dnsteer.spec.model.health import Query

NUMBER = 4711


def question(**query: object) -> Question:
    return Question(Query.model_validate({"name": "example.org", **query}))


def answer(
    asked: Question, *records: str, rcode: int = 0, flags: int = dns.flags.QR | dns.flags.AA, number: int = NUMBER
) -> bytes:
    message = dns.message.make_response(dns.message.from_wire(asked.wire(number)))
    message.flags = flags
    message.set_rcode(dns.rcode.Rcode(rcode))
    for text in records:
        message.answer.append(dns.rrset.from_text("example.org.", 300, "IN", asked.query.type, text))
    return message.to_wire()


SOA = "ns.example.org. hostmaster.example.org. {} 3600 600 86400 300"


@pytest.mark.parametrize(
    ("query", "records", "changes", "why"),
    [
        ({}, [], {}, ""),
        ({}, [], {"rcode": 2}, "answered SERVFAIL, not NOERROR"),
        ({}, [], {"rcode": 3}, "answered NXDOMAIN, not NOERROR"),
        ({"expect": {"rcode": "NXDOMAIN"}}, [], {"rcode": 3}, ""),
        ({"expect": {"aa": True}}, [], {"flags": dns.flags.QR}, "answered without AA"),
        ({"expect": {"aa": False}}, [], {}, "answered with AA"),
        ({}, [], {"flags": dns.flags.QR | 0x2000}, "answered with opcode 4"),
        ({"type": "A", "expect": {"answer": "192.0.2.1"}}, ["192.0.2.1"], {}, ""),
        ({"type": "A", "expect": {"answer": "192.0.2.1"}}, ["192.0.2.2"], {}, "answered without 1 of the expected records"),
        ({"type": "A", "expect": {"answer": ["192.0.2.1", "192.0.2.2"]}}, ["192.0.2.2", "192.0.2.1"], {}, ""),
        ({"expect": {"serial_at_least": 7}}, [SOA.format(7)], {}, ""),
        ({"expect": {"serial_at_least": 7}}, [SOA.format(6)], {}, "answered serial 6, which is before 7"),
        ({"expect": {"serial_at_least": 4294967290}}, [SOA.format(3)], {}, ""),
        ({"expect": {"serial_at_least": 7}}, [], {}, "answered without SOA"),
        (
            {"expect": {"serial_at_least": 7}}, [], {"flags": dns.flags.QR | dns.flags.TC},
            "answered with TC set: the answer does not fit, use check: tcp",
        ),
        ({}, [], {"flags": dns.flags.QR | dns.flags.TC}, ""),
    ],
)  # fmt: skip
def test_answers_are_judged(query: dict[str, object], records: list[str], changes: dict[str, int], why: str) -> None:
    asked = question(**query)
    data = answer(asked, *records, **changes)
    assert asked.is_answer(data, NUMBER)
    assert asked.judge(data) == why
    assert asked.judge(data) == why, "the second time as well, which takes the shorter way"


def test_a_good_answer_is_not_taken_for_another_one() -> None:
    asked = question(type="A", expect={"answer": "192.0.2.1"})
    assert asked.judge(answer(asked, "192.0.2.1")) == ""
    assert asked.judge(answer(asked, "192.0.2.1", number=1)) == "", "the ID is the caller's business"
    assert asked.judge(answer(asked, "192.0.2.9")) != ""


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 11, question().wire(NUMBER), answer(question(), number=1), answer(question(), flags=0),
        answer(question(name="example.net")), answer(question(type="NS")), answer(question())[:12],
    ],
)  # fmt: skip
def test_what_is_no_answer_to_the_query(data: bytes) -> None:
    """Nothing, half of it, the query itself, another ID, another question."""
    assert not question().is_answer(data, NUMBER)


@given(st.binary(max_size=600), st.sampled_from([{}, {"type": "A", "expect": {"answer": "192.0.2.1"}}]))
def test_garbage_is_judged_too(garbage: bytes, query: dict[str, object]) -> None:
    asked = question(**query)
    data = answer(asked)[:-1] + garbage
    if asked.is_answer(data, NUMBER):
        assert isinstance(asked.judge(data), str)
