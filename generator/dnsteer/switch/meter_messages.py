# SPDX-License-Identifier: Apache-2.0
"""Many changes of meters at once, as messages of OpenFlow 1.5 on one connection.

ovs-ofctl takes one meter a command, and each command is a process of some 10 ms; a limit of clients has up to 4,096 meters.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from enum import IntEnum
from typing import NamedTuple

from dnsteer.render.meters import Meter
from dnsteer.switch.openflow import PROTOCOL, OpenFlow
from dnsteer.switch.tools import SwitchError, TimedOutError, UnavailableError

_HEADER = struct.Struct("!BBHI")
"""Version, type, length of the message, and number of the request (OpenFlow 1.5.1, section 7.1)."""
_VERSION = 6
_HELLO, _ERROR, _ECHO, _ECHO_REPLY, _METER_MOD, _BARRIER, _BARRIER_REPLY = 0, 1, 2, 3, 29, 20, 21
_METER_FAILED = 12
_NO_ROOM = "OUT_OF_METERS"
_REASONS = (
    "UNKNOWN",
    "METER_EXISTS",
    "INVALID_METER",
    "UNKNOWN_METER",
    "BAD_COMMAND",
    "BAD_FLAGS",
    "BAD_RATE",
    "BAD_BURST",
    "BAD_BAND",
    "BAD_BAND_VALUE",
    _NO_ROOM,
    "OUT_OF_BANDS",
)
"""Codes of errors about meters (OpenFlow 1.5.1, section 7.5.4.13), as ovs-ofctl names them behind OFPMMFC_."""
_FLAGS = {"kbps": 1, "pktps": 2, "burst": 4, "stats": 8}
_DROP, _REMARK = 1, 2
_METER = re.compile(r"meter=(\d+),(?:(.*?),)?bands=(.*)\Z")
_NETWORK = re.compile(r"(?:tcp|ssl):(?:\[([^]]+)\]|([^:]+))(?::(\d+))?\Z")
_PORT = 6653
"""What ovs-ofctl takes where a target has no port."""
_AT_ONCE = 1 << 13
"""Bytes that are sent before their answers are read. A switch with answers that nobody reads reads nothing more itself, so
that what is sent at once must fit into the buffers of the connection."""


class MeterCommand(IntEnum):
    """What is done to a meter."""

    ADD = 0
    MODIFY = 1
    DELETE = 2


class MeterChange(NamedTuple):
    """A meter, and what is done to it."""

    command: MeterCommand
    meter: Meter


def change_meters(client: OpenFlow, changes: Iterable[MeterChange], timeout: float) -> dict[int, str]:
    """Make all changes, each by itself. Returns the reasons of those that were refused, by their place: `OUT_OF_METERS`.

    Where there is no room for one, those behind it are refused too: each would take Open vSwitch 3.1.0 some 20 ms to refuse.
    *timeout* is in seconds, for the answers to some 200 changes. Raises UnavailableError, PermissionError, or SwitchError
    where certificates are wrong; it is not known then which of the changes were made.
    """
    messages = [_meter_mod(place, change) for place, change in enumerate(changes, 1)]
    if not messages:
        return {}
    name = f"OpenFlow at {client.target}"
    try:
        with _connection(client.target, name, timeout) as sock:
            switch = _Messages(sock, timeout)
            switch.send(_HEADER.pack(_VERSION, _HELLO, _HEADER.size, 0))
            return dict(_refusals(switch, messages))
    except TimeoutError:
        raise TimedOutError(f"{name} does not answer within {timeout:g} s") from None
    except PermissionError as err:
        raise PermissionError(err.errno, err.strerror, client.target.removeprefix("unix:")) from None
    except OSError as err:
        raise UnavailableError(f"no {name} ({err.strerror or err}); is ovs-vswitchd running?") from None


def _refusals(switch: _Messages, messages: list[bytes]) -> Iterator[tuple[int, str]]:
    """Send the messages, part by part, and yield place and reason of those that are refused."""
    hello = switch.receive()
    if hello[0] != _HELLO:
        raise SwitchError(
            f"the bridge does not speak {PROTOCOL}; its column protocols in OVSDB must be empty or have it"
        )
    barrier = _HEADER.pack(_VERSION, _BARRIER, _HEADER.size, len(messages) + 1)
    count = _AT_ONCE // max(map(len, messages))
    for first in range(0, len(messages), count):
        switch.send(b"".join([*messages[first : first + count], barrier]))
        refused = dict(_refused_until_barrier(switch))
        yield from refused.items()
        if _NO_ROOM in refused.values():
            yield from ((place, _NO_ROOM) for place in range(first + count, len(messages)))
            return


def _refused_until_barrier(switch: _Messages) -> Iterator[tuple[int, str]]:
    while True:
        kind, number, body = switch.receive()
        if kind == _BARRIER_REPLY:
            return
        if kind == _ECHO:
            switch.send(_HEADER.pack(_VERSION, _ECHO_REPLY, _HEADER.size + len(body), number) + body)
        elif kind == _ERROR:
            of, code = struct.unpack("!HH", body[:4])
            if of != _METER_FAILED or not number:
                raise SwitchError(f"the bridge refused a message about meters: error {of}, code {code}")
            yield number - 1, _REASONS[code] if code < len(_REASONS) else str(code)


class _Messages:
    """Messages on a connection. What is sent is taken and answered within *timeout*. Raises OSError, and TimeoutError."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._socket = sock
        self._timeout = timeout
        self._deadline = 0.0
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Send whole messages."""
        self._deadline = time.monotonic() + self._timeout
        self._wait()
        self._socket.sendall(data)

    def receive(self) -> tuple[int, int, bytes]:
        """Return type, number and body of the next message."""
        _, kind, length, number = _HEADER.unpack(self._take(_HEADER.size))
        return kind, number, self._take(length - _HEADER.size)

    def _take(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._wait()
            more = self._socket.recv(_AT_ONCE)
            if not more:
                raise ConnectionError("the connection ended")
            self._rest += more
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _wait(self) -> None:
        self._socket.settimeout(max(self._deadline - time.monotonic(), 0.001))


@contextmanager
def _connection(target: str, name: str, timeout: float) -> Iterator[socket.socket]:
    with closing(_connect(target, name, timeout)) as sock:
        yield sock
        if target.startswith("ssl:"):
            from dnsteer.switch import tls  # only here: see there

            tls.tls_shutdown(sock)


def _connect(target: str, name: str, timeout: float) -> socket.socket:
    m = _NETWORK.match(target)
    if m is None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(timeout)
            sock.connect(target.removeprefix("unix:"))
        except BaseException:
            sock.close()
            raise
        return sock
    address = m[1] or m[2], int(m[3] or _PORT)
    if target.startswith("ssl:"):
        from dnsteer.switch import tls  # only here: see there

        return tls.connect(address, name, timeout)
    return socket.create_connection(address, timeout)


def _meter_mod(number: int, change: MeterChange) -> bytes:
    flags, bands = 0, b""
    if change.command is not MeterCommand.DELETE:
        m = _METER.match(change.meter.text)
        if m is None:
            raise SwitchError(f"meter {change.meter.text} is not written as Open vSwitch prints one")
        flags = sum(_FLAGS[word] for word in (m[2] or "").split(",") if word)
        bands = b"".join(map(_band, m[3].split(",type=")))
    body = struct.pack("!HHI", change.command, flags, change.meter.number) + bands
    return _HEADER.pack(_VERSION, _METER_MOD, _HEADER.size + len(body), number) + body


def _band(text: str) -> bytes:
    """A band of a meter, such as `type=drop,rate=5`; of several, those after the first come without `type=`."""
    words: Mapping[str, str] = dict(part.split("=") for part in f"type={text.removeprefix('type=')}".split(","))
    rate, burst = int(words["rate"]), int(words.get("burst_size", "0"))
    if words["type"] == "drop":
        return struct.pack("!HHIII", _DROP, 16, rate, burst, 0)
    return struct.pack("!HHIIB3x", _REMARK, 16, rate, burst, int(words["prec_level"]))
