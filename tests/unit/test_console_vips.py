# SPDX-License-Identifier: Apache-2.0
"""The console with many VIPs: the list with its filter and order, what is bounded, and the page of a VIP."""

from __future__ import annotations

import html
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from bench.specs import many_vips

from dnsteer.console import live as live_module
from dnsteer.console.offload_page import OffloadPoller
from dnsteer.console.overview_page import filter_key, is_overview
from dnsteer.console.page_content import RecordedStates, link_vips
from dnsteer.status.agent_knowledge import UnannouncedVip
from tests.unit.console_cases import SCRIPT, SPEC, START, Console, entry, known, record, words_of
from tests.unit.many_vips import two_hundred_vips


class _Time:
    now = START


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> type[_Time]:
    """The console's time, which goes on when the test says so."""
    monkeypatch.setattr(_Time, "now", START + timedelta(minutes=1))
    monkeypatch.setattr(live_module, "now", lambda: _Time.now)
    return _Time


def rows(page: str) -> list[str]:
    """The names of the VIPs that are rows."""
    return re.findall(r'<p class="name"><a href="/vips/([^"]+)">', page)


def tiles(page: str) -> list[str]:
    """The names of the VIPs that are tiles."""
    return re.findall(r'<h3><a href="/vips/([^"]+)">', page)


def head(page: str) -> tuple[str, str, str]:
    """How many VIPs the head of the list says that there are, and the sums of queries and packets."""
    found = re.search(r'id="found">([^<]*)<', page)
    assert found is not None
    q, p = (re.findall(rf'<b data-number="{letter}">([^<]*)<', page)[0] for letter in "qp")
    return found[1], q, p


@pytest.mark.parametrize(("vips", "as_rows"), [(23, False), (24, True)])
def test_many_vips_are_rows(vips: int, as_rows: bool) -> None:
    page = Console(known(many_vips(vips, pools=2, backends=2))).get()
    assert (len(rows(page)), len(tiles(page))) == ((vips, 0) if as_rows else (0, vips))


def test_rows_are_bounded_and_all_can_be_had() -> None:
    console = two_hundred_vips()
    page = console.get()
    assert len(rows(page)) == 40
    assert "160 more, 8 of them with trouble" in page, "12 pools of 4 VIPs have a backend that fails"
    (more,) = re.findall(r'<a href="([^"]+)">show all 200</a>', page)
    every = console.get(html.unescape(more))
    assert sorted(rows(every)) == sorted(f"vip{n}" for n in range(200))
    assert head(every) == head(page) and "show all" not in every
    calm = console.get("/?pool=pool49")
    assert len(rows(calm)) == 4 and '<div id="more"></div>' in calm


def test_vips_with_trouble_come_first_then_the_busiest(clock: type[_Time]) -> None:
    text = many_vips(24, pools=4, backends=2)
    console = Console(known(text), entry("ns0", pool="pool1"), entry("ns0", pool="pool2"), entry("ns1", pool="pool2"))
    assert rows(console.get())[:3] == ["vip2", "vip6", "vip10"], "without rates in the order of the spec"
    for _ in range(2):
        console.reads(vip1=5.0, vip9=900.0, vip2=1.0, vip6=2.0, vip0=1e6, vip23=1e5)
    console.live.changed()
    listed = rows(console.get())
    assert listed[:2] == ["vip6", "vip2"], "no backend is in service"
    assert listed[6:8] == ["vip9", "vip1"], "one is out"
    assert listed[12:14] == ["vip0", "vip23"]
    for _ in range(3):
        console.reads(vip23=1e7)
    console.live.changed()
    assert rows(console.get()) == listed, "rows that always move cannot be read"
    console.recorder.followed(record(1, entry("ns0", pool="pool3")))
    console.live.changed()
    assert rows(console.get())[:2] == ["vip23", "vip3"], "trouble shows at once"
    clock.now += timedelta(seconds=30)
    console.recorder.followed(record(1))
    console.live.changed()
    assert rows(console.get())[:1] == ["vip23"]


