# SPDX-License-Identifier: Apache-2.0
"""What backends send by HTTPS and QUIC that is no answer: the probe fails in time, says why, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.events import StreamEnded

from tests.unit.agent_probing import (
    LONG,
    SHORT,
    answer,
    certificate,
    probed,
    secured,
    silence,
    target_of,
    tcp_server,
    udp_server,
)

LATE = f"no answer within {SHORT:g} s"
CLOSED = "failed: the connection was closed before the answer was complete"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


Web = Callable[[H2Connection, int, bytes], bytes]
"""What a server adds to its HTTP/2 connection for a request on a stream, or sends itself."""


def talk(web: Web) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
    async def talking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        writer.write(http.data_to_send())
        query = bytearray()
        while (data := await reader.read(65536)) and http.state_machine.state is not ConnectionState.CLOSED:
            for event in http.receive_data(data):
                query += getattr(event, "data", b"") or b""
                if isinstance(event, StreamEnded):
                    raw = web(http, event.stream_id, bytes(query))
                    writer.write(http.data_to_send() + raw)
            writer.write(http.data_to_send())

    return talking


def reply(http: H2Connection, stream: int, body: bytes, status: str = "200", end: bool = True) -> bytes:
    http.send_headers(stream, [(":status", status), ("content-type", "application/dns-message")])
    for at in range(0, len(body), 16384):
        http.send_data(stream, body[at : at + 16384])
    if end:
        http.end_stream(stream)
    return b""


def half(http: H2Connection, stream: int, query: bytes) -> bytes:
    return reply(http, stream, answer(query)[:20], end=False)


def reset(http: H2Connection, stream: int, query: bytes) -> bytes:
    http.reset_stream(stream, 7)
    return b""


def goaway(http: H2Connection, stream: int, query: bytes) -> bytes:
    http.close_connection(11)
    return b""


PING = b"\0\0\x08\x06\0\0\0\0\0" + b"12345678"


@pytest.mark.parametrize(
    ("web", "timeout", "why"),
    [
        (lambda h, s, q: reply(h, s, answer(q)), LONG, ""),
        (lambda h, s, q: reply(h, s, answer(q, number=7)), LONG, "answered something else than the query"),
        (lambda h, s, q: reply(h, s, b""), LONG, "answered something else than the query"),
        (lambda h, s, q: reply(h, s, b"<html>" * 5000), LONG, "answered something else than the query"),
        (lambda h, s, q: reply(h, s, b"", "404"), LONG, "failed: answered HTTP status 404 to /dns-query"),
        (lambda h, s, q: reply(h, s, b"", "301"), LONG, "failed: answered HTTP status 301 to /dns-query"),
        (half, SHORT, LATE),
        (reset, LONG, "failed: ended HTTP/2 with error code 7"),
        (goaway, LONG, "failed: ended HTTP/2 with error code 11"),
        (lambda h, s, q: b"\xff" * 5000, SHORT, LATE),  # the begin of a very long frame
        (lambda h, s, q: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10, SHORT, LATE),
        (lambda h, s, q: b"\0\0\4\0\0\0\0\0\0data", LONG, "failed: no proper HTTP/2: "),
        (lambda h, s, q: b"\0\0\x05\1\4\0\0\0\1" + b"\xff\xff\xff\xff\xff", LONG, "failed: no proper HTTP/2: "),
        (lambda h, s, q: PING * 10000, LONG, "failed: sent more than 128 KiB by HTTP/2"),
        (lambda h, s, q: b"", SHORT, LATE),
    ],
    ids=[
        "good",
        "another ID",
        "empty",
        "html",
        "404",
        "redirect",
        "half",
        "reset",
        "goaway",
        "garbage",
        "http 1",
        "stream 0",
        "bad hpack",
        "pings",
        "nothing",
    ],
)
def test_https_answers_are_judged(web: Web, timeout: float, why: str, files: tuple[Path, Path]) -> None:
    server = tcp_server(talk(web), secured(files, "h2"))  # type: ignore[arg-type]
    said = probed(lambda port: target_of("https", port, timeout), server)
    assert all(s == why or (why.endswith(": ") and s.startswith(why)) for s in said), said


async def no_preface(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(range(256)) * 300)
    await silence(reader)


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.transport.abort()


@pytest.mark.parametrize(
    ("protocols", "web", "why"),
    [
        ((), closes, "failed: offers no HTTP/2 (ALPN h2)"),
        (("h2",), no_preface, "failed: no proper HTTP/2: "),
        (("h2",), closes, "failed: "),
    ],
    ids=["no alpn", "garbage", "closes"],
)
def test_a_server_without_https_fails_with_its_reason(
    protocols: Iterable[str], web: object, why: str, files: tuple[Path, Path]
) -> None:
    server = tcp_server(web, secured(files, *protocols))  # type: ignore[arg-type]
    said = probed(lambda port: target_of("https", port), server)
    assert all(s.startswith(why) for s in said), said


class Doq(QuicConnectionProtocol):
    """A backend that speaks DoQ, and answers a query as `reply` says."""

    reply: Callable[[Doq, int, bytes], None]

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self.reply(event.stream_id, event.data)  # type: ignore[call-arg,arg-type]

    def say(self, stream: int, data: bytes, end: bool = True) -> None:
        self._quic.send_stream_data(stream, data, end)


@asynccontextmanager
async def doq_server(reply: Callable[[Doq, int, bytes], None], files: tuple[Path, Path]) -> AsyncIterator[int]:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["doq"], idle_timeout=1.0)
    configuration.load_cert_chain(*files)
    kind = type("Replying", (Doq,), {"reply": reply})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await serve("127.0.0.1", port, configuration=configuration, create_protocol=kind)
    try:
        yield port
    finally:
        server.close()
        await asyncio.sleep(0.05)


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


@pytest.mark.parametrize(
    ("reply", "timeout", "why"),
    [
        (lambda own, s, q: own.say(s, framed(answer(q[2:]))), LONG, ""),
        (lambda own, s, q: own.say(s, framed(answer(q[2:])), end=False), LONG, ""),
        (lambda own, s, q: own.say(s, framed(answer(q[2:])) + b"more"), LONG, ""),
        (lambda own, s, q: own.say(s, framed(answer(q[2:], number=7))), LONG, "answered something else than the query"),
        (lambda own, s, q: own.say(s, b"\0\0"), LONG, "answered something else than the query"),
        (lambda own, s, q: own.say(s, b"\xff\xff", end=False), SHORT * 5, "no answer within 1 s"),
        (lambda own, s, q: own.say(s, framed(answer(q[2:]))[:20]), LONG, CLOSED),
        (lambda own, s, q: own.say(s, b""), LONG, CLOSED),
        (lambda own, s, q: own._quic.reset_stream(s, 5), LONG, "failed: reset the QUIC stream with error code 5"),
        (
            lambda own, s, q: own._quic.close(2, reason_phrase="no\x1b[31m"),
            LONG,
            "failed: ended QUIC with error code 2: no?[31m",
        ),
        (lambda own, s, q: None, SHORT * 5, "no answer within 1 s"),
    ],
    ids=[
        "good",
        "without end",
        "more",
        "another ID",
        "empty",
        "only a length",
        "half",
        "nothing and end",
        "reset",
        "closes",
        "nothing",
    ],
)
def test_quic_answers_are_judged(
    reply: Callable[[Doq, int, bytes], None], timeout: float, why: str, files: tuple[Path, Path]
) -> None:
    said = probed(lambda port: target_of("quic", port, timeout), doq_server(reply, files))
    assert said == [why, why]


@pytest.mark.parametrize(
    "reply",
    [
        lambda data: [],
        lambda data: [b"", b"\0", b"\xff" * 1200, bytes(range(256)) * 4],
        lambda data: [data],
        lambda data: [data[:1] + bytes(4) + data[5:]],
        lambda data: [os.urandom(1200) for _ in range(50)],
        lambda data: [bytes([data[0]]) + data[1:5] + os.urandom(1195) for _ in range(50)],
        lambda data: [data[:6] + b"\xff" + data[7:]],
    ],
    ids=["nothing", "garbage", "echo", "no version", "random", "random with a header", "length"],
)
def test_a_server_without_quic_fails_in_time(reply: Callable[[bytes], Iterable[bytes]]) -> None:
    said = probed(lambda port: target_of("quic", port, SHORT), udp_server(reply))
    assert all(s == LATE or s.startswith("failed: ended QUIC") for s in said), said
    assert not any("Error" in s for s in said), said


def test_a_closed_quic_port_fails_at_once(files: tuple[Path, Path]) -> None:
    """Where nobody listens it does not wait."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert probed(lambda _: target_of("quic", port)) == ["failed: Connection refused"] * 2
