# SPDX-License-Identifier: Apache-2.0
"""The network that the servers are in."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import network
from tests.servers.matrix import Bench
from tests.servers.upstream import internet
from tests.servers.zones import signed_root


@pytest.fixture(scope="module")
def bench(goes_first: None) -> Iterator[Bench]:
    """The network, and a root for resolvers."""
    folder, root = Path(tempfile.mkdtemp(prefix="servers-")), signed_root()
    try:
        with network.network(), internet(folder / "internet", root):
            network.probe_from(network.NEAR)
            yield Bench(folder, root)
    finally:
        shutil.rmtree(folder)
