# SPDX-License-Identifier: Apache-2.0
"""Frames of `top`: what is on them, in which order, and that they fit."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from bench.specs import many_vips
from rich.console import Console

from dnsteer.checks.load import check_document
from dnsteer.cli import top_frame
from dnsteer.cli.output import passed
from dnsteer.cli.top_frame import DatapathSampler, DatapathView, Sort, TopFrame, shares_of
from dnsteer.cli.top_view import Size, _short_backend, top_view
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.spec import derived
from dnsteer.spec.read import parse_document
from dnsteer.status.counters import BackendKey, CountedService, Key
from dnsteer.status.pools import view_pools
from dnsteer.status.rates import Rates
from dnsteer.status.record import RecordReading
from dnsteer.status.switch_status import Status
from dnsteer.status.vips import view_vips
from dnsteer.view.attention_item import sentence
from tests.unit.console_cases import SPEC, START, entry, known, record

NOW = START + timedelta(minutes=3)
ID = "d21gepscbjsy"
HOSTILE = "late\x1b[2J\nforged [bold]line[/bold] " + "x" * 300
Rated = dict[str, float]


@pytest.fixture(autouse=True)
def a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_frame, "now", lambda: NOW)


def frame(
    *entries: Maintenance, text: str = SPEC, vips: Rated | None = None, backends: Rated | None = None, **more: Any
) -> TopFrame:
    """A frame of a spec with UDP packets a second by VIP, and by POOL/BACKEND."""
    of = known(text)
    by_key: dict[Key, float | None] = {}
    for name, vip in of.spec.vips.items():
        for end in derived.endpoints(vip):
            by_key |= {CountedService(end.protocol.value, address, end.port): 0.0 for address in vip.addresses}
        by_key[CountedService("udp", vip.addresses[0], 53)] = (vips or {}).get(name, 0.0)
    for pool in of.state.members:
        for member in pool.members:
            for protocol in ("udp", "tcp"):
                rate = (backends or {}).get(f"{pool.pool}/{member.name}", 0.0)
                by_key[BackendKey(pool.number, member.number, protocol)] = rate if protocol == "udp" else 0.0
    overlay, rates = Overlay(entries), Rates(by_key, 2.0)
    reading = RecordReading(record(1, *entries), overlay, None, False, of.state)
    status = Status(reading, "", "recorded", rates, loaded=check_document(parse_document("farm.yaml", text)), **more)
    status.pools, status.vips = view_pools(of.state.members, overlay, rates, NOW), view_vips(of.spec, rates)
    return TopFrame(
        NOW, status, DatapathView({"megaflows": 130, "megaflows_limit": 200_000, "masks": 9}, {"upcalls": 12.0})
    )


def shown(of: TopFrame, width: int = 80, height: int = 24, sort: Sort = "rate", **more: Any) -> list[str]:
    """The lines of a frame on a terminal of that size."""
    screen = Console(file=io.StringIO(), width=width, height=height or 1000, highlight=False, emoji=False)
    screen.print(top_view(of, Size(width, height), sort, **more), soft_wrap=False)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


def column(lines: list[str], heading: str) -> list[str]:
    """The first words of the rows below a heading."""
    at = next(n for n, line in enumerate(lines) if line.startswith(heading))
    rows = lines[at + 1 :]
    return [row.split()[0] for row in rows[: next((n for n, row in enumerate(rows) if not row.strip()), len(rows))]]


def test_packets_slots_and_weights_of_a_pool() -> None:
    of = frame(entry("ns1", decision=ID), backends={"farm/ns2": 300.0, "farm/ns3": 100.0})
    found = {s.name: (s.packets, s.slots, s.weight) for s in shares_of(of.status.pools)}
    assert found["farm/ns1"] == (0.0, 0.0, 0.25)
    assert found["farm/ns2"][0] == 0.75 and found["farm/ns2"][2] == 0.5
    assert found["farm/ns2"][1] == pytest.approx(2 / 3, abs=0.05)
    assert sum(s[1] or 0 for name, s in found.items() if name.startswith("farm")) == 1
    assert found["spare/sp1"] == (None, 1.0, 1.0)  # nothing is sent: no share, rather than none of it


def test_vips_and_backends_sort_by_each_order() -> None:
    of = frame(
        entry("ns1"), vips={"other": 20.0, "dns": 10.0}, backends={"farm/ns2": 5.0, "farm/ns3": 30.0, "spare/sp1": 20.0}
    )
    assert [v.name for v in of.vips("rate")] == ["other", "dns"]
    assert [v.name for v in of.vips("name")] == ["dns", "other"]
    names = {sort: [s.name for s in of.shares(sort)] for sort in ("rate", "name", "state", "difference")}  # type: ignore[arg-type]
    assert names["rate"] == ["farm/ns3", "spare/sp1", "farm/ns2", "farm/ns1"]
    assert names["name"] == ["farm/ns1", "farm/ns2", "farm/ns3", "spare/sp1"]
    assert names["state"][0] == "farm/ns1"
    assert names["difference"][:2] in (["farm/ns2", "farm/ns3"], ["farm/ns3", "farm/ns2"])


def test_attention_items_are_on_top_most_urgent_first() -> None:
    of = frame(
        entry("ns1", note="a disk"),
        entry("ns3", "health", note="no answer within 0.5 s", decision=ID),
        entry("ns2", "weight", weight=4),
        errors=["not checked"],
        warnings=["the tables differ"],
    )
    since = "2026-01-02 03:04:05 UTC"
    alone = "ns2 is the last of 3 backends in service; without it queries still go to it (on_all_down: keep)"
    back = f"out of service since {since}; the agent brings it back once its checks pass."
    assert [(a.level, a.line, a.decision) for a in of.items] == [
        ("critical", "not checked", ""),
        ("warning", f"pool farm: {alone}", ""),
        ("warning", f"farm/ns3 is unhealthy: no answer within 0.5 s. {sentence(back)}", ID),
        ("warning", "the tables differ", ""),
        ("note", f"farm/ns1 is drained: by alice@dpu-1 since {since}: a disk", ""),
        ("note", f"farm/ns2 is at weight 4: by alice@dpu-1 since {since}", ""),
    ]
    lines = shown(of)
    assert lines[3:5] == [
        "!! not checked",
        "!  pool farm: ns2 is the last of 3 backends in service; without it queries stil…",
    ]
    assert "130 of 200,000 megaflows  9 masks  12 upcalls/s" in lines
    assert "nothing needs attention" in shown(frame())


def test_an_unreachable_switch_is_shown() -> None:
    of = TopFrame(NOW, Status(frame().status.reading, "no such socket"), DatapathView(why="no such socket"))
    assert of.items[0].line == "the switch cannot be reached: no such socket"
    assert any(
        line.startswith("!! unreachable since the last refresh: gone") for line in shown(frame(), unreachable="gone")
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (7199, "1 h"), (86400, "1 d"), (10**8, "1157 d")],
)
def test_the_time_that_passed_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert passed(START.isoformat(), START + timedelta(seconds=seconds)) == text


@pytest.mark.parametrize("since", ["", "x", "2026-01-02T03:04:05"])
def test_a_time_that_cannot_be_read_is_no_error(since: str) -> None:
    assert passed(since, START) == "?"


def test_a_backend_that_the_spec_has_down_is_called_so() -> None:
    down = SPEC.replace("'02:00:00:00:01:03'}", "'02:00:00:00:01:03', state: down}")
    row = next(line for line in shown(frame(text=down)) if line.startswith("farm/ns3"))
    assert "down in the spec" in row


@cache
def many() -> TopFrame:
    """1,000 VIPs and 1,600 backends, 12 of which fail with a hostile reason."""
    return frame(
        *(entry(f"ns{n}", "health", pool="pool0", note=HOSTILE) for n in range(12)),
        text=many_vips(1000),
        vips={f"vip{n}": float(n) for n in range(1000)},
        backends={f"pool{n}/ns3": float(n) for n in range(100)},
    )


@pytest.mark.parametrize(
    ("width", "height"), [(40, 24), (80, 10), (80, 24), (149, 24), (150, 24), (200, 50), (300, 80)]
)
def test_a_thousand_vips_fit_the_terminal(width: int, height: int) -> None:
    lines = shown(many(), width, height, footer="keys: q quit")
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    if height > 10:
        text = "\n".join(lines)
        assert lines[-1].startswith("keys: q quit")
        assert "vip999" in text and "vip998" in text and "more VIPs" in text and "more backends" in text
        assert "pool99/ns3" in text


def test_without_a_height_all_rows_are_shown() -> None:
    lines = shown(frame(text=many_vips(60, pools=4)), 120, 0, "name")
    assert column(lines, "VIP") == sorted(f"vip{n}" for n in range(60))
    assert len(column(lines, "backend")) == 64


def test_the_foot_is_at_the_bottom_of_a_terminal_that_is_not_full() -> None:
    for width in (80, 200):
        lines = shown(frame(), width, 24, footer="keys")
        assert (len(lines), lines[-1]) == (24, "keys")


def test_a_program_gets_numbers() -> None:
    of = frame(entry("ns1", note="x", decision=ID), vips={"dns": 12.0}, backends={"farm/ns2": 9.0, "farm/ns3": 3.0})
    found = of.as_json("rate")
    assert (found["queries_per_second"], found["packets_per_second"], found["interval"]) == (12.0, 12.0, 2.0)
    (item,) = found["attention"]
    assert (item["level"], item["title"], item["decision"]) == ("note", "farm/ns1 is drained", ID)
    assert item["commands"] == [{"purpose": "To end it", "command": "dnsteer undrain farm/ns1"}]
    assert (found["ok"], found["agent"]["presence"]) == (True, "unknown")
    first = found["backends"][0]
    assert (first["pool"], first["name"], first["share"], first["weight_share"]) == ("farm", "ns2", 0.75, 0.5)
    assert found["datapath"] == {
        "megaflows": 130,
        "megaflows_limit": 200_000,
        "masks": 9,
        "upcalls_per_second": 12.0,
        "reason": None,
    }


def test_a_datapath_that_cannot_be_read_says_why() -> None:
    watch = DatapathSampler(TargetSwitch("tcp:192.0.2.1:6640"))
    assert "may be on another machine" in watch.read(frame().status).why
    watch = DatapathSampler(TargetSwitch("unix:/nonexistent/db.sock"))
    found = watch.read(frame().status)
    assert found.why and not found.gauges
    assert any(line.startswith("datapath not readable: ") for line in shown(TopFrame(NOW, frame().status, found)))


def test_a_filter_is_of_names_pools_addresses_and_states() -> None:
    of = frame(entry("ns1"))
    assert [v.name for v in of.vips("name", "DN")] == ["dns"]
    assert {v.name for v in of.vips("name", "spare")} == {"other"}
    assert [s.name for s in of.shares("name", "drained")] == ["farm/ns1"]
    assert [s.name for s in of.shares("name", "other")] == ["spare/sp1"]  # the backends of a VIP
    assert [s.name for s in of.shares("name", "farm/ns2, SPARE,")] == ["farm/ns2", "spare/sp1"]  # any of several
    assert len(of.vips("name", " ,")) == 2
    lines = shown(of, matching="spare")
    assert column(lines, "VIP ") == ["other"] and column(lines, "backend ") == ["spare/sp1"]
    lines = shown(of, matching="nothing like it", footer="keys")
    assert "no VIP matches 'nothing like it'" in lines and "no backend matches 'nothing like it'" in lines
    assert len(lines) == 24


def test_tables_scroll_to_their_last_row_and_no_further() -> None:
    of = many()
    first = shown(of, sort="name")
    assert any(line.startswith("and ") and line.endswith(" more VIPs") for line in first)
    later, end = shown(of, sort="name", skip=300), shown(of, sort="name", skip=10**6)
    rows = column(later, "VIP ")
    names = [vip.name for vip in of.vips("name")]
    assert rows[:-1] == names[300 : 300 + len(rows) - 1]
    assert any(line.startswith("301 to ") and line.endswith(" of 1,000 VIPs") for line in later)
    assert names[-1] in column(end, "VIP ") and any(line.endswith(" to 1,000 of 1,000 VIPs") for line in end)
    assert len(first) == len(later) == len(end)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("height", range(5, 16))
@pytest.mark.parametrize("skip", [0, 1, 10**6])
@pytest.mark.parametrize("away", ["", "no such socket"])
def test_a_short_terminal_has_a_row_of_each_table_that_it_shows(width: int, height: int, skip: int, away: str) -> None:
    lines = shown(many(), width, height, "name", skip=skip, footer="keys", unreachable=away)
    assert len(lines) == height and lines[-1] == "keys"
    assert any("!! unreachable" in line for line in lines) or not away or height < 7
    headings = [n for n, line in enumerate(lines) if line.startswith(("VIP ", "backend "))]
    assert len(headings) == (2 if width == 80 and height >= 9 else 1)
    assert all(lines[n + 1].startswith(("vip", "pool")) for n in headings), lines
    for first, last in re.findall(r"([\d,]+) to ([\d,]+) of", "\n".join(lines)):
        assert int(first.replace(",", "")) <= int(last.replace(",", ""))


def test_long_names_keep_what_tells_them_apart() -> None:
    pool = "resolvers-of-the-second-data-centre-in-the-north-of-the-country"
    of = frame(text=SPEC.replace("farm", pool))
    assert len(set(column(shown(of, 80, 40), "backend "))) == 4
    lines = shown(of, 80, 40)
    assert all(any(line.split() and line.split()[0].endswith(f"y/ns{n}") for line in lines) for n in (1, 2, 3)), lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("width", "text"), [(16, "farm-of-many/ns1"), (12, "farm…any/ns1"), (9, "fa…ny/ns1"), (5, "…/ns1"), (4, "…/n…")]
)
def test_the_pool_of_a_backend_is_cut_before_its_name(width: int, text: str) -> None:
    assert _short_backend("farm-of-many/ns1", width) == text
