# SPDX-License-Identifier: Apache-2.0
"""The log of an agent: where its events go, a stream or the journal of systemd.

The journal is written by its native protocol: a datagram with a field on each line, or framed by its length
(https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TextIO

from dnsteer.events.event import Event, EventLevel, EventName
from dnsteer.events.formats import LINE, Format, value_text, values

SOCKET = "/run/systemd/journal/socket"
IDENTIFIER = "dnsteer"
PRIORITY: Mapping[EventLevel, int] = {"error": 3, "warning": 4, "info": 6}
"""Of syslog."""
_PATIENCE = 0.2
"""Seconds for the journal to take an event: health checks must not wait for it."""
_NATIVE = ("time", "level", "message")
"""What the journal has fields of its own for."""


def is_journal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream leads to the journal: systemd says which file it is, by device and inode."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    with suppress(OSError, ValueError):
        found = os.fstat(stream.fileno())
        return (str(found.st_dev), str(found.st_ino)) == (device, inode)
    return False


def encoded(event: Event, message: str) -> bytes:
    """An event as the journal takes it, with *message* as its text."""
    fields = {
        "MESSAGE": message,
        "PRIORITY": str(PRIORITY[event.level]),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        **{f"DNSTEER_{name.upper()}": value_text(v) for name, v in values(event).items() if name not in _NATIVE},
    }
    return b"".join(_field(name, value) for name, value in fields.items())


def _field(name: str, value: str) -> bytes:
    data = value.encode(errors="backslashreplace")
    if b"\n" in data:  # else the rest would be fields of their own
        return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
    return name.encode() + b"=" + data + b"\n"


class Journal:
    """The journal's socket."""

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(_PATIENCE)

    def send(self, event: Event, message: str) -> bool:
        """Send an event; whether the journal has taken it."""
        with suppress(OSError):
            self._socket.sendto(encoded(event, message), self._path)
            return True
        return False


class Log:
    """Writes each event as a line of a *format* to *stream*, or to the *journal* with its fields. Used by any thread."""

    def __init__(
        self,
        stream: TextIO,
        format: Format = Format.TEXT,
        journal: Journal | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._stream, self._line, self._journal, self._clock = stream, LINE[format], journal, clock

    def say(self, text: str, event: EventName = "progress", level: EventLevel = "info", /, **fields: object) -> None:
        """See EventSink."""
        found = Event(self._clock(), level, event, text, fields)
        line = self._line(found)
        if self._journal is None or not self._journal.send(found, line):
            with suppress(OSError, ValueError):  # a terminal that is gone is no reason to end
                self._stream.write(f"{line}\n")
                self._stream.flush()

    def take_over(self, logger: logging.Logger) -> None:
        """Say what libraries log: on their own they would write lines of another format."""
        logger.addHandler(_Handler(self))


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Say a message of a library, each line of it."""
        level: EventLevel = "error" if record.levelno >= logging.ERROR else "warning"
        for line in self.format(record).splitlines():
            self._log.say(line, "library", level, logger=record.name)
