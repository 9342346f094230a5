# SPDX-License-Identifier: Apache-2.0
"""Who runs first on a machine that has too few cores for a lab, its load and the changes: niceness, from the switch down.

The userspace datapath forwards in a thread that takes its turn among all programs. Where that turn comes late, socket
buffers run over and queries are lost that no change has lost. So the switch and the name servers run before everything
else, as they do where they have machines of their own; then the probes, whose late answers would say nothing about the
switch; then the load, so that its rate holds; and what is measured runs as it is started.

Not a real-time class: a switch that runs at once for every packet takes each by itself, which costs it a fifth to a third of
its rate here (two cores, Linux 6.18: 14,000 to 18,000 queries a second through 20 changes, 22,000 and more by niceness).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

SERVING, PROBING, LOADING = -20, -10, -5
"""Niceness of the switch and the name servers, of the probes, and of a load that is to keep its rate."""
_PROGRAMS = ("ovs-vswitchd", "nsd")
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@contextlib.contextmanager
def niceness_counts() -> Iterator[None]:
    """Let niceness count among all programs that are started in the block; it should hold the whole life of a lab.

    By default (`autogroup`, sched(7)) Linux shares time out among sessions first, and niceness counts only within one; each
    daemon is a session. Under load Linux 6.18 let a switch that was ready to run wait for 2 s so, once for 18 s. The
    machine's setting comes back after the block. Raises LabError when it cannot be changed.
    """
    try:
        before = _AUTOGROUP.read_text()
    except FileNotFoundError:  # a kernel without it
        yield
        return
    _set_autogroup("0")
    try:
        yield
    finally:
        _set_autogroup(before)


def prefer(lab: LabState) -> int:
    """Let the switch daemon and the name servers of *lab* (a fresh state) run before all others; how many threads.

    Again after one of them was restarted. Raises LabError when the machine does not allow it.
    """
    servers = {Path(f"/proc/{p.pid}/ns/net").readlink() for p in lab.processes if p.program == "nsd"}
    mains = [p.pid for p in lab.processes if p.program in _PROGRAMS]
    # A name server serves by a child of the process that its pidfile names.
    children = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _program(entry).startswith("nsd") and _namespace(entry) in servers
    ]
    return sum(prefer_process(pid, SERVING) for pid in {*mains, *children})


def prefer_process(pid: int, niceness: int) -> int:
    """Set *niceness* for the threads of one process, and those that they will start; how many there are. Raises LabError."""
    threads = [int(task.name) for task in _tasks(pid)]
    for thread in threads:
        try:
            os.setpriority(os.PRIO_PROCESS, thread, niceness)
        except ProcessLookupError:
            continue
        except OSError as err:
            raise LabError(f"the lab's programs cannot be preferred to others ({err.strerror}): run as root") from err
    return len(threads)


def _set_autogroup(value: str) -> None:
    try:
        _AUTOGROUP.write_text(value)
    except OSError as err:
        raise LabError(
            f"{_AUTOGROUP} cannot be written ({err.strerror}), so that niceness would not count between daemons: run as root"
        ) from err


def _program(entry: Path) -> str:
    with contextlib.suppress(OSError):
        return (entry / "comm").read_text().strip()
    return ""


def _namespace(entry: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return (entry / "ns" / "net").readlink()
    return None


def _tasks(pid: int) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []
