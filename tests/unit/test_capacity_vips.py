# SPDX-License-Identifier: Apache-2.0
"""What capacity says of VIPs: which uplinks their packets fill, and what a figure of several kinds of packets is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from dnsteer.capacity.bounds import figures
from dnsteer.capacity.card_setup import card_setup
from dnsteer.capacity.estimate import Estimate
from dnsteer.capacity.uplinks import uplink_shares
from dnsteer.offload.packet_path import PacketPath
from tests.unit.spec_text import changed, load
from tests.unit.test_capacity import BASE, DOCA, TCP, THREE, TWO, asked

EXAMPLES = FilePath(__file__).resolve().parents[2] / "examples"
LINK = 100_000 / 8
NAT = replace(BASE, vip="resolver", mode="nat", rewrites=3)
ONE_ARMED = (EXAMPLES / "one-armed-nat.yaml").read_text().replace("ovs-netdev", "ovs-doca")
CROSSED = (EXAMPLES / "two-uplinks.yaml").read_text().replace("ovs-netdev", "ovs-doca")


def both(path: PacketPath) -> list[PacketPath]:
    return [path, replace(path, direction="answer")]


def queries(paths: list[PacketPath], text: str) -> Estimate:
    found = asked(paths, text=text).all.queries
    assert found is not None
    return found.most


def connections(paths: list[PacketPath], text: str) -> tuple[float, str]:
    found = asked(paths, text=text).all.connections
    assert found is not None
    return found.most.value, found.limit


def test_each_uplink_fills_for_itself_and_so_does_each_direction() -> None:
    """Clients on p0, servers on p1: answers fill p1 inwards and p0 outwards, and meet no query there."""
    assert queries(both(NAT), CROSSED).value == pytest.approx(LINK / (890 + 20))
    assert queries(both(NAT), ONE_ARMED).value == pytest.approx(LINK / (100 + 20 + 890 + 20))


def test_hops_follow_the_backends_and_their_answers() -> None:
    crossed, armed = load(CROSSED).spec, load(ONE_ARMED).spec
    query, answer = both(NAT)
    assert uplink_shares(crossed, query) == {("p0", "in"): 1.0, ("p1", "out"): 1.0}
    assert uplink_shares(crossed, answer) == {("p1", "in"): 1.0, ("p0", "out"): 1.0}
    assert uplink_shares(armed, query) == {("p0", "in"): pytest.approx(1), ("p0", "out"): pytest.approx(1)}
    mixed = load(CROSSED.replace("port: p1, weight: 2", "weight: 2")).spec  # of 8
    assert uplink_shares(mixed, query) == {("p0", "in"): 1.0, ("p1", "out"): 0.75, ("p0", "out"): 0.25}
    assert uplink_shares(mixed, answer) == {("p1", "in"): 0.75, ("p0", "in"): 0.25, ("p0", "out"): 1.0}
    direct = load(
        changed(("    p0:\n", "    p0:\n    p1:\n"), ("02:00:00:00:01:01}", "02:00:00:00:01:01, port: p0}"), text=DOCA)
    ).spec
    assert uplink_shares(direct, BASE) == {("p1", "in"): 1.0, ("p0", "out"): 0.5, ("p1", "out"): 0.5}


def test_backends_without_an_address_in_the_family_count_for_nothing() -> None:
    spec = load(CROSSED.replace("ipv6: 2001:db8:53::12, ", "").replace("port: p1, weight: 2", "weight: 2")).spec
    assert uplink_shares(spec, replace(NAT, family="ipv6")) == {("p0", "in"): 1.0, ("p1", "out"): 1.0}
    assert ("p0", "out") in uplink_shares(spec, NAT)


def test_uplinks_add_bandwidth_only_where_they_are_separate_links() -> None:
    def notes(text: str, paths: list[PacketPath]) -> str:
        return " ".join(asked(paths, text=text).notes)

    assert "times the link" not in notes(CROSSED, both(NAT))
    assert "clients are assumed to come in by p0; each uplink is a link of its own" in notes(CROSSED, both(NAT))
    hop = "{next_hop: 02:00:00:00:00:fe}"
    two = ONE_ARMED.replace(f"p0: {hop}", f"p0: {hop}\n    p1: {hop.replace('fe', 'fd')}")
    assert "spread evenly over the 2 of them has 2 times the link" in notes(two, both(NAT))
    assert "times the link" not in notes(
        ONE_ARMED.replace(hop, f"{hop}\n    p1:"), both(NAT)
    )  # all answers leave by p0


def test_packets_of_a_connection_without_data_have_the_headers_of_their_family() -> None:
    packets = asked().setup.model.packets_of_a_connection
    tcp = replace(NAT, service="tcp/53")
    for family, small, query, answer in (("ipv4", 70, 126, 916), ("ipv6", 90, 146, 936)):
        path = replace(tcp, family=family)  # type: ignore[arg-type]
        # Each way of the link: half of the packets, twice.
        size = 2 * (packets / 2 - 1) * (small + 20) + query + answer + 40
        assert connections(both(path), ONE_ARMED) == (pytest.approx(LINK / size), "link")


def test_combined_traffic_is_an_extrapolation() -> None:
    # In the first, answers alone fill what binds; yet queries pass as well.
    for pair in (queries(both(NAT), CROSSED), queries(both(NAT), ONE_ARMED)):
        assert pair.kind == "extrapolation"
        assert "several kinds of packets pass together; each was measured only by itself" in pair.because
        assert pair.rests_on == ("bluefield-3 depth-bandwidth", "bluefield-3 rewrite-full-rate")
    one = asked([BASE]).all.queries
    assert one is not None
    assert (one.most.kind, one.limit, one.most.because) == ("reading", "switch", ())
    families = queries([BASE, replace(BASE, family="ipv6")], DOCA)
    assert families.kind == "extrapolation"


@pytest.mark.parametrize(
    ("sizes", "two", "three"),
    [
        (((1518, 1),), "reading", "reading"),
        (((890, 1),), "extrapolation", "interpolation"),  # full from 128 B on, by XenoFlow on BlueField-3
        (((64, 7), (594, 4), (1518, 1)), "extrapolation", "extrapolation"),
        (((9018, 1),), "extrapolation", "extrapolation"),
    ],
)
def test_a_full_link_is_a_reading_only_at_the_size_that_was_measured(
    sizes: tuple[tuple[int, int], ...], two: str, three: str
) -> None:
    plain = replace(BASE, rewrites=0)
    for hardware, kind in ((TWO, two), (THREE, three)):
        loaded = load(DOCA)
        found = figures(card_setup(loaded, [plain], hardware=hardware), plain, sizes)
        assert found.limit == "link"
        assert (found.bounds["link"].kind, found.rate.kind) == (kind, kind)
        assert bool(found.rate.because) == (kind == "extrapolation")


def test_connections_of_dsr_are_counted_on_the_way_that_passes() -> None:
    value, limit = connections([TCP], DOCA)
    assert limit == "switch"
    assert 5 < value < 10
