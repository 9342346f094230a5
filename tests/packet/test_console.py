# SPDX-License-Identifier: Apache-2.0
"""The console of a real agent on a private switch, in a real browser."""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from bench.first_paint import first_paints
from bench.repeated import repeated
from bench.specs import many_vips

from dnsteer.console.rates import POINTS
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status import counters
from dnsteer.status.flow_counts import read_slots
from dnsteer.view.drawing import spark
from tests.packet.agents import Agent, agent, checked_by_files, wait
from tests.packet.browser import SIZES, chromium, opened, overflow, refuse_axe_findings
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.console_server import served_console
from tests.packet.scraping import get
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import BRIDGE, Switch
from tests.unit.console_cases import Console, entry, known

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
PAGES = {
    "overview": "/",
    "pools": "/pools",
    "pool-direct": "/pools/direct",
    "pool-hashed": "/pools/hashed",
    "changes": "/changes",
    "offload": "/offload",
    "path": "/path",
    "vip": "/vips/straight",
    "attention": "/attention",
    "path-udp": "/path?client=198.51.100.7&port=40000&vip=straight&service=53/udp",
    "path-tcp": "/path?client=2001:db8::7&port=40000&vip=nat&service=53/tcp",
}
PATHS = tuple(PAGES.values())
RATES_OF = """async ([points, most]) => {
  const polyline = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  polyline.setAttribute("points", points);
  return (await import("/assets/console.js")).ratesOf(polyline, most);
}"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Its path is in pictures, so it is always of one length."""
    with tempfile.TemporaryDirectory(prefix="console-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def at(running: Agent) -> str:
    """Where an agent serves its console."""
    running.waits_for("console at http://")
    found = re.search(r"console at (http://\S+)/\n", running.said())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def served(browser: Any, shared: Switch, folder: Path) -> Iterator[tuple[Agent, str]]:
    """An agent with a console beside the module's switch, some of its past, and where it serves."""
    with pytest.MonkeyPatch().context() as patch:  # a name is in pictures
        patch.setattr("socket.gethostname", lambda: "dpu-1")
        patch.setenv("SUDO_USER", "alice")
        yield from serving(shared, folder)


def serving(shared: Switch, folder: Path) -> Iterator[tuple[Agent, str]]:
    fresh(shared)
    assert on(shared)("apply", spec_file(folder, checked_by_files(folder, "1s", "1s")), "--yes").code == 0
    with agent(shared, folder, "pools with health checks: 1", "agent", "--console", "127.0.0.1:0") as running:
        url = at(running)
        assert on(shared)("drain", "hashed/a", "--note", "<b>CHG</b> 4711 " + "x" * 200, "--yes").code == 0
        insert_by_start(shared, "198.51.100.54", udp=40, tcp=10)
        wait(lambda: "CHG" in get(url)[0], lambda: running.said())
        yield running, url


@pytest.mark.parametrize("path", PATHS)
def test_each_page_fits_each_size_and_nothing_goes_wrong(served: tuple[Agent, str], browser: Any, path: str) -> None:
    with opened(browser, served[1] + path, SIZES[0]) as page:
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert overflow(page) == [], width
        assert page.locator("h1").count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_its_layout(
    served: tuple[Agent, str], browser: Any, shared: Switch, name: str, same_layout: Callable[[Any, str], None]
) -> None:
    kept = two_flows_alone(shared) if name == "offload" else nullcontext()
    with kept, opened(browser, served[1] + PAGES[name]) as page:
        assert " is unhealthy" not in served[0].said(), "a check was late, so the page shows a backend that failed"
        same_layout(page, name)


@contextmanager
def two_flows_alone(switch: Switch) -> Iterator[None]:
    """Leave two datapath flows in the switch, and have them stay until this ends."""
    kept = "max-idle", "max-revalidator"
    switch.vsctl("set", "Open_vSwitch", ".", *(f"other_config:{key}=3600000" for key in kept))
    try:
        switch.appctl("revalidator/purge")
        insert_by_start(switch, "198.51.100.54", udp=1, tcp=1)
        yield
    finally:
        switch.vsctl("remove", "Open_vSwitch", ".", "other_config", *kept)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(served: tuple[Agent, str], browser: Any, scheme: str) -> None:
    with opened(browser, served[1]) as page:
        for path in PATHS if scheme == "light" else ("/", "/pools/direct", *PATHS[5:]):
            page.goto(served[1] + path)
            page.wait_for_selector("#link[data-state=live]")
            refuse_axe_findings(page, scheme)


def test_pages_follow_the_dark_and_light_scheme(served: tuple[Agent, str], browser: Any) -> None:
    with opened(browser, served[1]) as page:
        grounds = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            grounds.append(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        light, dark = (sum(map(int, re.findall(r"\d+", ground)[:3])) for ground in grounds)
        assert light > 600 and dark < 150


def test_a_backend_that_fails_appears_without_a_reload(
    served: tuple[Agent, str], browser: Any, folder: Path, record_property: Any
) -> None:
    _, url = served
    with opened(browser, url) as page, opened(browser, f"{url}/pools/direct") as pool:
        page.evaluate("window.mark = 1")
        (folder / "c").unlink()
        began = time.monotonic()
        try:
            page.wait_for_selector("#attention >> text=direct/c is unhealthy")
            took = time.monotonic() - began
            record_property("seconds until a failure is shown", took)
            assert took < 5  # on a machine that has nothing else to do: 0.5 to 1.5 s
            pool.wait_for_selector("#moved-0 >> text=16 of 32 slots moved")
            assert page.evaluate("window.mark") == 1
            assert "test ended with 1" in page.inner_text("#attention")
            assert page.locator(".tile:has(.health.worse)").count() == 2
            owners = pool.get_attribute("#map-0 svg", "data-owners").split()
            assert set(owners) == {"1"}
            assert pool.locator("#map-0 path.moved").get_attribute("d").count("M") == 16
        finally:
            (folder / "c").touch()
        page.wait_for_selector("#attention >> text=direct/c is unhealthy", state="detached")
        assert page.evaluate("window.mark") == 1


def test_a_slot_is_named_under_the_pointer_and_by_the_keyboard(served: tuple[Agent, str], browser: Any) -> None:
    with opened(browser, f"{served[1]}/pools/direct") as page:
        picture, readout = page.locator("#map-0 svg"), page.locator(".readout").first
        names = [("a", "c")[int(n) - 1] for n in picture.get_attribute("data-owners").split()]
        box = picture.bounding_box()
        cell = box["width"] / 8.1  # 8 cells of 10 in a box of 81
        for slot in (0, 9, 31):
            page.mouse.move(box["x"] + cell * (slot % 8 + 0.6), box["y"] + cell * (slot // 8 + 0.6))
            assert readout.inner_text().startswith(f"Slot {slot}: {names[slot]}, as when all are up")
        page.mouse.move(2, 2)
        assert readout.inner_text().startswith("Point at a slot")
        picture.focus()
        for key, slot in (
            ("ArrowRight", 1),
            ("ArrowDown", 9),
            ("ArrowLeft", 8),
            ("ArrowUp", 0),
            ("ArrowUp", 0),
            ("End", 31),
        ):
            page.keyboard.press(key)
            assert readout.inner_text().startswith(f"Slot {slot}: {names[slot]}"), key


def test_packets_of_slots_and_rates_come_live(served: tuple[Agent, str], shared: Switch, browser: Any) -> None:
    with (
        opened(browser, f"{served[1]}/pools/direct") as page,
        opened(browser, served[1]) as overview,
        repeated(lambda: insert_by_start(shared, "198.51.100.54", udp=32, tcp=0), every=0.1),
    ):
        page.wait_for_selector("#heat-0 path.h5[d^=M]", state="attached")
        rate = overview.locator("[data-number=q1]")
        wait(lambda: rate.inner_text() not in ("0", "\N{EN DASH}"), lambda: rate.inner_text())
        page.locator("#map-0 svg").focus()
        wait(
            lambda: "packets/s" in page.locator(".readout").first.inner_text(),
            lambda: page.locator(".readout").first.inner_text(),
        )


def test_a_line_has_the_rates_that_it_is_drawn_of(served: tuple[Agent, str], browser: Any) -> None:
    with opened(browser, f"{served[1]}/changes") as page:
        for seed in range(10):
            draw = random.Random(seed)
            unknown = draw.randrange(POINTS)
            line = [None] * unknown + [draw.choice((0.0, 70.0, draw.uniform(0, 5000))) for _ in range(POINTS - unknown)]
            drawn = spark(line)
            rates = page.evaluate(RATES_OF, [drawn.points, drawn.most])
            assert rates[:unknown] == line[:unknown], seed
            assert rates[unknown:] == pytest.approx(line[unknown:], abs=drawn.most / 400), seed


def test_packets_are_counted_by_slot(shared: Switch, served: tuple[Agent, str]) -> None:
    target = TargetSwitch(shared.database)
    with target.session() as session:
        record = session.record_of(None)
        pools = {m.title: m for m in session.state(record, record.number).members}
    client = target.client(BRIDGE)
    for title, address, slots in (("pool direct", "198.51.100.54", 32), ("pool hashed", "198.51.100.53", 16)):
        before: dict[int, int] = {}
        while before != (before := read_slots(client, pools[title])):
            counters.wait_for_round(client)  # packets of earlier tests are counted late
        assert sorted(before) == list(range(slots)), title
        insert_by_start(shared, address, udp=40, tcp=0)
        wait(
            lambda: sum(read_slots(client, pools[title]).values()) == sum(before.values()) + 40,  # noqa: B023
            lambda: f"{before} {read_slots(client, pools[title])}",  # noqa: B023
        )
        grown = [slot for slot, n in read_slots(client, pools[title]).items() if n > before[slot]]
        assert len(grown) > 4, "of 40 source ports"


def test_a_tab_in_the_background_has_no_connection(served: tuple[Agent, str], browser: Any) -> None:
    with opened(browser, served[1]) as page:
        hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true}); "
        show = "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate(hide % "true" + show)
        assert page.inner_text("#link").startswith("Paused")
        page.evaluate(hide % "false" + show)
        page.wait_for_selector("#link[data-state=live]")


def test_pages_work_without_javascript(served: tuple[Agent, str]) -> None:
    text = get(f"{served[1]}/")[0]
    assert text.count('<article class="tile"') == 2
    assert re.search(r'data-state="still">As of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC', text)
    assert "&lt;b&gt;CHG&lt;/b&gt; 4711" in text and "<b>CHG" not in text
    assert text.count("<path class=") == 0 and get(f"{served[1]}/pools/direct")[0].count("<text") == 32 + 2


def test_the_console_serves_metrics(served: tuple[Agent, str]) -> None:
    assert "dnsteer_switch_up" in get(f"{served[1]}/metrics")[0]


def test_paints_without_a_browser_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.chromium.PATH", Path("/nowhere/chromium"))
    assert str(first_paints("", {})).endswith(": make setup DNSTEER_BROWSER=1")


def test_first_paint_with_a_thousand_vips(browser: Any, record_property: Any) -> None:
    console = Console(
        known(many_vips(1000)), *(entry(f"ns{n}", "health", pool=f"pool{n}", note="late") for n in range(9))
    )
    for n in range(5):
        console.reads(**{f"vip{v}": 100.0 + v + n for v in range(1000)})
    with served_console(console) as url, opened(browser, f"{url}/?all=on") as page:
        assert page.locator(".vip").count() == 1000
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        record_property("seconds until the first paint", paint)
        assert paint < 3  # on a machine that has nothing else to do: 0.4 s


def test_a_page_reconnects_when_the_agent_returns(
    shared: Switch, browser: Any, served: tuple[Agent, str], tmp_path: Path
) -> None:
    """The last test: it ends the module's agent."""
    running, url = served
    with opened(browser, f"{url}/pools/direct", expected="Failed to load resource") as page:
        page.evaluate("window.mark = 1")
        assert running.end() == 0, running.said()
        page.wait_for_selector("#link[data-state=away]")
        assert re.match(r"Not connected since \d\d:\d\d:\d\d UTC", page.inner_text("#link"))
        with agent(shared, tmp_path, "pools with health checks", "again", "--console", url.removeprefix("http://")):
            page.wait_for_selector("#link[data-state=live]")
            assert page.evaluate("window.mark") is None, "the page of another agent is read again"
