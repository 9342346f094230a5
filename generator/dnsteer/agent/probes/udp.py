# SPDX-License-Identifier: Apache-2.0
"""DNS probes by UDP: one connected socket per target, so that what one backend sends cannot crowd out another's answers."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable

from dnsteer.agent.health import Result
from dnsteer.agent.probes.question import Question, Verdict
from dnsteer.agent.probes.targets import ProbeSource, ProbeTarget

_LARGEST = 65535
_MAX_AT_ONCE = 16
"""Datagrams that are read before others get their turn: a backend that floods gets no more."""
_MAX_UNASKED = 1000
"""Datagrams that are read while no answer is awaited. With more the socket is closed until the next probe."""

Report = Callable[[ProbeTarget, Result], None]
"""Takes the result of each probe."""


def bind_to_port(made: socket.socket, source: ProbeSource | None) -> None:
    """Bind to one of the ports that name the backend. VIPs of other pools may be asked by the same port at the same time."""
    if source is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((source.address, random.choice(source.ports)))


class UdpProbe:
    """Asks one target. With *keep* its socket stays for the next time, which costs less."""

    def __init__(
        self,
        target: ProbeTarget,
        question: Question,
        report: Report,
        loop: asyncio.AbstractEventLoop,
        keep: bool = True,
    ) -> None:
        self.target, self._question, self._report, self._loop, self._keep = target, question, report, loop, keep
        self._socket: socket.socket | None = None
        self._wire = b""
        self._sent = 0.0
        self._unasked = 0
        self._timeout: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """End, without a further result."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        self._close()

    def ask(self) -> None:
        """Ask once. A probe whose answer is still awaited has failed."""
        if self._timeout is not None:
            self._late()
        self._sent, self._unasked = self._loop.time(), 0
        self._wire = self._question.wire(random.getrandbits(16))
        try:
            connection = self._connection()
            connection.send(self._wire)
        except OSError as err:
            self._result(Verdict(f"could not be asked: {err.strerror}"))
            return
        self._timeout = self._loop.call_later(self.target.timeout, self._late)

    def _connection(self) -> socket.socket:
        if self._socket is None:
            family = socket.AF_INET6 if ":" in self.target.address else socket.AF_INET
            made = socket.socket(family, socket.SOCK_DGRAM)
            try:
                made.setblocking(False)
                bind_to_port(made, self.target.source)
                made.connect((self.target.address, self.target.port))
            except OSError:
                made.close()
                raise
            self._socket = made
            self._loop.add_reader(made.fileno(), self._read)
        return self._socket

    def _close(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        for _ in range(_MAX_AT_ONCE):
            if self._socket is None:
                return
            try:
                data = self._socket.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError as err:  # an ICMP error, such as port unreachable
                if self._timeout is not None:
                    self._result(Verdict(f"does not answer: {err.strerror}"))
                return
            if self._timeout is None:
                self._unasked += 1
                if self._unasked > _MAX_UNASKED:
                    self._close()
            elif self._question.is_answer(data, self._wire):
                self._result(self._question.judge(data))
                return  # there is hardly more, and the loop calls again if there is

    def _late(self) -> None:
        self._result(Verdict(f"no answer within {self.target.timeout:g} s"))

    def _result(self, verdict: Verdict) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        now, why = self._loop.time(), verdict.why
        # After a failure by another source port: a way through the network may be broken for one.
        if why or not self._keep:
            self._close()
        self._report(self.target, Result(now, why and f"{self.target.name}: {why}", now - self._sent, *verdict[1:]))
