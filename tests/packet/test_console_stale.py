# SPDX-License-Identifier: Apache-2.0
"""Open pages whose agent hangs, ends, or has a switch that is away, in a real browser: they say so by themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.packet.agents import Agent, agent
from tests.packet.browser import chromium, opened, refuse_findings
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.console_sessions import serves_at
from tests.packet.switches import Switch

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
PATHS = ("/", "/pools", "/pools/farm", "/changes", "/offload", "/path")
GREY = "getComputedStyle(document.querySelector('main > section, main > div:not([hidden])')).filter"
AWAY = "#stale >> text=/The switch does not answer|The agent cannot work on the switch/"
"""What the agent says, by whether it or the reading of counters has met it first."""
LATE_EVENTS = """window.EventSource = class extends EventTarget {
  constructor() {
    super();
    setTimeout(() => this.dispatchEvent(new MessageEvent("beat", {data: '{"age":47}'})));
  }
  close() {}
}"""
WHOLE = "getComputedStyle(document.querySelector('main')).filter"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def served(browser: Any, shared: Switch, tmp_path: Path) -> Iterator[tuple[Agent, str]]:
    """An agent, and where it serves its console. The browser comes first: without one all is skipped."""
    fresh(shared)
    assert on(shared)("apply", spec_file(tmp_path, FARM), "--yes").code == 0
    with agent(shared, tmp_path, "control socket", "agent", "--console", "127.0.0.1:0") as running:
        yield running, serves_at(running)


def test_a_page_marks_a_hanging_agent(served: tuple[Agent, str], shared: Switch, browser: Any) -> None:
    running, url = served
    for path in PATHS:
        page = browser.new_page()
        page.clock.install()
        page.goto(url + path)
        page.wait_for_selector("#link[data-state=live]")
        assert page.evaluate(WHOLE) == "none" and not page.is_visible("#old")
        title = page.title()
        running.hang(shared)
        try:
            page.clock.fast_forward(14_000)
            page.wait_for_selector("#old >> text=/Not connected since .* UTC/")
            assert page.evaluate(WHOLE) == "grayscale(1)" and page.title() == f"Not connected · {title}", path
            assert "systemctl status dnsteer-agent" in page.inner_text("#old")
            refuse_findings(page, "dark", "light")
        finally:
            running.process.send_signal(signal.SIGCONT)
        page.clock.run_for(20_000)
        page.wait_for_selector("#link[data-state=live]")
        assert page.evaluate(WHOLE) == "none" and not page.is_visible("#old") and page.title() == title, path
        page.close()


def test_a_page_marks_an_ended_agent(served: tuple[Agent, str], browser: Any) -> None:
    running, url = served
    with opened(browser, f"{url}/pools/farm", expected="Failed to load resource") as page:
        assert running.end() == 0
        page.wait_for_selector("#old >> text=/Not connected since .* UTC/")
        assert page.evaluate(WHOLE) == "grayscale(1)"


def test_a_page_marks_old_readings(served: tuple[Agent, str], browser: Any) -> None:
    with opened(browser, served[1]) as page:
        assert page.evaluate(WHOLE) == "none"
        page.add_init_script(LATE_EVENTS)
        page.reload()
        page.wait_for_selector("#old >> text=Not read for 47 s")
        assert page.evaluate(WHOLE) == "grayscale(1)"


def test_a_page_without_javascript_turns_when_it_is_old(served: tuple[Agent, str], browser: Any) -> None:
    with closing(browser.new_page()) as page:
        browser.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
        page.goto(served[1])
        assert not page.is_visible("#old") and page.evaluate(WHOLE) == "none"
        assert page.inner_text("#stale") == ""
        delays = page.evaluate("document.getAnimations().map((a) => (a.finish(), a.effect.getTiming().delay))")
        assert delays == [30_000, 30_000]
        assert page.is_visible("#old") and page.evaluate(WHOLE) == "grayscale(1)"
        assert "This page is out of date It shows the switch as it was at 20" in page.inner_text("#old")
        with page.expect_navigation():
            page.click("text=Read it again")
        assert not page.is_visible("#old")


def test_a_page_marks_an_unreachable_switch(served: tuple[Agent, str], shared: Switch, browser: Any) -> None:
    """The last test: it ends the module's switch for a while."""
    url = served[1]
    with opened(browser, url) as page:
        assert page.evaluate(GREY) == "none"
        shared.kill_switch()
        try:
            page.wait_for_selector(AWAY)
            assert page.evaluate("document.querySelectorAll('main > :not(.attention)').length") > 1
            for path in PATHS:
                page.goto(url + path)
                page.wait_for_selector(AWAY)
                assert page.evaluate(GREY.replace("main > section", "main > section:not(.attention)")) == "grayscale(1)"
                page.wait_for_selector("#link[data-state=live]")
                refuse_findings(page, "dark", "light")
        finally:
            shared.start_switch()
        page.wait_for_selector("#stale", state="hidden")
        assert page.evaluate(GREY) == "none"
