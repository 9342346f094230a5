# SPDX-License-Identifier: Apache-2.0
"""What backends send by UDP, TCP and TLS that is no answer: the probe fails in time, says why, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import pytest

from dnsteer.agent.health import Result
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe
from dnsteer.agent.probes.targets import ProbeSource, ProbeTarget
from dnsteer.agent.probes.tcp import ask_tls
from dnsteer.agent.probes.udp import UdpProbe
from tests.unit.agent_probing import (
    LONG,
    SHORT,
    Reply,
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


def looping(query: bytes) -> bytes:
    """An answer whose record has a name that points to itself."""
    header = query[:2] + b"\x84\x00\0\1\0\1\0\0\0\0"
    question = query[12:]
    at = len(header) + len(question)
    return header + question + (0xC000 | at).to_bytes(2, "big") + b"\0\1\0\1\0\0\0\x0a\0\4\xc0\0\2\1"


NO_ANSWERS: dict[str, Reply] = {
    "of another address": lambda q: [b"other" + answer(q)],
    "with another ID": lambda q: [answer(q, number=int.from_bytes(q[:2], "big") ^ 1)],
    "to another question": lambda q: [answer(q, name="example.net.")],
    "garbage": lambda q: [b"\xff" * 300, bytes(range(256)), q[:2] + b"\xff" * 40],
    "too short": lambda q: [b"", q[:1], q[:2], answer(q)[:11], answer(q)[:20]],
    "the query itself": lambda q: [q],
}
"""What is not taken for an answer, so that one may still come."""


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_datagrams_that_are_no_answer_are_ignored(name: str) -> None:
    reply = NO_ANSWERS[name]
    assert probed(lambda port: target_of("dns", port, SHORT), udp_server(reply, "127.0.0.2")) == [LATE, LATE]
    later = udp_server(lambda q: [*reply(q), answer(q)], "127.0.0.2")
    assert probed(lambda port: target_of("dns", port), later) == ["", ""]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda q: [answer(q, "192.0.2.9")], "answered without 1 of the expected records"),
        (
            lambda q: [bytes([*q[:2], 0x86, *answer(q)[3:]])],
            "answered with TC: it is rate-limited, or the answer is too long for UDP (check: tcp)",
        ),
        (lambda q: [looping(q)], "answered what is no DNS message"),
        (lambda q: [answer(q)[:-3]], "answered what is no DNS message"),
        (lambda q: [answer(q)[:-6] + b"\xff\xff" + b"\1" * 60000], "answered what is no DNS message"),
        (lambda q: [bytes([*q[:2], 0x84, 0x8C, *answer(q)[4:]])], "answered 12, not NOERROR"),
    ],
    ids=["other data", "truncated", "compression loop", "half a record", "length beyond the end", "unassigned rcode"],
)
def test_wrong_answers_fail_with_their_reason(reply: Reply, why: str) -> None:
    said = probed(lambda port: target_of("dns", port), udp_server(reply))
    assert all(s.startswith(why) for s in said), said


def test_a_closed_port_fails_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert probed(lambda _: target_of("dns", port)) == ["does not answer: Connection refused"] * 2
    assert probed(lambda _: target_of("tcp", port)) == ["failed: Connection refused"] * 2


def flood(own: socket.socket, right: bool) -> None:
    query, peer = own.recvfrom(65535)
    good = answer(query)
    own.connect(peer)
    with suppress(OSError):  # the probe has ended
        for turn in range(100_000):
            own.send(good if right and turn % 1000 == 999 else b"\0" + good)


@pytest.mark.parametrize("right", [True, False], ids=["with an answer in it", "without an answer"])
def test_a_flood_of_datagrams_does_not_starve_other_checks(right: bool) -> None:
    """100,000 datagrams, as fast as another process can send them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        sender = multiprocessing.get_context("fork").Process(target=flood, args=(own, right))
        sender.start()
        port, timeout = own.getsockname()[1], 20.0 if right else 1.0
        said = probed(lambda _: target_of("dns", port, timeout), times=1, lag=0.4)
        sender.join(60)
        assert sender.exitcode == 0
    assert said == [""] if right else said == ["no answer within 1 s"]


