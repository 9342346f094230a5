# SPDX-License-Identifier: Apache-2.0
"""A router and a backend that are replaced behind a real switch: clients lose little, with and without gratuitous ARP."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from bench.hosts import inside
from bench.neighbors import BACKEND, DSR, EVENTS, NAT, NAT6, ROUTER, ROUTER6, Site, available, measure

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(available()), reason=f"needs {available()}"),
]
MOST = 3.0
"""Seconds of answers that may be lost; measured: 0.1 with gratuitous ARP, 2 without (docs/neighbors.md)."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Applied without an agent, which has asked once; then the agent works."""
    with Site(tmp_path_factory.mktemp("site"), agent=False) as made:
        assert made.recorded() == {
            ROUTER: made.macs["router"],
            ROUTER6: made.macs["router"],
            BACKEND: made.macs["server2"],
        }
        mac = made.replace("router", announced=False)
        made.switch.dnsteer("apply", str(made.switch.folder / "spec.yaml"), "--yes")
        assert made.recorded()[ROUTER] == made.recorded()[ROUTER6] == mac, "an apply asks again"
        for vip in (NAT, NAT6, DSR):
            made.wait(lambda vip=vip: made.answers(vip), f"no answer of {vip}")  # type: ignore[misc]
        made.switch.agent.env = {"DNSTEER_METRICS": "127.0.0.1:9853"}
        made.switch.agent.start()
        made.wait(lambda: "pools with health checks" in made.said(), "no agent")
        yield made


@pytest.mark.parametrize("name", ["router without, nat", "router with unsolicited advertisement, nat over IPv6"])
def test_clients_lose_little_when_the_router_is_replaced(site: Site, name: str) -> None:
    before = site.macs["router"]
    found = measure(site, EVENTS[name], 5 if "without" in name else 3, 200)
    assert found["lost_s"] < MOST, (found, site.said())
    now = site.macs["router"]
    assert site.recorded()[ROUTER] == site.recorded()[ROUTER6] == now
    assert f"next hop {ROUTER} of uplink p0 moved from {before} to {now}" in site.said()
    site.switch.dnsteer("verify")


def test_clients_lose_little_when_a_backend_is_replaced(site: Site) -> None:
    found = measure(site, EVENTS["backend with gratuitous ARP, dsr"], 3, 200)
    assert found["lost_s"] < MOST, (found, site.said())
    assert site.recorded()[BACKEND] == site.macs["server2"]


def metric(name: str, address: str) -> float:
    """A metric of a neighbour, as the agent serves it."""
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9853/metrics').read().decode())"
    text = inside("switch", sys.executable, "-c", read)
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name}{{") and f'address="{address}"' in line)
    return float(line.rpartition(" ")[2])


def test_the_last_mac_address_of_one_that_is_silent_stays(site: Site) -> None:
    mac = site.macs["server2"]
    inside("server2", "sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=8")  # answers no ARP
    site.wait(lambda: f"does not answer: its MAC address stays {mac}" in site.said(), "nothing is said")
    assert site.recorded()[BACKEND] == mac and site.answers(DSR)
    assert metric("dnsteer_neighbor_answers", BACKEND) == 0 and metric("dnsteer_neighbor_answers", ROUTER) == 1
    assert metric("dnsteer_neighbor_moves_total", BACKEND) >= 1
    inside("server2", "sysctl", "-qw", "net.ipv4.conf.eth0.arp_ignore=1")
    site.wait(lambda: f"neighbour {BACKEND} answers as it should again" in site.said(), "nothing is said")
