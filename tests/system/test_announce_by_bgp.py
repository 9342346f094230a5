# SPDX-License-Identifier: Apache-2.0
"""Two switches with one VIP, two routers with BGP sessions to BIRD beside each, and a client: real routes, real queries."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from bench.announce import EVENTS, measure
from bench.sites import ROUTERS, SITES, Network, available

from dnsteer.lab.zone import ZONE

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(available()), reason=f"needs {available()}"),
]


def test_queries_follow_the_announced_vip(tmp_path: Path) -> None:
    with Network(tmp_path) as network:
        done = measure(network, EVENTS["dnsteer withdraw"], 4, 300)
        # dnsperf ends by its clock, so a busy machine sends a few fewer than 4 s of 300 a second.
        assert done["sent"] > 1000 and done["lost"] == 0 and done["away_s"] is not None, done
        done = measure(network, EVENTS["all backends die"], 6, 300)
        # Half of the queries go to the switch whose backends died, until both checks in a row have failed.
        assert done["away_s"] is not None, done
        assert 0 < done["lost"] < 900, done


def test_a_zone_that_is_gone_at_all_sites_takes_no_site_away(tmp_path: Path) -> None:
    """Servers that refuse the zone of the check answer: that is no fault of one site."""
    with Network(tmp_path) as network:
        for site in network.sites.values():
            config = site.folder / "nsd.conf"
            config.write_text(config.read_text().replace(f'name: "{ZONE}"', 'name: "other.test"'))
            site.servers.kill()
            site.servers.start()
        deadline = time.monotonic() + 20
        while not all(
            "VIP dns stays announced, though no backend passes its checks: " in site.agent.log.read_text()
            for site in network.sites.values()
        ):
            assert time.monotonic() < deadline, [site.agent.log.read_text() for site in network.sites.values()]
            time.sleep(0.1)
        assert "answered REFUSED" in network.sites[1].agent.log.read_text()
        network.wait_for_ways({r: set(SITES) for r in ROUTERS}, 10)
        network.sites[1].servers.kill()  # one site's servers are dead: that is
        network.wait_for_ways({r: set(SITES) - {1} for r in ROUTERS}, 10)
