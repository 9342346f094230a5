# SPDX-License-Identifier: Apache-2.0
"""The helper that holds TCP connections through the VIP from fixed source ports. It lives in the client's namespace."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.change.pace import Window
from bench.change.question import backend_of, number_of, query
from bench.change.stdio import allow_open_files, serve

_LARGEST = 4096
_AT_ONCE, _PAUSE = 16, 0.005
"""Connections that are dropped at once, and seconds until the next ones."""
_RESET, _CLOSED, _SILENT = "reset", "closed by the server", "no answer"


class Holder:
    """The connections that are open, by source port."""

    def __init__(self) -> None:
        self._server: tuple[str, int] = ("", 0)
        self._local = ""
        self._open: dict[int, socket.socket] = {}
        self._number = 0

    def start(self, server: str, port: int, local: str) -> dict[str, Any]:
        """Say where the connections of `open` go to and from."""
        self._server, self._local = (server, port), local
        return {}

    def open(self, ports: Sequence[int], wait: float, window: int) -> dict[str, Any]:
        """Open a connection from each of *ports*, at most *window* at once. Answers the reasons of those that failed."""
        allow_open_files(len(ports) + len(self._open))
        fresh: dict[int, socket.socket] = {}

        def begin(source: int) -> str:
            sock = fresh[source] = socket.socket(
                socket.AF_INET6 if ":" in self._local else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK
            )
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.bind((self._local, source))
            sock.connect_ex(self._server)
            return ""

        def ready(source: int) -> str:
            code = fresh[source].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                return os.strerror(code)
            self._open[source] = fresh[source]
            return ""

        todo = [source for source in ports if source not in self._open]
        failed, _ = _each(todo, fresh, begin, ready, select.EPOLLOUT, wait, window)
        _drop([fresh[source] for source in failed])
        return {"failed": sorted(failed.items())}

    def check(self, wait: float, window: int) -> dict[str, Any]:
        """A query on every open connection. Those that do not answer are named and closed."""
        started = time.monotonic()
        self._number += 1
        message = query(self._number)
        framed = struct.pack("!H", len(message)) + message
        received = dict.fromkeys(self._open, b"")
        backends: dict[int, str | None] = {}

        def begin(source: int) -> str:
            try:
                self._open[source].send(framed)
            except (ConnectionError, BlockingIOError):
                return _RESET
            return ""

        def ready(source: int) -> str | None:
            try:
                more = self._open[source].recv(_LARGEST)
            except BlockingIOError:
                return None
            except OSError as err:
                return _RESET if isinstance(err, ConnectionResetError) else str(err.strerror)
            if not more:
                return _CLOSED
            data = received[source] = received[source] + more
            if len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
                return None
            if number_of(data[2:]) != self._number:  # to an earlier check, which found it too slow
                return "wrong answer"
            backends[source] = backend_of(data[2:])
            return ""

        dead, slowest = _each(list(self._open), self._open, begin, ready, select.EPOLLIN, wait, window)
        _drop([self._open.pop(source) for source in dead])
        return {
            "started": started,
            "seconds": time.monotonic() - started,
            "slowest": slowest,
            "backends": sorted(backends.items()),
            "dead": sorted(dead.items()),
        }

    def close(self, orderly: bool) -> dict[str, Any]:
        """Close all connections: *orderly* as clients do, by FIN, so that their source ports are free after a minute."""
        _drop(list(self._open.values()), reset=not orderly)
        self._open.clear()
        return {}


def _each(
    ports: Iterable[int],
    sockets: dict[int, socket.socket],
    begin: Callable[[int], str],
    ready: Callable[[int], str | None],
    events: int,
    wait: float,
    limit: int,
) -> tuple[dict[int, str], float]:
    """Begin something on each connection and wait until it is ready; at most *limit* have just begun.

    *begin* and *ready* return a reason when it failed, "" when not; *ready* None when there is more to wait for. Returns
    the reasons by source port, and the seconds that the slowest success took.
    """
    left, window = deque(ports), Window(limit)
    begun: dict[int, float] = {}
    failed: dict[int, str] = {}
    port_of: dict[int, int] = {}
    slowest, last = 0.0, time.monotonic()
    with select.epoll() as poll:
        while left or (begun and time.monotonic() < last + wait):
            while left and window.room():
                source = left.popleft()
                last = begun[source] = window.sent(source)
                if reason := begin(source):
                    failed[source] = reason
                    del begun[source]
                    continue
                port_of[sockets[source].fileno()] = source
                poll.register(sockets[source], events)
            for descriptor, _ in poll.poll(0.005 if left else max(0.0, last + wait - time.monotonic()), 64):
                source = port_of[descriptor]
                said = ready(source)
                if said is None:
                    continue
                poll.unregister(descriptor)
                window.answered(source)
                took = time.monotonic() - begun.pop(source)
                if said:
                    failed[source] = said
                else:
                    slowest = max(slowest, took)
    failed.update(dict.fromkeys(begun, _SILENT))
    return failed, slowest


def _drop(sockets: Sequence[socket.socket], *, reset: bool = True) -> None:
    """Close; with *reset* without the minute of TIME_WAIT, so that the source ports are free at once.

    Each is a packet (RST or FIN), and hundreds at once would be more than a raw socket of the lab's switch holds: other
    queries would be lost with them.
    """
    for number, sock in enumerate(sockets, 1):
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        if not number % _AT_ONCE:
            time.sleep(_PAUSE)


if __name__ == "__main__":
    holder = Holder()
    serve({"start": holder.start, "open": holder.open, "check": holder.check, "close": holder.close})
