# SPDX-License-Identifier: Apache-2.0
"""Client of the extension's control socket: one JSON object per line, one answer to each (datapath_ext/src/README.md)."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

from dnsteer.plan.extension.program import Program
from dnsteer.switch.tools import SwitchError, UnavailableError

_ADVICE = "see systemctl status dnsteer-ext and dnsteer-ext --check --program FILE; another socket: --extension SOCKET"
_LEAST_PATIENCE = 60.0
"""Minimum timeout of load and dump, in seconds: each touches every slot, and the program handles one request at a time."""
_READ = 1 << 20
_LOOK = 0.5  # longest single wait, in seconds: a signal that arrives just before a wait is handled only after it


class ProgramRefusedError(SwitchError):
    """The program refused a request and runs on unchanged. *reason* is its own error message."""

    def __init__(self, name: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{name} refused: {reason}")


class ConnectionLostError(UnavailableError):
    """The program got a request, but its answer was lost: whether it carried the request out is unknown."""


class ExtensionClient:
    """The extension that listens at *path*. *timeout* is how long it may take to answer, in seconds.

    Each request opens and closes its own connection, because the program accepts only a few at a time. Requests raise
    UnavailableError, PermissionError, ProgramRefusedError with the reason, or SwitchError when another program listens at
    *path*.
    """

    def __init__(self, path: str, timeout: float = 10) -> None:
        self.path = path
        self.name = f"the extension at {path}"
        self._timeout = timeout

    def status(self) -> dict[str, Any]:
        """The program's answer to `status`: its state, its ports, and whether hardware is consistent."""
        return self._ask({"command": "status"}, self._timeout)

    def counters(self) -> dict[str, Any]:
        """Packet counters of each VIP and backend, and of drops."""
        return self._ask({"command": "counters"}, self._timeout)

    def slots(self) -> dict[str, Any]:
        """Packets of each slot of each VIP, whoever has it."""
        return self._ask({"command": "slots"}, self._timeout)

    def dump(self) -> dict[str, Any]:
        """The loaded program, and the backend that hardware uses for each slot."""
        return self._ask({"command": "dump"}, max(self._timeout, _LEAST_PATIENCE))

    def load(self, program: Program) -> dict[str, Any]:
        """Replace the program: entirely, or not at all when it is refused. A ConnectionLostError leaves that open."""
        return self._ask({"command": "load", "program": program}, max(self._timeout, _LEAST_PATIENCE))

    def _ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        with self._connect() as connection:
            try:
                line = _exchange(connection, json.dumps(request).encode() + b"\n", deadline)
            except TimeoutError:
                raise ConnectionLostError(f"{self.name} does not answer within {timeout:g} s; is it stuck?") from None
            except OSError as err:
                raise ConnectionLostError(
                    f"{self.name}: the connection ended ({err.strerror or err}); {_ADVICE}"
                ) from None
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            raise SwitchError(
                f"{self.path} is not the control socket of dnsteer-ext: found {line[:60]!r} there; {_ADVICE}"
            )
        if not answer["ok"]:
            raise ProgramRefusedError(self.name, str(answer.get("error", "it did not say why")))
        return answer

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(self._timeout)
            connection.connect(self.path)
        except OSError as err:
            connection.close()
            raise self._unreachable(err) from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _unreachable(self, err: OSError) -> Exception:
        if isinstance(err, FileNotFoundError | NotADirectoryError):
            return UnavailableError(f"{self.name}: there is no such socket; is it running? {_ADVICE}")
        if isinstance(err, ConnectionRefusedError):
            return UnavailableError(f"{self.name}: nobody listens there; is it running? {_ADVICE}")
        if isinstance(err, PermissionError):
            return PermissionError(err.errno, err.strerror, self.path)
        if isinstance(err, BlockingIOError | TimeoutError):
            return UnavailableError(f"{self.name} does not answer within {self._timeout:g} s; is it stuck?")
        return UnavailableError(f"{self.name}: {err.strerror or err}; {_ADVICE}")


def _exchange(connection: socket.socket, request: bytes, deadline: float) -> bytes:
    """Send a line and return the line that answers it. Raises TimeoutError, or OSError when the peer closes."""
    left, received = memoryview(request), list[bytes]()
    while left:
        connection.settimeout(max(0.001, min(_LOOK, deadline - time.monotonic())))
        try:
            left = left[connection.send(left) :]
        except TimeoutError:
            if time.monotonic() > deadline:
                raise
    while not received or not received[-1].endswith(b"\n"):
        connection.settimeout(max(0.001, min(_LOOK, deadline - time.monotonic())))
        try:
            data = connection.recv(_READ)
        except TimeoutError:
            if time.monotonic() > deadline:
                raise
            continue
        if not data:
            raise OSError(0, "closed by the other side")
        received.append(data)
    return b"".join(received)


def socket_path(given: str | None, spec: str = "") -> str:
    """The path of the control socket: *given* (from option or environment) made absolute, or else that of the *spec*."""
    return str(Path(given).absolute()) if given else spec
