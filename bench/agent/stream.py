"""The helper that sends a steady stream of queries from fixed source ports. It lives in the client's namespace.

The stream is open: a query is sent when its time has come, whatever happened to those before, and none is sent again.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.agent.message import answered, query
from bench.change.stdio import allow_open_files, serve

WAIT = 2.0
"""Seconds after which a query is lost, as resolvers see it."""
_AT_ONCE = 16


@dataclass
class _Count:
    """What came of the queries of one flow."""

    sent: int = 0
    answered: int = 0
    errors: int = 0
    slowest: float = 0.0
    lost: list[float] = field(default_factory=list)
    """When the lost ones were sent."""


class Stream:
    """A stream to one or more servers. With *each* every query is reported, else their numbers by flow."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(
        self, flows: Sequence[tuple[str, int, int]], local: str, names: Sequence[str], rate: float, each: bool
    ) -> dict[str, Any]:
        """Send *rate* queries a second for *names* in turn; *flows* are server, port and source port, taken in turn."""
        allow_open_files(len(flows))
        self._flows, self._names, self._rate, self._each = flows, names, rate, each
        self._counts = [_Count() for _ in flows]
        self._queries: list[tuple[float, float, str, str, str]] = []
        self._due: deque[tuple[float, int, int, str]] = deque()  # time, flow, message id, name
        self._waiting: dict[tuple[int, int], tuple[float, str]] = {}
        self._poll = select.epoll()
        self._sockets: list[socket.socket] = []
        self._flow_of: dict[int, int] = {}
        for number, (server, port, source) in enumerate(flows):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one source port may ask several servers
            made.bind((local, source))
            made.connect((server, port))
            self._poll.register(made, select.EPOLLIN)
            self._flow_of[made.fileno()] = number
            self._sockets.append(made)
        self._end.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return {"started": time.monotonic()}

    def stop(self) -> dict[str, Any]:
        """Stop sending, wait for late answers, and report."""
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        for made in self._sockets:
            made.close()
        self._poll.close()
        if self._each:
            return {"queries": sorted(self._queries)}
        return {"counts": [[c.sent, c.answered, c.errors, c.slowest, c.lost] for c in self._counts]}

    def _run(self) -> None:
        turn, due, last = 0, time.monotonic(), 0.0
        while True:
            now = time.monotonic()
            sending = not self._end.is_set()
            if not sending and not self._due:
                return
            if sending and now >= due:
                self._send(turn, now)
                turn, due = turn + 1, max(due + 1 / self._rate, now - 0.1)  # after a pause no more than a small burst
                last = now
            self._expire(now)
            wait = due - now if sending else last + WAIT - now
            for descriptor, _ in self._poll.poll(min(max(0.0, wait), 0.1), 64):
                self._receive(self._flow_of[descriptor])

    def _send(self, turn: int, now: float) -> None:
        flow, name = turn % len(self._flows), self._names[turn % len(self._names)]
        number = turn // len(self._flows) & 0xFFFF
        self._counts[flow].sent += 1
        self._waiting[flow, number] = now, name
        self._due.append((now + WAIT, flow, number, name))
        # The first call may only report an ICMP error of an earlier query. An unreachable network is a lost query too.
        for _ in range(2):
            try:
                self._sockets[flow].send(query(name, number))
                return
            except ConnectionRefusedError:
                continue
            except OSError:
                return

    def _receive(self, flow: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = self._sockets[flow].recv(4096)
            except OSError as err:
                if isinstance(err, BlockingIOError):
                    return
                continue  # the ICMP error of a query that will be found to be lost
            number, code, server = answered(data)
            asked = self._waiting.pop((flow, number), None)
            if asked is None:
                continue
            took = time.monotonic() - asked[0]
            count = self._counts[flow]
            count.answered += 1
            count.errors += code not in ("NOERROR", "NXDOMAIN")
            count.slowest = max(count.slowest, took)
            if self._each:
                self._queries.append((asked[0], took, code, server, asked[1]))

    def _expire(self, now: float) -> None:
        while self._due and (self._due[0][0] <= now or (self._due[0][1], self._due[0][2]) not in self._waiting):
            until, flow, number, name = self._due.popleft()
            with suppress(KeyError):
                sent, _ = self._waiting[flow, number]
                if sent + WAIT == until:
                    del self._waiting[flow, number]
                    self._counts[flow].lost.append(sent)
                    if self._each:
                        self._queries.append((sent, -1.0, "", "", name))


if __name__ == "__main__":
    stream = Stream()
    serve({"start": stream.start, "stop": stream.stop})