def test_few_datagrams_are_read_at_a_time() -> None:
    """Whatever waits in the socket: with several senders it never gets empty."""
    turns: list[int] = []

    class Counted(Question):
        read = 0

        def is_answer(self, data: bytes, wire: bytes) -> bool:
            self.read += 1
            return super().is_answer(data, wire)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            target = target_of("dns", own.getsockname()[1])
            question = Counted(target.query)
            probe = UdpProbe(target, question, lambda *_: None, loop)
            probe.ask()
            query, peer = own.recvfrom(65535)
            for _ in range(100):
                own.sendto(b"\0" + query, peer)
            while question.read < 100 and len(turns) < 1000:
                before = question.read
                await asyncio.sleep(0)
                turns.append(question.read - before)
            probe.stop()

    asyncio.run(run())
    assert sum(turns) == 100 and max(turns) <= 16


def test_datagrams_without_a_pending_query_are_not_read() -> None:
    """What comes while nothing is awaited costs the agent a little, and not for long; the next probe asks as ever."""

    async def run() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[Result] = asyncio.Queue()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            own.setblocking(False)
            target = target_of("dns", own.getsockname()[1])
            probe = UdpProbe(target, Question(target.query), lambda _, result: results.put_nowait(result), loop)

            async def asked() -> Any:
                probe.ask()
                query, peer = await loop.sock_recvfrom(own, 65535)
                own.sendto(answer(query), peer)
                assert (await results.get()).good
                return peer

            first = await asked()
            sent = 0
            while sent < 3000 and f":{first[1]:04X} " in Path("/proc/net/udp").read_text():
                for _ in range(50):
                    own.sendto(b"anything", first)
                sent += 50
                await asyncio.sleep(0.002)
            with suppress(ConnectionRefusedError, BlockingIOError):
                own.recv(1)  # the error: nobody listens there any more
            await asked()
            probe.stop()
        return sent, results.qsize()

    sent, left = asyncio.run(run())
    assert 1000 <= sent < 3000 and not left


async def read_query(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))


async def well(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = answer(await read_query(reader))
    writer.write(len(data).to_bytes(2, "big") + data)
    await silence(reader)


async def empty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0\0")
    await silence(reader)


async def only_a_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\xff\xff")
    await silence(reader)


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = answer(await read_query(reader))
    writer.write(len(data).to_bytes(2, "big") + data[:20])
    writer.close()
    await silence(reader)


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = answer(await read_query(reader))
    for byte in len(data).to_bytes(2, "big") + data:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(SHORT / 4)


async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await silence(reader)


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_query(reader)
    writer.transport.abort()


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(range(256)) * 300)
    await silence(reader)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"\xff" * 65536)
        await writer.drain()


CLOSED = "failed: the connection was closed before the answer was complete"
TALKS = [
    (well, LONG, [""]),
    (empty, LONG, ["answered something else than the query"]),
    (only_a_length, SHORT, [LATE]),
    (half, LONG, [CLOSED]),
    (drip, SHORT, [LATE]),
    (mute, SHORT, [LATE]),
    (closes, LONG, [CLOSED, "failed: Connection reset by peer"]),
    (resets, LONG, [CLOSED, "failed: Connection reset by peer"]),
    (garbage, LONG, ["answered something else than the query"]),
    (endless, LONG, ["answered something else than the query"]),
]


@pytest.mark.parametrize("kind", ["tcp", "tls"])
@pytest.mark.parametrize(("talk", "timeout", "whys"), TALKS, ids=[str(t[0].__name__) for t in TALKS])
def test_stream_answers_are_judged(
    kind: str, talk: object, timeout: float, whys: Iterable[str], files: tuple[Path, Path]
) -> None:
    server = tcp_server(talk, secured(files) if kind == "tls" else None)  # type: ignore[arg-type]
    said = probed(lambda port: target_of(kind, port, max(timeout, SHORT)), server)
    assert set(said) <= set(whys), said


