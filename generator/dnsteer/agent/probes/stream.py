"""DNS probes by TCP, TLS, HTTPS and QUIC, by dnspython; and probes by a command's exit code."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable

import dns.asyncquery
import dns.exception
import dns.message

from dnsteer.agent.health import Result
from dnsteer.agent.probes.question import Question
from dnsteer.agent.probes.targets import Target
from dnsteer.agent.probes.udp import Report
from dnsteer.spec.model.health import CheckKind

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
            answer = await asyncio.wait_for(_ASK[kind](self._target, message, timeout), timeout)
        except (TimeoutError, asyncio.TimeoutError, dns.exception.Timeout):
            return f"no answer within {timeout:g} s"
        except (OSError, dns.exception.DNSException, ValueError, EOFError) as err:
            return f"failed: {_text(err)}"
        return self._question.judge(answer.to_wire()) if answer.wire is None else self._question.judge(answer.wire)


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


def _trusting() -> ssl.SSLContext:
    """A backend is asked by its address: its certificate, which is for the service's name, is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _tcp(target: Target, message: dns.message.Message, timeout: float) -> dns.message.Message:
    return await dns.asyncquery.tcp(message, target.address, timeout, target.port)


async def _tls(target: Target, message: dns.message.Message, timeout: float) -> dns.message.Message:
    return await dns.asyncquery.tls(message, target.address, timeout, target.port, ssl_context=_TLS)


async def _https(target: Target, message: dns.message.Message, timeout: float) -> dns.message.Message:
    return await dns.asyncquery.https(message, target.address, timeout, target.port, verify=_TLS)


async def _quic(target: Target, message: dns.message.Message, timeout: float) -> dns.message.Message:
    return await dns.asyncquery.quic(message, target.address, timeout, target.port, verify=False)


_TLS = _trusting()
_Asker = Callable[[Target, dns.message.Message, float], Awaitable[dns.message.Message]]
_ASK: dict[CheckKind, _Asker] = {
    CheckKind.TCP: _tcp,
    CheckKind.TLS: _tls,
    CheckKind.HTTPS: _https,
    CheckKind.QUIC: _quic,
}
