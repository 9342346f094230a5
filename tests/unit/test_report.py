# SPDX-License-Identifier: Apache-2.0
"""The report without a switch: what it masks and escapes, its policy, its bounds, and its charts."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from bench.specs import many_vips
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.checks.load import check_document
from dnsteer.metrics.datapath import Datapath
from dnsteer.report import report_content
from dnsteer.report.gather import ReportFacts
from dnsteer.report.masking import AddressMask, Maskable
from dnsteer.report.ovsdb_facts import SwitchFacts
from dnsteer.report.report_content import report_page, state_line
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.spec.read import parse_document
from dnsteer.status.lists import EntryView, LimitView, ListFileView, ListView
from dnsteer.status.pools import view_pools
from dnsteer.status.rates import Rates
from dnsteer.status.record import RecordReading
from dnsteer.status.switch_status import Status
from dnsteer.status.verify import Drift
from dnsteer.status.vips import view_vips
from dnsteer.switch.state import DamagedError, RecordFormatError
from dnsteer.view import charts
from dnsteer.view.masking import MASK, masked
from tests.unit.console_cases import SCRIPT, SPEC, START, entry, known, record

VOID = frozenset({"meta", "br", "link", "input"})


class Page(HTMLParser):
    """A page that must be well-formed: its tags, its texts, and what it would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "style", "srcset", "action"), (tag, name)
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def facts(spec: str = SPEC, *entries: Maintenance, **more: Any) -> ReportFacts:
    """What would be read of a switch with this spec."""
    of = known(spec)
    state = replace(of.state, **more)
    overlay = Overlay(entries)
    reading = RecordReading(record(1, *entries), overlay, None, False, state)
    status = Status(reading, tables_match="recorded", drift=[], drift_count=0)
    status.loaded = check_document(parse_document("farm.yaml", spec))
    status.pools = view_pools(state.members, overlay, Rates(), START)
    status.vips = view_vips(of.spec, Rates())
    return ReportFacts(START, "alice@dpu-1", "tcp:192.0.2.1:6640", status, [state])


def test_the_report_is_self_contained() -> None:
    text = report_page(facts(SPEC, entry("ns1", note="upgrade")))
    page = Page(text)
    assert not {"script", "img", "iframe", "link", "object", "form"} & set(page.tags)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links) and len(page.links) > 10
    assert len(page.ids) == len(set(page.ids))
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    style = re.search(r"<style>(.*)</style>", text, re.S)
    assert found is not None and style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert unescape(found[1]) == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "://" not in text


def test_the_report_names_backends_out_and_the_remedy() -> None:
    text = report_page(facts(SPEC, entry("ns2", note="kernel")), options="--bridge br-dns")
    assert "farm/ns2 is drained" in text and "dnsteer undrain farm/ns2 --bridge br-dns" in text
    assert text.count('<svg class="slots"') == 2 and text.count("<text class=") == 32 + 16 + 4
    assert "0 critical" not in text


def test_foreign_text_is_escaped() -> None:
    hostile = facts(
        SPEC,
        entry("ns1", note=SCRIPT),
        entry("ns3", "down", note='"><img src=x>'),
        note=SCRIPT,
        file=f"{SCRIPT}.yaml",
        by=SCRIPT,
        text=f"{SPEC}# {SCRIPT}</pre>\n",
    )
    hostile.ovsdb = SwitchFacts("1", f"Bridge {SCRIPT}")
    hostile.datapath = Datapath(mask_packets={SCRIPT: 1})
    hostile.unread.append((SCRIPT, SCRIPT))
    assert hostile.status is not None
    hostile.status.errors.append(SCRIPT)
    hostile.status.warnings.append(SCRIPT)
    hostile.status.drift, hostile.status.drift_count = [Drift("flow missing", SCRIPT, SCRIPT)], 1
    text = report_page(hostile)
    assert "<script" not in text and "<img" not in text
    assert text.count("&lt;script&gt;") >= 13
    Page(text)


