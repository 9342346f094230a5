# SPDX-License-Identifier: Apache-2.0
"""A DNS server that takes a given time for each query, as if it had a core for itself: a script for a namespace of the lab.

One query after the other: it sleeps for the query's time of service and then answers with its name (a TXT record); what
comes meanwhile waits in the socket. NSD cannot be told how long to take. Only the standard library is used.

Argument: JSON with "name", "address", "port", "reuse" (share the port), "mean" (seconds), "law" ("fixed" or "exponential"),
"seed" and "stats", a file that gets the queries answered and the seconds of service so far, as two floats.
"""

from __future__ import annotations

import json
import mmap
import random
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

_RECEIVE_BUFFER = 1 << 22
_ANSWER = struct.Struct("!2sHHIH")
STATS = struct.Struct("dd")


def answer(query: bytes, name: str) -> bytes:
    """The answer to a query of one question: the server's name as a TXT record."""
    text = name.encode()
    flags = b"\x84\x00"  # an answer, authoritative
    record = _ANSWER.pack(b"\xc0\x0c", 16, 1, 0, len(text) + 1) + bytes([len(text)]) + text
    return query[:2] + flags + b"\0\1\0\1\0\0\0\0" + query[12:] + record


def serve(given: dict[str, Any]) -> None:
    """Answer until the process is ended."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if given["reuse"]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    sock.bind((given["address"], given["port"]))
    draw = random.Random(given["seed"])
    with Path(given["stats"]).open("r+b") as file:
        stats = mmap.mmap(file.fileno(), STATS.size)
    queries, busy, free = 0, 0.0, 0.0
    while True:
        try:
            query, peer = sock.recvfrom(4096, socket.MSG_DONTWAIT)
            begin = free or time.monotonic()  # it was waiting: no time passes between two
        except BlockingIOError:
            query, peer = sock.recvfrom(4096)
            begin = time.monotonic()
        took = given["mean"] if given["law"] == "fixed" else draw.expovariate(1 / given["mean"])
        free = begin + took
        left = free - time.monotonic()
        if left > 0:
            time.sleep(left)
        queries, busy = queries + 1, busy + took
        STATS.pack_into(stats, 0, float(queries), busy)
        sock.sendto(answer(query, given["name"]), peer)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
