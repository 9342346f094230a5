# SPDX-License-Identifier: Apache-2.0
"""The console's pages with made-up data: what needs attention, empty states, escaping, numbers."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest

from dnsteer.console import live as live_module
from dnsteer.deploy.movement import Assignment, pools_without_backends
from dnsteer.metrics.observer import CheckTurn, SwitchInspection
from dnsteer.slots.maintenance import Overlay
from dnsteer.status.bonds import BondView, MemberView
from dnsteer.status.pools import backups_in_use, overdue
from tests.unit.console_cases import SCRIPT, SPEC, START, Console, entry, known, record, renamed


@pytest.fixture(autouse=True)
def at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console's time is that of the made-up data, a minute later."""
    monkeypatch.setattr(live_module, "now", lambda: START + timedelta(minutes=1))


def items(page: str) -> list[tuple[str, str, str]]:
    """Level, text and commands of each item that needs attention."""
    found = []
    for m in re.finditer(r'<li class="item (\w+)">(.*?)</li>', page, re.S):
        commands = "; ".join(html.unescape(c) for c in re.findall(r"<code>(.*?)</code>", m[2]))
        text = html.unescape(re.sub(r"<[^>]+>|\s+", " ", m[2].split('<div class="commands">')[0]))
        found.append((m[1], " ".join(text.split()), commands))
    return found


def test_a_healthy_switch_needs_no_attention() -> None:
    page = Console(known()).get()
    assert items(page) == []
    assert "Nothing needs attention." in page
    assert page.count('<article class="tile"') == 2
    assert "3 of 3 in service" in page and "1 of 1 in service" in page


@pytest.mark.parametrize(
    ("entries", "more", "level", "says", "command"),
    [
        (
            (entry("ns3", "health", note="no answer within 0.5 s"),),
            {},
            "warning",
            "farm/ns3 is unhealthy",
            "kdig @192.0.2.13 -p 53 +norec example.org. SOA; dnsteer drain farm/ns3",
        ),
        (
            (entry("ns3", "health", note="x", returns=START.isoformat(), over=30.0, gone=500),),
            {},
            "note",
            "farm/ns3 is returning to service",
            "",
        ),
        ((entry("ns1", note="CHG-1"),), {}, "note", "farm/ns1 is drained", "dnsteer undrain farm/ns1"),
        ((entry("ns1", over=600.0, gone=300),), {}, "note", "farm/ns1 is draining", "dnsteer undrain farm/ns1"),
        ((entry("ns1", "down"),), {}, "note", "farm/ns1 is down", "dnsteer up farm/ns1"),
        ((entry("ns1", "weight", weight=5),), {}, "note", "farm/ns1 is at weight 5", "dnsteer weight farm/ns1 --undo"),
        ((entry("ns1", until=START.isoformat()),), {}, "warning", "maintenance is overdue", "dnsteer reconcile"),
        ((entry("ns1", "backup", weight=1, note="below 2"),), {}, "warning", "Pool farm is served by its backup", ""),
        ((entry("sp1", pool="spare"),), {}, "critical", "Pool spare has no backend", "dnsteer undrain spare/sp1"),
        ((), {"waits": True}, "critical", "The switch does not forward", "dnsteer restore"),
    ],
)
def test_each_thing_needs_attention(entries: Any, more: Any, level: str, says: str, command: str) -> None:
    found = items(Console(known(), *entries, **more).get())
    assert any(item[0] == level and says in item[1] and item[2] == command for item in found), found


def test_a_worker_is_asked_at_its_own_port() -> None:
    address = "ipv4: 192.0.2.13"
    text = SPEC.replace(address, f"{address}, workers: 3").replace(", ipv6: '2001:db8::13'", "")
    text = text.replace(
        "services: [dns], pool: farm", "services: [{protocol: udp, port: 53}], pool: farm, forwarding: nat"
    )
    text = text.replace("uplinks: {p0: }", "gateways: [192.0.2.1], uplinks: {p0: {next_hop: 02:00:00:00:00:fe}}")
    entries = entry("ns3.2", "health", note="no answer within 0.5 s"), entry("ns1", "health", note="the same")
    found = items(Console(known(text), *entries).get())
    assert [item[2].split(";")[0] for item in found if "unhealthy" in item[1]] == [
        "kdig @192.0.2.13 -p 55 +norec example.org. SOA",
        "kdig @192.0.2.11 -p 53 +norec example.org. SOA",
    ]


