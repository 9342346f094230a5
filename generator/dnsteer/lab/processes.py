# SPDX-License-Identifier: Apache-2.0
"""Find and end the processes of a lab, and no others."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from dnsteer.lab import names

_TERM_SECONDS = 1.0
"""Seconds during which processes get SIGTERM; later they get SIGKILL."""
_GIVE_UP_SECONDS = 10.0
"""Seconds after which `end_all` gives up."""
_PROC = Path("/proc")


def namespaces() -> list[str]:
    """Names of the lab's namespaces, recognized by their prefix."""
    try:
        return sorted(p.name for p in names.NETNS_DIR.iterdir() if p.name.startswith(names.PREFIX))
    except FileNotFoundError:
        return []


def inside_namespaces() -> dict[int, str]:
    """Processes that live in a namespace of the lab: process id -> namespace."""
    found: dict[int, str] = {}
    spaces = _identities()
    if spaces:
        for pid in _pids():
            space = spaces.get(_namespace_of(pid))
            if space is not None:
                found[pid] = space
    return found


def by_pidfile() -> dict[int, Path]:
    """Processes that a pidfile of the lab names and whose command line names the lab's directory: id -> that pidfile."""
    found: dict[int, Path] = {}
    # Not deeper: NSD has directories of its own, which go when it does.
    for pidfile in (*names.RUN_DIR.glob("*.pid"), *names.RUN_DIR.glob("ns*/*.pid")):
        with contextlib.suppress(OSError, ValueError):
            pid = int(pidfile.read_text(encoding="ascii").strip())
            if _names_run_dir(pid):
                found[pid] = pidfile
    return found


def find_by_argument(namespace: str, program: str, argument: str) -> list[int]:
    """Processes of *program* in *namespace* that have *argument* on their command line, in ascending order of their ids."""
    inside = sorted(pid for pid, space in inside_namespaces().items() if space == namespace)
    return [pid for pid in inside if _is(_arguments(pid), program, argument)]


def _is(arguments: list[bytes], program: str, argument: str) -> bool:
    return bool(arguments) and Path(os.fsdecode(arguments[0])).name == program and argument.encode() in arguments


def kill(pids: Iterable[int]) -> None:
    """Kill processes as a crash would, and wait until they have ended.

    Their sockets are closed by then. Their command lines are empty before, while they still hold addresses in use.
    """
    with contextlib.ExitStack() as opened:
        handles = list[int]()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                opened.callback(os.close, handles[-1])
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        for handle in handles:
            select.select([handle], [], [])


def kill_module(namespace: str, module: str) -> None:
    """Kill the Python programs of *module* in *namespace*, and wait until they have ended."""
    kill(pid for pid, space in inside_namespaces().items() if space == namespace and _runs(pid, module))


def _runs(pid: int, module: str) -> bool:
    return [b"-m", module.encode()] == _arguments(pid)[1:3]


def end_all() -> list[int]:
    """End every process of the lab; returns those that are still there after the time limit."""
    start = time.monotonic()
    empty_scans = 0
    while True:
        targets = _targets()
        elapsed = time.monotonic() - start
        # One scan may miss a process that another one was just forking.
        empty_scans = 0 if targets else empty_scans + 1
        if empty_scans == 2 or elapsed > _GIVE_UP_SECONDS:
            return sorted(targets)
        for pid in targets:
            _signal(pid, signal.SIGTERM if elapsed < _TERM_SECONDS else signal.SIGKILL)
        time.sleep(0.05 if targets else 0.01)


def _targets() -> set[int]:
    spared = set(_self_and_ancestors())  # `lab down` may be run from a shell inside the lab
    return (set(inside_namespaces()) | set(by_pidfile())) - spared


def _signal(pid: int, number: signal.Signals) -> None:
    # The descriptor holds on to the process, so that the check and the signal are about the same one even when the
    # process ends in between and its number is given to another.
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if _namespace_of(pid) in _identities() or _names_run_dir(pid):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _identities() -> dict[tuple[int, int], str]:
    """Device and inode of each namespace of the lab.

    A name with the lab's prefix that is bound to the machine's own namespace is left out: all other processes run there.
    Process 1 is in the machine's namespace, if that can be read; so is the caller, unless `lab down` is run inside the lab.
    In that case the other processes of the caller's namespace are found by their pidfiles.
    """
    own = {_namespace_of(1), _namespace_of(os.getpid())}
    found: dict[tuple[int, int], str] = {}
    for name in namespaces():
        with contextlib.suppress(OSError):
            status = (names.NETNS_DIR / name).stat()
            if (status.st_dev, status.st_ino) not in own:
                found[status.st_dev, status.st_ino] = name
    return found


def _pids() -> Iterator[int]:
    return (int(p.name) for p in _PROC.iterdir() if p.name.isdigit())


def _namespace_of(pid: int) -> tuple[int, int]:
    try:
        status = (_PROC / str(pid) / "ns" / "net").stat()
    except OSError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _names_run_dir(pid: int) -> bool:
    return any(f"{names.RUN_DIR}/".encode() in argument for argument in _arguments(pid))


def _arguments(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _self_and_ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 0:
        yield pid
        try:
            # The second field is the name in brackets, which may hold anything; the parent is the second after it.
            pid = int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return
