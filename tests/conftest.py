"""The test suite as a whole: its options, its markers, and what may run beside what."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="write golden files and expected errors anew; read the diff afterwards",
    )


def pytest_configure() -> None:
    """Signals as in a terminal, since whoever runs the suite in the background lets it ignore some; and no width of one."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("COLUMNS", None)  # readline sets it in the environment of the workers


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Root's tests say so where they cannot run."""
    mark = item.get_closest_marker("root")
    if mark and os.geteuid() != 0:
        pytest.skip(f"needs root: {mark.args[0]}")


def pytest_xdist_auto_num_workers() -> int:
    """Workers with `-n auto`: three for two cores, as a third of the time is waiting for switches and servers."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


WITHOUT_LAB = ("tests/system/test_runbook_variables.py",)
"""Tests of real daemons with a network namespace of their own, beside which a lab may run."""


class ByFile(LoadScopeScheduling):
    """Tests run on all cores: those of a file one after the other, and so those of the machine's one lab."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "system" if file.startswith("tests/system/") and file not in WITHOUT_LAB else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """The order of tests with -n."""
    return ByFile(config, log)
