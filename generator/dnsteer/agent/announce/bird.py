# SPDX-License-Identifier: Apache-2.0
"""BIRD's control socket, as birdc uses it: a command in a line, and replies that each begin with a code of four digits."""

from __future__ import annotations

import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from types import TracebackType

_WELCOME, _RECONFIGURED, _IN_PROGRESS, _QUEUED = 1, 3, 4, 5
_ERRORS = 8000
"""Codes from here on are errors, at run time from here and of the command from 9000."""
_STOPPED = 8004
"""BIRD was reconfigured while it printed, by another client: what it printed is not all."""
_AGAIN = 0.01
"""Seconds before a command that was cut off so is repeated."""
_MAX = 4 << 20


class BirdError(Exception):
    """BIRD cannot be reached, or does not answer."""


class BirdAwayError(BirdError):
    """Nobody listens at the control socket: BIRD is not running, or has another one."""


class BirdRefusedError(BirdError):
    """BIRD has refused a command; the message is its own."""


@dataclass(frozen=True)
class Reply:
    """The lines of a reply, and the code of the last one."""

    code: int
    lines: tuple[str, ...]


class Bird:
    """A context manager: a connection to the control socket. An answer may take *timeout* seconds. Raises BirdError."""

    def __init__(self, control: str, timeout: float = 5.0) -> None:
        self._control, self._timeout = control, timeout
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._rest = b""
        try:
            self._socket.connect(control)
            if self._read().code != _WELCOME:
                raise BirdError(f"{control}: who answers there is not BIRD")
        except OSError as err:
            self._socket.close()
            raise self._error(err) from None
        except BirdError:
            self._socket.close()
            raise

    def __enter__(self) -> Bird:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, command: str) -> Reply:
        """Return the reply to a command. Raises BirdRefusedError with BIRD's message, or BirdError."""
        deadline = time.monotonic() + self._timeout
        while (reply := self._reply(command)).code == _STOPPED:
            if time.monotonic() > deadline:
                raise BirdError(
                    f"BIRD at {self._control} kept being reconfigured for {self._timeout:g} s; what runs birdc configure?"
                )
            time.sleep(_AGAIN)
        if reply.code >= _ERRORS:
            raise BirdRefusedError(" ".join(reply.lines[-1:]) or f"code {reply.code}")
        return reply

    def _reply(self, command: str) -> Reply:
        try:
            self._socket.sendall(command.encode() + b"\n")
            return self._read()
        except OSError as err:
            raise self._error(err) from None

    def configure(self) -> None:
        """Make BIRD read its configuration again. Raises BirdRefusedError for a fault in it; nothing changes then."""
        reply = self.ask("configure")
        if reply.code not in (_RECONFIGURED, _IN_PROGRESS, _QUEUED):
            raise BirdRefusedError(" ".join(reply.lines[-1:]))

    def is_unconfirmed(self) -> bool:
        """Whether BIRD is about to undo its configuration, unless somebody confirms it (`configure timeout`).

        A further `configure` would confirm it. A BIRD without `configure status` counts as not about to.
        """
        try:
            return any("unconfirmed" in line for line in self.ask("configure status").lines)
        except BirdRefusedError:
            return False

    def states(self, names: list[str]) -> dict[str, str]:
        """The states (up, down, start) of those of the protocols that BIRD has."""
        out: dict[str, str] = {}
        for line in self.ask("show protocols").lines:
            words = line.split()
            if len(words) > 3 and words[0] in names:
                out[words[0]] = words[3]
        return out

    def routes(self, names: list[str]) -> set[str]:
        """The prefixes that protocols have routes to; one that BIRD does not have has none."""
        lines: list[str] = []
        for name in names:
            with suppress(BirdRefusedError):
                lines += self.ask(f"show route protocol {name}").lines
        return {str(ip_network(found[1])) for line in lines if (found := re.match(r"(\S+/\d+)\s", line))}

    def others(self, prefixes: list[str], own: list[str]) -> dict[str, str]:
        """The protocols, besides one's *own* and those of neighbours, that have routes to the prefixes, by prefix."""
        out: dict[str, str] = {}
        prefix = ""
        for kind in (4, 6):
            of_kind = [p for p in prefixes if (":" in p) == (kind == 6)]
            if not of_kind:
                continue
            # What neighbours announce is other sites' of the same VIP; what this machine has would go on announcing it.
            where = (
                f"net ~ [ {', '.join(of_kind)} ] && source !~ [ RTS_BGP, RTS_OSPF..RTS_OSPF_EXT2, RTS_RIP, RTS_BABEL ]"
            )
            for line in self.ask(f"show route where {where}").lines:
                found = re.match(r"(\S+/\d+)?\s+.*?\[(\S+) ", line)
                if found is not None:
                    prefix = found[1] or prefix
                    if found[2] not in own:
                        out.setdefault(prefix, found[2])
        return out

    def _error(self, err: OSError) -> BirdError:
        if isinstance(err, TimeoutError):
            return BirdError(f"BIRD at {self._control} did not answer within {self._timeout:g} s")
        kind = BirdAwayError if isinstance(err, FileNotFoundError | ConnectionRefusedError) else BirdError
        return kind(f"BIRD at {self._control} cannot be reached: {err.strerror or err}; is it running?")

    def _read(self) -> Reply:
        lines: list[str] = []
        while True:
            line = self._line()
            if line[:1] == "+":  # a message that was not asked for
                continue
            code, mark, text = line[:4], line[4:5], line[5:]
            if not code.isdigit():
                lines.append(line[1:])
                continue
            if text:
                lines.append(text)
            if mark == " ":
                return Reply(int(code), tuple(lines))

    def _line(self) -> str:
        while b"\n" not in self._rest:
            more = self._socket.recv(1 << 16)
            if not more or len(self._rest) > _MAX:
                raise BirdError(f"BIRD at {self._control} ended the connection")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")
