# SPDX-License-Identifier: Apache-2.0
"""A steady stream of queries from fixed source ports, and what came of each. Its command lives in a client's namespace.

The stream is open: a query is sent when its time has come, whatever happened to those before, and none is sent again. Where
dnsperf waits for answers that a server which is gone does not give, this one shows how many are lost, and for how long.

Standard input of the command: a line of JSON, {"local", "flows": [[server, port, source port], ...], "name", "rate"}; it
sends until standard input ends. Standard output: {"queries": [[sent, took, flow, server], ...]}, `took` negative for those
that were lost, `server` the name that the answer gives, or null.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from dnsteer.lab.whoami import question, text_of

WAIT = 2.0
"""Seconds after which a query is lost, as resolvers see it."""
_AT_ONCE = 16
_BURST = 0.1
"""Seconds of the stream that are caught up with after a pause; the rest is left out."""

Done = Callable[[int, int, float, float, bytes], None]
"""Takes flow, number of the query's text, time sent (`time.monotonic`), seconds (negative: lost), and the answer."""


class QueryStream:
    """Sends *rate* of *queries* a second from `start` to `stop`, by *flows* (server, port, source port) in turn.

    *queries* are messages whose id is replaced. *done* is told of each when it is answered or lost.
    """

    def __init__(
        self, local: str, flows: Sequence[tuple[str, int, int]], queries: Sequence[bytes], rate: float, done: Done
    ) -> None:
        self._queries, self._rate, self._done = [query[2:] for query in queries], rate, done
        self._end = threading.Event()
        self._due: deque[tuple[float, int, int]] = deque()
        """When a query will be lost, its flow and its message id."""
        self._waiting: dict[tuple[int, int], tuple[float, int]] = {}
        """Flow and message id of queries without an answer: when they were sent, and the number of their text."""
        self._poll = select.epoll()
        self._sockets: list[socket.socket] = []
        self._flow_of: dict[int, int] = {}
        for number, (server, port, source) in enumerate(flows):
            family = socket.AF_INET6 if ":" in server else socket.AF_INET
            made = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one source port may ask several servers
            made.bind((local, source))
            made.connect((server, port))
            self._poll.register(made, select.EPOLLIN)
            self._flow_of[made.fileno()] = number
            self._sockets.append(made)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until every query is answered or lost."""
        self._end.set()
        self._thread.join()
        for made in self._sockets:
            made.close()
        self._poll.close()

    def _run(self) -> None:
        turn, due = 0, time.monotonic()
        while not self._end.is_set() or self._due:
            now = time.monotonic()
            sending = not self._end.is_set()
            if sending and now >= due:
                self._send(turn, now)
                turn, due = turn + 1, max(due + 1 / self._rate, now - _BURST)
            self._expire(now)
            for descriptor, _ in self._poll.poll(min(max(0.0, due - now), 0.1) if sending else 0.01, 64):
                self._receive(self._flow_of[descriptor])

    def _send(self, turn: int, now: float) -> None:
        flow, text = turn % len(self._sockets), turn % len(self._queries)
        number = turn // len(self._sockets) & 0xFFFF
        self._waiting[flow, number] = now, text
        self._due.append((now + WAIT, flow, number))
        # The first call may only report an ICMP error of an earlier query. An unreachable network is a lost query too.
        for _ in range(2):
            try:
                self._sockets[flow].send(number.to_bytes(2, "big") + self._queries[text])
                return
            except ConnectionRefusedError:
                continue
            except OSError:
                return

    def _receive(self, flow: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = self._sockets[flow].recv(65535)
            except BlockingIOError:
                return
            except OSError:
                continue  # the ICMP error of a query that will be found to be lost
            asked = self._waiting.pop((flow, int.from_bytes(data[:2], "big")), None)
            if asked is not None:
                self._done(flow, asked[1], asked[0], time.monotonic() - asked[0], data)

    def _expire(self, now: float) -> None:
        while self._due and (self._due[0][0] <= now or self._due[0][1:] not in self._waiting):
            until, *key = self._due.popleft()
            flow, number = key
            sent, text = self._waiting.get((flow, number), (0.0, 0))
            if sent + WAIT == until:
                del self._waiting[flow, number]
                self._done(flow, text, sent, -1.0, b"")


def main() -> None:
    """The command."""
    given = json.loads(sys.stdin.readline())
    queries: list[tuple[float, float, int, str | None]] = []

    def done(flow: int, _: int, sent: float, took: float, answer: bytes) -> None:
        asked = answer[:2] + query[2:]
        queries.append((sent, took, flow, text_of(answer, asked) if answer else None))

    query = question(0, given["name"])
    stream = QueryStream(given["local"], given["flows"], [query], given["rate"], done)
    stream.start()
    sys.stdin.read()
    stream.stop()
    json.dump({"queries": sorted(queries)}, sys.stdout)


if __name__ == "__main__":
    main()
