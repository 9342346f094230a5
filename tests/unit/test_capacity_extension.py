# SPDX-License-Identifier: Apache-2.0
"""What capacity says of VIPs that the extension serves: three passes of the eSwitch, longer packets, what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from dnsteer.capacity import bounds, estimate
from dnsteer.capacity.bounds import figures, latencies
from dnsteer.capacity.capacity_report import CapacityReport
from dnsteer.capacity.card_setup import card_setup
from dnsteer.capacity.frame_sizes import message
from dnsteer.capacity.model import Model, line_rate
from dnsteer.capacity.plot import draw
from dnsteer.capacity.uplinks import uplink_shares
from dnsteer.offload.packet_path import Hop, PacketPath
from dnsteer.plan.build import build_plan
from dnsteer.plan.extension.pipes import entries, pipes_of
from dnsteer.spec.model.spec import Hardware
from tests.unit.spec_text import load
from tests.unit.test_capacity import BASE, THREE, TWO, asked
from tests.unit.test_capacity_plot import words
from tests.unit.test_capacity_view import shown

EXAMPLES = FilePath(__file__).resolve().parents[2] / "examples"
LINK = 100_000 / 8


def text_of(example: str) -> str:
    return (EXAMPLES / f"{example}.yaml").read_text().replace("flavor: ovs-netdev", "flavor: ovs-doca")


def there(by: str, rules: int, tables: int, rewrites: int, **more: float) -> Hop:
    by_switch = by == "switch"
    return Hop(
        by="switch" if by_switch else "extension",
        enters=("a",),
        leaves=("b",),
        rules=rules,
        tables=tables,
        rewrites=rewrites,
        offloaded="yes" if by_switch else "unknown",
        certainty="inferred" if by_switch else "unknown",
        **more,  # type: ignore[arg-type]
    )


def through(grows: float = 0.0, tables: int = 3, **more: object) -> PacketPath:
    """A path by way of the extension."""
    parts = (
        there("switch", 1, 1, 1),
        there("extension", 133, tables, 1, grows=grows, most=round(grows)),
        there("switch", 3, 1, 0),
    )
    return replace(BASE, rules=4, passes=2, hops=parts, **more)  # type: ignore[arg-type]


SPRAYED = through(vip="dns-udp", selection="spray")
TUNNELED = through(25.0, 5, mode="ipip")
TRANSLATED = [
    through(20.0, 5, vip="dns4", mode="siit"),
    through(-20.0, 3, vip="dns4", mode="siit", direction="answer"),
]


def small(path: PacketPath, example: str, hardware: Hardware = THREE) -> CapacityReport:
    return asked([path], hardware, text_of(example))


@pytest.mark.parametrize("hardware", list(Hardware))
def test_times_of_all_passes_add_up(hardware: Hardware) -> None:
    report = small(SPRAYED, "spray", hardware)
    found = report.groups[0].frames["64"]
    states = report.setup.states(SPRAYED, 64)
    assert [(s.depth, s.rewrites) for s in states] == [(1, 1), (3, 1), (1, 0)]
    single = [estimate.rate_estimate(report.setup.model, state).value for state in states]
    assert found.rate.value == pytest.approx(1 / sum(1 / rate for rate in single))
    assert found.limit == "passes" and found.rate.value < min(single) / 2
    assert found.rate.kind == "extrapolation"
    assert "passes the eSwitch 3 times" in found.rate.because[0]
    assert "nobody has published how fast it is" in found.rate.because[0]
    assert f"{hardware.value} depth-rate" in found.rate.rests_on


def test_an_extrapolated_figure_is_shown_as_an_upper_bound() -> None:
    text = shown(small(SPRAYED, "spray"))
    row = next(line for line in text.splitlines() if " 64 " in line and "eSwitch passes" in line)
    assert "<= " in row and "not known" in row and "extrapolation" in row
    assert "dns-udp queries IPv4 udp/53  dsr, spray, 4 rules, 3 passes of the eSwitch, by way of the extension" in text
    assert "depth 1 + 3 + 1, 2 fields rewritten; offloaded as far as Open vSwitch goes" in text
    assert "nothing of the extension has run on a BlueField" in text


def test_the_entries_of_the_pipes_fill_the_card_too() -> None:
    loaded = load(text_of("spray"))
    part = build_plan(loaded).extension
    assert part is not None
    setup = card_setup(loaded, [SPRAYED], hardware=THREE)
    assert setup.entries == 4 + entries(pipes_of(part))
    assert card_setup(loaded, [replace(SPRAYED, offloaded="no")], hardware=THREE).entries == 0


def test_a_tunnel_is_on_the_wire_on_one_side() -> None:
    found = small(TUNNELED, "ipip").groups[0].frames
    answer = found["answer"]
    size = message(844, "ipv4", "udp")
    assert (answer.size, answer.longer, answer.limit) == (size, 25.0, "link")
    assert answer.rate.value == pytest.approx(line_rate(100, size + 25))
    assert "frames are 25 bytes longer on the backends' side" in answer.bounds["link"].because[0]
    assert answer.gbps.value == pytest.approx(answer.rate.value * size * 8 / 1000)  # of the frames that were asked for
    assert answer.link_share == pytest.approx(1.0)
    assert "25 bytes longer on the backends' side" in shown(small(TUNNELED, "ipip"))


def queries(paths: Sequence[PacketPath], example: str) -> tuple[float, str]:
    found = asked(paths, text=text_of(example)).all.queries
    assert found is not None
    return found.most.value, found.limit


def test_translation_makes_both_directions_longer_on_the_backends_side() -> None:
    """One uplink: queries come in short and leave long, answers come in long and leave short."""
    value, limit = queries(TRANSLATED, "siit")
    into, out = 100 + 20 + (890 + 20) + 20, (100 + 20) + 20 + 890 + 20
    assert limit == "link" and into == out
    assert value == pytest.approx(LINK / into)
    assert [bounds.added_bytes(path) for path in TRANSLATED] == [20.0, 20.0]


def test_shares_count_backends_by_the_addresses_that_reach_them() -> None:
    """A tunnel goes to either family's address, a translation to IPv6; one uplink has all of it."""
    for example, path in (("ipip", TUNNELED), ("siit", TRANSLATED[0])):
        assert uplink_shares(load(text_of(example)).spec, path) == {
            ("p0", "in"): pytest.approx(1),
            ("p0", "out"): pytest.approx(1),
        }
    two = text_of("siit").replace(
        "    p0: {next_hop: 02:00:00:00:00:fe}", "    p0:\n    p1: {next_hop: 02:00:00:00:00:fe}"
    )
    two = two.replace("04:01}", "04:01, port: p0}").replace("04:02, weight", "04:02, port: p0, weight")
    found = uplink_shares(load(two).spec, TRANSLATED[1])
    assert found == {("p0", "in"): pytest.approx(1), ("p1", "out"): pytest.approx(1)}  # by the one with a next hop


