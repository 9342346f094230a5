# SPDX-License-Identifier: Apache-2.0
"""The page Offload of flavors that have hardware, from dumps in their form, and what is bounded."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from dnsteer.checks.load import check_document
from dnsteer.console import offload_page, page_reading
from dnsteer.console.offload_page import OffloadPageData, OffloadPoller, OffloadSnapshot
from dnsteer.console.page_content import ConsolePages, RecordedStates
from dnsteer.console.page_data import PageData, PageHistory
from dnsteer.console.prediction import PredictedRate, Prediction
from dnsteer.metrics.observer import AppliedBridge
from dnsteer.offload.flow_reading import OffloadReader, OffloadReading
from dnsteer.offload.observe import TYPES, FlowJudge, RunningSwitch
from dnsteer.offload.profile import profile
from dnsteer.plan.build import build_plan
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.read import parse_document
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot
from tests.unit.console_cases import SCRIPT, SPEC, START, Console, known
from tests.unit.test_console_server import Events, since

DOCA = SPEC.replace("ovs-netdev", "ovs-doca")
FLOW = (
    "ufid:{n:08d}-0000-0000-0000-000000000000, recirc_id(0),in_port({port}),packet_type(ns=0,id=0),"
    "eth(src=02:00:00:00:00:fe,dst=02:00:00:00:00:53),eth_type(0x0800),ipv4(dst=192.0.2.53,proto=17,frag=no),"
    "udp(src={n}/0x3e,dst=53), packets:{packets}, bytes:640, used:0.4s, {more}dp:ovs, "
    "actions:set(eth(src=02:00:00:00:00:53,dst=02:00:00:00:01:01)),{out}"
)


def flow(n: int, packets: int = 7, *, port: str = "p0", more: str = "", out: str = "p0") -> str:
    return FLOW.format(n=n, packets=packets, port=port, more=more, out=out)


class Recorded:
    """A switch that dumps flows by type."""

    def __init__(self, **dumps: Sequence[str]) -> None:
        self.dumps = dumps

    def run(self, command: str, *args: str) -> str:
        assert command == "dpctl/dump-flows"
        kind = args[-1].removeprefix("type=").replace("-", "_")
        return "\n".join(["flow-dump from the main thread:", *self.dumps.get(kind, ())])

    def commands(self) -> frozenset[str]:
        return frozenset()


def judge() -> FlowJudge:
    loaded = check_document(parse_document("farm.yaml", DOCA))
    return FlowJudge(loaded, build_plan(loaded), profile("ovs-doca"), RunningSwitch("netdev@ovs-netdev", {}, {}))


def read(most: int = 2000, **dumps: Sequence[str]) -> OffloadReading:
    return OffloadReader(most).read(Recorded(**dumps), "netdev@ovs-netdev", judge())


def page(
    reading: OffloadReading | None, *, late: Any = frozenset(), prediction: Prediction | None = None, **more: Any
) -> str:
    """The page of a reading, in words."""
    view = OffloadSnapshot(
        START, known(DOCA), profile("ovs-doca"), "", reading, {"megaflows": 30_000.0}, late=late, **more
    )
    return page_of(OffloadPageData(view, prediction))


def page_of(look: OffloadPageData) -> str:
    """The parts of the page, in words."""
    picture = PageData(START, SwitchSnapshot(START, "br-dns", applied=StateSnapshot(known(DOCA), Overlay(), START)))
    content = ConsolePages().content("offload", picture, PageHistory(), RecordedStates(), look)
    text = "\n".join(content.parts.values())
    assert SCRIPT not in text
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_each_flow_is_counted_once_by_its_reported_layer() -> None:
    both = flow(3, more="offloaded:partial, ")
    found = read(offloaded=[flow(1), both], partially_offloaded=[both], non_offloaded=[flow(2), flow(4, port="other")])
    assert found.in_hardware == {"yes": 1, "partial": 1, "no": 1}
    assert (found.total, found.elsewhere, found.said) == (3, 1, True)
    assert not read(offloaded=[flow(1)]).said
    assert set(found.in_hardware) == set(TYPES.values())


def test_the_busiest_are_judged_and_all_are_counted() -> None:
    found = read(2, non_offloaded=[flow(n, packets=n) for n in range(1, 6)])
    assert [each.flow.packets for each in found.flows] == [5, 4]
    assert found.total == found.in_hardware["no"] == 5
    ((mask, flows, packets),) = [(m.mask, m.flows, m.packets) for m in found.masks]
    assert (flows, packets) == (5, 15) and "tp_src/0x3e" in mask
    assert "Verdicts are of the 2 flows with the most packets" in page(found)


def test_counters_go_on_though_a_flow_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, by = OffloadReader(), judge()
    first = reader.read(Recorded(offloaded=[flow(1, 7)]), "d", by)
    monkeypatch.setattr("dnsteer.offload.flow_reading.read_flow", lambda *_: pytest.fail("parsed again"))
    second = reader.read(Recorded(offloaded=[flow(1, 900)]), "d", by)
    assert [r.flows[0].flow.packets for r in (first, second)] == [7, 900]
    assert second.flows[0].predicted == first.flows[0].predicted


def test_rows_are_made_once_for_a_reading_and_rates_for_each_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    of, pages, make = known(DOCA), ConsolePages(), offload_page._parts
    made: list[OffloadPageData] = []

    def counted(macros: Any, flavor: str, look: OffloadPageData) -> Any:
        made.append(look)
        return make(macros, flavor, look)

    monkeypatch.setattr(offload_page, "_parts", counted)
    first, second = (
        OffloadPageData(OffloadSnapshot(START, of, profile("ovs-doca"), "", read(offloaded=[flow(1, packets)])), None)
        for packets in (7, 900)
    )
    shown = []
    for look, rate in ((first, 1.0), (OffloadPageData(first.view, None), 2.0), (second, 3.0)):
        seen = SwitchSnapshot(START, "br-dns", applied=StateSnapshot(of, Overlay(), START))
        picture = PageData(START, seen, rates={("vip", "v", "queries"): rate})
        content = pages.content("offload", picture, PageHistory(), RecordedStates(), look)
        shown.append((content.numbers["q"], content.numbers["f-0"], "f-0" in content.parts["flows"]))
    assert shown == [(1.0, "7", True), (2.0, "7", True), (3.0, "900", True)]
    assert made == [first, second]


def test_flows_missing_from_hardware_for_long_are_marked() -> None:
    found = read(offloaded=[flow(1)], non_offloaded=[flow(2)])
    assert "should be" not in page(found), "it may be on its way"
    late = frozenset((each.flow.thread, each.flow.ufid) for each in found.flows if each.missing)
    assert len(late) == 1
    said = page(found, late=late)
    assert "1 flow is not in hardware, and should be" in said and "no missing" in said
    assert "Nothing is offloaded here" not in said


def test_reasons_have_their_source() -> None:
    slow = "userspace(pid=0,slow_path(action))"
    said = page(read(offloaded=[flow(1, more="offloaded:yes, ", out=slow)], non_offloaded=[flow(2, out=slow)]))
    source = profile("ovs-doca").cite(profile("ovs-doca").slow_path.source)
    assert source in said and "though the profile says it cannot be" in said and "Should not 2" in said


def test_unreadable_lines_are_shown() -> None:
    said = page(read(non_offloaded=[flow(1), f"ufid:1, recirc_id(0),in_port(p0),{SCRIPT}, packets:1, no flow("]))
    assert "Unreadable 1" in said and "cannot be read" in said and SCRIPT in said


def test_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload_page, "MAX_ROWS", 3)
    said = page(read(offloaded=[flow(n) for n in range(9)]))
    assert "3 of 9 are shown" in said and said.count("queries of dns over ipv4 (udp/53)") == 3


def test_a_missing_reading_is_explained() -> None:
    assert "The datapath flows are being read for the first time" in page_of(OffloadPageData(None, None))
    assert "The datapath flows cannot be read it is away" in page(None, error="it is away")
    assert "30,000 datapath flows More than 20,000 are not read here" in page(None)
    assert "hw-offload is not true" in page(read(), settings=("other_config:hw-offload is not true",))
    assert "There are no datapath flows at the moment" in page(read())
    for look in (
        OffloadPageData(None, None),
        OffloadPageData(OffloadSnapshot(START, known(DOCA), error="it is away"), None),
    ):
        picture = PageData(START, SwitchSnapshot(START, "br-dns", applied=StateSnapshot(known(DOCA), Overlay(), START)))
        parts = ConsolePages().content("offload", picture, PageHistory(), RecordedStates(), look).parts
        assert not parts.keys() & {"flows", "masks", "why", "mask-total"}


def test_the_page_comes_before_its_reading_and_shows_it_then(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def late(_: OffloadPoller, at: datetime, of: AppliedBridge) -> OffloadSnapshot:
        go.wait(20)
        return OffloadSnapshot(at, of, profile("ovs-doca"), "", read(offloaded=[flow(1)]), {"megaflows": 1.0})

    monkeypatch.setattr(OffloadPoller, "_read_datapath", late)
    live = Console(known(DOCA)).live

    async def test() -> None:
        try:
            page = await live.page("offload")
            assert "being read for the first time" in page.text and page.status == 200
            assert "<table" not in page.text, "it would be empty"
            events = Events(await live.stream("offload", since(page.text)))
            go.set()
            monkeypatch.setattr(page_reading, "WAIT", 20.0)
            page = await live.page("offload")
            assert 'queries of <a href="/vips/dns">dns</a> over ipv4' in page.text and page.text.count("<table") == 3
            assert (await events.next("reload"))[0] == "reload", "the page that was open gets the tables"
            await events.end()
        finally:
            go.set()
            live._on_demand.close()

    asyncio.run(test())


def test_a_prediction_has_its_range_and_sources() -> None:
    rate = PredictedRate(95e6, 79.4e6, 96e6, "extrapolation", "switch")
    made = Prediction(9, 16, "bluefield-3", "ovs-doca", rate, None, ("not counted",), ("never together",), ("paper",))
    said = page(read(offloaded=[flow(1)]), prediction=made)
    assert "Queries/s predicted at most 95.0 M from 79.4 M to 96.0 M, an extrapolation; limit: switch" in said
    assert "nothing was measured here" in said and "never together not counted paper" in said
    assert "any traffic can make at most 9 of this spec's tables (computed), and its budget is 16" in said
    assert "New connections" not in said and "being computed" in page(read())
