"""Two switches with one VIP on one network, and keepalived's real daemons: one dies, and the other one takes over."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.vrrp import EVENTS, Pair, available, measure

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(available()), reason=f"needs {available()}"),
]


def test_the_standby_takes_over(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        active = pair.wait_for_active()
        done = measure(pair, EVENTS["the uplink is lost"], 6, 300)
        assert done["away_s"] is not None and 0 < done["lost"] < 1200, done
        assert pair.wait_for_active() is not active
        done = measure(pair, EVENTS["keepalived ends"], 6, 300)
        assert done["away_s"] is not None and done["lost"] < 600, done
        assert pair.wait_for_active() is active