def test_latency_has_a_hairpin_and_the_tables_of_all_passes() -> None:
    report = small(SPRAYED, "spray")
    waits = latencies(report.setup, SPRAYED, report.groups[0].frames["64"].rate)
    added = Model(TWO, report.setup.model.rows).engine_added("hairpin", "udp")
    plain = estimate.latency_estimate(report.setup.model, replace(report.setup.states(SPRAYED, 64)[0], depth=5))
    assert 1 < added < 2
    assert waits.low.value == pytest.approx(plain.value + added)
    assert plain.low < waits.low.low < waits.low.value < waits.low.high < waits.low.value + 2 * added
    assert waits.low.kind == "extrapolation" and "bluefield-2 engines" in waits.low.rests_on
    assert "what a hairpin was measured to add on bluefield-2" in waits.low.because[0]


def test_on_the_cores_a_packet_passes_twice() -> None:
    soft = replace(SPRAYED, offloaded="no")
    once, twice = (asked([p], text=text_of("spray")).groups[0].frames["64"] for p in (replace(soft, hops=()), soft))
    assert (once.limit, twice.limit) == ("arm", "arm")
    assert twice.rate.value == pytest.approx(once.rate.value / 2)
    assert "each packet passes the cores twice" in twice.rate.because[0]


def test_unknown_offload_spans_from_zero_to_all_passes() -> None:
    found = small(replace(SPRAYED, offloaded="unknown"), "spray").groups[0].frames["64"]
    assert found.limit == "arm" and found.rate.low == 0
    assert found.rate.high == pytest.approx(small(SPRAYED, "spray").groups[0].frames["64"].rate.high)


@pytest.mark.parametrize("size", [64, 100, 128, 400, 890, 1518, 9018])
@pytest.mark.parametrize("path", [SPRAYED, TUNNELED, *TRANSLATED], ids=["spray", "ipip", "siit", "siit answers"])
def test_figures_are_possible(path: PacketPath, size: int) -> None:
    loaded = load(text_of({"dns-udp": "spray", "dns": "ipip", "dns4": "siit"}[path.vip]))
    for hardware in Hardware:
        found = figures(card_setup(loaded, [path], hardware=hardware), path, ((size, 1),))
        assert 0 == found.rate.low < found.rate.value <= found.rate.high
        assert found.rate.high <= line_rate(100, size) * 1.0001
        assert found.link_share <= 1.0001
        assert found.rate.because and found.rate.rests_on


def test_json_and_picture_have_the_passes() -> None:
    report = small(TUNNELED, "ipip")
    (way,) = json.loads(json.dumps(report.as_json(), allow_nan=False))["paths"]
    assert [hop["by"] for hop in way["hops"]] == ["switch", "extension", "switch"]
    assert way["bytes_longer"] == 25.0
    assert {frame["limit"] for frame in way["frames"]} == {"passes", "link"}
    drawn = words(draw(report, asked([BASE], text=text_of("ipip"))))
    assert "dns queries IPv4 (3 passes)" in drawn and "this spec" in drawn
