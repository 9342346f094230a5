# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC with a time limit: for ovsdb-server's schema and for ovs-vswitchd's control socket.

The ovs library has both too, but waits for ever for an answer, and reads long ones character by character in Python.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dnsteer.switch.tools import SwitchError, TimedOutError, UnavailableError

_NETWORK = re.compile(r"(tcp|ssl):(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})\Z")
_READ = 1 << 20
_IDLE = 0.5  # a server's shortest patience is a second
_MOMENT = 0.001


def parse_remote(remote: str) -> str:
    """Check the address of a server, and make its path absolute. Raises ValueError.

    It is `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT`; an IPv6 address stands in brackets.
    """
    kind, _, where = remote.partition(":")
    if kind == "unix" and where:
        return f"unix:{Path(where).absolute()}"
    m = _NETWORK.match(remote)
    if m and 0 < int(m[4]) < 65536:
        return remote
    raise ValueError(f"found {remote!r}; expected unix:PATH, tcp:IPV4:PORT or tcp:[IPV6]:PORT, or the same with ssl:")


def _connect(remote: str, timeout: float) -> socket.socket:
    m = _NETWORK.match(remote)
    if m:
        return socket.create_connection((m[2] or m[3], int(m[4])), timeout)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout)
        sock.connect(remote.partition(":")[2])
    except BaseException:
        sock.close()
        raise
    return sock


def _connect_tls(remote: str, name: str, timeout: float) -> socket.socket:
    from dnsteer.switch import tls  # only here: see there

    m = _NETWORK.match(remote)
    assert m
    return tls.connect((m[2] or m[3], int(m[4])), name, timeout)


def hang_up(sock: socket.socket) -> None:
    """Shut down our side of the connection, and read until the server closes its own.

    It would else log an error when it has said something that nobody read, such as that somebody gave up a lock of ours.
    """
    deadline = time.monotonic() + _IDLE
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(_READ):
                break


class Rpc:
    """A connection to one server. *name* is what messages call the server.

    A server asks remote clients now and then whether they are still there, and ends the connection, and with it their
    locks, when they do not answer in time. So while no call is under way, a thread does.

    Raises UnavailableError, PermissionError, or SwitchError where certificates of an ssl: remote are wrong.
    """

    def __init__(self, remote: str, name: str, timeout: float) -> None:
        self.name = name
        self._secure = remote.startswith("ssl:")
        try:
            self._socket = _connect_tls(remote, name, timeout) if self._secure else _connect(remote, timeout)
        except TimeoutError:
            raise UnavailableError(f"{name} does not answer within {timeout:g} s") from None
        except FileNotFoundError:
            raise UnavailableError(f"{name}: there is no such socket; is it running?") from None
        except ConnectionRefusedError:
            raise UnavailableError(f"{name}: nobody listens there; is it running?") from None
        except PermissionError as err:
            raise PermissionError(err.errno, err.strerror, remote.partition(":")[2]) from None
        except OSError as err:
            raise UnavailableError(f"{name}: {err.strerror or err}") from None
        self._rest = b""
        self._number = 0
        self._stuck = False
        self._busy = threading.Lock()
        self._closed = threading.Event()
        if not remote.startswith("unix:"):
            threading.Thread(target=self._stay, name=f"probes of {name}", daemon=True).start()

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        with self._busy:
            if self._secure:
                from dnsteer.switch import tls

                tls.tls_shutdown(self._socket)
            elif not self._stuck:
                hang_up(self._socket)
            self._socket.close()

    def call(self, method: str, params: list[Any], timeout: float) -> Any:
        """Call *method* and return its result. Raises SwitchError with the server's message when it fails."""
        deadline = time.monotonic() + timeout
        with self._busy:
            self._number += 1
            try:
                self._send({"id": self._number, "method": method, "params": params}, deadline)
                while True:
                    answer = self._receive(deadline)
                    if "method" in answer:
                        self._reply(answer, deadline)
                    elif answer.get("id") == self._number:
                        break
            except TimeoutError:
                self._stuck = True
                raise TimedOutError(f"{self.name} does not answer within {timeout:g} s") from None
            except OSError as err:
                raise self._ended(err) from None
        if answer.get("error") is not None:
            error = answer["error"]
            raise SwitchError(str(error.get("error", error) if isinstance(error, dict) else error).strip())
        return answer.get("result")

    def _stay(self) -> None:
        """Answer the server's requests between calls. Errors of the connection are raised by the next call."""
        while not self._closed.wait(_IDLE):
            with self._busy:
                try:
                    while not self._closed.is_set():
                        self._reply(self._receive(time.monotonic() + _MOMENT), time.monotonic() + _IDLE)
                except TimeoutError:
                    continue  # nothing came
                except OSError:
                    return

    def _reply(self, request: dict[str, Any], deadline: float) -> None:
        """Answer a request of the server; ignore notifications and late answers."""
        if request.get("method") == "echo" and request.get("id") is not None:
            self._send({"id": request["id"], "result": request.get("params"), "error": None}, deadline)

    def _send(self, message: dict[str, Any], deadline: float) -> None:
        self._socket.settimeout(max(deadline - time.monotonic(), _MOMENT))
        self._socket.sendall(json.dumps(message).encode())

    def _ended(self, err: OSError) -> SwitchError:
        if self._secure and self._number == 1:
            # Since TLS 1.3 a client hears only now, after its handshake, that the server does not trust it.
            from dnsteer.switch import tls

            return tls.failure(self.name, tls.require(self.name), tls.last_word(self._socket, err))
        return UnavailableError(f"{self.name}: the connection ended ({err.strerror or err})")

    def _receive(self, deadline: float) -> dict[str, Any]:
        """Return the next message. Messages have no separator, so one ends where its JSON ends."""
        received = [self._rest]
        while True:
            if received[-1].rstrip().endswith(b"}"):  # else it is not whole yet: save trying
                try:
                    text = b"".join(received).decode()
                    message, end = json.JSONDecoder().raw_decode(text.lstrip())
                except ValueError:
                    pass
                else:
                    self._rest = text.lstrip()[end:].encode()
                    return message if isinstance(message, dict) else {}
            left = deadline - time.monotonic()
            try:
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(min(left, _IDLE))  # a signal just before a wait is handled only after it
                data = self._socket.recv(_READ)
            except TimeoutError:
                if left > _IDLE:
                    continue
                self._rest = b"".join(received)
                raise
            if not data:
                raise OSError(0, "closed by the other side")
            received.append(data)
