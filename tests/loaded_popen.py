"""`python -m dnsteer` as tests start it, and scripts that import it, forked from the loaded command (preloaded.py)."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from dnsteer.switch.signals import ends_with_parent
from tests import preloaded

_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_")
"""What variables begin with that the interpreter, or the dynamic loader, reads when it starts."""
_TAKEN_OVER = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""Those that do not matter, or that the fork sees to."""
_NETNS_EXEC = ("ip", "netns", "exec")
_LATER = ("startupinfo", "creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
"""Arguments of `Popen._execute_child` behind those that are named below; then what is None, False or -1 by default."""
_alive: dict[int, int] = {}
"""Ends of the pipes that are held open for processes, by process: these end with this process, not with their Popen."""


class LoadedPopen(subprocess.Popen[Any]):
    """A Popen that forks the loaded command, if what is wanted is that and nothing of the interpreter's start differs."""

    _asked: Any = None

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        *more: Any,
    ) -> None:
        streams = dict(zip(_LATER, more, strict=False))
        restore_signals, gid, gids, uid, umask, new_session, *group = more[len(_LATER) :]
        usual = not (executable or pass_fds or streams["shell"]) and close_fds and restore_signals
        usual = usual and ends_with_this(preexec_fn)
        usual = usual and umask == -1 and all(of is None for of in (gid, gids, uid))
        wanted = _request(args, os.environ if env is None else env) if usual else None
        if wanted is None:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *more
            )
            return
        argv, netns = wanted
        request = preloaded.Request(
            argv, dict(os.environ if env is None else env), new_session,
            group[0] if group and group[0] != -1 else None, netns, os.fspath(cwd or "."),
        )  # fmt: skip
        files = [streams[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        standard = [number if file == -1 else file for number, file in enumerate(files)]
        self._asked, alive, self.pid = preloaded.ask("dnsteer", request, standard)
        _alive[self.pid] = alive
        self._child_created = True
        self._close_pipe_fds(*(streams[name] for name in _LATER[3:]))  # type: ignore[attr-defined]

    def _ended(self, timeout: float | None) -> bool:
        """Wait for the end; whether it has come."""
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                poll = select.poll()
                poll.register(self._asked, select.POLLIN)
                if not poll.poll(None if timeout is None else max(0, timeout) * 1000):
                    return False
                status = self._asked.recv(preloaded.LENGTH)
                self._handle_exitstatus(int.from_bytes(status or b"\x09", "big"))  # type: ignore[attr-defined]
                self._asked.close()
                os.close(_alive.pop(self.pid))
        return True

    def _internal_poll(self, *args: Any, **more: Any) -> int | None:
        if self._asked is None:
            return super()._internal_poll(*args, **more)  # type: ignore[misc, no-any-return]
        self._ended(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._asked is None:
            return super()._wait(timeout)  # type: ignore[misc, no-any-return]
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode


def ends_with_this(before_exec: Callable[[], None] | None) -> bool:
    """Whether before exec there is nothing to be done but to end with this process, as all that is forked does."""
    return before_exec is None or getattr(before_exec, "__qualname__", "").startswith(f"{ends_with_parent.__name__}.")


def _request(args: Any, env: Mapping[str, str]) -> tuple[Sequence[str], str | None] | None:
    """The words of the command and its network namespace, if *args* run it and *env* has the usual for the interpreter."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return None
    words, netns = [os.fspath(word) for word in args], None
    if tuple(words[:3]) == _NETNS_EXEC:
        netns, words = words[3], words[4:]
    if words[:1] != [sys.executable] or _of_interpreter(env) != _of_interpreter(os.environ) or "LD_PRELOAD" in env:
        return None
    if words[1:3] == ["-m", "dnsteer"]:
        return ["dnsteer", *words[3:]], netns
    loaded = words[1] == "-c" and "from dnsteer" in words[2] and "sys.modules" not in words[2]
    return (words[1:], netns) if loaded else None


def _of_interpreter(env: Mapping[str, str]) -> dict[str, str]:
    """What differs there from what is usual; messages in English are, and so is UTF-8 with them."""
    return {
        key: value for key, value in env.items()
        if key.startswith(_INTERPRETER) and key not in _TAKEN_OVER and (key, value) != ("LC_ALL", "C")
    }  # fmt: skip


@pytest.fixture
def commands_start_anew() -> Iterator[None]:
    """For tests that look for commands by their arguments, or that measure how they start."""
    loaded, subprocess.Popen = subprocess.Popen, LoadedPopen.__base__  # type: ignore[assignment, misc]
    yield
    subprocess.Popen = loaded  # type: ignore[misc]
