# SPDX-License-Identifier: Apache-2.0
"""Let the agent of a switch carry out a verb, since it has all in memory. Without an agent verbs do their work themselves.

Only the standard library is imported here, and modules that import nothing else: imports are what takes long in a start.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dnsteer import __version__
from dnsteer.deploy.bounded_lists import bounded_alike
from dnsteer.deploy.caller import operator_name
from dnsteer.switch.control_socket import PROTOCOL, default_remote, find_socket, refusal_of_agent
from dnsteer.switch.other_versions import program_of

QUICK = (
    *("drain", "undrain", "down", "up", "weight", "deny", "undeny", "role", "reconcile", "due", "status", "rollback"),
    "restore",
)
"""Verbs that read no file of the caller's: their arguments are passed on as they stand."""
_GREETING = 1.0
"""Seconds in which an agent greets. One that does not is stuck, and the verb does its work itself."""
_SILENCE = 10.0
"""Seconds of silence after which an agent counts as stuck."""
_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
_BY_ENVIRONMENT = {"--db": "DNSTEER_DB", "--openflow": "DNSTEER_OPENFLOW", "--extension": "DNSTEER_EXTENSION_SOCKET"}
_LONG = ("-w", "--watch", "--wait", "-h", "--help")
"""Options that the agent has no part in."""
_UNAVAILABLE, _ERROR = 69, 1  # as in output.Exit


class StuckError(Exception):
    """The agent stopped answering, or refused; the message says so."""


def hand_to_agent(argv: Sequence[str]) -> int | None:
    """Let the agent carry out a verb without reading its arguments; its exit code, or None where there is no agent."""
    if argv[0] not in QUICK or any(word.partition("=")[0] in _LONG for word in argv):
        return None
    options = {name: _option(argv, name) or os.environ.get(variable, "") for name, variable in _BY_ENVIRONMENT.items()}
    remote = options["--db"] = options["--db"] or default_remote()
    path = find_socket(remote, _option(argv, "--bridge"))
    if path is None:
        return None
    named = [word for name, value in options.items() if value for word in (name, _absolute(value))]
    try:
        return ask_agent(path, argv, named, {})
    except StuckError as err:
        sys.stderr.write(f"dnsteer: {err}\n")
        return _UNAVAILABLE


def _option(argv: Sequence[str], name: str) -> str | None:
    """Return the last value of an option."""
    found = None
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


def _absolute(remote: str) -> str:
    """The agent has another working directory."""
    kind, _, where = remote.partition(":")
    return f"unix:{Path(where).absolute()}" if kind == "unix" else remote


def ask_agent(path: Path, argv: Sequence[str], options: Sequence[str], files: Mapping[str, bytes]) -> int | None:
    """Return the exit code of the verb; None where no agent of this version answers.

    *options* are those of the connection, which count more than those in *argv*; *files* are what the verb reads.

    Raises StuckError when the agent stops answering on the way.
    """
    with socket.socket(socket.AF_UNIX) as sock:
        lines = _greeted(sock, path)
        return _send_and_relay(sock, lines, _request(argv, options, files)) if lines is not None else None


class _Lines:
    """Messages, one on a line."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._rest = sock, b""

    def next(self) -> dict[str, Any]:
        """Return the next one. Raises OSError, EOFError at the end, or ValueError."""
        while b"\n" not in self._rest:
            data = self._sock.recv(1 << 16)
            if not data:
                raise EOFError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        value = json.loads(line)
        return value if isinstance(value, dict) else {}


def _greeted(sock: socket.socket, path: Path) -> _Lines | None:
    """Connect, and return what the agent says; None where there is no agent of this version."""
    sock.settimeout(_GREETING)
    lines = _Lines(sock)
    try:
        sock.connect(str(path))
        hello = lines.next()
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, EOFError, PermissionError):
        return None  # one that was killed left its socket, which a child of its last moment may still hold open
    except (OSError, ValueError):
        _note(f"the agent at {path} does not answer; this is done without it")
        return None
    refused = hello.get("error") or hello.get("busy")
    if refused:
        _note(f"the agent refuses: {_plain(refused)}; this is done without it")
        return None
    if why := refusal_of_agent(hello) or _other_program(hello.get("version")):
        _note(f"{why}; this is done without it")
        return None
    return lines


def _other_program(version: object) -> str:
    """Why an agent of another version of dnsteer does no verbs for this one, and what to do; empty: it is of this one."""
    if version == __version__:
        return ""
    from packaging.version import InvalidVersion, Version  # here, since it takes longer than all that is loaded so far

    try:
        is_newer = Version(str(version)) > Version(__version__)
    except InvalidVersion:
        is_newer = False
    advice = f"use {program_of(version)} here, or upgrade to it" if is_newer else "restart the agent"
    return f"the agent is {program_of(version)}, and this is {__version__}: {advice}"


def _note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")


def _plain(value: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(value))


def _request(argv: Sequence[str], options: Sequence[str], files: Mapping[str, bytes]) -> dict[str, Any]:
    environ = {name: os.environ[name] for name in _TERMINAL if name in os.environ}
    terminal = sys.stdout.isatty()
    if terminal:
        environ["COLUMNS"] = str(shutil.get_terminal_size().columns)
    return {
        "v": PROTOCOL,
        "version": __version__,
        "argv": list(argv),
        "options": list(options),
        "by": operator_name(),
        "environ": environ,
        "terminal": terminal,
        "encoding": getattr(sys.stdout, "encoding", None) or "utf-8",
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }


def _send_and_relay(sock: socket.socket, lines: _Lines, request: dict[str, Any]) -> int:
    sock.settimeout(_SILENCE)
    try:
        _send(sock, request)
        while True:
            message = lines.next()
            if "exit" in message:
                return int(message["exit"])
            if "error" in message:
                raise StuckError(f"the agent refuses: {_plain(message['error'])}")
            if "ask" in message:
                with suppress(EOFError):  # it has given the question up, and what is left to read says so
                    _send(sock, _answer(message["ask"], "--json" in request["argv"]))
            for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
                if name in message:
                    stream.write(str(message[name]))
                    stream.flush()
    except BrokenPipeError:
        raise  # of our own output: the reader has seen enough
    except (OSError, EOFError, ValueError):
        raise StuckError("the agent stopped answering: whether it made the change, dnsteer status says") from None
    except KeyboardInterrupt:
        _note("the agent goes on with it: see dnsteer status")
        raise


def _send(sock: socket.socket, message: dict[str, Any]) -> None:
    try:
        sock.sendall(json.dumps(message).encode() + b"\n")
    except BrokenPipeError:
        raise EOFError from None


def _answer(question: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Ask the operator, in a terminal, after saying what would change."""
    reasons = "\n".join(question["reasons"] if as_json else bounded_alike(question["reasons"]))
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return {"answer": False, "why": f"{reasons}\nnothing was changed; to do it anyway: --yes"}
    would = "\n  ".join(["would change:", *question["words"]])
    sys.stderr.write(f"{would}\n{reasons}\nGo on? [y/N]: ")
    sys.stderr.flush()
    return {"answer": sys.stdin.readline().strip().lower() in ("y", "yes")}
