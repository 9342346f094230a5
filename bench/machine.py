# SPDX-License-Identifier: Apache-2.0
"""Say what machine a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from dnsteer.switch.tools import SwitchError, ovs_version


def machine() -> dict[str, object]:
    """Processor, cores, memory and versions."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    memory = next(
        int(line.split()[1]) // 1024 for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
    )
    try:
        ovs = ovs_version()
    except SwitchError:
        ovs = ""
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_mib": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "ovs": ovs,
    }


def idle_seconds() -> float:
    """Seconds that cores were idle since the machine was started, all cores together (proc(5), uptime)."""
    return float(Path("/proc/uptime").read_text().split()[1])