def test_planned_maintenance_is_no_trouble_while_two_serve() -> None:
    text = many_vips(24, pools=4, backends=3)
    out = entry("ns0", pool="pool1"), entry("ns0", "health", pool="pool2"), entry("ns0", pool="pool3")
    console = Console(known(text), *out, entry("ns1", "down", pool="pool3"))
    listed = rows(console.get())
    assert listed[:12] == [f"vip{n}" for n in range(24) if n % 4 in (2, 3)], "one fails, or one is in service alone"
    assert listed[12:18] == [f"vip{n}" for n in range(24) if n % 4 == 1]
    assert sorted(rows(console.get("/?trouble=on"))) == sorted(listed[:12])
    late = Console(known(text), entry("ns0", pool="pool1", until=START.isoformat()))
    assert len(rows(late.get("/?trouble=on"))) == 6, "overdue"


@pytest.mark.parametrize("vips", [1, 24])
def test_a_filter_in_force_is_shown_and_can_be_left(vips: int) -> None:
    console = Console(known(many_vips(vips, pools=1, backends=2)))
    leave = '<a href="/">Show all VIPs</a>'
    assert leave not in console.get()
    gone = console.get("/?pool=gone")
    assert leave in gone and "<option selected>gone</option>" in gone
    assert leave in (text := console.get("/?text=zzz")) and 'value="zzz"' in text


@pytest.mark.parametrize(
    ("asked", "found", "queries"),
    [
        ("", "24", "276"),
        ("text=VIP23", "1 of 24", "23.0"),
        ("text=pool3", "6 of 24", "78.0"),
        ("text=172.16.0.7", "1 of 24", "7.00"),
        ("pool=pool1", "6 of 24", "66.0"),
        ("trouble=on", "6 of 24", "66.0"),
        ("trouble=on&text=vip1&pool=pool1", "3 of 24", "31.0"),
        ("pool=pool1&trouble=on&text=vip23", "0 of 24", "0"),
        ("text=%3Cb%3E", "0 of 24", "0"),
    ],
)
def test_a_filter_changes_the_sums_of_the_head(asked: str, found: str, queries: str) -> None:
    console = Console(known(many_vips(24, pools=4, backends=2)), entry("ns0", pool="pool1"))
    for _ in range(3):
        console.reads(**{f"vip{n}": float(n) for n in range(24)})
    page = console.get(f"/?{asked}")
    assert head(page) == (found, queries, queries)
    assert len(rows(page)) == int(found.split()[0])
    assert ("No VIP passes the filter." in page) == (found[0] == "0")
    assert "<b>" not in page.split('id="filter"')[1].partition("</form>")[0]


def test_tiles_are_filtered_too() -> None:
    console = Console(known(many_vips(13, pools=13, backends=2)), entry("ns0", pool="pool3"))
    for _ in range(3):
        console.reads(vip3=30.0, vip4=4.0)
    page = console.get("/?trouble=on")
    assert tiles(page) == ["vip3"] and head(page) == ("1 of 13", "30.0", "30.0")
    assert "No VIP passes the filter." in console.get("/?text=nothing")
    few = Console(known()).get()
    assert 'id="filter"' not in few, "two VIPs need none"


def test_a_filter_has_one_key() -> None:
    assert filter_key({"pool": " a ", "text": "x", "other": "1", "trouble": ""}) == "overview?text=x&pool=a"
    assert filter_key({}) == "overview"
    for key in ("overview", "overview?text=x&pool=a", "overview?trouble=on&all=on"):
        assert is_overview(key), key
    for key in ("overview?", "overview?pool=a&text=x", "overview?text=x&text=y", "overview?a&b&c&d&e", "overviews"):
        assert not is_overview(key), key
    assert Console(known()).ask("/events?page=overview%3Ftext%3Dx", "HEAD").status_code == 200


def test_rows_are_made_anew_only_where_they_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    console, made = two_hundred_vips(), list[int]()
    macros = console.live.pages._overview._macros
    real = macros.vip_rows
    monkeypatch.setattr(macros, "vip_rows", lambda found: (made.append(len(found)), real(found))[1])
    console.get()
    console.reads(**{f"vip{n}": 3.0 for n in range(200)})
    console.live.changed()
    console.get()
    assert made == [40]


