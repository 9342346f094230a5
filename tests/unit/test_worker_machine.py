# SPDX-License-Identifier: Apache-2.0
"""The network and /run of a worker, and the machine's own outside of it."""

from __future__ import annotations

import os
from pathlib import Path

from tests import worker_machine


def test_outside_paths_are_those_of_the_machine() -> None:
    own = "PYTEST_XDIST_WORKER" in os.environ and worker_machine.possible()
    run = Path("/run")
    assert worker_machine.outside(run).samefile(run) is not own
    assert worker_machine.outside(Path("/usr/bin")).samefile("/usr/bin")
