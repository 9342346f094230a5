# SPDX-License-Identifier: Apache-2.0
"""The page Path without a switch: its form, what a trace says in words, and how often paths are traced."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest
from bench.specs import many_vips

from dnsteer.console import live, page_reading, path_page
from dnsteer.console.offload_page import OffloadPoller
from dnsteer.console.path_page import (
    KEY,
    MAX_FOLLOWED,
    MAX_INTERVAL,
    MAX_LISTED,
    MIN_INTERVAL,
    PathPoller,
    PathReader,
    PathReading,
    form_of,
    is_key,
    key_of,
    query_of,
)
from dnsteer.console.rates import Series
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import Overlay
from dnsteer.status.flow_counts import FlowKey, read_flow_packets
from dnsteer.status.path import trace_in_words
from dnsteer.switch.trace import read_trace
from dnsteer.tables.order import PIPELINE
from dnsteer.view.snapshot import StateSnapshot
from tests.unit.console_cases import SCRIPT, SPEC, START, Console, known

VIP, SLOT, EGRESS = (PIPELINE.tables[name].number for name in ("vip", "slot", "egress"))
TRACE = f"""\
Flow: udp,in_port=p0,vlan_tci=0x0000

bridge("br-dns")
----------------
 0. in_port=p0,vlan_tci=0x0000/0x0fff,dl_dst=02:00:00:00:00:53, priority 200, cookie 0xd453020000006ff4
    set_field:0x1->reg4
    goto_table:{VIP}
{VIP}. priority 0
    move:NXM_OF_UDP_SRC[1..5]->NXM_NX_REG1[0..4]
     -> NXM_NX_REG1[0..4] is now 0xc
    move:NXM_OF_ETH_SRC[]->NXM_NX_XXREG3[0..47]
    set_field:02:00:00:00:03:03->eth_dst
    goto_table:{EGRESS}
{EGRESS}. No match.
    drop

Final flow: unchanged
Megaflow: recirc_id=0,eth,udp,in_port=p0
Datapath actions: hash(l4(0)),recirc(0x1)

===============================================================================
recirc(0x1) - resume
===============================================================================

 0. ip, priority 1
    output:9

Final flow: recirc_id=0x1
Datapath actions: drop
"""


def test_a_trace_is_read_to_the_end_of_its_first_pass() -> None:
    trace = read_trace(TRACE)
    assert [(f.table, f.match, f.priority, f.cookie) for f in trace.flows] == [
        (0, "in_port=p0,vlan_tci=0x0000/0x0fff,dl_dst=02:00:00:00:00:53", 200, 0xD453020000006FF4),
        (VIP, "(any)", 0, 0),
        (EGRESS, "(no flow)", 0, 0),
    ]
    assert trace.recirculates and not trace.drops and trace.final == "unchanged"
    assert trace_in_words(0, trace.flows[0].actions) == ["sets path to query", "goes on to table vip"]
    assert trace_in_words(VIP, trace.flows[1].actions) == [
        "sets slot to the source port, bits 1 to 5: 12",
        "sets destination MAC to 02:00:00:00:03:03",
        "goes on to table egress",
    ]
    assert trace_in_words(EGRESS, trace.flows[2].actions) == ["drops the packet"]
    assert trace_in_words(0, ["ct(commit)", ">> what it is"]) == ["ct(commit)", ">> what it is"], "as it is"
    assert read_trace("").flows == () and read_trace("").datapath == ""


TWO_PASSES = """\
bridge("br-dns")
----------------
21. udp,nw_dst=198.51.100.1,tp_dst=53, priority 100, cookie 0xd4530576c4daa6a9
    goto_table:22
22. ip,reg0=0x4131,reg3=0x1, priority 100, cookie 0xd453060000004131
    set_field:192.0.2.11->ip_dst
    ct(table=24)
    drop
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 24.
     -> Sets the packet to an untracked state, and clears all the conntrack fields.

Final flow: udp,in_port=1,nw_src=203.0.113.1,nw_dst=192.0.2.11,tp_src=40000,tp_dst=53
Megaflow: recirc_id=0,eth,udp,in_port=1
Datapath actions: ct,recirc(0x1)

===============================================================================
recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x1,ct_state=new|trk,eth,udp,reg0=0x4131,reg3=0x1

bridge("br-dns")
----------------
    thaw
        Resuming from table 24
24. udp,reg0=0x4131, priority 100, cookie 0xd453060000004131
    goto_table:30

