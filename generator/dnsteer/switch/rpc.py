"""JSON-RPC with a time limit: for ovsdb-server's schema and for ovs-vswitchd's control socket.

The ovs library has both too, but waits for ever for an answer, and reads long ones character by character in Python.
"""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import Any

from dnsteer.switch.tools import SwitchError, UnavailableError

_TCP = re.compile(r"tcp:(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})\Z")
_READ = 1 << 20


def parse_remote(remote: str) -> str:
    """Check the address of a server, `unix:PATH` or `tcp:IP:PORT`, and make its path absolute. Raises ValueError."""
    kind, _, where = remote.partition(":")
    if kind == "unix" and where:
        return f"unix:{Path(where).absolute()}"
    m = _TCP.match(remote)
    if m and 0 < int(m[3]) < 65536:
        return remote
    raise ValueError(f"found {remote!r}; expected unix:PATH, tcp:IPV4:PORT or tcp:[IPV6]:PORT")


def _connect(remote: str, timeout: float) -> socket.socket:
    m = _TCP.match(remote)
    if m:
        return socket.create_connection((m[1] or m[2], int(m[3])), timeout)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout)
        sock.connect(remote.partition(":")[2])
    except BaseException:
        sock.close()
        raise
    return sock


class Rpc:
    """A connection to one server. *name* is what messages call the server. Raises UnavailableError or PermissionError."""

    def __init__(self, remote: str, name: str, timeout: float) -> None:
        self.name = name
        try:
            self._socket = _connect(remote, timeout)
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

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def call(self, method: str, params: list[Any], timeout: float) -> Any:
        """Call *method* and return its result. Raises SwitchError with the server's message when it fails."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        deadline = time.monotonic() + timeout
        try:
            self._socket.settimeout(timeout)
            self._socket.sendall(json.dumps(request).encode())
            while True:
                answer = self._receive(deadline)
                if answer.get("id") == self._number and "method" not in answer:
                    break  # and not a request of the server's own
        except TimeoutError:
            raise UnavailableError(f"{self.name} does not answer within {timeout:g} s") from None
        except OSError as err:
            raise UnavailableError(f"{self.name}: the connection ended ({err.strerror or err})") from None
        if answer.get("error") is not None:
            error = answer["error"]
            raise SwitchError(str(error.get("error", error) if isinstance(error, dict) else error).strip())
        return answer.get("result")

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next message. They follow each other without a mark between, so one ends where its JSON does."""
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
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(_READ)
            if not data:
                raise OSError(0, "closed by the other side")
            received.append(data)
