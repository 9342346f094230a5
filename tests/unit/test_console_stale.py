# SPDX-License-Identifier: Apache-2.0
"""Pages whose values may be as they were before: each says so on top, and why."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from dnsteer.console import live as live_module
from dnsteer.console.live import LivePages
from dnsteer.console.page_content import ConsolePages
from tests.unit.console_cases import Console, known
from tests.unit.test_console_server import Events, live, since

PATHS = ("/", "/pools", "/pools/farm", "/changes", "/offload", "/path", "/path?client=192.0.2.1&port=4000&vip=dns")
BANNER = '<div id="stale" class="banner" role="alert">'


def banner(page: str) -> str:
    """What the agent says on top of a page."""
    return page.partition(BANNER)[2].partition("</div>")[0].strip()


@pytest.mark.parametrize("path", PATHS)
def test_a_switch_that_does_not_answer_is_on_each_page(path: str) -> None:
    console = Console(known())
    console.reads()
    assert BANNER in console.get(path) and banner(console.get(path)) == ""
    console.up, console.as_recorded = False, None  # type: ignore[assignment]
    console.passes(60)
    console.reads()
    console.live.changed()
    page = console.get(path)
    assert "<strong>The switch does not answer</strong>" in banner(page)
    assert "rates are those of the last answer, of 20" in banner(page)
    assert "<code>dnsteer status</code>" in banner(page)
    console.up = True
    console.reads()
    console.live.changed()
    assert banner(console.get(path)) == ""


@pytest.mark.parametrize("path", PATHS)
def test_an_agent_that_cannot_work_on_the_switch_is_on_each_page(path: str) -> None:
    console = Console(known())
    console.reads()
    console.recorder.failed("ovsdb: no <answer>")
    page = console.get(path)
    assert "<strong>The agent cannot work on the switch</strong> ovsdb: no &lt;answer&gt;" in banner(page)
    for _ in range(2):
        console.recorder.took("loop", 0.1)
    console.live.changed()
    assert banner(console.get(path)) == ""


def test_the_page_of_a_pool_does_not_say_that_nothing_needs_attention() -> None:
    console = Console(known())
    console.up = False
    console.reads()
    assert "Nothing needs attention" not in console.get("/pools/farm")


def test_a_starting_agent_marks_no_page_stale() -> None:
    console = Console(known())
    up = GaugeMetricFamily("dnsteer_switch_up", "", labels=("bridge",))
    up.add_metric([""], 0)
    console.live._history.read([up], 1.0)
    assert banner(console.get()) == ""
    up.samples.clear()
    up.add_metric(["br-dns"], 0)
    console.live._history.read([up], 2.0)
    console.live.changed()
    assert "The switch does not answer" in banner(console.get())


def test_a_panic_of_a_pool_makes_no_banner() -> None:
    console = Console(known())
    console.reads()
    console.recorder.panicked("farm", ("",))
    page = console.get()
    assert "PANIC" in page and banner(page) == ""


def test_a_hanging_reading_is_shown_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "SLOW_READING", 0.01)
    console = Console(known())
    console.reads()
    answered, reading = asyncio.Event(), console.reading

    async def hangs() -> tuple[list[Metric], float]:
        await answered.wait()
        console.seconds += 2
        return await reading()

    monkeypatch.setattr(console, "reading", hangs)

    async def test(of: LivePages) -> None:
        events = Events(await of.stream("pools", since((await of.page("pools")).text)))
        _, data, _ = await events.next("update")
        while not data["parts"].get("stale"):
            _, data, _ = await events.next("update")
        assert "The switch does not answer" in data["parts"]["stale"]
        answered.set()
        while data["parts"].get("stale") != "":
            _, data, _ = await events.next("update")
        await events.end()

    live(console, test)


def test_browsers_get_the_age_of_the_page() -> None:
    console = Console(known())

    async def test(of: LivePages) -> None:
        async def age() -> int:
            stream = await of.stream("overview", f"{of.epoch}.0")
            first = (await anext(stream)).decode()
            await stream.aclose()  # type: ignore[attr-defined]
            found: Any = json.loads(first.partition("data: ")[2])["age"]
            assert "event: beat" in first
            return int(found)

        assert await age() < 60
        of._state.made = time.monotonic() - 100
        assert await age() in range(100, 160)

    asyncio.run(test(console.live))


def test_a_page_that_is_made_once_has_no_banner() -> None:
    page = ConsolePages().render("sign-in.html", wrong="", next="/")
    assert "banner" not in page and "data-link" not in page