ADDRESSES = ("192.0.2", "2001:db8", "02:00:00")


def test_addresses_notes_and_people_can_be_left_out() -> None:
    given_ = facts(SPEC, entry("ns1", note="for ACME"), entry("ns2", "health", note="no answer from [2001:db8::12]:53"))
    given_.ovsdb = SwitchFacts("3.1", "mac_in_use 02:00:00:00:00:53, lookup 192.0.2.53")
    text = report_page(given_, [Maskable.ADDRESSES])
    assert not [part for part in ADDRESSES if part in text]
    assert "for ACME" in text and "alice@dpu-1" in text and "no answer from [IPv6-" in text
    assert "tcp:IPv4-1:6640" in text and "addresses: [IPv4-" in text, "the spec is masked too"
    same = re.search(r"lookup (IPv4-\d+)", text)
    assert same is not None and text.count(f"{same[1]}<") >= 1, "one address, one word"
    text = report_page(given_, [Maskable.NOTES])
    assert "ACME" not in text and "no answer from [2001:db8::12]:53" in text and "apiVersion" not in text
    text = report_page(given_, [Maskable.PEOPLE])
    assert "alice" not in text and "person 1" in text and "for ACME" in text and "apiVersion" not in text
    text = report_page(given_, [Maskable.SPEC])
    assert "apiVersion" not in text and "alice" in text and "192.0.2.11" in text


def test_folders_of_all_files_of_a_spec_are_left_out_with_people() -> None:
    given_ = facts(SPEC)
    assert given_.status is not None
    given_.status.drift = [Drift("missing", "VIP a", "no flow", 3, part="/home/alice/vips.yaml")]
    assert "(/home/alice/vips.yaml:3)" in report_page(given_, [])
    text = report_page(given_, [Maskable.PEOPLE])
    assert "vips.yaml:3)" in text and "alice" not in text


def test_access_lists_and_limits_are_shown_and_masked() -> None:
    given_ = facts(SPEC)
    assert given_.status is not None
    file = ListFileView(
        "/home/alice/denied.txt", "/home/alice/denied.txt", "deny", 3, "0123456789abcdef" * 4, "changed"
    )
    most = (EntryView("203.0.113.0/24", 1234, "/home/alice/denied.txt:7"), EntryView("everybody else", 5))
    given_.status.lists = [ListView("switch.access", (), 3, 1, (file,), 1239, most)]
    given_.status.limits = [LimitView("dns", "53/udp", 5000, 100, "service", None)]
    shown = report_page(given_, [])
    for words in (
        "deny 3, allow 1",
        "sha256 0123456789abcdef, changed",
        "1,239",
        "203.0.113.0/24 (/home/alice/",
        "5k/s",
    ):
        assert words in shown
    assert "everybody else: 5" in shown
    masked = report_page(given_, [Maskable.ADDRESSES, Maskable.PEOPLE])
    assert "203.0.113.0" not in masked and "alice" not in masked and "denied.txt:7" in masked
    assert "Access lists" not in report_page(facts(SPEC), [])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("192.0.2.1", "IPv4-1"),
        ("10.0.0.0/8 and 10.0.0.0.", "IPv4-1/8 and IPv4-1."),
        ("ssl:192.0.2.1:6640", "ssl:IPv4-1:6640"),
        ("[2001:db8::1]:53, 2001:DB8:0::1: late", "[IPv6-1]:53, IPv6-1: late"),
        ("ipv6_dst=2001:db8::53,tp_dst=53", "ipv6_dst=IPv6-1,tp_dst=53"),
        ("::ffff:192.0.2.1", "IPv6-1"),
        ("set_field:fd00::11->ipv6_dst, fd00::11", "set_field:IPv6-1->ipv6_dst, IPv6-1"),
        ("set_field:02:00:00:00:00:53->eth_dst", "set_field:MAC-1->eth_dst"),
        ("02:00:00:00:00:53: no answer", "MAC-1: no answer"),
        ("seen at.10.0.0.1 and 1.10.0.0.1", "seen at.IPv4-1 and IPv4-2.1"),
        ("std::d, node2001:db8::1x", "std::d, node2001:db8::1x"),
        ("dl_dst=02:00:00:00:00:53/01:00:00:00:00:00", "dl_dst=MAC-1/MAC-2"),
        ("02:00:00:00:00:0A 02:00:00:00:00:0a", "MAC-1 MAC-1"),
        ("21:40:05 and 2026-11-23T21:40:05+00:00", "21:40:05 and 2026-11-23T21:40:05+00:00"),
        ("Open vSwitch 3.1.0, kernel 6.1.0-18", "Open vSwitch 3.1.0, kernel 6.1.0-18"),
        ("ff:ff:ff:ff:ff:ff ::1 0.0.0.0/0", "ff:ff:ff:ff:ff:ff ::1 0.0.0.0/0"),
    ],
)
def test_addresses_in_text_are_masked(text: str, left: str) -> None:
    assert AddressMask()(text) == left


