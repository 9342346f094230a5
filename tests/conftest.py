"""The test suite as a whole: its options, its markers, and what may run beside what."""

from __future__ import annotations

import os
import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate",
        action="store_true",
        help="write golden files and expected errors anew; read the diff afterwards",
    )


def pytest_configure() -> None:
    """Signals as in a terminal: whoever runs the suite in the background lets it ignore some, and its children too."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Root's tests say so where they cannot run."""
    mark = item.get_closest_marker("root")
    if mark and os.geteuid() != 0:
        pytest.skip(f"needs root: {mark.args[0]}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests run on all cores: those of a file one after the other, and so those of the machine's one lab."""
    file = item.nodeid.partition("::")[0]
    item.add_marker(pytest.mark.xdist_group("system" if file.startswith("tests/system/") else file))
