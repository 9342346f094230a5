"""What readings for the console's pages cost, and how often there is one."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from dnsteer.console.live import _cpu
from dnsteer.console.pace import pause


@pytest.mark.parametrize(("cost", "seconds"), [(0.0, 2.0), (0.04, 2.0), (0.1, 5.0), (0.3, 15.0), (9.0, 15.0)])
def test_a_reading_that_costs_much_is_rarer(cost: float, seconds: float) -> None:
    assert pause(cost, 2.0, 15.0) == pytest.approx(seconds)


def test_programs_that_a_reading_runs_count() -> None:
    own, both = time.process_time(), _cpu()
    subprocess.run([sys.executable, "-c", "sum(range(1_000_000))"], check=True)
    assert _cpu() - both > time.process_time() - own + 0.005
