# SPDX-License-Identifier: Apache-2.0
"""Clients that ask at random times, some of them much more than others: a script for a client's namespace of the lab.

Each client is a socket with a port of its own, and asks by a Poisson process; the rates are given. Only the standard
library is used.

Standard input: JSON with "server", "port", "local", "ports" and "shares" (of each client), "qps", "settle" and "seconds",
"patience", "seed" and "query" (hexadecimal). Standard output: JSON with what queries that were sent after "settle" seconds
"took", in seconds, and how many were "lost": not answered within "patience" seconds.
"""

from __future__ import annotations

import json
import random
import resource
import select
import socket
import struct
import sys
import threading
import time
from itertools import accumulate
from typing import Any


class Clients:
    """The sockets, and what was sent and not answered yet."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._query = bytes.fromhex(given["query"])
        self._sockets = [self._socket(port) for port in given["ports"]]
        self._by_fd = {sock.fileno(): n for n, sock in enumerate(self._sockets)}
        self._sent: dict[tuple[int, int], tuple[float, bool]] = {}
        self.took: list[float] = []
        self.asked = 0
        self._ended = threading.Event()

    def _socket(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((self._given["local"], port))
        sock.connect((self._given["server"], self._given["port"]))
        return sock

    def ask(self) -> None:
        """Send for as long as was given."""
        given = self._given
        draw = random.Random(given["seed"])
        bounds = list(accumulate(given["shares"]))
        everybody = range(len(self._sockets))
        began = due = time.monotonic()
        number = 0
        while due < began + given["settle"] + given["seconds"]:
            left = due - time.monotonic()
            if left > 0:
                time.sleep(left)
            (client,) = draw.choices(everybody, cum_weights=bounds)
            number = (number + 1) & 0xFFFF
            counts = due >= began + given["settle"]
            self.asked += counts
            self._sent[client, number] = time.monotonic(), counts
            self._sockets[client].send(struct.pack("!H", number) + self._query[2:])
            due += draw.expovariate(given["qps"])
        time.sleep(given["patience"])
        self._ended.set()

    def listen(self) -> None:
        """Take in answers until `ask` has ended."""
        poll = select.epoll()
        for fd in self._by_fd:
            poll.register(fd, select.EPOLLIN)
        while not self._ended.is_set():
            for fd, _ in poll.poll(0.1):
                client = self._by_fd[fd]
                try:
                    answer = self._sockets[client].recv(4096, socket.MSG_DONTWAIT)
                except OSError:  # a port that nobody listens on: lost
                    continue
                now = time.monotonic()
                sent, counts = self._sent.pop((client, struct.unpack_from("!H", answer)[0]), (0.0, False))
                if counts and now - sent <= self._given["patience"]:
                    self.took.append(now - sent)


def main() -> None:
    """Read what is wanted from standard input, and write what was seen to standard output."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    clients = Clients(json.load(sys.stdin))
    listener = threading.Thread(target=clients.listen)
    listener.start()
    clients.ask()
    listener.join()
    json.dump({"took": clients.took, "lost": clients.asked - len(clients.took)}, sys.stdout)


if __name__ == "__main__":
    main()
