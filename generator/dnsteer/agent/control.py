# SPDX-License-Identifier: Apache-2.0
"""The agent's control socket: people's verbs, carried out with what the agent knows of the switch.

Each request has a thread of its own, and takes the bridge's lock as a verb in a process of its own would. The protocol is in
docs/agent.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswerError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from dnsteer import __version__
from dnsteer.agent.request import MalformedRequestError, Request
from dnsteer.deploy.caller import PreviewedRecord
from dnsteer.deploy.decision import IDS
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.verb_request import VerbOutcome, VerbRequest
from dnsteer.events.event import EventSink
from dnsteer.metrics.tasks import start_task
from dnsteer.switch.control_socket import PROTOCOL, socket_of
from dnsteer.switch.tools import SwitchError

_MAX = 32 << 20
"""Bytes of a request."""
_PATIENCE = 10.0
"""Seconds for a client to send its request, and to take what is left to send it at the end."""
_ANSWER_PATIENCE = 300.0
"""Seconds for a person to answer a question: a client that is stopped at one must not keep its place for ever."""
_WAITING = 32
"""Clients that may be without a request at once: one more ends the wait for the one that has waited longest."""
_LOOK = 1.0
"""Seconds between two looks at whether the socket's file is still there."""
_ALIVE = 2.0
"""Seconds between two signs of life to a client whose verb takes long."""
_AT_ONCE = 8
_OF_CONSOLE = 16
"""Verbs of the console at once, beside those; a gradual drain is one until its end."""
_GRADUAL = 8
"""Gradual ones among them, so that these leave room for previews, and for what ends them."""
_READ = ("status", "plan")
"""Verbs that decide nothing."""
_OFTEN = (*_READ, "reconcile", "due")
"""Verbs that a timer or a person calls again and again: that they have ended is not said."""
_ENDS = "nothing was changed: the agent ends"
_CREDENTIALS = struct.Struct("3i")


class Channel(Protocol):
    """The client of a request, for the thread that carries it out. Nothing here fails when the client is gone.

    *previewed* is the record that the client has previewed the request on, where it has.
    """

    previewed: PreviewedRecord | None

    def send(self, **message: Any) -> None:
        """Send a message."""

    def ask(self, reasons: list[str], words: list[str]) -> None:
        """Ask the operator whether to go on. Raises SwitchError when not, or when nobody answers any more."""

    def pause(self, seconds: float) -> None:
        """Wait so many seconds. Raises SwitchError when the agent ends."""


class ConsoleChannel:
    """Keeps what a verb prints, for a page of the console. Nobody answers questions there: a preview has said them."""

    def __init__(self, ending: threading.Event, previewed: PreviewedRecord) -> None:
        self._ending = ending
        self.previewed: PreviewedRecord | None = previewed
        self._said: list[tuple[str, str]] = []

    def send(self, **message: Any) -> None:
        """Keep what is printed."""
        self._said += [(name, str(text)) for name, text in message.items() if name in ("out", "err")]

    def said(self, *streams: str) -> str:
        """What was printed to these streams, in order."""
        return "".join(text for name, text in self._said if name in streams)

    def ask(self, reasons: list[str], words: list[str]) -> None:
        """Refuse."""
        raise SwitchError("\n".join([*reasons, "nothing was changed"]))

    def pause(self, seconds: float) -> None:
        """See Channel."""
        if self._ending.wait(seconds):
            raise SwitchError("the agent ends")