def test_attention_items_are_bounded_with_a_link_to_all() -> None:
    console = two_hundred_vips()
    page = console.get()
    assert page.count('<li class="item ') == 5
    assert "12 warnings" in page and "12 notes" in page
    assert '<a href="/attention">Show all 24</a>' in page
    every = console.get("/attention")
    assert every.count('<li class="item ') == 24 and "Show all" not in every
    many = Console(known(many_vips(4, pools=1, backends=9)), *(entry(f"ns{n}", pool="pool0") for n in range(8)))
    assert '<a href="/attention?pool=pool0">Show all 9</a>' in many.get("/pools/pool0")
    assert many.get("/attention?pool=pool0").count('<li class="item ') == 9
    assert console.get("/attention?pool=pool1").count('<li class="item ') == 1
    assert console.ask("/attention?pool=nowhere").status_code == 404


def test_the_page_of_a_vip_shows_its_services_and_backends() -> None:
    console = Console(known(), entry("ns3", "health", note="late"))
    console.packets["dns", "53/tcp"] = 0.0
    for _ in range(3):
        console.reads(dns=1234.0)
    page = console.get("/vips/dns")
    said = words_of(page)
    assert "192.0.2.53" in said and "53/udp 1.23 k packets/s" in said and "53/tcp 0 packets/s" in said
    assert "farm/ns3 is unhealthy" in said and "sp1" not in said
    assert said.index("ns3 unhealthy late") < said.index("ns1 up"), "those that are out come first"
    assert "11 8 when all are up" in said and "Announced by BGP not by this switch" in said
    lines = [html.unescape(line) for line in re.findall(r"<code>(.*?)</code>", page)]
    assert "kdig @192.0.2.53 example.org" in lines and "dnsteer capture dns" in lines
    assert "dnsteer explain --live --client 198.51.100.7:40000 --vip 192.0.2.53:53/udp" in lines
    assert "dnsteer withdraw dns" not in lines
    assert 'href="/path?client=198.51.100.7&amp;port=40000&amp;vip=192.0.2.53&amp;service=53%2Fudp"' in page
    assert "The datapath flows cannot be read" in console.get("/vips/dns"), "there is no switch here"
    assert console.ask("/vips/nobody").status_code == 404
    assert console.ask("/events?page=vip").status_code == 404 == console.ask("/events?page=vip/nobody").status_code


@pytest.mark.parametrize(
    ("more", "said", "command"),
    [
        (None, "Announced by BGP yes", "dnsteer withdraw dns"),
        ({}, "Announced by BGP withdrawn no backend passes, since 2026-01-02 03:04:05", "dnsteer withdraw dns"),
        ({"withdrawn": False}, "Announced by BGP no no backend passes", "dnsteer withdraw dns"),
        ({"by_people": True, "withdrawn": False}, "Announced by BGP withdrawn", "dnsteer announce dns"),
    ],
)
def test_the_announcement_of_a_vip_is_shown(more: dict[str, Any] | None, said: str, command: str) -> None:
    announce = "announce: {via: bird}"
    console = Console(known(SPEC.replace("uplinks: {p0: }}", f"uplinks: {{p0: }}, {announce}}}")))
    if more is not None:
        console.recorder.announcements_changed(
            {}, {}, {"dns": UnannouncedVip("dns", "no backend passes", START, **more)}, {}
        )
    page = console.get("/vips/dns")
    assert said in words_of(page)
    assert f"<code>{command}</code>" in page
    tile = console.get().split("<h3>")[1]
    assert ('class="word bad"' in tile) == (more is not None)


def test_access_lists_and_limits_of_a_vip_are_shown() -> None:
    assert "Access list" not in Console(known()).get("/vips/dns")
    listed = SPEC.replace(
        "uplinks: {p0: }", "uplinks: {p0: }, access: {deny: [203.0.113.0/24, 198.51.100.0/24]}"
    ).replace("pool: farm}", "pool: farm, limits: {queries: 5k/s}, access: {allow: [10.0.0.0/8]}}")
    console = Console(known(listed))
    console.denied["switch.access"] = 1234.0
    console.reads(dns=5)
    words = words_of(console.get("/vips/dns"))
    assert "Access list switch.access deny 2 1,234 packets denied" in words
    assert "Access list vips.dns.access allow 1, closed" in words
    assert "Limit of queries 5k/s per vip, at once 500" in words
    assert "vips.dns.access" not in console.get("/vips/other")