Final flow: unchanged
Megaflow: recirc_id=0x1,eth,udp,in_port=1
Datapath actions: 2
"""


def test_a_trace_goes_on_behind_the_connection_tracker() -> None:
    names = {name: table.number for name, table in PIPELINE.tables.items()}
    trace = read_trace(TWO_PASSES)
    assert [f.table for f in trace.flows] == [names["vip"], names["recirculate"], names["selection"]]
    assert (trace.recirculates, trace.drops, trace.onward, trace.datapath) == (False, False, (), "2")
    assert "nw_dst=192.0.2.11" in trace.final
    assert trace_in_words(names["recirculate"], trace.flows[1].actions) == [
        "sets destination address to 192.0.2.11",
        "goes on to table selection in a second pass, by the connection tracker",
    ]
    assert trace_in_words(names["selection"], trace.flows[2].actions) == ["goes on to table slot"]


PATCHED = """\
bridge("br-dns")
----------------
 0. udp, priority 5
    output:pa

    bridge("br2")
    -------------
         3. udp, priority 5
            output:q0
        20. udp, priority 5
            output:q1
    output:e1
    goto_table:20
20. udp, priority 5
    output:pb

bridge("br3")
-------------
 0. udp, priority 5
    goto_table:50
50. udp, priority 5
    output:q2

Final flow: unchanged
Datapath actions: q0,q1,e1,q2
"""


def test_flows_of_bridges_behind_patch_ports_are_left_out() -> None:
    trace = read_trace(PATCHED)
    assert [(f.table, f.actions) for f in trace.flows] == [
        (0, ("output:pa", "output:e1", "goto_table:20")),
        (20, ("output:pb",)),
    ]
    assert (trace.onward, trace.datapath) == (("br2", "br3"), "q0,q1,e1,q2")


def test_counters_belong_to_flows_by_table_priority_and_match() -> None:
    text = """\
 cookie=0xd453010000000000, duration=0.04s, table=vip, n_packets=12, n_bytes=0, idle_age=0, priority=10,ip actions=drop
 cookie=0xd453010000000000, duration=0.04s, table=slot, n_packets=7, n_bytes=0, idle_age=0, priority=0 actions=drop
 cookie=0x0, duration=0.04s, table=vip, n_packets=3, n_bytes=0, idle_age=0, udp,tp_dst=53 actions=drop
 cookie=0x0, duration=0.04s, table=vip, n_packets=4, n_bytes=0, idle_timeout=9, priority=9,udp actions=drop
OFPST_FLOW reply (OF1.5):
"""
    assert read_flow_packets(text) == {
        FlowKey(VIP, 10, "ip"): 12,
        FlowKey(SLOT, 0, "(any)"): 7,
        FlowKey(VIP, 32768, "udp,tp_dst=53"): 3,
        FlowKey(VIP, 9, "udp"): 4,
    }


def test_equal_questions_are_one_page() -> None:
    one = key_of({"vip": "dns", "port": " 7 ", "client": "192.0.2.1", "other": "x", "service": ""})
    assert one == key_of({"client": "192.0.2.1", "port": "7", "vip": "dns"}) == "path?client=192.0.2.1&port=7&vip=dns"
    assert is_key(one) and is_key(KEY) and key_of({}) == KEY
    for wrong in ("pathx", "path?", "path?a=b", f"{one}&", f"{one}&client=2", "path?port=7&client=1", "path?client="):
        assert not is_key(wrong), wrong
    assert is_key(key_of({"client": "a&b=c é%"})), "any text goes both ways"


def test_missing_fields_default_to_the_first_choice() -> None:
    spec = known().spec
    query = query_of("path?client=198.51.100.7&port=7&vip=other", spec)
    assert (str(query.vip), query.port, query.protocol.value, query.uplink) == ("192.0.2.54", 53, "udp", "p0")


def test_a_vip_by_its_name_is_chosen_in_the_list() -> None:
    both = SPEC.replace("addresses: [192.0.2.53]", "addresses: [192.0.2.53, '2001:db8::53']")
    for client, address in (("198.51.100.7", "192.0.2.53"), ("2001:db8::7", "2001:db8::53")):
        form = form_of(key_of({"client": client, "port": "1", "vip": "dns"}), known(both).spec)
        assert form.values["vip"] == address
    page = Console(known(both)).get("/path?client=2001:db8::7&port=7&vip=dns")
    assert page.count(" selected") == 1 and '<option value="2001:db8::53" selected>' in page


def test_many_vips_are_typed_not_listed() -> None:
    page = Console(known(many_vips(MAX_LISTED + 1))).get("/path")
    assert '<select name="vip"' not in page and '<input name="vip"' in page and len(page) < 10_000
    assert form_of(KEY, known().spec).vips == (("192.0.2.53", "dns"), ("192.0.2.54", "other")), "else they are listed"


def test_without_a_spec_there_is_a_form_and_no_error() -> None:
    for path in ("/path", "/path?client=1.2.3.4&port=7"):
        answer = Console().ask(path)
        assert answer.status_code == 200 and "No spec is applied yet." in answer.text
    assert "No spec is applied yet." in Console().get("/offload")


def test_an_unreachable_switch_is_named_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_reading, "WAIT", 20.0)
    page = Console(known()).get("/path?client=198.51.100.7&port=7&vip=dns")
    assert "The path cannot be traced" in page and re.search(r"/nowhere|no control socket", page)
    page = Console(known()).get("/offload")
    assert "The datapath flows cannot be read" in page


class Reader(PathReader):
    """A reader that counts what it would trace."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(TargetSwitch("unix:/nowhere"), lambda: clock[0])
        self.traced: list[str] = []
        self.clock, self.takes = clock, 0.0

    def _read(self, key: str, side: StateSnapshot, series: Series) -> PathReading:
        self.traced.append(key)
        self.clock[0] += self.takes
        return PathReading(START)


