# SPDX-License-Identifier: Apache-2.0
"""Probes of a backend on the loopback that may misbehave: what they report, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rrset

from dnsteer.agent.health import Result, Thresholds
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.stream import StreamProbe
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.probes.udp import UdpProbe
from dnsteer.spec.health_checks import effective_query
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Pool

QUERY = {"name": "example.org", "type": "A", "expect": {"answer": "192.0.2.1"}}
SHORT = 0.2
"""Time-out where nothing is awaited."""
LONG = 5.0
"""Time-out where an answer is awaited, on a machine that has other work to do."""


def target_of(kind: str, port: int, timeout: float = LONG, address: str = "127.0.0.1", **check: Any) -> ProbeTarget:
    asked = {} if kind == "command" else {"query": QUERY}
    parsed = HealthCheck.model_validate({"check": kind, **asked, "interval": 60, "timeout": timeout, **check})
    pool = Pool.model_validate({"backends": [{"name": "b", "ipv4": "192.0.2.11", "mac": "02:00:00:00:01:01"}]})
    return ProbeTarget(
        "p", "b", 0, address, port, parsed, effective_query(pool, parsed), timeout, Thresholds(3, 2, 300)
    )


def answer(query: bytes, *records: str, number: int | None = None, name: str = "example.org.") -> bytes:
    """The right answer to *query*; *records* are its data, that of the right one where none is given."""
    asked = dns.message.from_wire(query)
    message = dns.message.make_response(asked)
    message.flags |= dns.flags.AA
    message.question[0].name = dns.name.from_text(name)
    message.answer.append(dns.rrset.from_text(name, 300, "IN", "A", *(records or ("192.0.2.1",))))
    message.id = asked.id if number is None else number
    return message.to_wire()


def open_files() -> list[str]:
    """The open descriptors of this process, each with what it is."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(f"{fd.name} {fd.readlink()}")
    return sorted(f for f in found if "/proc/" not in f)


def probed(target: Callable[[int], ProbeTarget], server: Any = None, times: int = 2, lag: float = 1.0) -> list[str]:
    """Probe a backend *times* times and return what was said of it.

    *server* is an async context manager that gives its port. Nothing may be left: no task, no descriptor, nothing that the
    loop would log; and meanwhile the loop gives others their turn within *lag* seconds.
    """

    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        trouble: list[object] = []
        loop.set_exception_handler(lambda _, context: trouble.append(context))
        if server is None:
            return await _probed(target(0), times, lag, trouble)
        async with server as port:
            return await _probed(target(port), times, lag, trouble)

    return asyncio.run(run())


async def _probed(target: ProbeTarget, times: int, lag: float, trouble: list[object]) -> list[str]:
    loop = asyncio.get_running_loop()
    tasks, files = asyncio.all_tasks(), open_files()
    results: asyncio.Queue[Result] = asyncio.Queue()
    question = Question(target.query)
    kind = UdpProbe if target.check.check is CheckKind.DNS else StreamProbe
    probe = kind(target, question, lambda _, result: results.put_nowait(result), loop)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = loop.time()
            await asyncio.sleep(0.005)
            longest = max(longest, loop.time() - began)

    watching = asyncio.create_task(watch())
    said = []
    gc.freeze()  # so that collections below look at what is made from here on, not at a million objects
    for _ in range(times):
        probe.ask()
        said.append((await asyncio.wait_for(results.get(), 30)).why)
    assert longest < lag, f"nothing else had its turn for {longest:.2f} s"
    watching.cancel()
    probe.stop()
    for _ in range(200):
        gc.collect()
        await asyncio.sleep(0.02)
        if asyncio.all_tasks() <= tasks and set(open_files()) <= set(files):
            break
    assert asyncio.all_tasks() <= tasks
    assert set(open_files()) <= set(files)
    assert results.empty(), "one result for each probe"
    assert trouble == []
    return [why.partition(": ")[2] if why else "" for why in said]


Reply = Callable[[bytes], Iterable[bytes]]


@asynccontextmanager
async def udp_server(reply: Reply, other: str = "") -> AsyncIterator[int]:
    """A backend that sends *reply* to each query; what begins with b"other" comes from the address *other*."""
    loop = asyncio.get_running_loop()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as else_,
    ):
        own.bind(("127.0.0.1", 0))
        own.setblocking(False)
        if other:
            else_.bind((other, own.getsockname()[1]))

        def read() -> None:
            query, peer = own.recvfrom(65535)
            for data in reply(query):
                if data.startswith(b"other"):
                    else_.sendto(data[5:], peer)
                else:
                    own.sendto(data, peer)

        loop.add_reader(own, read)
        try:
            yield own.getsockname()[1]
        finally:
            loop.remove_reader(own)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tcp_server(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A backend that talks with whoever connects, until the other side ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError):
            await talk(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def silence(reader: asyncio.StreamReader) -> None:
    """Wait until the other side ends."""
    while await reader.read(65536):
        pass


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=backend"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=30
    )
    return cert, key


def secured(files: Sequence[Path | str], *protocols: str) -> ssl.SSLContext:
    """The TLS of a backend."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context
