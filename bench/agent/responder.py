# SPDX-License-Identifier: Apache-2.0
"""The helper that answers DNS queries by UDP in place of a name server, wrongly or late, or for many addresses at once.

It answers at every address of its namespace, from the address that was asked.
"""

from __future__ import annotations

import errno
import heapq
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from bench.change.stdio import serve

_PORT = 53
_PKTINFO = 8  # IP_PKTINFO, which Python's socket does not name before 3.14
_HEADER = struct.Struct("!6H")
_INFO = struct.Struct("=I4s4s")
_SOA, _A = 6, 1
_ANSWERS = {
    _SOA: b"\2ns\xc0\x0c\x0ahostmaster\xc0\x0c" + struct.pack("!5I", 1, 3600, 600, 86400, 300),
    _A: socket.inet_aton("198.19.0.1"),
}
_RECEIVE_BUFFER = 4 << 20


def reply(data: bytes, server: bytes, rcode: int) -> bytes:
    """The answer to the query *data*: SOA or address, with the name of the server as NSID where the query has EDNS."""
    number, _, _, _, _, additional = _HEADER.unpack_from(data)
    end = _HEADER.size
    while data[end]:
        end += data[end] + 1
    end += 5
    kind = int.from_bytes(data[end - 4 : end - 2], "big")
    record = b"" if rcode else _ANSWERS.get(kind, b"")
    answer = b"\xc0\x0c" + struct.pack("!2HIH", kind, 1, 300, len(record)) + record if record else b""
    opt = b""
    if additional:
        told = struct.pack("!2H", 3, len(server)) + server
        opt = b"\0" + struct.pack("!2HIH", 41, 1232, 0, len(told)) + told
    return _HEADER.pack(number, 0x8400 | rcode, 1, bool(answer), 0, bool(opt)) + data[_HEADER.size : end] + answer + opt


class Responder:
    """Answers from `open` to `close`. *mute* are addresses at which it does not."""

    def __init__(self) -> None:
        self._mute: frozenset[bytes] = frozenset()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self, server: str, rcode: int, delay: float, wait: float) -> dict[str, Any]:
        """Answer as *server* (or as the address that was asked), after *delay* seconds; wait *wait* seconds for the port."""
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        made.setsockopt(socket.IPPROTO_IP, _PKTINFO, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        until = time.monotonic() + wait
        while True:
            try:
                made.bind(("0.0.0.0", _PORT))
                break
            except OSError as err:
                if err.errno != errno.EADDRINUSE or time.monotonic() > until:
                    raise
                time.sleep(0.0005)
        self._server, self._rcode, self._delay, self._socket = server.encode(), rcode, delay, made
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._end.clear()
        self._thread.start()
        return {"opened": time.monotonic()}

    def mute(self, addresses: Sequence[str]) -> dict[str, Any]:
        """Answer at all addresses but these."""
        self._mute = frozenset(socket.inet_aton(a) for a in addresses)
        return {"muted": time.monotonic()}

    def close(self) -> dict[str, Any]:
        """Stop answering and free the port."""
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        self._socket.close()
        return {"closed": time.monotonic()}

    def _run(self) -> None:
        later: list[tuple[float, int, bytes, bytes, tuple[str, int]]] = []
        count = 0
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not self._end.is_set():
            now = time.monotonic()
            while later and later[0][0] <= now:
                self._send(*heapq.heappop(later)[2:])
            wait = min(0.05, later[0][0] - now) if later else 0.05
            if not poll.poll(wait * 1000):
                continue
            for _ in range(64):
                try:
                    data, ancillary, _, client = self._socket.recvmsg(4096, 64)
                except BlockingIOError:
                    break
                own = next((_INFO.unpack_from(d)[2] for level, kind, d in ancillary if kind == _PKTINFO), b"")
                if own in self._mute or len(data) < _HEADER.size + 5:
                    continue
                answer = reply(data, self._server or socket.inet_ntoa(own).encode(), self._rcode)
                if self._delay:
                    count += 1
                    heapq.heappush(later, (time.monotonic() + self._delay, count, answer, own, client))
                else:
                    self._send(answer, own, client)

    def _send(self, answer: bytes, own: bytes, client: tuple[str, int]) -> None:
        info = _INFO.pack(0, own, bytes(4))
        try:
            self._socket.sendmsg([answer], [(socket.IPPROTO_IP, _PKTINFO, info)], 0, client)
        except OSError:
            return  # no route, or a full buffer: the client sees no answer


if __name__ == "__main__":
    responder = Responder()
    serve({"open": responder.open, "mute": responder.mute, "close": responder.close})
