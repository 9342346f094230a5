# SPDX-License-Identifier: Apache-2.0
"""Run the extension's program on the software model in a separate process, with frames in and out through pipes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from dnsteer.extension.executables import executable
from dnsteer.plan.extension.program import ExtensionPlan
from dnsteer.render.program import program_of
from dnsteer.switch.signals import defer_signals, ends_with_parent
from dnsteer.switch.tools import SwitchError

NAME = "dnsteer-ext-frames"
_ANSWER_TIMEOUT = 60.0
_END_TIMEOUT = 5.0
_CHUNK = 1 << 20
IN, OUT = "in", "out"
"""The program's ports, connected to the bridge's ingress and egress port."""


@dataclass(frozen=True)
class Handled:
    """A frame that reached the program by *port*, the verdict and reason, and the (port, frame) pairs that it *sent*."""

    port: str
    data: bytes
    sent: tuple[tuple[str, bytes], ...]
    verdict: str
    reason: str


class ExtensionProcess:
    """A context manager that runs the program of *extension* in the model's strict mode, which refuses what is unproven."""

    def __init__(self, extension: ExtensionPlan) -> None:
        self._extension = extension
        self.ingress = extension.ingress.name
        """The bridge's port through which queries reach the program."""
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> ExtensionProcess:
        path = executable(NAME)
        with defer_signals():
            # A file in memory: a pipe that nobody reads would block the program once it is full.
            self._stderr = open(os.memfd_create(NAME), "w+b")  # noqa: PTH123 - it has no path
            self._process = subprocess.Popen(
                [path, "--strict"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                bufsize=0,
                cwd="/",
                start_new_session=True,  # Ctrl-C reaches dnsteer alone
                preexec_fn=ends_with_parent(signal.SIGKILL),
            )
        try:
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
            self.ask(command="load", program=program_of(self._extension))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the program."""
        process, self._process = self._process, None
        if process is not None:
            with defer_signals():
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
                process.terminate()
                try:
                    process.wait(_END_TIMEOUT)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def run(self, frames: Sequence[tuple[str, bytes]]) -> list[Handled]:
        """Send frames to the program in order, each as (port, data), and return how it handled each."""
        answer = self.ask(frames=[[port, data.hex()] for port, data in frames])
        out = []
        for (port, data), results, (verdict, reason) in zip(frames, answer["results"], answer["verdicts"], strict=True):
            sent = tuple((sent_by, bytes.fromhex(text)) for sent_by, text in results)
            out.append(Handled(port, data, sent, verdict, reason))
        return out

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request to the program and return its answer. Raises SwitchError when it refuses, exits or hangs."""
        line = self._exchange(json.dumps(request).encode() + b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as err:
            raise SwitchError(f"{NAME}: found an answer that is no JSON: {line[:80]!r}") from err
        if not answer.get("ok"):
            raise SwitchError(f"{NAME}: {answer.get('error', 'refused, and gives no reason')}")
        return answer

    def _exchange(self, line: bytes) -> bytes:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise SwitchError(f"{NAME} does not run")
        left, answer = memoryview(line), bytearray()
        into, out_of = process.stdin.fileno(), process.stdout.fileno()
        poll = select.poll()
        poll.register(into, select.POLLOUT)
        poll.register(out_of, select.POLLIN)
        deadline = time.monotonic() + _ANSWER_TIMEOUT
        while not answer.endswith(b"\n"):
            ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready:
                raise SwitchError(f"{NAME} did not answer within {_ANSWER_TIMEOUT:g} s")
            if out_of in ready:
                read = os.read(out_of, _CHUNK)
                if not read:
                    raise SwitchError(self._ended(process))
                answer += read
            if into in ready:
                try:
                    left = left[os.write(into, left[:_CHUNK]) :]
                except BrokenPipeError:
                    raise SwitchError(self._ended(process)) from None
                if not left:
                    poll.unregister(into)
        return bytes(answer)

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        """Describe how the program exited: its exit status and the last line of its stderr."""
        try:
            code: object = process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            code = "none yet"
        written = b""
        if self._stderr is not None:
            self._stderr.seek(0)
            written = self._stderr.read()
        last = written.decode(errors="replace").strip().rsplit("\n", 1)[-1]
        return f"{NAME} ended (exit status {code}){': ' + last if last else ''}"
