# SPDX-License-Identifier: Apache-2.0
"""Run a program in a namespace or outside: bounded in time, or until a block ends; never through a shell."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from dnsteer.lab.errors import LabCommandError, LabError, MissingProgramError, NotRootError

PACKAGES: dict[str, str] = {
    "ip": "iproute2",
    "bridge": "iproute2",
    "ethtool": "ethtool",
    "sysctl": "procps",
    "setsid": "util-linux",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-common",
    "ovs-appctl": "openvswitch-common",
    "nsd": "nsd",
    "nsd-control": "nsd",
    "openssl": "openssl",
    "kdig": "knot-dnsutils",
    "dnsperf": "dnsperf",
}
"""Programs that the lab runs, and the Debian package of each."""

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # often not in the PATH of sudo or of a service
Line = tuple[float, str]
"""A time of `time.monotonic` and what was said then."""


def search_path() -> str:
    """PATH of the programs started here: the caller's, and the directories of system programs."""
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*known, *(d for d in _SBIN if d not in known)])


def require_root() -> None:
    """Raise NotRootError unless the effective user is root."""
    if os.geteuid() != 0:
        raise NotRootError


def require_programs(names: Iterable[str]) -> None:
    """Raise MissingProgramError for those of *names* that are not installed."""
    path = search_path()
    missing = {name: PACKAGES[name] for name in names if shutil.which(name, path=path) is None}
    if missing:
        raise MissingProgramError(missing)


def netns_exec(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs *argv* in *namespace*."""
    return ["ip", "netns", "exec", namespace, *argv]


def program_environment() -> dict[str, str]:
    """Environment of the programs started here: messages in English, and system programs on the PATH."""
    return {**os.environ, "PATH": search_path(), "LC_ALL": "C"}


def run(argv: Sequence[str], *, stdin: str | None = None, timeout: float = 20.0) -> str:
    """Run *argv* and return its standard output.

    Raises LabCommandError when it fails, cannot be started, or takes longer than *timeout* seconds.
    """
    try:
        done = subprocess.run(
            argv,
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env=program_environment(),
            check=False,
            preexec_fn=_die_with(os.getpid()),
        )
    except subprocess.TimeoutExpired as err:
        raise LabCommandError(argv, f"did not end within {timeout:g} s") from err
    except (OSError, subprocess.SubprocessError) as err:
        raise LabCommandError(argv, f"could not be started: {err}") from err
    if done.returncode != 0:
        message = " / ".join((done.stderr or done.stdout).strip().splitlines()[-3:]) or "no message"
        raise LabCommandError(argv, f"failed with exit code {done.returncode}: {message}")
    return done.stdout


def start_background(namespace: str, argv: Sequence[str], log: Path, more: Mapping[str, str]) -> None:
    """Start a program that does not daemonize itself, with output to *log* and *more* environment variables.

    Raises LabCommandError only if it could not be started; the caller must check that it keeps running.
    """
    command = netns_exec(namespace, ["setsid", "--fork", *argv])
    with log.open("ab") as output:
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**program_environment(), **more},
                timeout=20,
                check=True,
                preexec_fn=_die_with(os.getpid()),
            )
        except (OSError, subprocess.SubprocessError) as err:
            raise LabCommandError(command, f"could not be started: {err}") from err


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> Callable[[], None]:
    """Return a function that a child runs before exec: it asks the kernel to kill the child when its parent dies.

    So after a kill -9 of `lab up`, no child continues to build while `lab down` runs. The child holds the lab's lock until
    exec, so that it is always covered by the lock or by this signal. Daemons fork, which cancels the signal; by then they
    run in the lab's namespaces and are found there.
    """

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the request
            os._exit(1)

    return prepare


def python_environment() -> dict[str, str]:
    """Environment of a Python that finds the modules where this one does."""
    return {**program_environment(), "PYTHONPATH": os.pathsep.join(p or "." for p in sys.path)}


class LabProgram:
    """A program that runs until the block ends. Its lines, of standard output and error, get the time at which they came."""

    def __init__(self, namespace: str, argv: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        self.argv = netns_exec(namespace, argv)
        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**python_environment(), **(more or {})},
        )
        self.lines: list[Line] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> LabProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Ask it to end (SIGTERM), and kill it when it does not in 10 s."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(5)

    @property
    def pid(self) -> int:
        """Its process id: `ip netns exec` becomes the program."""
        return self._process.pid

    def wait_for_line(self, test: Callable[[str], object], seconds: float, since: float = 0.0) -> Line | None:
        """The first line after *since* that passes *test*; None when none comes in *seconds*. LabError when it has ended."""
        until = time.monotonic() + seconds
        while True:
            found = next((line for line in list(self.lines) if line[0] >= since and test(line[1])), None)
            if found is not None or time.monotonic() > until:
                return found
            if self._process.poll() is not None:
                last = " / ".join(text for _, text in self.lines[-3:])
                raise LabError(f"`{' '.join(self.argv)}` ended with exit code {self._process.returncode}: {last}")
            time.sleep(0.01)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
