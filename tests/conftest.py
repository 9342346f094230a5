"""Options of the test suite."""

from __future__ import annotations

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
