"""Let the lab's switch and name servers run before everything else on the machine, as they do where they have their own.

The userspace datapath forwards in a thread that takes its turn among all programs. On a busy machine that can be more than a
second, in which the socket buffers run over: queries would be lost that no change has lost. Not for dnsperf, which spends
so much time on waiting that it would leave none to what is measured: where it comes too late, its rate says so.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState

_PROGRAMS = ("ovs-vswitchd", "nsd")
_PRIORITY = 1


def prefer(lab: LabState) -> int:
    """Give the switch daemon and the name servers of *lab* (a fresh state) the scheduling class SCHED_RR; how many threads.

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
    return sum(prefer_process(pid) for pid in {*mains, *children})


def prefer_process(pid: int) -> int:
    """The same for the threads of one process, and those that they will start; how many there are. Raises LabError."""
    threads = [int(task.name) for task in _tasks(pid)]
    for thread in threads:
        try:
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(_PRIORITY))
        except ProcessLookupError:
            continue
        except OSError as err:
            raise LabError(f"the lab's programs cannot be preferred to others ({err.strerror}): run as root") from err
    return len(threads)


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