class SocketChannel:
    """A client at the control socket."""

    previewed: PreviewedRecord | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: asyncio.StreamWriter, ending: threading.Event) -> None:
        self._loop, self._writer, self._ending = loop, writer, ending
        self._answer: Future[dict[str, Any]] | None = None
        self._gone = False

    def send(self, **message: Any) -> None:
        """Send a message."""
        line = json.dumps(message).encode() + b"\n"
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._write, line)

    def _write(self, line: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(line)

    def ask(self, reasons: list[str], words: list[str]) -> None:
        """Ask the operator whether to go on. Raises SwitchError when not, and when no answer comes in time."""
        answer = self._answer = Future[dict[str, Any]]()
        if self._gone:
            raise SwitchError("nothing was changed: who asked for it is gone")
        if self._ending.is_set():  # whoever ends it has answered the questions that there were
            raise SwitchError(_ENDS)
        self.send(ask={"reasons": reasons, "words": words})
        try:
            said = answer.result(_ANSWER_PATIENCE)
        except NoAnswerError:
            raise SwitchError(f"nothing was changed: no answer came within {_ANSWER_PATIENCE:g} s") from None
        if said.get("answer") is not True:
            raise SwitchError(str(said.get("why") or "nothing was changed"))

    def pause(self, seconds: float) -> None:
        """Wait so many seconds. Raises SwitchError when the agent ends."""
        if self._ending.wait(seconds):
            raise SwitchError("the agent ends")

    def take(self, message: dict[str, Any]) -> None:
        """Take an answer of the client's."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def hung_up(self) -> None:
        """The client is gone."""
        self._gone = True
        self.take({"why": "nothing was changed: who asked for it is gone"})


RunRequest = Callable[[Request, Channel], int]
"""Carries a request out and returns the exit code."""
RunRequestOn = Callable[[TargetSwitch, Request, Channel], int]
"""The same, given the switch as the agent has it."""


class Control:
    """The control socket of a bridge's agent. *tell* returns what the agent knows; *say* gets an event about each verb.

    *is_acting* says whether this agent is the one that acts on the bridge.
    """

    def __init__(
        self,
        remote: str,
        bridge: str,
        run: RunRequest,
        say: EventSink,
        tell: Callable[[str], Any] = lambda bridge: None,
        is_acting: Callable[[], bool] = lambda: True,
    ) -> None:
        self._path, self._bridge, self._run, self._say = socket_of(remote, bridge), bridge, run, say
        self._tell, self._is_acting = tell, is_acting
        self._server: asyncio.AbstractServer | None = None
        self._made: tuple[int, int] | None = None
        """The identity of the file that it made for the socket, while it listens there."""
        self._ending = threading.Event()
        self._threads = ThreadPoolExecutor(_AT_ONCE + _OF_CONSOLE, "verb")
        self._clients: set[asyncio.Task[None]] = set()
        self._of_console: dict[asyncio.Future[int], bool] = {}
        """Verbs of the console that are under way, and whether each is gradual."""
        self._waiting: dict[asyncio.Task[None], SocketChannel] = {}
        """Clients that have not sent their request, those that came first in front."""
        self._at_work: dict[asyncio.Task[None], SocketChannel] = {}
        """Clients whose verb is under way."""

    @property
    def path(self) -> Path | None:
        """Where the socket is; None where the database is a remote one."""
        return self._path

    async def listen(self) -> None:
        """Listen until cancelled, and again whenever the socket's file is gone or another one.

        Not while another agent acts on the bridge: the socket is that one's. One that an earlier agent left is replaced.
        """
        path = self._path
        assert path is not None
        failed = ""
        while True:
            if not self._is_acting():
                self._close()
            elif self._made is None or self._made != _identity(path):
                try:
                    again = self._made is not None
                    await self._make(path)
                except OSError as err:
                    why = f"{err.filename or path}: {err.strerror}"
                    if why != failed:
                        failed = why
                        text = f"no control socket, so verbs work by themselves: {why}"
                        self._say(text, "not_listening", "warning", reason=why)
                else:
                    failed = ""
                    told = " (made again: its file was gone or another one)" if again else ""
                    self._say(f"control socket {path}{told}", "listens", address=path)
            await asyncio.sleep(_LOOK)

    def _close(self) -> None:
        """Take no more clients. Those that there are stay, and the file too: it may be another agent's by now."""
        server, self._server, self._made = self._server, None, None
        if server is not None:
            server.close()

    async def _make(self, path: Path) -> None:
        """Make the socket in place of the one before, whose clients stay. Raises OSError."""
        self._close()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, path, limit=_MAX)
        finally:
            os.umask(before)
        self._made = _identity(path)

    async def stop(self) -> None:
        """Close the socket, and wait for the verbs that are under way."""
        self._ending.set()
        if self._path is not None and self._made is not None and self._made == _identity(self._path):
            with suppress(OSError):
                self._path.unlink()
        self._close()
        for client in self._clients:
            if client in self._at_work:
                self._at_work[client].take({"why": _ENDS})
            else:
                client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.gather(*self._of_console, return_exceptions=True)
        self._threads.shutdown()

    async def run_verb(self, asked: VerbRequest, options: Sequence[str]) -> VerbOutcome:
        """Carry out what the console asks for, as what comes by the socket. *options* are those of the connection."""
        why = self._no_room(asked)
        if why:
            return VerbOutcome(1, said=f"dnsteer: {why}; nothing was changed\n")
        previewed = PreviewedRecord(asked.expected)
        channel = ConsoleChannel(self._ending, previewed)
        # Options first: what follows `--` in argv would else be taken for arguments.
        argv = asked.argv[0], *options, *asked.argv[1:]
        request = Request(argv, (), asked.by, {}, False, asked.files, decision=IDS.next())
        ended = self._begun(request, asked.argv)
        done = asyncio.get_running_loop().run_in_executor(self._threads, self._run, request, channel)
        self._of_console[done] = asked.is_gradual
        done.add_done_callback(self._of_console.pop)
        code = await asyncio.shield(done)
        ended(code)
        said = channel.said
        return VerbOutcome(code, said("out"), said("out", "err"), previewed.found, previewed.outdated)

    def _no_room(self, asked: VerbRequest) -> str:
        """Why what the console asks for is not begun; empty if it is."""
        if self._ending.is_set():
            return "the agent ends"
        if len(self._of_console) >= _OF_CONSOLE:
            return f"{_OF_CONSOLE} verbs are under way; try again"
        if asked.is_gradual and sum(self._of_console.values()) >= _GRADUAL:
            return f"{_GRADUAL} gradual changes are under way; undrain one, wait until one ends, or leave --over out"
        return ""

    def _begun(self, request: Request, argv: Sequence[str]) -> Callable[[int], None]:
        """Say that a verb was asked for, as *argv*; returns what says that it has ended with an exit code."""
        verb, *arguments = argv
        reads = verb in _READ or "--dry-run" in arguments
        about = {"verb": verb, "by": request.by, "decision": "" if reads else request.decision}
        text = f"for {request.by or 'somebody'}: {shlex.join(argv)}"
        self._say(text, "verb", **about, arguments=shlex.join(arguments))
        began = time.monotonic()

        def ended(code: int) -> None:
            if not reads and verb not in _OFTEN:
                took = time.monotonic() - began
                text = f"decision {request.decision}: {verb} has ended with {code} after {took:.3f} s"
                self._say(text, "verb_ended", **about, exit=code, duration_s=round(took, 6))

        return ended

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            await self._serve(reader, writer, task)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client is gone, or the agent ends
        finally:
            self._clients.discard(task)
            self._waiting.pop(task, None)
            self._at_work.pop(task, None)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        loop = asyncio.get_running_loop()
        channel = SocketChannel(loop, writer, self._ending)
        try:
            _refuse_others(writer)
            self._wait_for(task, channel)
            busy = {"busy": self._too_many} if self._too_many else {}  # what the agent knows may be asked all the same
            channel.send(v=PROTOCOL, version=__version__, bridge=self._bridge, **busy)
            line = await _line(reader)
            if _is_question(line):
                channel.send(knows=self._tell(self._bridge))
                await _sent(writer)
                return
            request = replace(Request.parse(line), decision=IDS.next())
            if self._too_many:  # others may have been faster
                raise MalformedRequestError(self._too_many)
        except MalformedRequestError as err:
            channel.send(error=str(err))
            await _sent(writer)
            return
        finally:
            self._waiting.pop(task, None)
        ended = self._begun(request, request.argv)
        self._at_work[task] = channel
        done = loop.run_in_executor(self._threads, self._run, request, channel)
        answers = start_task("the answers at the control socket", _answers(reader, channel))
        try:
            while not done.done():
                await asyncio.wait([done], timeout=_ALIVE)
                channel.send(alive=True)
            code = await done
            ended(code)
            channel.send(exit=code)
            await _sent(writer)
        finally:
            answers.cancel()

    @property
    def _too_many(self) -> str:
        """Why no further verb may begin; empty if one may."""
        return f"{_AT_ONCE} verbs are under way; try again" if len(self._at_work) >= _AT_ONCE else ""

    def _wait_for(self, task: asyncio.Task[None], channel: SocketChannel) -> None:
        """Let a client send its request. Those that never do are no reason to refuse others."""
        if len(self._waiting) >= _WAITING:
            oldest = next(iter(self._waiting))
            self._waiting.pop(oldest).send(error=f"no request came, and {_WAITING} other clients wait to send theirs")
            oldest.cancel()
        self._waiting[task] = channel


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def _sent(writer: asyncio.StreamWriter) -> None:
    """Wait until the client has taken what was sent, or is gone, or takes too long."""
    await asyncio.sleep(0)
    with suppress(OSError, asyncio.TimeoutError):
        await asyncio.wait_for(writer.drain(), _PATIENCE)