def test_the_warnings_of_status_are_all_there() -> None:
    entries = (
        entry("sp1", pool="spare", until=START.isoformat()),
        entry("ns1", "backup", weight=1, note="fewer than 2"),
        entry("ns2"),
        entry("ns3"),
    )
    state, overlay = known(), Overlay(entries)
    time = START + timedelta(minutes=1)
    said = [
        *pools_without_backends(Assignment(state.state.members, overlay)),
        *backups_in_use(overlay),
        *overdue(overlay, time),
    ]
    said += [last.text for last in Assignment(state.state.members, overlay).with_one_backend({})]
    assert len(said) == 4
    texts = " ".join(text for _, text, _ in items(Console(state, *entries).get()))
    for warning in said:
        assert warning[1:] in texts, warning


def test_the_most_urgent_comes_first() -> None:
    entries = (entry("ns1"), entry("ns2", "health", note="no answer"), entry("sp1", pool="spare"))
    levels = [level for level, _, _ in items(Console(known(), *entries).get())]
    assert levels == ["critical", "warning", "warning", "note", "note"], "farm/ns3 is the last one, ns2 is unhealthy"


def test_a_panic_names_failing_backends_and_reasons() -> None:
    console = Console(known())
    for name in ("ns1", "ns2"):
        console.recorder.turned(CheckTurn(("farm", name, "dns"), healthy=False, why=f"{name} says SERVFAIL"))
    console.recorder.panicked("farm", ("",))
    page = console.get()
    ((level, text, command),) = items(page)
    assert level == "critical" and "Pool farm: PANIC" in text
    assert "ns1: ns1 says SERVFAIL; ns2: ns2 says SERVFAIL" in text
    assert command.startswith("kdig @192.0.2.11")
    assert console.get().count('<strong class="word bad">panic</strong>') == 1
    pool = Console(known())
    pool.recorder.turned(CheckTurn(("farm", "ns1", "dns"), healthy=False, why="late"))
    assert '<span class="state failing">failing</span>' in pool.get("/pools/farm")


def test_many_unhealthy_backends_are_named_up_to_a_limit() -> None:
    backends = "".join(
        f"      - {{name: b{n}, ipv4: 198.51.100.{n}, mac: '02:00:00:00:03:{n:02x}'}}\n" for n in range(1, 41)
    )
    text = SPEC.replace("slots: 32", "slots: 64").replace("    backends:\n", f"    backends:\n{backends}", 1)
    found = items(
        Console(known(text), *(entry(f"b{n}", "health", note="late") for n in range(1, 41))).get("/attention")
    )
    assert len(found) == 21
    assert found[-1][1].startswith("warning 20 more backends are unhealthy")


def test_drift_that_is_not_repaired_needs_attention() -> None:
    console = Console(known())
    console.recorder.inspected(SwitchInspection(flows=3, settings=1, foreign=("", "")), repaired=False, seconds=0.0)
    found = items(console.get())
    assert [(level, command) for level, _, command in found] == [
        ("critical", "dnsteer restore"),
        ("note", "ovs-ofctl -O OpenFlow15 --names dump-flows br-dns"),
    ]
    assert "3 flows and groups and 1 setting differ" in found[0][1]
    repaired = Console(known())
    repaired.recorder.inspected(SwitchInspection(flows=3, settings=1), repaired=True, seconds=0.0)
    assert items(repaired.get()) == []


def test_a_change_needs_attention_when_it_takes_too_long() -> None:
    console = Console(known(), pending=True)
    console.recorder._pending = START + timedelta(seconds=58)
    assert items(console.get()) == []
    late = Console(known(), pending=True)
    ((level, text, command),) = items(late.get())
    assert level == "critical" and "A change was interrupted" in text and command == "dnsteer reconcile"


def test_an_unreachable_switch_needs_attention() -> None:
    console = Console(known())
    console.recorder.failed("no OVSDB at unix:/x (No such file)")
    console.recorder.took("loop", 0.1)
    page = console.get()
    ((level, text, command),) = items(page)
    assert level == "critical" and "no OVSDB at unix:/x (No such file). Since 2026-01-02 03:04:05 UTC" in text
    assert command == "dnsteer status; systemctl start openvswitch-switch"
    assert "3 of 3 in service" in page, "what is known stays"
    console.recorder.failed("no OVSDB at unix:/x (No such file)")
    console.recorder.took("loop", 0.1)
    assert console.recorder.snapshot().trouble
    console.recorder.took("loop", 0.1)  # a turn in which nothing failed
    assert not console.recorder.snapshot().trouble


def test_tables_that_differ_and_a_switch_that_does_not_answer() -> None:
    console = Console(known())
    console.as_recorded = False
    console.reads()
    assert items(console.get())[0][2] == "dnsteer restore"
    console = Console(known())
    console.up = False
    console.reads()
    assert "The switch does not answer" in items(console.get())[0][1]


