# SPDX-License-Identifier: Apache-2.0
"""How the runbooks' module dnsteer_ask judges answers as kdig and dig print them, and what it says of those that fail."""

from __future__ import annotations

import importlib.util
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import dns.message
import dns.name
import dns.rrset
import pytest

pytest.importorskip("ansible")
FOLDER = Path(__file__).resolve().parents[2] / "runbooks" / "plugins" / "modules"
LIVENESS = {"rcode": ["NOERROR", "NXDOMAIN", "REFUSED"]}
ZONE = {"rcode": ["NOERROR"], "aa": True, "aa_rcodes": ["NOERROR"], "answers": 1}
RESOLVER = {"rcode": ["NOERROR"], "ra": True, "ra_rcodes": ["NOERROR"], "answers": 1}
SOA = "ns1.example.org. hostmaster.example.org. 2024010105 3600 900 604800 300"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ask, command = load("dnsteer_ask"), load("dnsteer_command")


def kdig(
    status: str = "NOERROR", flags: str = "qr aa", question: int = 1, answer: str = "", authority: str = ""
) -> str:
    """An answer as kdig 3.2 prints it."""
    sections = "".join(
        f";; {name} SECTION:\n{records}\n\n"
        for name, records in (("ANSWER", answer), ("AUTHORITY", authority))
        if records
    )
    asked = ";; QUESTION SECTION:\n;; example.org.        \t\tIN\tSOA\n\n" if question else ""
    return (
        f";; ->>HEADER<<- opcode: QUERY; status: {status}; id: 6241\n"
        f";; Flags: {flags}; QUERY: {question}; ANSWER: 1; AUTHORITY: 0; ADDITIONAL: 0\n\n{asked}{sections}"
        ";; Received 92 B\n;; Time 2026-01-01 00:00:00 UTC\n;; From 192.0.2.53@53(UDP) in 0.2 ms\n"
    )


def dig(text: str) -> str:
    """The same as dig 9.18 prints it."""
    asked = (
        text.replace("opcode: QUERY; status", "opcode: QUERY, status")
        .replace("; id", ", id")
        .replace("Flags:", "flags:")
    )
    return "\n; <<>> DiG 9.18 <<>> @192.0.2.53\n;; Got answer:\n" + asked.replace("; ANSWER:", ", ANSWER:")


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    (kdig("REFUSED", "qr"), "SOA", LIVENESS, ""),
    (
        kdig("REFUSED", "qr", question=0),
        "SOA",
        LIVENESS,
        "REFUSED without the question: is the address that asks allowed there?",
    ),
    (kdig("NOTIMP", "qr", question=0), "SOA", LIVENESS, "NOTIMP without the question"),
    (kdig("NOTIMP", "qr", question=0), "SOA", {"rcode": ["NOTIMP"]}, ""),
    (kdig("NXDOMAIN"), "A", {"rcode": ["NOERROR", "NXDOMAIN"], "answers": 1}, ""),
    (kdig("NXDOMAIN", "qr"), "SOA", {**ZONE, "rcode": ["NXDOMAIN"], "aa_rcodes": ["NXDOMAIN"]}, "NXDOMAIN without AA"),
    (kdig("REFUSED", "qr"), "SOA", {**ZONE, "rcode": ["NOERROR", "REFUSED"]}, ""),
    (kdig(flags="qr tc"), "SOA", ZONE, "NOERROR without AA"),
    (
        kdig(answer="a.example. 60 IN A 192.0.2.1\na.example. 60 IN CNAME b.example."),
        "A",
        {**ZONE, "answers": 2},
        "NOERROR with 1 A records, expected 2 or more",
    ),
    (kdig("SERVFAIL", "qr"), "SOA", LIVENESS, "SERVFAIL, expected NOERROR or NXDOMAIN or REFUSED"),
    (kdig(answer=f"example.org.\t60\tIN\tSOA\t{SOA}"), "SOA", ZONE, ""),
    (kdig(flags="qr", answer=f"example.org. 60 IN SOA {SOA}"), "SOA", ZONE, "NOERROR without AA"),
    (kdig(answer=f"example.org. 60 IN SOA {SOA}"), "SOA", {**ZONE, "aa": False}, "NOERROR with AA"),
    (kdig(), "SOA", ZONE, "NOERROR with 0 SOA records, expected 1 or more"),
    (kdig(flags="qr aa tc"), "SOA", ZONE, ""),
    (kdig("REFUSED", "qr tc"), "SOA", ZONE, "REFUSED, expected NOERROR"),
    (
        kdig(flags="qr rd ra", authority=". 60 IN NS a.root-servers.net."),
        "NS",
        RESOLVER,
        "NOERROR with 0 NS records, expected 1 or more: a referral",
    ),
    (kdig(flags="qr rd ra", answer=". 60 IN NS a.root-servers.net."), "NS", RESOLVER, ""),
    (kdig(flags="qr rd", answer=". 60 IN NS a.root-servers.net."), "NS", RESOLVER, "NOERROR without RA"),
    (kdig(answer="www.example.org. 60 IN CNAME example.org."), "A", ZONE, ""),
    (kdig(answer="a.example. 60 IN A 192.0.2.1\na.example. 60 IN A 192.0.2.2"), "A", {**ZONE, "answers": 2}, ""),
    (kdig(answer="a.example. 60 IN MX 10 Mail.example.org."), "MX", {**ZONE, "answer": ["10 mail.example.org"]}, ""),
    (kdig(answer='a.example. 60 IN TXT "one" "two"'), "TXT", {**ZONE, "answer": ['"one" "two"']}, ""),
    (kdig(answer="a.example. 60 IN AAAA 2001:db8::1"), "AAAA", {**ZONE, "answer": ["2001:db8:0:0::1"]}, ""),
    (
        kdig(answer="a.example. 60 IN A 192.0.2.1"),
        "A",
        {**ZONE, "answer": ["192.0.2.2"]},
        "an answer without 192.0.2.2",
    ),
    (kdig(answer=f"example.org. 60 IN SOA {SOA}"), "SOA", {**ZONE, "serial_at_least": 2024010105}, ""),
    (
        kdig(answer=f"example.org. 60 IN SOA {SOA}"),
        "SOA",
        {**ZONE, "serial_at_least": 2024010106},
        "serial 2024010105, expected 2024010106 or later",
    ),
]