def test_traces_of_a_path_are_limited_in_rate() -> None:
    clock = [100.0]
    reader, side = Reader(clock), StateSnapshot(known(), Overlay(), START)
    for at, count in (
        (0.0, 1),
        (0.1, 1),
        (MIN_INTERVAL - 0.1, 1),
        (MIN_INTERVAL, 2),
        (MIN_INTERVAL + 0.1, 2),
        (2 * MIN_INTERVAL, 3),
    ):
        clock[0] = 100.0 + at
        reader.read("path?a", side, ["path?a"])
        assert len(reader.traced) == count, at
    reader.read("path?a", StateSnapshot(known(), Overlay(), START), ["path?a"])
    assert len(reader.traced) == 4, "another state"


@pytest.mark.parametrize(
    ("takes", "followed", "again"),
    [(0.02, 1, MIN_INTERVAL), (0.1, 1, 5.0), (0.03, 4, 6.0), (0.03, 9, 6.0), (5.0, 1, MAX_INTERVAL)],
)
def test_paths_that_take_long_are_traced_more_rarely(takes: float, followed: int, again: float) -> None:
    clock = [100.0]
    reader, side = Reader(clock), StateSnapshot(known(), Overlay(), START)
    reader.takes = takes
    keys = [f"path?{n}" for n in range(followed)]
    for at, count in ((0.0, 1), (again - 0.01, 1), (again + 0.01, 2)):
        clock[0] = 100.0 + at
        reader.read(keys[0], side, keys)
        assert len(reader.traced) == count, at


def test_followed_paths_are_limited() -> None:
    clock = [100.0]
    reader, side = Reader(clock), StateSnapshot(known(), Overlay(), START)
    keys = [f"path?{n}" for n in range(MAX_FOLLOWED + 2)]
    for turn in range(3):
        clock[0] = 100.0 + turn * MIN_INTERVAL
        readings: dict[str, Any] = {key: reader.read(key, side, keys) for key in keys}
    assert [reader.traced.count(key) for key in keys] == [3] * MAX_FOLLOWED + [1, 1]
    assert [readings[key].followed for key in keys] == [True] * MAX_FOLLOWED + [False] * 2
    clock[0] += MIN_INTERVAL
    reader.read(keys[-1], side, keys[3:])
    assert reader.traced.count(keys[-1]) == 2, "there is room again"


def test_unwatched_paths_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_page, "_KEPT", 3)
    reader, side = Reader([100.0]), StateSnapshot(known(), Overlay(), START)
    for key in "abcdab":
        reader.read(key, side, ())
    assert reader.traced == list("abcdab") and len(reader._paths) == 3


