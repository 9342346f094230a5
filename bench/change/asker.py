# SPDX-License-Identifier: Apache-2.0
"""The helper that asks the VIP from many source ports by UDP. It lives in the client's namespace."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.change.pace import Window
from bench.change.question import backend_of, number_of, query
from bench.change.stdio import allow_open_files, serve

_LARGEST = 4096


@dataclass
class _Round:
    """One ask: for each source port the ids of the queries sent and what came back."""

    ids: dict[int, list[int]] = field(default_factory=dict)
    backends: dict[int, str | None] = field(default_factory=dict)
    answered: set[tuple[int, int]] = field(default_factory=set)  # port, number of the try
    errors: set[int] = field(default_factory=set)


class Asker:
    """A socket for each source port, open for as long as the helper lives."""

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}
        self._ports: dict[int, int] = {}  # file descriptor -> source port
        self._poll = select.epoll()
        self._next_id = 0

    def open(self, server: str, port: int, local: str, ports: Sequence[int]) -> dict[str, Any]:
        """Bind a socket to each of *ports* at *local*, connected to *server*."""
        allow_open_files(len(ports))
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        for source in ports:
            sock = self._sockets[source] = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            sock.bind((local, source))
            sock.connect((server, port))
            self._ports[sock.fileno()] = source
            self._poll.register(sock, select.EPOLLIN)
        return {"sockets": len(self._sockets)}

    def ask(self, tries: int, wait: float, window: int) -> dict[str, Any]:
        """One query from each port; again from those that have no answer after *wait* seconds, *tries* times in all."""
        started = time.monotonic()
        done = _Round({p: [] for p in self._sockets}, dict.fromkeys(self._sockets))
        sent = 0
        for _ in range(tries):
            missing = [p for p, name in done.backends.items() if name is None and p not in done.errors]
            self._try(done, missing, wait, Window(window))
            sent += len(missing)
        return {
            "started": started,
            "seconds": time.monotonic() - started,
            "backends": list(done.backends.items()),
            "first_try_lost": [p for p in self._sockets if (p, 0) not in done.answered],
            "errors": sorted(done.errors),
            "sent": sent,
            "answered": len(done.answered),
        }

    def _try(self, done: _Round, ports: Sequence[int], wait: float, window: Window) -> None:
        left, unanswered, last = deque(ports), set(ports), time.monotonic()
        while left or (unanswered and time.monotonic() < last + wait):
            while left and window.room():
                source = left.popleft()
                self._next_id = (self._next_id + 1) & 0xFFFF
                done.ids[source].append(self._next_id)
                # An error of an earlier query (port unreachable) is reported to the next call, and this one is sent all
                # the same only when repeated.
                for _ in range(2):
                    try:
                        self._sockets[source].send(query(self._next_id))
                        break
                    except ConnectionRefusedError:
                        continue
                last = window.sent(source)
            for descriptor, _ in self._poll.poll(0.005 if left else max(0.0, last + wait - time.monotonic()), 64):
                source = self._ports[descriptor]
                if self._receive(done, source):
                    unanswered.discard(source)
                    window.answered(source)

    def _receive(self, done: _Round, source: int) -> bool:
        """Read one datagram; whether it answers a query of this round."""
        try:
            data = self._sockets[source].recv(_LARGEST)
        except (BlockingIOError, ConnectionRefusedError):
            return False
        number = number_of(data)
        if number not in done.ids[source]:  # a late answer to an earlier round
            return False
        done.answered.add((source, done.ids[source].index(number)))
        done.backends[source] = backend_of(data)
        if done.backends[source] is None:
            done.errors.add(source)
        return True


if __name__ == "__main__":
    asker = Asker()
    serve({"open": asker.open, "ask": asker.ask})
