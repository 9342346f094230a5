# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for each worker, as far as tests see one: its network and /run, so that each can have a lab."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

_root = Path("/")
"""Where the files of the machine itself are."""
_NEW_MOUNTS, _NEW_NETWORK = 0x00020000, 0x40000000  # CLONE_NEWNS and CLONE_NEWNET of sched.h


@cache
def possible() -> bool:
    """Whether this user may make one."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "--net", "true"], check=False).returncode == 0


def enter() -> None:
    """Give this thread, and what it starts, a network and a /run of their own. Raises OSError."""
    global _root
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS | _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    for argv in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run"),
        ("mount", "-t", "sysfs", "sysfs", "/sys"),  # which shows the interfaces of its network
        ("ip", "link", "set", "lo", "up"),
    ):
        subprocess.run(argv, check=True)
    Path("/run/lock").mkdir(mode=0o1777)
    _root = Path(f"/proc/{os.getppid()}/root")  # of the process that gives out the tests


def outside(path: Path) -> Path:
    """A file of the machine itself, for tests that change what workers share, such as its huge pages."""
    return _root / path.relative_to("/")


def has(process: int) -> bool:
    """Whether a process is on this machine: its /run tells."""
    try:
        return Path(f"/proc/{process}/root/run").stat().st_dev == Path("/run").stat().st_dev
    except OSError:
        return False  # it has ended
