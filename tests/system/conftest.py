# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests."""

from __future__ import annotations

import pytest

from dnsteer import lab


@pytest.fixture(scope="module")
def no_lab(goes_first: None) -> None:
    """Nobody's lab is up: there is one at a time, and the tests make their own.

    What is left of one in which nothing runs any more (tests that were killed, a machine that was) is removed.
    """
    found = lab.status()
    if found is not None and found.phase == "broken" and not found.processes:
        lab.down()
    elif found is not None:
        pytest.fail("a lab is up on this machine, and there is one at a time: dnsteer lab down")