def _is_question(line: bytes) -> bool:
    """Whether a request asks what the agent knows, which changes nothing and needs no thread."""
    with suppress(ValueError, RecursionError):
        value = json.loads(line)
        return isinstance(value, dict) and value.get("v") == PROTOCOL and value.get("tell") == "knowledge"
    return False


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the request's line. Raises MalformedRequestError."""
    try:
        line = await asyncio.wait_for(reader.readline(), _PATIENCE)
    except (TimeoutError, asyncio.TimeoutError):
        raise MalformedRequestError(f"no whole request came within {_PATIENCE:g} s") from None
    except ValueError:
        raise MalformedRequestError(f"found a request of more than {_MAX >> 20} MiB") from None
    if not line.endswith(b"\n"):
        raise MalformedRequestError("found half a line") if line else EOFError
    return line


async def _answers(reader: asyncio.StreamReader, channel: SocketChannel) -> None:
    """Pass on what the client answers, until it is gone."""
    with suppress(OSError, ValueError):
        while line := await reader.readline():
            with suppress(ValueError, RecursionError):
                message = json.loads(line)
                if isinstance(message, dict):
                    channel.take(message)
    channel.hung_up()


def _refuse_others(writer: asyncio.StreamWriter) -> None:
    """Raise MalformedRequestError for a client that is neither root nor the user of the agent."""
    sock = writer.get_extra_info("socket")
    _pid, uid, _gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in (0, os.getuid()):
        raise MalformedRequestError("only root and the user of the agent may do that")
