"""The log of an agent: where its events go."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import TextIO

from dnsteer.events.event import Event, Level, Name
from dnsteer.events.formats import LINE, Format
from dnsteer.events.journal import Journal


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

    def say(self, text: str, event: Name = "progress", level: Level = "info", /, **fields: object) -> None:
        """See Say."""
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
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        for line in self.format(record).splitlines():
            self._log.say(line, "library", level, logger=record.name)