ANY_ADDRESS = st.one_of(
    st.ip_addresses(v=4).map(lambda a: ("IPv4", str(a))),
    st.ip_addresses(v=6).map(lambda a: ("IPv6", str(a))),
    st.binary(min_size=6, max_size=6).map(lambda octets: ("MAC", octets.hex(":"))),
)
AROUND = st.sampled_from(
    [
        ("set_field:", "->ipv6_dst"),
        ("mod_dl_src:", ",output:vf0"),
        ("nw_dst=", "/24"),
        ("arp_tpa=", ""),
        ("[", "]:53"),
        ("tcp:[", "]:6640"),
        ("no answer from ", "."),
        ("to ", ", and to"),
        ("x/", ": late"),
        ("", ""),
    ]
)


@given(ANY_ADDRESS, AROUND)
def test_masking_replaces_only_addresses(found: tuple[str, str], around: tuple[str, str]) -> None:
    (kind, address), (before, after) = found, around
    kept = address in ("::", "::1", "0.0.0.0", "127.0.0.1", "255.255.255.255", "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff")
    assert AddressMask()(f"{before}{address}{after}") == f"{before}{address if kept else f'{kind}-1'}{after}"
    assert masked(f"{before}{address}{after}") == f"{before}{MASK}{after}", "the console finds the same"


def test_the_report_names_decisions() -> None:
    given_ = facts(SPEC, entry("ns1", decision="d21gepscbjsy"), entry("ns2", "health"), decision="d21geqkwvsdq")
    for left in ([], list(Maskable)):
        text = report_page(given_, left)
        maintenance, history = (text.partition(f'<h2 id="{name}">')[2] for name in ("maintenance", "history"))
        rows = re.findall(r"<tr>.*?</tr>", maintenance.partition("</section>")[0])[1:]
        assert [re.findall(r"<code>(.*?)</code>", row) for row in rows] == [["d21gepscbjsy"], []]
        assert re.findall(r"<code>(.*?)</code>", history.partition("</section>")[0]) == ["d21geqkwvsdq"]
        assert "until ended by hand" in rows[0] and "until healthy" in rows[1]


def test_a_damaged_state_fills_its_row() -> None:
    given_ = facts()
    given_.states.append(DamagedError("state 1 is damaged"))
    history = report_page(given_).partition('<h2 id="history">')[2].partition("</section>")[0]
    assert history.count("<th ") == 7 and '<td colspan="6"><span class="word bad">damaged</span> state 1' in history
    given_.states[-1] = RecordFormatError("state 1 has format 2")
    history = report_page(given_).partition('<h2 id="history">')[2].partition("</section>")[0]
    assert '<td colspan="6"><span class="word bad">not readable</span> state 1' in history


def test_without_a_database_there_is_a_page() -> None:
    away = ReportFacts(
        START, "alice@dpu-1", "unix:/run/x", unread=[("the database", "OVSDB at unix:/run/x: no such file")]
    )
    text = report_page(away)
    Page(text)
    assert "database cannot be reached" in text and "no such file" in text
    assert state_line(away) == "1 critical"


