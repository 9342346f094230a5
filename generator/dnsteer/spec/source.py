# SPDX-License-Identifier: Apache-2.0
"""Read a file or standard input that the operator named, in bounded time and memory."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

STDIN = Path("-")
"""The name that stands for standard input."""
SHOWN_STDIN = "<stdin>"
"""What messages call it, as compilers do."""
PATIENCE = 5.0
"""Seconds that a writer of a pipe may take to open it."""

SENT_FILES: ContextVar[Mapping[str, bytes]] = ContextVar("sent_files", default=MappingProxyType({}))
"""What files hold that somebody else has read, by their names."""

_POLL = 50  # milliseconds
_CHUNK = 1 << 20
_NOT_FILES = (
    (stat.S_ISDIR, "a directory", "name a file in it"),
    (stat.S_ISSOCK, "a socket", "check the path"),
    (stat.S_ISCHR, "a device", "name a file, or - for standard input"),
    (stat.S_ISBLK, "a device", "name a file, or - for standard input"),
)


class UnreadableError(Exception):
    """A file that cannot be read: what was found instead, and what to do."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(f"{found}; {hint}")
        self.found, self.hint = found, hint


def shown(file: Path) -> str:
    """What messages call *file*."""
    return SHOWN_STDIN if file == STDIN else str(file)


def sent_content(file: Path) -> bytes | None:
    """What *file* holds, if somebody else has read it and sent that."""
    return SENT_FILES.get().get(str(file))


def read_whole(file: Path, most: int) -> bytes:
    """What *file* holds, or standard input for `-`; cut off after *most* bytes and one, so that the caller can tell.

    Waits for as long as a writer of a pipe has it open, and PATIENCE seconds for one to open it. Raises UnreadableError for
    what is no file, a pipe that nobody writes to and a standard input that is closed; OSError that names the file.
    """
    given = sent_content(file)
    if given is not None:
        return given[: most + 1]
    return _read_stdin(most + 1) if file == STDIN else _read(file, most + 1)


def _read_stdin(most: int) -> bytes:
    stream: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise UnreadableError("a standard input that is closed", "give it a file or a pipe, or name a file")
    return stream.read(most)


def _read(file: Path, most: int) -> bytes:
    _refuse(os.stat(file).st_mode)  # noqa: PTH116 - before it is opened, which some devices act on
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(handle, "rb", buffering=0) as stream:
        mode = os.fstat(handle).st_mode
        _refuse(mode)
        if stat.S_ISFIFO(mode):
            return _read_pipe(handle, most)
        data = bytearray()
        while len(data) < most and (chunk := stream.read(min(_CHUNK, most - len(data)))):
            data += chunk
        return bytes(data)


def _refuse(mode: int) -> None:
    for is_so, what, hint in _NOT_FILES:
        if is_so(mode):
            raise UnreadableError(what, hint)


def _read_pipe(pipe: int, most: int) -> bytes:
    """Read a pipe, opened without blocking, to its end. Opened as usual, one that nobody writes to would wait for ever."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    until = time.monotonic() + PATIENCE
    data, opened = bytearray(), False
    while len(data) < most:
        try:
            chunk = os.read(pipe, min(_CHUNK, most - len(data)))
        except BlockingIOError:  # somebody has it open and has yet to write
            opened = True
            poll.poll()
            continue
        data += chunk
        if not chunk and (opened or any(event == select.POLLHUP for _, event in poll.poll(_POLL))):
            break
        opened = opened or bool(chunk)
        if not opened and time.monotonic() > until:
            hint = "start the program that writes to it first, or give the spec on standard input, as -"
            raise UnreadableError(f"a pipe that nobody writes to ({PATIENCE:g} s waited)", hint)
    return bytes(data)
