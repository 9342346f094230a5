# SPDX-License-Identifier: Apache-2.0
"""Processes that get a part of a core: control groups, version 1 or 2."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

_ROOT = Path("/sys/fs/cgroup")
PERIOD = 50_000
"""Microseconds of a period, in each of which a group gets its part. The kernel gives parts of 1,000 and more."""


class CpuQuota:
    """A context manager: a group with *part* of a core for the processes *pids*. Raises OSError without permission."""

    def __init__(self, name: str, part: float, pids: Iterable[int]) -> None:
        self.part = part
        self._pids = list(pids)
        self._second = (_ROOT / "cgroup.controllers").exists()
        roots = [_ROOT] if self._second else [_ROOT / "cpu", _ROOT / "cpuacct"]
        self._groups = [root / f"dnsteer-bench-{name}" for root in roots]
        self._last: tuple[float, float] | None = None

    def __enter__(self) -> CpuQuota:
        for group in self._groups:
            group.mkdir(exist_ok=True)
        quota, first = int(self.part * PERIOD), self._groups[0]
        if self._second:
            (_ROOT / "cgroup.subtree_control").write_text("+cpu")
            (first / "cpu.max").write_text(f"{quota} {PERIOD}")
        else:
            (first / "cpu.cfs_period_us").write_text(str(PERIOD))
            (first / "cpu.cfs_quota_us").write_text(str(quota))
        for group in self._groups:
            for pid in self._pids:
                (group / "cgroup.procs").write_text(str(pid))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the group; its processes must have ended."""
        for group in self._groups:
            group.rmdir()

    def _used(self) -> float:
        """Seconds of a core that it used so far."""
        if not self._second:
            return int((self._groups[1] / "cpuacct.usage").read_text()) / 1e9
        text = (self._groups[0] / "cpu.stat").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("usage_usec")) / 1e6

    def busy(self) -> float:
        """The share of its part that it used since the call before; 0 at first."""
        now, used = time.monotonic(), self._used()
        last, self._last = self._last, (now, used)
        return (used - last[1]) / (now - last[0]) / self.part if last is not None else 0.0