class Stuck(Reader):
    """A reader of a switch that does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__([100.0])
        self.go, self.fails = threading.Event(), False

    def _read(self, key: str, side: StateSnapshot, series: Series) -> PathReading:
        self.go.wait(20)
        return super()._read(key, side, series)


PATH = "path?client=198.51.100.7&port=7&vip=dns"


def test_other_pages_do_not_wait_for_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_reading.WAIT < 1, "pages are to be painted within a second"
    console, reader = Console(known()), Stuck()

    async def test() -> None:
        live = console.live
        changed: list[bool] = []
        live._on_demand._paths = PathPoller(reader, lambda: changed.append(True))
        try:
            page = await live.page(PATH)
            assert "is being traced" in page.text and page.status == 200
            live._state.topics[PATH].watchers = 1
            monkeypatch.setattr(page_reading, "WAIT", 3600.0)
            live.changed()
            assert "Nothing needs attention" in (await asyncio.wait_for(live.page("overview"), 10)).text
            assert not reader.traced and not changed
            reader.go.set()
            assert "Traced 2026" in (await asyncio.wait_for(live.page(PATH), 10)).text
            assert reader.traced == [PATH] and changed == [True]
            await live.page(PATH)
            assert changed == [True], "nothing is due"
        finally:
            reader.go.set()
            live._on_demand.close()

    asyncio.run(test())


def test_a_malformed_query_is_refused_without_the_switch() -> None:
    console = Console(known())
    console.live._on_demand._paths._begin = None  # type: ignore[assignment, method-assign]
    assert console.ask("/path?client=x&port=7").status_code == 400


def test_a_defect_of_one_page_is_shown_there_and_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def broken(*_: object) -> None:
        raise KeyError(SCRIPT)

    monkeypatch.setattr(page_reading, "WAIT", 20.0)
    monkeypatch.setattr(PathReader, "_tracer_of", broken)
    monkeypatch.setattr(OffloadPoller, "_read_datapath", broken)
    for path, module in (("/path?client=198.51.100.7&port=7&vip=dns", "path"), ("/offload", "offload")):
        console = Console(known(), say=said.append)
        for _ in range(2):
            answer = console.ask(path)
            assert answer.status_code == 500 and "A defect of dnsteer" in answer.text and "KeyError" in answer.text
            assert SCRIPT not in answer.text
        assert "Nothing needs attention" in console.get() and console.ask("/metrics").status_code == 200
        (line,) = said
        assert line.startswith(f"a defect of the console: the page {module} cannot be made: KeyError")
        said.clear()


@pytest.mark.parametrize("part", ["content", "page"])
def test_the_console_continues_when_one_page_fails(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    said: list[str] = []
    console = Console(known(), say=said.append)
    make = getattr(console.live.pages, part)

    def only_pools(key: str, *args: Any) -> Any:
        if key == "pools" and "defect" not in args:
            raise ValueError("nobody expected that")
        return make(key, *args)

    monkeypatch.setattr(console.live.pages, part, only_pools)

    async def test() -> None:
        live = console.live
        running = asyncio.create_task(live.run())
        page = await live.page("pools")
        assert "nobody expected that" in page.text and page.status == 500
        stream = await live.stream("pools", page.text.split('data-since="')[1].split('"')[0])
        await anext(stream)
        console.recorder.panicked("farm", ("",))
        while live._changed.is_set():
            await asyncio.sleep(0.01)
        assert "PANIC" in (await live.page("overview")).text and not running.done()
        monkeypatch.undo()
        page = await live.page("pools")
        assert "farm" in page.text and page.status == 200, "it can be made again"
        await stream.aclose()  # type: ignore[attr-defined]
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(test(), 30))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("part", "what", "lacks"),
    [("read", "counters are not read", ""), ("page_data", "the present state cannot be shown", "farm")],
)
def test_the_console_continues_when_all_pages_lack_data(
    monkeypatch: pytest.MonkeyPatch, part: str, what: str, lacks: str
) -> None:
    said: list[str] = []
    console = Console(known(), say=said.append)

    def broken(*_: object) -> None:
        raise ValueError("nobody expected that")

    monkeypatch.setattr(live, "INTERVAL", 0.05)
    monkeypatch.setattr(live, "IDLE", 0.05)
    monkeypatch.setattr(console.live._history, part, broken)

    async def test() -> None:
        running = asyncio.create_task(console.live.run())
        pages = console.live
        while what not in (page := await pages.page("overview")).text:
            await asyncio.sleep(0.01)
        assert "nobody expected that" in page.text and page.status == 200 and not running.done()
        assert not lacks or lacks not in (await pages.page("pools")).text
        monkeypatch.undo()
        while what in (await pages.page("overview")).text:
            await asyncio.sleep(0.01)
        assert "farm" in (await pages.page("pools")).text
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(test(), 30))
    (line,) = said
    assert line.startswith(f"a defect of the console: {what}: ValueError: nobody expected that")
