# SPDX-License-Identifier: Apache-2.0
"""Events as lines and in the journal: whatever is in their values, a line stays a line, and a field a field."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shlex
import socket
import struct
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.events.event import COMMON, KINDS, Event, EventName
from dnsteer.events.event_log import Journal, Log, encoded, is_journal
from dnsteer.events.formats import MAX_VALUE_CHARACTERS, Format, as_logfmt, as_text, event_as_json

TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
HOSTILE = 'late\nFOO=bar\r\x1b[31m "quoted" = \\ \x00\u2028\u202e\ud800 Zürich'


def event(text: str = "ns1 is late", **fields: Any) -> Event:
    return Event(TIME, "warning", "check", text, fields)


def test_text_is_the_message_alone() -> None:
    assert as_text(event(pool="farm", decision="d2")) == "ns1 is late"
    assert as_text(event("a\nb\x1b")) == "a\\nb\\x1b"


def test_json_and_logfmt_have_all_fields_in_order() -> None:
    one = event(
        pool="farm", backend="ns 1", bridge="br", took=0.25, exit=0, services=["853/tcp", "443/tcp"], none=None, no=""
    )
    assert list(json.loads(event_as_json(one)).items()) == [
        ("time", "2026-01-02T03:04:05.678Z"),
        ("level", "warning"),
        ("event", "check"),
        ("bridge", "br"),
        ("pool", "farm"),
        ("backend", "ns 1"),
        ("took", 0.25),
        ("exit", 0),
        ("services", ["853/tcp", "443/tcp"]),
        ("message", "ns1 is late"),
    ]
    assert as_logfmt(one) == (
        'time=2026-01-02T03:04:05.678Z level=warning event=check bridge=br pool=farm backend="ns 1" took=0.25 exit=0 '
        'services=853/tcp,443/tcp message="ns1 is late"'
    )


def read_logfmt(line: str) -> dict[str, str]:
    """Independent of what writes it: words as a shell has them, with JSON's escapes in the quotes."""
    found, rest = {}, line
    while rest:
        m = re.match(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"=]*)(?: |\Z)', rest)
        assert m is not None, rest
        found[m[1]] = json.loads(m[2]) if m[2].startswith('"') else m[2]
        rest = rest[m.end() :]
    return found


@given(st.text(st.characters(codec=None)))
def test_random_values_are_one_line_and_read_back(text: str) -> None:
    for made in (as_text, event_as_json, as_logfmt):
        line = made(event(text, reason=text))
        assert line.isprintable()  # no newline, nothing that a terminal obeys
        assert len(line.splitlines()) <= 1
    wanted = {} if text == "" else {"reason": text}
    value = json.loads(event_as_json(event(text, reason=text)))
    assert {k: v for k, v in value.items() if k == "reason"} == wanted and value["message"] == text
    read = read_logfmt(as_logfmt(event(text, reason=text)))
    assert {k: v for k, v in read.items() if k == "reason"} == wanted and read["message"] == text


def test_a_hostile_value_forges_nothing() -> None:
    assert set(json.loads(event_as_json(event(reason=HOSTILE)))) == {"time", "level", "event", "reason", "message"}
    assert "FOO" not in read_logfmt(as_logfmt(event(reason=HOSTILE)))
    assert shlex.split(as_logfmt(event(reason="a b")))[3] == "reason=a b"


def test_a_long_value_is_cut() -> None:
    value = json.loads(event_as_json(event("y" * 100_000, reason="x" * 100_000, backends=["z" * 100_000])))
    assert [len(value["reason"]), len(value["message"]), len(value["backends"][0])] == [MAX_VALUE_CHARACTERS] * 3
    assert value["reason"].endswith("x...")


def read_journal(data: bytes) -> dict[str, bytes]:
    """The fields of a datagram, by the documented protocol."""
    found: dict[str, bytes] = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (size,) = struct.unpack_from("<Q", rest)
            value, rest = rest[8 : 8 + size], rest[8 + size :]
            assert rest[:1] == b"\n"
            rest = rest[1:]
        assert re.fullmatch(rb"[A-Z][A-Z0-9_]{0,63}", name), name
        assert name.decode() not in found
        found[name.decode()], data = value, rest
    return found


def test_the_journal_gets_fields() -> None:
    one = event(pool="farm", decision="d21", services=["853/tcp", "443/tcp"], duration_s=0.25)
    assert read_journal(encoded(one, as_text(one))) == {
        "MESSAGE": b"ns1 is late",
        "PRIORITY": b"4",
        "SYSLOG_IDENTIFIER": b"dnsteer",
        "DNSTEER_EVENT": b"check",
        "DNSTEER_POOL": b"farm",
        "DNSTEER_DECISION": b"d21",
        "DNSTEER_SERVICES": b"853/tcp,443/tcp",
        "DNSTEER_DURATION_S": b"0.25",
    }


@given(st.text(st.characters(codec=None)))
def test_values_cannot_forge_journal_fields(text: str) -> None:
    one = event(text, reason=text)
    found = read_journal(encoded(one, as_text(one)))
    assert set(found) - {"DNSTEER_REASON"} == {"MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "DNSTEER_EVENT"}
    if text:
        assert found["DNSTEER_REASON"] == text.encode(errors="backslashreplace")


def test_lines_go_to_the_journal_or_else_to_the_stream(tmp_path: Path) -> None:
    path, stream = tmp_path / "journal", io.StringIO()
    log = Log(stream, Format.TEXT, Journal(str(path)), lambda: TIME)
    log.say("nobody listens", "trouble")
    assert stream.getvalue() == "nobody listens\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(path))
        journal.settimeout(5)
        log.say("ns1 is\nlate", "check", "warning", reason=HOSTILE)
        found = read_journal(journal.recv(1 << 16))
        assert (found["MESSAGE"], found["PRIORITY"]) == (b"ns1 is\\nlate", b"4")
        assert b"\nFOO=bar" in found["DNSTEER_REASON"]
        log = Log(stream, Format.JSON, Journal(str(path)), lambda: TIME)
        log.say("a", "check")
        assert json.loads(read_journal(journal.recv(1 << 16))["MESSAGE"])["event"] == "check"
    assert stream.getvalue() == "nobody listens\n"


def test_a_journal_that_takes_nothing_more_delays_little(tmp_path: Path) -> None:
    path, stream = tmp_path / "journal", io.StringIO()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(path))
        log = Log(stream, Format.TEXT, Journal(str(path)), lambda: TIME)
        while not stream.getvalue():  # nobody reads: the queue gets full
            log.say("line", "check")
    assert stream.getvalue() == "line\n"


def test_whether_a_stream_is_the_journal(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        found = os.fstat(file.fileno())
        assert is_journal(file, {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"})
        for wrong in ("", f"{found.st_dev}:{found.st_ino + 1}", "x", ":", f"{found.st_ino}:{found.st_dev}"):
            assert not is_journal(file, {"JOURNAL_STREAM": wrong})
        assert not is_journal(file, {})
    assert not is_journal(io.StringIO(), {"JOURNAL_STREAM": "1:1"})


def test_library_logs_become_events() -> None:
    stream, logger = io.StringIO(), logging.Logger("quic")
    Log(stream, Format.JSON, clock=lambda: TIME).take_over(logger)
    logger.info("left out")
    try:
        raise ValueError("found\x1b")
    except ValueError:
        logger.exception("no %s", "answer")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0] == {
        "time": "2026-01-02T03:04:05.678Z",
        "level": "error",
        "event": "library",
        "logger": "quic",
        "message": "no answer",
    }
    assert lines[-1]["message"] == "ValueError: found\x1b"


def test_lines_of_several_threads_stay_whole() -> None:
    stream = io.StringIO()
    log = Log(stream, Format.JSON)
    threads = [threading.Thread(target=lambda: [log.say("x" * 500, "check") for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([json.loads(line) for line in stream.getvalue().splitlines()]) == 200


def test_every_kind_is_described_once() -> None:
    assert [kind.name for kind in KINDS] == list(get_args(EventName))
    for kind in KINDS:
        assert not set(kind.fields) & set(COMMON)


@pytest.mark.parametrize("made", [event_as_json, as_logfmt])
def test_a_bool_and_a_number_are_told_apart_from_nothing(made: Any) -> None:
    line = made(event(exit=0, repaired=False))
    assert "exit" in line and "repaired" in line
