"""DNS probes by TCP, TLS, HTTPS and QUIC, by dnspython; and probes by a command's exit code."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable

import dns.asyncquery
import dns.exception
import dns.message

from dnsteer.agent.health import Result
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.targets import Target
from dnsteer.agent.probes.udp import Report, bind
from dnsteer.spec.model.health import CheckKind
from dnsteer.switch.tools import UnavailableError

_SAID = 200


class StreamProbe:
    """Asks one target again and again until `stop`, each time by a new connection."""

    def __init__(self, target: Target, question: Question, report: Report, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._question, self._report, self._loop = target, question, report, loop
        self._task: asyncio.Task[None] | None = None

    def start(self, delay: float) -> None:
        """Begin after *delay* seconds."""
        self._task = self._loop.create_task(self._run(delay))

    def stop(self) -> None:
        """End, without a further result."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, delay: float) -> None:
        check = self._target.check
        spread = check.interval * check.jitter / 100
        due = self._loop.time() + delay
        while True:
            await asyncio.sleep(due - self._loop.time())
            began = self._loop.time()
            why = await self._ask()
            now = self._loop.time()
            self._report(self._target, Result(now, why and f"{self._target.name}: {why}", now - began))
            due = max(now, due + check.interval + random.uniform(-spread, spread))

    async def _ask(self) -> str:
        kind, timeout = self._target.check.check, self._target.check.timeout
        try:
            if kind is CheckKind.COMMAND:
                return await asyncio.wait_for(_run_command(self._target), timeout)
            number = random.getrandbits(16)
            message = dns.message.from_wire(self._question.wire(number))
            data = await asyncio.wait_for(_ASK[kind](self._target, message, timeout), timeout)
        except (TimeoutError, asyncio.TimeoutError, dns.exception.Timeout):
            return f"no answer within {timeout:g} s"
        except (OSError, dns.exception.DNSException, ValueError, EOFError) as err:
            return f"failed: {_text(err)}"
        if not self._question.is_answer(data, number):
            return "answered something else than the query"
        return self._question.judge(data)


def _text(err: Exception) -> str:
    said = getattr(err, "strerror", None) or str(err) or type(err).__name__
    return str(said)[:_SAID]


async def _run_command(target: Target) -> str:
    words = {"address": target.address, "port": str(target.port), "pool": target.pool, "backend": target.backend}
    argv = [_filled(word, words) for word in target.check.command]
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as err:
        return f"{argv[0]} cannot be run: {err.strerror}"
    try:
        said, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if not process.returncode:
        return ""
    lines = said.decode(errors="replace").split("\n")
    return f"{argv[0]} ended with {process.returncode}: {lines[0][:_SAID]}"


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def refuse_unavailable(kinds: Iterable[CheckKind]) -> None:
    """Raise UnavailableError where a library is missing that a kind of check needs: a probe must not fail for that."""
    for kind, module in ((CheckKind.HTTPS, "httpx"), (CheckKind.QUIC, "aioquic")):
        if kind in kinds and importlib.util.find_spec(module) is None:
            raise UnavailableError(f"check: {kind.value} needs {module}: pip install 'dnsteer[agent]'")


def _trusting() -> ssl.SSLContext:
    """A backend is asked by its address: its certificate, which is for the service's name, is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _tcp(target: Target, message: dns.message.Message, timeout: float) -> bytes:
    return await _framed(target, message.to_wire(), None)


async def _tls(target: Target, message: dns.message.Message, timeout: float) -> bytes:
    return await _framed(target, message.to_wire(), _TLS)


async def _framed(target: Target, query: bytes, tls: ssl.SSLContext | None) -> bytes:
    """Ask by TCP (RFC 1035, 4.2.2). The connection is reset in the end, so that its port can be used again at once."""
    loop = asyncio.get_running_loop()
    made = socket.socket(socket.AF_INET6 if ":" in target.address else socket.AF_INET)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        bind(made, target.source)
        await loop.sock_connect(made, (target.address, target.port))
        reader, writer = await asyncio.open_connection(sock=made, ssl=tls, server_hostname="" if tls else None)
    except BaseException:
        made.close()
        raise
    try:
        writer.write(len(query).to_bytes(2, "big") + query)
        return await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
    finally:
        writer.transport.abort()


async def _https(target: Target, message: dns.message.Message, timeout: float) -> bytes:
    answer = await dns.asyncquery.https(message, target.address, timeout, target.port, verify=_TLS)
    return answer.to_wire()


async def _quic(target: Target, message: dns.message.Message, timeout: float) -> bytes:
    answer = await dns.asyncquery.quic(message, target.address, timeout, target.port, verify=False)
    return answer.to_wire()


_TLS = _trusting()
_Asker = Callable[[Target, dns.message.Message, float], Awaitable[bytes]]
_ASK: dict[CheckKind, _Asker] = {
    CheckKind.TCP: _tcp,
    CheckKind.TLS: _tls,
    CheckKind.HTTPS: _https,
    CheckKind.QUIC: _quic,
}