@pytest.mark.parametrize("kind", ["tls", "https"])
@pytest.mark.parametrize(
    ("talk", "timeout", "why"),
    [
        (garbage, LONG, "failed: TLS: "),
        (mute, SHORT, LATE),
        (closes, LONG, "failed: "),
        (endless, LONG, "failed: TLS: "),
        (only_a_length, SHORT, LATE),
    ],
    ids=["garbage", "mute", "closes", "endless", "two bytes"],
)
def test_a_server_without_tls_fails_with_its_reason(kind: str, talk: object, timeout: float, why: str) -> None:
    """The backend speaks no TLS, or does not go on with it."""
    said = probed(lambda port: target_of(kind, port, timeout), tcp_server(talk))  # type: ignore[arg-type]
    assert all(s.startswith(why) for s in said), said
    assert not any("_ssl.c" in s or "Error" in s for s in said), said


def test_a_tls_probe_that_is_cancelled_leaves_the_number_of_its_socket_to_others(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled when its handshake has just ended, as by a time-out: sockets that are opened next have its number."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with tcp_server(mute, secured(files)) as port:
            probe = asyncio.ensure_future(ask_tls(target_of("tls", port), b"query"))
            end = SSLProtocol._on_handshake_complete

            def end_and_cancel(protocol: SSLProtocol, *failure: object) -> None:
                end(protocol, *failure)
                if not protocol._server_side:
                    probe.cancel()

            monkeypatch.setattr(SSLProtocol, "_on_handshake_complete", end_and_cancel)
            with pytest.raises(asyncio.CancelledError):
                await probe
            with ExitStack() as stack:
                others = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(8)]
                for other in others:
                    loop.add_reader(other, print)
                for other in others:
                    loop.remove_reader(other)

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["tcp", "tls", "https"])
def test_a_probe_by_the_port_of_an_unanswered_one_waits_until_that_has_closed_it(
    kind: str, files: tuple[Path, Path]
) -> None:
    """Where the interval is the time-out, and the ports are few: a server that hangs has failed once for each probe."""

    async def run(target: ProbeTarget) -> list[str]:
        loop = asyncio.get_running_loop()
        said: list[str] = []
        probe = StreamProbe(target, Question(target.query), lambda _, result: said.append(result.why), loop)
        for _ in range(4):
            probe.ask()
            await asyncio.sleep(0.3)
        probe.stop()
        return said

    async def by_one_port() -> list[str]:
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            ports = range(own := free.getsockname()[1], own + 1)
        async with tcp_server(mute, secured(files) if kind == "tls" else None) as port:
            return await run(replace(target_of(kind, port), source=ProbeSource("127.0.0.2", ports)))

    said = asyncio.run(by_one_port())
    assert len(said) == 3
    assert all(why.endswith(f"no answer within {LONG:g} s") for why in said), said


def coded(rcode: dns.rcode.Rcode) -> Reply:
    """A backend that answers with a response code."""

    def reply(query: bytes) -> list[bytes]:
        message = dns.message.make_response(dns.message.from_wire(query))
        message.set_rcode(rcode)
        return [message.to_wire()]

    return reply


@pytest.mark.parametrize(
    ("reply", "answered"),
    [
        (coded(dns.rcode.REFUSED), True),
        (coded(dns.rcode.NXDOMAIN), True),
        (coded(dns.rcode.SERVFAIL), False),
        (lambda q: [], False),
        (lambda q: [q], False),
    ],
    ids=["REFUSED", "NXDOMAIN", "SERVFAIL", "nothing", "the query"],
)
@pytest.mark.parametrize("kind", ["dns", "tcp"])
def test_whether_a_backend_answers_at_all(kind: str, reply: Reply, answered: bool) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        query = await read_query(reader)
        for data in reply(query):
            writer.write(len(data).to_bytes(2, "big") + data)
        await silence(reader)

    async def result() -> Result:
        loop = asyncio.get_running_loop()
        found = loop.create_future()
        async with udp_server(reply) if kind == "dns" else tcp_server(talk) as port:
            target = target_of(kind, port, LONG if answered else SHORT * 2)
            probe = (UdpProbe if kind == "dns" else StreamProbe)(
                target, Question(target.query), lambda _, result: found.set_result(result), loop
            )
            probe.ask()
            try:
                return await asyncio.wait_for(found, 30)
            finally:
                probe.stop()

    done = asyncio.run(result())
    assert (done.good, done.answered) == (False, answered), done.why
