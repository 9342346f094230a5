"""Two switches with one VIP, two routers with BGP sessions to BIRD beside each, and a client: real routes, real queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.announce import EVENTS, measure
from bench.sites import Network, available

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(available()), reason=f"needs {available()}"),
]


def test_queries_go_where_the_vip_works(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        done = measure(network, EVENTS["dnsteer withdraw"], 4, 300)
        # dnsperf ends by its clock, so a busy machine sends a few fewer than 4 s of 300 a second.
        assert done["sent"] > 1000 and done["lost"] == 0 and done["away_s"] is not None, done
        done = measure(network, EVENTS["all backends die"], 6, 300)
        # Half of the queries go to the switch whose backends died, until both checks in a row have failed.
        assert done["away_s"] is not None, done
        assert 0 < done["lost"] < 900, done
