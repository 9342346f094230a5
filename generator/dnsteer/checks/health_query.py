"""Queries and commands of health checks that cannot work, or that expect what contradicts itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path, show_value
from dnsteer.spec.health_checks import EffectiveQuery, effective_query
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.health import RANDOM_LABEL, CheckKind, HealthCheck
from dnsteer.spec.model.spec import Pool

PLACEHOLDERS = ("address", "port", "pool", "backend")
"""What is replaced in the words of a command, in braces."""
_IN_BRACES = re.compile(r"\{([A-Za-z_]+)\}")
_ALIKE = 0.8
"""How much a word is like a placeholder to be taken for one that is misspelt: `print` of awk is not `port`."""


_EXAMPLES = {
    "A": "192.0.2.1",
    "AAAA": "2001:db8::1",
    "CAA": '0 issue "ca.example.org"',
    "CNAME": "www.example.org.",
    "DNSKEY": "257 3 13 BASE64",
    "DS": "12345 13 2 DIGEST",
    "HINFO": '"CPU" "OS"',
    "HTTPS": "1 . alpn=h2",
    "MX": "10 mail.example.org.",
    "NAPTR": '100 10 "u" "sip" "" target.example.org.',
    "NS": "ns1.example.org.",
    "PTR": "host.example.org.",
    "SOA": "ns1.example.org. hostmaster.example.org. 1 7200 900 1209600 300",
    "SRV": "0 5 853 ns1.example.org.",
    "SVCB": "1 ns1.example.org. alpn=dot",
    "TXT": '"v=spf1 -all"',
}
"""Data of a record of each type but ANY."""


def check_query(scope: Scope, path: Path, pool: Pool, check: HealthCheck) -> Iterator[Finding]:
    """Findings about the query or the command of the check at *path*."""
    if check.check is CheckKind.COMMAND:
        if "query" in check.model_fields_set:
            yield scope.finding(
                (*path, "query"),
                "a query with check: command",
                "a check that asks by DNS",
                "the command asks what it likes: remove the query, or write two checks",
            )
        yield from _command(scope, path, check)
        return
    base: Path = (*path, "query") if "query" in check.model_fields_set else path
    if pool.serves == "authoritative" and check.query.name is None and check.query.rdclass == "IN":
        yield scope.finding(
            base,
            "serves: authoritative and no name to ask for",
            "query.name: a zone that the servers have",
            "every server has other zones: health: {query: {name: example.org}}",
        )
        return
    query = effective_query(pool, check)
    if query.name.startswith(RANDOM_LABEL) and query.type == "SOA" and query.answers:
        yield scope.finding(
            base,
            f'a random label ("{query.name}") and type: SOA',
            "a type that the names below have, such as A",
            "only a zone's own name has an SOA: give the type of a wildcard record, or rcode: NXDOMAIN",
        )
    yield from _expected(scope, (*base, "expect"), check, query)


def _expected(scope: Scope, path: Path, check: HealthCheck, query: EffectiveQuery) -> Iterator[Finding]:
    expect = check.query.expect
    by_records = [
        key
        for key in ("answers", "answer", "serial_at_least", "serial_lag")
        if key in expect.model_fields_set and getattr(expect, key)
    ]
    if "NOERROR" not in query.rcodes:
        for key in by_records:
            yield scope.finding(
                (*path, key),
                f"{key} with rcode: {' or '.join(query.rcodes)}",
                "rcode: NOERROR",
                "other answers have no such records: leave one of the two out",
            )
    for key in ("serial_at_least", "serial_lag"):
        if getattr(expect, key) is not None and query.type != "SOA":
            yield scope.finding(
                (*path, key),
                f"{key} for type {query.type}{'' if check.query.type else ', the default here'}",
                "type: SOA",
                "only SOA records have a serial",
            )
    if expect.answer and query.type == "ANY":
        yield scope.finding(
            (*path, "answer"), "the data of records with type: ANY", "one type", "give the type of these records"
        )
        return
    for i, text in enumerate(expect.answer):
        at: Path = (*path, "answer", i)
        at = at if at in scope.doc.lines else at[:-1]  # a single one, written without a list
        wrong = _wrong_data(text, query)
        if wrong is not None:
            expected = f"the data of a record of type {query.type} as in a zone file, such as {_EXAMPLES[query.type]}"
            yield scope.finding(at, show_value(text), expected, wrong)


def _wrong_data(text: str, query: EffectiveQuery) -> str | None:
    """What is wrong with the data of a record, as a hint; None if nothing is."""
    import dns.name
    import dns.rdata
    import dns.rdataclass
    import dns.rdatatype  # here: specs without such data need not load it

    if len(text.splitlines()) > 1:
        return "one record each, on one line: write several as a list"
    rdclass, kind = dns.rdataclass.from_text(query.rdclass), dns.rdatatype.from_text(query.type)
    try:
        record = dns.rdata.from_text(rdclass, kind, text)
        record.to_digestable()  # what answers are compared by
    except dns.name.NeedAbsoluteNameOrOrigin:
        try:
            whole = dns.rdata.from_text(rdclass, kind, text, origin=dns.name.root, relativize=False).to_text()
        except Exception:  # noqa: BLE001  as below
            return "names end with a dot"
        return f'names end with a dot: write "{whole}"'
    except Exception as err:  # noqa: BLE001  whatever the library makes of text for which it has no error of its own
        text = str(err).strip().removesuffix(".") or type(err).__name__
        return text[:1].lower() + text[1:] if text[1:2].islower() else text
    return None


def _command(scope: Scope, path: Path, check: HealthCheck) -> Iterator[Finding]:
    for i, word in enumerate(check.command):
        at: Path = (*path, "command", i)
        if not word or "\0" in word:
            yield scope.finding(
                at, show_value(word), "a word without NUL characters" if word else "a word", "remove it"
            )
        for name in _IN_BRACES.findall(word):
            alike = difflib.get_close_matches(name.lower(), PLACEHOLDERS, n=1, cutoff=_ALIKE)
            whole = word == f"{{{name}}}"
            if name not in PLACEHOLDERS and (alike or whole):
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                hint = (
                    f'did you mean "{{{alike[0]}}}"?'
                    if alike
                    else "no other is replaced: a program that wants these braces is called by a script"
                )
                yield scope.finding(at, show_value(word), f"one of {known}", hint)
