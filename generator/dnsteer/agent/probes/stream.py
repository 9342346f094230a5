# SPDX-License-Identifier: Apache-2.0
"""Probes by TCP, TLS, HTTPS and QUIC, each by a new connection, and by a command: a task that ends within the time-out."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Iterable

from dnsteer.agent.health import Result
from dnsteer.agent.probes.command import run_command
from dnsteer.agent.probes.question import Question, Verdict
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.agent.probes.tcp import ask_tcp, ask_tls
from dnsteer.agent.probes.udp import Report
from dnsteer.metrics.tasks import start_task
from dnsteer.spec.model.health import CheckKind
from dnsteer.switch.tools import SwitchError

_SAID = 200


class StreamProbe:
    """Asks one target, each time by a new connection."""

    def __init__(
        self, target: ProbeTarget, question: Question, report: Report, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.target, self._question, self._report, self._loop = target, question, report, loop
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0
        """When it was asked last, in seconds of the loop's clock."""

    def stop(self) -> None:
        """End, without a further result."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def ask(self) -> None:
        """Ask once. A probe whose answer is still awaited has failed."""
        before = self._task
        if before is not None:
            self.stop()
            self._result(self._late())
        self._began = self._loop.time()
        self._task = start_task("the probes", self._run(before))

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])  # it may hold the port that this one binds to, until its socket is closed
        verdict = await self._ask()
        if (
            self._task is asyncio.current_task()
        ):  # else it was cancelled, which asyncio.wait_for of Python 3.11 may forget
            self._task = None
            self._result(verdict)

    def _result(self, verdict: Verdict) -> None:
        now, why = self._loop.time(), verdict.why
        self._report(self.target, Result(now, why and f"{self.target.name}: {why}", now - self._began, *verdict[1:]))

    def _late(self) -> Verdict:
        return Verdict(f"no answer within {self.target.timeout:g} s")

    async def _ask(self) -> Verdict:
        kind, timeout = self.target.check.check, self.target.timeout
        try:
            if kind is CheckKind.COMMAND:
                return Verdict(_plain(await run_command(self.target)))
            # By HTTPS and QUIC the ID is 0 (RFC 8484, 4.1; RFC 9250, 4.2.1).
            number = 0 if kind in (CheckKind.HTTPS, CheckKind.QUIC) else random.getrandbits(16)
            wire = self._question.wire(number)
            data = await asyncio.wait_for(_ASK[kind](self.target, wire), timeout)
            if not self._question.is_answer(data, wire):
                return Verdict("answered something else than the query")
            return self._question.judge(data)
        except (TimeoutError, asyncio.TimeoutError):
            return self._late()
        except Exception as err:  # noqa: BLE001  whatever a library makes of a backend's bytes, the probe has failed
            return Verdict(f"failed: {_plain(_text(err))}")


def _text(err: Exception) -> str:
    if isinstance(err, ssl.SSLError):
        return f"TLS: {(err.reason or 'no proper TLS').replace('_', ' ').lower()}"
    if isinstance(err, EOFError):
        return "the connection was closed before the answer was complete"
    if isinstance(err, OSError) and err.errno:
        return os.strerror(err.errno)  # asyncio has texts of its own
    if isinstance(err, ConnectionError):
        return "the connection was closed"
    return str(err) or type(err).__name__


def _plain(text: str) -> str:
    """What a backend or a command said, without what a terminal would take for more than text."""
    return "".join(c if c.isprintable() else "?" for c in text[:_SAID])


def refuse_unavailable(kinds: Iterable[CheckKind]) -> None:
    """Raise SwitchError where a library is missing that a kind of check needs: a probe must not fail for that."""
    for kind, module in ((CheckKind.HTTPS, "h2"), (CheckKind.QUIC, "aioquic")):
        if kind in kinds and importlib.util.find_spec(module) is None:
            raise SwitchError(f"check: {kind.value} needs {module}: pip install 'dnsteer[agent]'")


async def _https(target: ProbeTarget, query: bytes) -> bytes:
    from dnsteer.agent.probes.https import ask_https  # here, since its library may be missing

    return await ask_https(target, query)


async def _quic(target: ProbeTarget, query: bytes) -> bytes:
    from dnsteer.agent.probes.quic import ask_quic  # here, since its library may be missing

    return await ask_quic(target, query)


_ASK: dict[CheckKind, Callable[[ProbeTarget, bytes], Awaitable[bytes]]] = {
    CheckKind.TCP: ask_tcp,
    CheckKind.TLS: ask_tls,
    CheckKind.HTTPS: _https,
    CheckKind.QUIC: _quic,
}