def test_each_vip_that_is_named_is_a_link() -> None:
    link = '<a href="/vips/dns">dns</a>'
    console = Console(known(), *(entry(f"ns{n}", "health", note="late") for n in (1, 2, 3)))
    assert f"<h3>{link}</h3>" in console.get()
    assert f"Serves VIP {link}" in console.get("/pools/farm")
    assert f"No answers from VIP {link}" in console.get("/attention")
    moved = SPEC.replace("services: [dns], pool: farm", "services: [dns], pool: spare")
    console.recorder.adopted(known(moved, number=2), [])
    console.recorder.followed(record(2))
    console.live.changed()
    assert f"VIP {link}: pool farm → spare" in console.get("/changes")


def test_names_in_texts_become_links_and_nothing_else() -> None:
    names = {"dns", "a.b"}
    assert link_vips("VIP dns: it, VIP a.b. VIP other <b>", names) == (
        'VIP <a href="/vips/dns">dns</a>: it, VIP <a href="/vips/a.b">a.b</a>. VIP other &lt;b&gt;'
    )
    assert link_vips(f"VIP {SCRIPT}", {SCRIPT}) == f"VIP {html.escape(SCRIPT)}"
    assert link_vips("queries of dns over ipv4", names, "of") == 'queries of <a href="/vips/dns">dns</a> over ipv4'


def test_pages_use_no_internal_words() -> None:
    console = Console(known(), entry("ns3"), entry("ns1", gone=300, over=60.0))
    pages = " ".join(words_of(console.get(path)) for path in ("/", "/pools", "/pools/farm", "/vips/dns", "/changes"))
    for words in (r"\bown \d", r"\bacts\b", r"\brecord(ed)?\b", r"\d % gone"):
        assert re.search(words, pages) is None, words
    assert "8 when all are up" in pages and "Agent active since" in pages and "30.0 % of its slots moved away" in pages


def test_a_long_list_of_changes_is_folded() -> None:
    console = two_hundred_vips()
    entries = [entry("ns0", pool=f"pool{n}") for n in range(30)]
    for n in range(30):
        console.recorder.followed(record(2, *entries[: n + 1]))
        console.live._history.page_data(
            console.recorder.snapshot(), console.recorder.take_changes(), datetime.now(START.tzinfo)
        )
    page = console.get("/changes")
    seen = page[page.index('id="seen"') :]
    assert seen.partition("<details")[0].count("<tr>") == 1 + 10
    assert re.search(r'<details id="earlier"><summary>2\d earlier', seen)
    assert "30 in force now" in page and '<details id="all-maintenance"><summary>20 more' in page


def test_the_page_of_a_state_is_folded() -> None:
    console = two_hundred_vips()
    page = console.get("/changes/2")
    first, more, lines, *_ = page.split("<details")
    assert "200 VIPs changed" in first and first.count("<li>") == 20
    assert '<li>VIP <a href="/vips/vip0">vip0</a>: services +dot +doq +doh</li>' in first
    assert "<summary>180 more</summary>" in more and more.count("<li>") == 180
    assert lines.startswith("><summary>") and "200 added and 200 removed among them" in lines
    assert "<details><summary>" in console.get("/changes/1"), "a whole spec"
    text = SPEC.replace("slots: 32", "slots: 64")
    short = Console(known(text, number=2))
    short.live._state.states = RecordedStates(("br-dns", (), "2"), (known(text, number=2).state, known().state))
    page = short.get("/changes/2")
    assert "1 pool changed" in page and "<details open><summary>" in page


def test_a_defect_in_reading_datapath_flows_leaves_the_page_of_a_vip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffloadPoller, "_read_datapath", lambda *_: 1 / 0)
    page = words_of(Console(known()).get("/vips/dns"))
    assert "cannot be read because of a defect of dnsteer" in page and "ns1 up" in page