def test_the_links_of_a_bond_are_facts_of_the_switch() -> None:
    def shown(*members: MemberView) -> str:
        console = Console(known())
        console.recorder.bonds_seen((BondView("bond0", "active-backup", members),) if members else ())
        return console.ask("/").text.partition("<dt>Bond ")[2].partition("</dd>")[0]

    down, up = MemberView("p0", "down", False), MemberView("p1", "up", True)
    assert shown() == ""
    assert shown(down, up) == 'bond0</dt><dd><span class="word bad">p0 down</span><br>p1 up, active'
    assert shown(down).endswith('<br><span class="word bad">none is active</span>')


def test_pages_without_a_spec_say_so() -> None:
    nothing = Console()
    for path in ("/", "/pools", "/changes"):
        nothing.get(path)
    assert "No spec is applied yet" in nothing.get()
    standby = Console(known())
    standby.recorder.claim_changed("br-dns", held=False)
    page = standby.get()
    assert "This agent is on standby" in page and '<article class="tile"' not in page
    assert nothing.ask("/pools/farm").status_code == 503
    unchecked = Console(known(SPEC.replace("    health: {check: dns, query: {name: example.org}}\n", "")))
    assert "3 of 3 in service" in unchecked.get()
    assert "no changes since" in unchecked.get("/pools/farm")


def test_all_text_is_escaped() -> None:
    state = renamed(known(note=SCRIPT, by=SCRIPT), "ns3", SCRIPT)
    entries = (entry(SCRIPT, "health", note=SCRIPT), entry("ns1", note=f'"{SCRIPT}'), entry("ns2", "weight", weight=1))
    console = Console(state, *entries)
    console.recorder.turned(CheckTurn(("farm", "ns2", "dns"), healthy=False, why=SCRIPT))
    console.recorder.followed(record(1, *entries[:2]))
    for path in ("/", f"/?text={SCRIPT}", "/attention", "/pools", "/pools/farm", "/vips/dns", "/changes"):
        page = console.get(path)
        assert SCRIPT not in page, path
        assert page.count("<script") == 1, "the console's own"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in console.get("/pools/farm")
    message = console.live._state.topics["pool/farm"].since(0, 1)
    assert SCRIPT.encode() not in message


def test_no_style_and_no_script_stands_in_a_page() -> None:
    console = Console(known(), entry("ns1"))
    for path in ("/", "/attention", "/pools", "/pools/farm", "/vips/dns", "/changes"):
        page = console.get(path)
        assert not re.search(r"\sstyle=|<style|\son\w+=|javascript:|https?://", page), path


def test_rates_are_those_of_the_last_seconds() -> None:
    console = Console(known())
    assert '<b data-number="q0">–</b>' in console.get()  # noqa: RUF001
    console = Console(known())
    for _ in range(5):
        console.reads(dns=1234.0, other=0.0)
    page = console.get()
    assert '<b data-number="q0">1.23 k</b>' in page and '<b data-number="q1">0</b>' in page
    points = re.search(r'<polyline points="([^"]+)"', page)
    assert points is not None and points[1].endswith("59,1")