def test_a_report_without_a_record_has_the_rest() -> None:
    given_ = facts()
    assert given_.status is not None
    given_.status.reading = replace(given_.status.reading, overlay=None, state=None, damage=("state 1 is damaged",))
    given_.status.errors, given_.status.loaded, given_.status.tables_match = ["state 1 is damaged"], None, None
    given_.status.pools, given_.status.vips, given_.status.drift = [], [], None
    given_.ovsdb = SwitchFacts("3.1", "Bridge br-dns")
    text = report_page(given_)
    Page(text)
    assert "State 1 is damaged" in text and "Bridge br-dns" in text and "cannot be read" in text


def test_a_warning_names_its_object() -> None:
    given_ = facts()
    assert given_.status is not None
    given_.status.warnings = ["switch: other_config:flow-limit is 200: too few", "tables are odd"]
    text = report_page(given_)
    assert "<strong>Switch</strong>" in text and "Other_config:flow-limit is 200: too few" in text
    assert "<strong>Warning</strong>" in text and "Tables are odd" in text


def test_the_report_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_content, "MAX_VIPS", 20)
    monkeypatch.setattr(report_content, "MAX_BACKENDS", 5 * 16)
    monkeypatch.setattr(report_content, "MAX_PICTURES", 3)
    monkeypatch.setattr(report_content, "MAX_ENTRIES", 10)
    monkeypatch.setattr(report_content, "MAX_ITEMS", 10)
    monkeypatch.setattr(report_content, "MAX_SPEC_CHARACTERS", 1000)
    out = [entry(f"ns{n}", pool=f"pool{p}") for p in (7, 9) for n in range(8)]
    text = report_page(facts(many_vips(40, pools=10), *out))
    assert text.count('<svg class="slots"') == 3 and text.count('<table class="backends" role="table">') == 5
    assert 'id="pool%20pool7"' in text and 'id="pool%20pool9"' in text, "those with somebody out first"
    assert "and 20 more VIPs" in text and "and 5 more pools" in text
    assert text.count("and 6 more") == 2, "entries, items"
    assert "Too long for a page" in text and "apiVersion" not in text


def test_a_thousand_vips_make_a_page_of_bounded_size() -> None:
    text = report_page(facts(many_vips(1000), entry("ns3", pool="pool57")))
    assert 1_000_000 < len(text.encode()) < 3_000_000
    assert text.count('<svg class="slots"') == 24 and text.count('<table class="backends" role="table">') == 100
    assert ">vip999<" in text and "pool57/ns3 is drained" in text
    drawn = text[text.index('id="pool%20pool57"') :].partition("<table")[0]
    assert '<svg class="slots"' in drawn, "first those with somebody out"


@given(st.just(0.0) | st.floats(0.01, 1e7), st.integers(2, 9))
def test_ticks_are_round_and_few(most: float, wanted: int) -> None:
    found = charts.ticks(0, most, wanted)
    assert found[0] == 0 and len(found) <= 2.6 * wanted + 1
    assert all(0 <= tick <= most * 1.0001 for tick in found)


def test_stacked_bands_have_their_heights() -> None:
    chart, x, y = charts.frame(100, 60, (0, 4), 4, title="s")
    x, y = charts.Scale(0, 4, 0, 40), charts.Scale(0, 4, 40, -40)
    first, second = charts.stacked(
        [("a", [2, 2, 0, 0]), ("b", [1, 1, 1, 0]), ("c", [0, 0, 0, 0])], [0, 1, 2, 3, 4], x, y
    )
    assert (first.css, second.css) == ("a", "b")
    assert first.path == "M0.0 20.0L20.0 20.0L20.0 40.0L40.0 40.0L40.0 40.0L0.0 40.0z"
    assert second.path.startswith("M0.0 10.0L20.0 10.0L20.0 30.0L30.0 30.0L30.0 40.0L40.0 40.0L")
    assert chart.y_ticks[-1].text == "4.00"
