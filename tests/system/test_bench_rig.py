# SPDX-License-Identifier: Apache-2.0
"""The rig of comparisons: every peer that is installed balances, and is taken away without a rest; junk makes megaflows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.hosts import inside
from bench.rig.__main__ import NEEDED
from bench.rig.campaign import NONE, Campaign, Wanted, changes, summary
from bench.rig.compare import COMPARED, Comparison
from bench.rig.compare import summary as compared
from bench.rig.junk import built
from bench.rig.limited import LIMITED
from bench.rig.lost import EVENTS
from bench.rig.lost import measure as measure_lost
from bench.rig.network import FAMILIES, SERVERS, Network, missing, wait_for_answer
from bench.rig.peers import PEERS, denied_prefixes
from bench.rig.tracked import Opener
from bench.rig.tracked import measure as measure_tracked

from dnsteer.lab.errors import LabCommandError
from dnsteer.lab.zone import WHOAMI

pytestmark = [
    pytest.mark.system,
    pytest.mark.root("network namespaces"),
    pytest.mark.usefixtures("goes_first"),
    pytest.mark.skipif(bool(missing(NEEDED)), reason=f"needs {', '.join(missing(NEEDED))}"),
]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, goes_first: None) -> Iterator[Network]:
    with Network(tmp_path_factory.mktemp("rig")) as found:
        yield found


def who_answers(vip: str, *words: str, patience: int = 5) -> str:
    return inside(
        "client", "kdig", f"@{vip}", WHOAMI, "TXT", "+short", f"+timeout={patience}", "+retry=0", *words
    ).strip()


def all_that_answer(vip: str) -> set[str]:
    """Those of many queries, until there are as many as servers: a hash may leave one out for long."""
    found: set[str] = set()
    for _ in range(200):
        found.add(who_answers(vip))
        if len(found) == SERVERS:
            break
    return found


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_balances_and_goes_without_a_rest(network: Network, tmp_path: Path, name: str) -> None:
    if lacking := missing(PEERS[name].programs):
        pytest.skip(f"needs {', '.join(lacking)}")
    before = inside("balancer", "ip", "address") + inside("balancer", "ip", "route")
    peer = PEERS[name](tmp_path)
    try:
        peer.prepare()
        peer.load(denied_prefixes(100))
        for family in FAMILIES.values():
            wait_for_answer(family.vip)
            answers = all_that_answer(family.vip)
            assert len(answers) == SERVERS, answers
            assert who_answers(family.vip, "+tcp") in answers
        peer.deny(f"{FAMILIES[4].client}/32")
        with pytest.raises(LabCommandError):
            who_answers(FAMILIES[4].vip, patience=1)
    finally:
        peer.stop()
    with pytest.raises(LabCommandError):
        who_answers(FAMILIES[4].vip, patience=1)
    assert inside("balancer", "ip", "address") + inside("balancer", "ip", "route") == before


@pytest.mark.parametrize("name", [name for name in COMPARED if name not in PEERS])
def test_what_is_compared_balances_and_goes_without_a_rest(network: Network, tmp_path: Path, name: str) -> None:
    if lacking := missing(COMPARED[name].programs):
        pytest.skip(f"needs {', '.join(lacking)}")
    before = inside("balancer", "ip", "address") + inside("balancer", "ip", "route")
    peer = COMPARED[name](tmp_path)
    try:
        peer.prepare()
        peer.load(())
        for family in FAMILIES.values():
            for transport in peer.transports:
                wait_for_answer(family.vip, transport)
            if "udp" in peer.transports:
                assert len(all_that_answer(family.vip)) == SERVERS
    finally:
        peer.stop()
    with pytest.raises(LabCommandError):
        who_answers(FAMILIES[4].vip, "+tcp", patience=1)
    assert inside("balancer", "ip", "address") + inside("balancer", "ip", "route") == before


def test_a_comparison_measures_all_that_it_reports(network: Network, tmp_path: Path) -> None:
    found = Comparison(network, {"xdp": COMPARED["xdp"](tmp_path)}, seconds=0.5, seed=1, say=lambda _: None)
    found.run(repeat=1)
    (row,) = compared(found.runs)
    assert list(row["saturation"]) == ["udp IPv4", "udp IPv6", "tcp IPv4", "tcp IPv6"]
    assert all(
        kind["qps"]["min"] > 100 and 1 <= kind["balance"]["max"] < SERVERS for kind in row["saturation"].values()
    )
    assert len(row["rates"]) == len(found.rates) == 3 and row["rates"][0]["lost"]["max"] < 0.5
    assert all(at["latency_p50_ms"]["min"] <= at["latency_p999_ms"]["max"] for at in row["rates"])


def test_a_campaign_measures_junk_beside_controls(network: Network, tmp_path: Path) -> None:
    peers = {name: PEERS[name](tmp_path) for name in ("dnsteer", "nftables") if not missing(PEERS[name].programs)}
    wanted = Wanted((NONE, "destinations"), (0, 100), rate=500, junk_rate=2000, seconds=1, repeat=1, family=4)
    campaign = Campaign(network, peers, wanted, built(tmp_path), seed=1, say=lambda _: None)
    campaign.run()

    rows = {(row["peer"], row["list"], row["junk"]): row for row in summary(campaign.runs)}
    assert len(rows) == 4 * len(peers)
    for row in rows.values():
        assert row["control"]["qps"]["median"] > 250 and row["of_control"]["median"] > 0.5, row
    junk = rows["dnsteer", 0, "destinations"]
    assert junk["junk_pps"]["median"] > 500 and junk["upcalls"]["max"] >= junk["megaflows"]["max"] > 0
    assert 0 < junk["cpu_share"]["median"] < 4 and junk["unread"]["min"] >= 0
    # One megaflow a destination; where the tables bound that, fewer, but more than queries alone.
    assert junk["megaflows"]["max"] > rows["dnsteer", 0, NONE]["megaflows"]["max"] + 100
    changed = changes(campaign.lists)
    assert {(row["peer"], row["list"]) for row in changed} == {(name, 100) for name in peers}
    assert all(0 < row["change_s"]["median"] < 30 for row in changed)


def test_a_limit_by_prefix_spares_good_clients_and_one_of_all_does_not(network: Network, tmp_path: Path) -> None:
    peers = {name: kind(tmp_path) for name, kind in LIMITED.items() if not missing(kind.programs)}
    wanted = Wanted(("flood",), (0,), rate=1000, junk_rate=30_000, seconds=1, repeat=1, family=4, clients=16)
    campaign = Campaign(network, peers, wanted, built(tmp_path), seed=1, say=lambda _: None)
    campaign.run()

    rows = {row["peer"]: row for row in summary(campaign.runs)}
    lost = {name: row["lost"]["max"] for name, row in rows.items()}
    assert set(lost) == set(peers) and all(row["control"]["qps"]["min"] > 500 for row in rows.values()), rows
    # Of what comes, the limit of the VIP lets through 10,000 a second, of all clients alike.
    if rows["dnsteer-queries"]["junk_pps"]["min"] < 20_000:
        pytest.skip("the machine had no time to send a flood of 20,000 packets a second")
    assert lost.pop("dnsteer-queries") > 0.3 > max(lost.values()), rows


@pytest.mark.parametrize("name", ["dsr-keep", "nftables-dnat"])
def test_tracked_connections_are_opened_and_held(network: Network, tmp_path: Path, name: str) -> None:
    if lacking := missing(PEERS[name].programs if name in PEERS else ()):
        pytest.skip(f"needs {', '.join(lacking)}")
    found = measure_tracked(name, tmp_path, Opener(tmp_path), 4, seconds=0.5, held=1000)
    assert found["per_second"] > 100 and found["control"]["per_second"] > 100
    held = found["held"]
    assert (held["opened"], held["answered"], held["broken"], held["tracked"]) == (1000, 1000, 0, 1000)
    assert 100 < held["bytes_each"] < 2000


@pytest.mark.parametrize("event", EVENTS)
def test_without_the_tracker_connections_go_by_their_slots(network: Network, tmp_path: Path, event: str) -> None:
    found = measure_lost("ct-nat", event, tmp_path, count=128)
    assert (found["open"], found["broken_by_the_drain"]) == (128, 0)
    assert found["lost"] == found["lost_of_moved"] == found["slots_moved_since"] > 10
    assert found["then_lost"] == found["then_lost_of_moved"] == found["then_moved"] > 10
