# SPDX-License-Identifier: Apache-2.0
"""A switch that tests restart and from which they take the bridge: what the connection tracker forgets then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.packet.command import SLOW, fresh
from tests.packet.switches import Running, unexpected

_RESTART = ["Connection reset by peer", "Broken pipe", "is already up", "receive error", "connection dropped"]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running() as private:
        private.expected = [*SLOW, *_RESTART]
        yield private
        found = unexpected(private)
    assert found == []


@pytest.fixture
def bare(running: Running) -> Running:
    """Without a bridge, so without a datapath, which has the tracker."""
    fresh(running)
    return running
