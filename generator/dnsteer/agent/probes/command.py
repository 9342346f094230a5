# SPDX-License-Identifier: Apache-2.0
"""Probes by a command's exit code. Whatever the command has started is ended with it: it is a process group of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress

from dnsteer.agent.probes.targets import ProbeTarget

PIPE = 65536
"""Bytes that a command may print: they stay in the pipe until it ends, which holds no more."""


async def run_command(target: ProbeTarget) -> str:
    """Run the target's command to its end; return what is wrong, empty for exit code 0.

    Raises TimeoutError. It is killed then, and when this is cancelled.
    """
    words = {"address": target.address, "port": str(target.port), "pool": target.pool, "backend": target.backend}
    argv = [_filled(word, words) for word in target.check.command]
    output, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        try:
            os.set_blocking(end, True)
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=end, stderr=end, start_new_session=True)
        except (OSError, ValueError) as err:  # ValueError: a NUL byte in a word
            return f"{argv[0]} cannot be run: {getattr(err, 'strerror', None) or err}"
        finally:
            os.close(end)
        try:
            code = await asyncio.wait_for(_ended(process), target.timeout)
        except (TimeoutError, asyncio.TimeoutError):
            if len(_read(output)) == PIPE:
                return f"{argv[0]} printed more than {PIPE >> 10} KiB"
            raise
        if not code:
            return ""
        said = _read(output).decode(errors="replace").split("\n")[0]
        return f"{argv[0]} ended with {code}: {said}" if said else f"{argv[0]} ended with {code}"
    finally:
        os.close(output)


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end without a thread. The group is killed before its number is free for others: while it is a zombie."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[int] = loop.create_future()
    watched = os.pidfd_open(process.pid)

    def reap() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        _kill(process)
        code = process.wait()
        if not done.done():
            done.set_result(code)

    loop.add_reader(watched, reap)
    try:
        return await done
    finally:
        if process.returncode is None:
            _kill(process)  # and reap when it has ended


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):  # none is left, or all have become another user's
        os.killpg(process.pid, signal.SIGKILL)


def _read(output: int) -> bytes:
    with suppress(BlockingIOError):
        return os.read(output, PIPE)
    return b""


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word
