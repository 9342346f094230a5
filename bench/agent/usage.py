# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of a process, from /proc."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_of(stat: str) -> float:
    """Seconds of CPU time in a /proc/PID/stat: its own and of children that it has waited for."""
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _PER_SECOND


def resident_of(status: str) -> float:
    """Resident memory in a /proc/PID/status, in MiB."""
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def dropped_of(sockets: str) -> int:
    """Frames that packet sockets dropped because they were full, in the output of `ss -0 -a -m`."""
    return sum(int(n) for n in re.findall(r"skmem:\([^)]*,d(\d+)\)", sockets))


class Usage:
    """Of the process *pid*, from now on."""

    def __init__(self, pid: int) -> None:
        self._proc = Path("/proc") / str(pid)
        self._began, self._cpu = time.monotonic(), self._read_cpu()
        self._memory = [self._read_memory()]

    def sample(self) -> None:
        """Look at its memory."""
        self._memory.append(self._read_memory())

    def figures(self) -> dict[str, Any]:
        """CPU as a share of one core, and memory in MiB at the beginning, at its most, and now."""
        used, passed = self._read_cpu() - self._cpu, time.monotonic() - self._began
        self.sample()
        return {
            "cpu_s": round(used, 2),
            "cpu_share": round(used / passed, 4),
            "memory_first_mib": round(self._memory[0], 1),
            "memory_most_mib": round(max(self._memory), 1),
            "memory_last_mib": round(self._memory[-1], 1),
        }

    def _read_cpu(self) -> float:
        return cpu_of((self._proc / "stat").read_text())

    def _read_memory(self) -> float:
        return resident_of((self._proc / "status").read_text())