@pytest.mark.parametrize(("text", "kind", "expect", "said"), CASES)
@pytest.mark.parametrize("as_printed", [str, dig])
def test_an_answer_is_judged(as_printed: Any, text: str, kind: str, expect: dict[str, Any], said: str) -> None:
    answer = ask.Answer(as_printed(text))
    assert ask.judge(answer, kind, expect) == said


def asking(question: dict[str, Any], **params: Any) -> Any:
    given = {
        "program": "kdig",
        "name": "",
        "type": "",
        "options": [],
        "transport_options": {"tcp": ["+tcp"]},
        "expect": "",
        "host": "client",
        "count": 1,
        "at_once": 1,
        "questions": [question],
    }
    return ask.Asking({**given, **params})


QUESTION = {
    "address": "192.0.2.53",
    "transport": "tcp",
    "port": 53,
    "backend": "ns1",
    "source_ports": [],
    "query": {"name": "example.org.", "type": "MX", "recursion": False},
    "expect": ZONE,
}


def test_the_probe_question_is_asked_unless_a_name_is_given() -> None:
    at = ["kdig", "@192.0.2.53", "-p", "53"]
    end = ["+retry=0", "+timeout=1", "+tcp"]

    def argv(question: dict[str, Any], **params: Any) -> list[str]:
        found: list[str] = asking(question, **params)._argv(question, None)
        assert found[:5] == [*at, "+noidn"]
        return found[5:]

    assert argv(QUESTION) == ["-q", "example.org.", "-t", "MX", "+norecurse", "+ignore", *end]
    resolver = {**QUESTION, "query": {"name": ".", "type": "NS", "recursion": True}}
    assert argv(resolver) == ["-q", ".", "-t", "NS", "+recurse", "+ignore", *end]
    assert argv(QUESTION, name="example.net") == ["-q", "example.net", "-t", "SOA", *end]
    assert argv(QUESTION, name="a.", type="A") == ["-q", "a.", "-t", "A", *end]
    random = {**QUESTION, "query": {"name": "*.check.example.org.", "type": "A", "recursion": True}}
    first, second = (argv(random)[1] for _ in range(2))
    assert first != second and first.endswith(".check.example.org.") and not first.startswith("*")


@pytest.mark.parametrize(
    ("timeout", "options", "said"),
    [
        (0.5, [], ["+retry=0", "+timeout=1"]),
        (1.0, [], ["+retry=0", "+timeout=1"]),
        (2.5, [], ["+retry=0", "+timeout=3"]),
        (2.5, ["+retry=2"], ["+retry=2"]),
    ],
)
def test_an_answer_may_take_as_long_as_the_check_says_unless_options_are_given(
    timeout: float, options: list[str], said: list[str]
) -> None:
    question = {**QUESTION, "query": {**QUESTION["query"], "timeout": timeout}}
    assert asking(question, options=options)._argv(question, None)[-len(said) - 1 : -1] == said