@pytest.mark.parametrize("path", ["/", "/pools"])
def test_only_changed_pools_are_rendered_again(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    console, made = Console(known()), list[str]()
    macros, health = console.live.pages._macros, console.live.pages._macros.health
    monkeypatch.setattr(macros, "health", lambda views, seen: (made.append(views[0].name), health(views, seen))[1])
    for change, anew in (
        (lambda: None, ["farm", "spare"]),
        (lambda: console.reads(dns=9.0), []),
        (lambda: console.recorder.followed(record(1, entry("sp1", pool="spare"))), ["spare"]),
        (lambda: console.recorder.panicked("farm", ("",)), ["farm"]),
    ):
        made.clear()
        change()
        console.live.changed()
        console.get(path)
        assert made == anew
    for n in range(9):
        console.recorder.adopted(known(SPEC.replace("farm", f"farm{n}"), number=n + 2), [])
        console.recorder.followed(record(n + 2))
        console.live.changed()
        assert "1 of 1 in service" in console.get(path)
    assert len(console.live.pages._health) <= 4, "those of pools that are gone are forgotten"


def test_the_page_of_a_pool() -> None:
    console = Console(known())
    console.live._history.page_data(console.recorder.snapshot(), console.recorder.take_changes(), START)
    console.passes(10)
    console.recorder.followed(record(1, entry("ns1", note="CHG-1")))
    page = console.get("/pools/farm")
    owners, own = (re.findall(rf'data-{name}="([^"]*)"', page)[0].split() for name in ("owners", "own"))
    assert len(owners) == len(own) == 32
    assert own.count("1") == 8 and owners.count("1") == 0
    assert "8 of 32 slots moved (25.0 %)" in page
    assert "farm/ns1 is drained" in page and "CHG-1" in page
    assert page.count("<text") == 32 + 3, "a number in each slot, and in the legend"
    assert 'data-label="Share by weight">25.0 %' in page and 'data-label="Share of slots">0.0 %' in page
    assert "1 change since" in page
    moved = re.search(r'<path class="moved" d="([^"]+)"', page)
    assert moved is not None and moved[1].count("M") == 8


def test_a_pool_without_backends_shows_dropped_slots() -> None:
    text = SPEC.replace("    slots: 16\n", "    slots: 16\n    on_all_down: drop\n")
    page = Console(known(text), entry("sp1", pool="spare")).get("/pools/spare")
    assert re.findall(r'data-owners="([^"]*)"', page)[0].split() == ["0"] * 16


def test_changes_seen_by_the_agent_are_listed() -> None:
    console = Console(known())
    for entries in (
        (entry("ns1", gone=0, over=60.0),),
        (entry("ns1", gone=500, over=60.0),),
        (entry("ns1", over=60.0),),
    ):
        console.passes(30)
        console.recorder.followed(record(1, *entries))
    console.recorder.followed(record(1))
    console.recorder.adopted(known(SPEC.replace("weight: 2", "weight: 3"), number=2, note="more"), [])
    console.recorder.followed(record(2))
    page = console.get("/changes")
    seen = page[page.index('id="seen"') : page.index('id="states"')]
    rows = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in re.findall(r"<tr>(.*?)</tr>", seen, re.S)[1:]]
    assert len(rows) == 3, rows
    assert "state 2 applied" in rows[0] and "more" in rows[0] and "slots of pool farm move" in rows[0]
    assert "drain of farm/ns1 ends" in rows[1]
    assert "farm/ns1 is draining" in rows[2] and "8 of 32 slots of pool farm move" in rows[2]
    assert "2026-01-02 03:04:35 to 2026-01-02 03:05:35" in rows[2]


def test_maintenance_says_until_when() -> None:
    page = Console(known(), entry("ns1"), entry("ns2", "health")).get("/changes")
    assert "<td>until ended by hand</td>" in page and "<td>until healthy</td>" in page


def test_overdue_maintenance_is_there_once() -> None:
    page = Console(known(), entry("ns1", until=START.isoformat())).get()
    assert [level for level, _, _ in items(page)] == ["warning"]


def test_the_last_backend_in_service_needs_attention() -> None:
    drained = (entry("ns1"), entry("ns3", "weight", weight=0))
    levels = []
    for kind, gone in (("drain", drained), ("health", (drained[0], entry("ns3", "health")))):
        found = [(level, text) for level, text, _ in items(Console(known(), *gone).get()) if "one backend" in text]
        ((level, text),) = found
        levels.append((kind, level))
    assert levels == [("drain", "note"), ("health", "warning")], "planned maintenance pages nobody"
    assert "Pool farm: one backend is left in service" in text
    assert "ns2 is the last of 3 backends in service; without it queries still go to it" in text
    assert "It serves dns." in text
    assert "one backend is left" not in Console(known(), drained[0]).get()


def test_slots_that_came_back_within_a_change_have_not_moved() -> None:
    console = Console(known())
    for gone in (500, 250):
        console.recorder.followed(record(1, entry("ns1", gone=gone, over=60.0)))
    page = console.get("/pools/farm")
    assert "2 of 32 slots moved" in page, "a quarter of the 8 that it had"
    assert page.count('data-owners="') == 1
    owners = re.findall(r'data-owners="([^"]*)"', page)[0].split()
    assert owners.count("1") == 6


def test_own_backends_are_those_when_all_are_in() -> None:
    down = SPEC.replace("'02:00:00:00:01:03'}", "'02:00:00:00:01:03', state: down}")
    page = Console(known(down), entry("ns1", "weight", weight=0)).get("/pools/farm")
    owners, own = (re.findall(rf'data-{name}="([^"]*)"', page)[0].split() for name in ("owners", "own"))
    assert set(owners) == {"2"}
    assert (own.count("1"), own.count("3")) == (0, 11), (
        "a weight that was given counts, a backend that is down does not"
    )


def test_a_reading_that_is_shared_counts_once() -> None:
    console = Console(known())
    for _ in range(3):
        console.reads(dns=100.0)
    before = console.live._history.traffic.rates()
    console.reads(seconds=0)
    assert console.live._history.traffic.rates() == before
    assert len(console.live._history.traffic._samples) == 3
