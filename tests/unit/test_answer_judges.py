# SPDX-License-Identifier: Apache-2.0
"""The agent and the runbooks' probe judge answers by one check: what one of them takes as good the other one does too."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from types import SimpleNamespace
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

pytest.importorskip("ansible")

from dnsteer.agent.probes.question import Question
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import HealthCheck
from dnsteer.spec.model.spec import Pool
from dnsteer.status.probes import query_of
from tests.unit.test_runbook_ask import ask, dig, kdig

BACKEND = {"name": "b", "ipv4": "192.0.2.11", "mac": "02:00:00:00:01:01"}
RCODES = ("NOERROR", "NXDOMAIN", "REFUSED", "SERVFAIL", "NOTIMP")
FLAGS = ([], ["AA"], ["RA"], ["AA", "RA"], ["TC"], ["AA", "TC"], ["RA", "TC"])
A, AAAA, CNAME = ("A", "192.0.2.1"), ("AAAA", "2001:db8::1"), ("CNAME", "www.example.net.")
RECORDS = ([], [A], [A, ("A", "192.0.2.2")], [AAAA], [CNAME], [CNAME, A])
EXPECT: tuple[dict[str, Any], ...] = (
    {},
    {"rcode": "NXDOMAIN"},
    {"rcode": ["NOERROR", "NXDOMAIN"]},
    {"rcode": ["NOERROR", "REFUSED"]},
    {"rcode": ["NOERROR", "NXDOMAIN", "REFUSED"]},
    {"rcode": ["SERVFAIL", "NOTIMP"]},
    {"answers": 0},
    {"answers": 2},
    {"aa": True},
    {"aa": False},
    {"recursion_available": True},
    {"recursion_available": False},
    {"rcode": ["NOERROR", "REFUSED"], "aa": True},
    {"rcode": ["NOERROR", "REFUSED"], "recursion_available": False},
    {"answer": "192.0.2.1"},
    {"answer": ["192.0.2.1", "192.0.2.2"]},
)


def checks() -> list[tuple[str | None, dict[str, Any]]]:
    """What a pool serves, and the query of its check."""
    named = [
        (serves, {"name": "example.org", "type": "A", "expect": e})
        for serves, e in product((None, "authoritative", "resolver"), EXPECT)
    ]
    anything = [
        ("authoritative", {"name": "example.org", "type": "ANY"}),
        (None, {"name": "example.org", "type": "CNAME"}),
    ]
    return [*named, *anything, (None, {}), ("resolver", {})]


@pytest.mark.parametrize("printed_by", [str, dig], ids=["kdig", "dig"])
@pytest.mark.parametrize(("serves", "query"), checks(), ids=str)
def test_the_agent_and_the_playbook_judge_answers_alike(
    printed_by: Any, serves: str | None, query: dict[str, Any]
) -> None:
    check = HealthCheck.model_validate({"query": query})
    pool = Pool.model_validate({"backends": [BACKEND], "serves": serves, "health": {"query": query}})
    question = Question(effective_query(pool, check))
    asked, expect = query_of(SimpleNamespace(pools={"farm": pool}), "farm")  # type: ignore[arg-type]
    for rcode, flags, records, bare in product(RCODES, FLAGS, RECORDS, (False, True)):
        if bare and (rcode == "NOERROR" or records):
            continue  # what the agent does not take as an answer at all
        if expect.answer and "TC" in flags and rcode == "NOERROR":
            continue  # good for the probe, which asks by UDP also where the check does not
        wire, text = sent(question, rcode, flags, records, bare)
        of_agent = question.judge(wire).why
        of_probe = ask.judge(ask.Answer(printed_by(text)), asked.type, asdict(expect))
        assert bool(of_agent) == bool(of_probe), (rcode, flags, records, bare, of_agent, of_probe)


def sent(
    question: Question, rcode: str, flags: list[str], records: list[tuple[str, str]], bare: bool
) -> tuple[bytes, str]:
    """An answer as bytes, and as kdig prints it."""
    message = dns.message.make_response(dns.message.from_wire(question.wire(1)))
    name = message.question[0].name
    message.flags = dns.flags.from_text(" ".join(["QR", *flags]))
    message.set_rcode(dns.rcode.from_text(rcode))
    for kind, data in records:
        message.answer.append(dns.rrset.from_text(name, 60, "IN", kind, data))
    if bare:
        message.question = []
    lines = "\n".join(f"{name} 60 IN {kind} {data}" for kind, data in records)
    return message.to_wire(), kdig(rcode, " ".join(["qr", *map(str.lower, flags)]), int(not bare), lines)