def test_dig_spells_that_a_name_is_as_it_is_written_in_another_way() -> None:
    found = asking(QUESTION, program="/usr/bin/dig")._argv(QUESTION, None)
    assert found[4:8] == ["+noidnin", "+noidnout", "-q", "example.org."]


@pytest.mark.skipif(shutil.which("kdig") is None, reason="kdig is not installed")
@pytest.mark.parametrize(
    "name", ["-a.example.org", "+x.example.org", r"\@x.example.org", "@x.example.org", "ab--cd.example.org"]
)
def test_kdig_asks_for_every_name_that_a_spec_may_have(name: str) -> None:
    """Some look like options or servers, or IDNA refuses them."""
    question = {**QUESTION, "transport": "udp", "query": {"name": name, "type": "TXT"}, "expect": {**ZONE, "aa": None}}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        question.update(address="127.0.0.1", port=server.getsockname()[1])
        asked: list[dns.message.Message] = []

        def answer() -> None:
            data, client = server.recvfrom(512)
            asked.append(dns.message.from_wire(data))
            response = dns.message.make_response(asked[0])
            response.answer.append(dns.rrset.from_text(asked[0].question[0].name, 60, "IN", "TXT", '"a"'))
            server.sendto(response.to_wire(), client)

        server.settimeout(10)
        with ThreadPoolExecutor(1) as pool:
            served = pool.submit(answer)
            found = asking(question, options=["+timeout=9", "+retry=0"])
            found.ask_all()
            problem = found.problem()
            if problem:
                server.sendto(b"", server.getsockname())  # nobody asked: let the thread end
            assert problem == ""
            served.result()
    assert asked[0].question[0].name == dns.name.from_text(name)


def test_failures_that_are_alike_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    each = [
        {**QUESTION, "address": address, "backend": name}
        for address in ("192.0.2.53", "2001:db8::53")
        for name in ("a", "b")
    ]
    found = asking(each[0], questions=each)
    monkeypatch.setattr(found, "_run", lambda *_: "REFUSED, expected NOERROR")
    found.ask_all()
    assert found.problem().splitlines() == [
        "4 of 4 questions got no good answer at client:",
        "192.0.2.53 tcp/53 (a, b): REFUSED, expected NOERROR",
        "2001:db8::53 tcp/53 (a, b): REFUSED, expected NOERROR",
        "to try it there: kdig @192.0.2.53 -p 53 +noidn -q example.org. -t MX +norecurse +ignore +retry=0 +timeout=1 +tcp",
    ]


def test_commands_in_messages_are_quoted_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    question = {**QUESTION, "query": {"name": r"\@x y.example.org", "type": "A"}}
    found = asking(question)
    monkeypatch.setattr(found, "_run", lambda *_: "response timeout")
    found.ask_all()
    assert r"-q '\@x y.example.org' -t A" in found.problem()


def test_many_failures_are_summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    each = [{**QUESTION, "port": port} for port in range(1, 101)]
    found = asking(each[0], questions=each)
    monkeypatch.setattr(found, "_run", lambda *_: "response timeout")
    found.ask_all()
    lines = found.problem().splitlines()
    assert len(lines) == 12 and lines[9:11] == ["and 12 more", "no more was asked after 20"]


def test_the_reason_of_a_command_is_its_error_in_lines() -> None:
    assert command.reason({"ok": False, "error": "one\ntwo"}, ["else"]) == ["one", "two"]
    found = {"file": "a.yaml", "line": 3, "path": "$.vips", "found": '"x"', "expected": "a number", "hint": ""}
    assert command.reason({"errors": [found]}, []) == ['a.yaml:3: $.vips: found "x"; expected a number']
    status = {
        "errors": [],
        "attention": [
            {"title": "The switch is not as applied", "detail": "2 differences."},
            {"title": "No agent", "detail": None},
        ],
    }
    assert command.reason(status, []) == ["The switch is not as applied: 2 differences.", "No agent"]
    assert command.reason({**status, "errors": ["state 3 is damaged"]}, []) == ["state 3 is damaged"]
    drift = {"kind": "flow missing", "about": "VIP dns", "detail": "table=20"}
    assert command.reason({"ok": False, "drift": [drift]}, []) == ["flow missing: VIP dns: table=20"]
    assert command.reason({}, ["what it printed"]) == ["what it printed"]
    assert command.parse("[1]") == command.parse("not JSON") == {} and command.parse('{"a": 1}') == {"a": 1}
