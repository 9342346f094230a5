# SPDX-License-Identifier: Apache-2.0
"""Signing in and changing the switch by clicks, in a real browser at a real agent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packet.agents import agent, wait
from tests.packet.browser import chromium, opened, refuse_findings
from tests.packet.command import FARM, SLOW, fresh, on, spec_file
from tests.packet.console_sessions import secrets_in, serves_at
from tests.packet.maintenance_specs import overlay
from tests.packet.switches import Switch

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
CHANGED = FARM.replace("  uplinks:", "  console: {allow_changes: true}\n  uplinks:")
OTHER = CHANGED.replace("weight: 2", "weight: 3").replace("192.0.2.54", "192.0.2.56")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(browser: Any, shared: Switch) -> Iterator[tuple[str, str]]:
    """Where an agent serves its console, and a token to change. The browser comes first: without one all is skipped."""
    folder = Path(tempfile.mkdtemp(prefix="browser-", dir="/tmp"))  # its path is in pictures: always of one length
    secret = secrets_in(folder / "tokens", alice="change")["alice"]
    fresh(shared)
    for text in (OTHER, CHANGED):
        assert on(shared)("apply", spec_file(folder, text), "--yes").code == 0
    options = ["--console", "127.0.0.1:0", "--console-tokens", str(folder / "tokens")]
    with agent(shared, folder, "control socket", "agent", *options) as running:
        yield serves_at(running), secret
    shutil.rmtree(folder)


@pytest.fixture
def page(browser: Any, served: tuple[str, str]) -> Iterator[Any]:
    """A page of somebody who has just signed in, at the pool."""
    url, secret = served
    browser.clear_cookies()
    with opened(browser, f"{url}/pools/farm", ready="input[name=token]") as found:
        found.fill("input[name=token]", secret)
        found.click("button.main")
        found.wait_for_selector("h1:has-text('Pool farm')")
        found.wait_for_selector("#link[data-state=live]")
        yield found


@pytest.fixture
def looks_right(same_layout: Callable[[Any, str], None]) -> Callable[..., None]:
    """Looks at a page, and compares it with its picture."""

    def look(page: Any, name: str, *schemes: str) -> None:
        refuse_findings(page, *schemes, "light")
        same_layout(page, name)

    return look


def test_a_drain_by_clicks(page: Any, shared: Switch, looks_right: Callable[..., None]) -> None:
    tables = shared.tables()
    looks_right(page, "pool-with-forms")
    page.select_option("select[name=about]", "farm/ns1")
    page.fill("input[name=note]", "<script>alert(1)</script>")
    page.click("button[value=drain]")
    page.wait_for_selector("h1:has-text('Drain farm/ns1?')")
    assert "slots of pool farm move" in page.inner_text(".would") and overlay(shared) == []
    looks_right(page, "change-asked", "dark")
    page.click("button:has-text('Drain farm/ns1')")
    page.wait_for_selector("text=Done")
    looks_right(page, "change-done")
    assert [entry["note"] for entry in overlay(shared)] == ["<script>alert(1)</script>"]
    page.click("main a:has-text('Pool farm')")
    page.wait_for_selector("option:has-text('farm/ns1 (drained)')", state="attached")
    page.click("button[value=undrain]")
    page.click("button:has-text('Undrain farm/ns1')")
    page.wait_for_selector("text=Done")
    assert overlay(shared) == [] and shared.tables() == tables


def test_a_plan_of_a_file_and_the_page_of_a_state(
    page: Any, served: tuple[str, str], tmp_path: Path, looks_right: Callable[..., None]
) -> None:
    page.goto(f"{served[0]}/changes")
    page.click("text=Plan a spec")
    page.wait_for_selector("[data-chosen]:not([hidden])")
    page.set_input_files("input[type=file]", spec_file(tmp_path, OTHER))
    # Not wait_for_function: what is not true at once it evaluates again by eval, which the pages' policy refuses.
    wait(lambda: page.input_value("textarea").startswith("apiVersion"), lambda: page.input_value("textarea"))
    page.click("button:has-text('Plan')")
    page.wait_for_selector("text=An apply would change the switch as follows.")
    assert "backend farm/ns2: weight 2 -> 3 (spec.yaml:" in page.inner_text("pre")
    looks_right(page, "plan")
    page.goto(f"{served[0]}/changes/2")
    assert page.locator(".minus").count() >= 2
    looks_right(page, "state", "dark")


def test_signing_out_ends_every_page_of_the_session(
    page: Any, browser: Any, served: tuple[str, str], looks_right: Callable[..., None]
) -> None:
    with opened(browser, f"{served[0]}/") as other:
        page.click("text=Sign out")
        other.wait_for_selector("input[name=token]")
    page.wait_for_selector("input[name=token]")
    looks_right(page, "sign-in")
    page.goto(f"{served[0]}/changes")
    page.wait_for_selector("input[name=token]")


@pytest.mark.usefixtures("page")
def test_wrong_input_stays_in_its_form(
    browser: Any, served: tuple[str, str], shared: Switch, looks_right: Callable[..., None]
) -> None:
    with opened(browser, f"{served[0]}/pools/farm", expected="Failed to load resource") as page:
        page.select_option("select[name=about]", "farm/ns2")
        page.fill("input[name=for]", "soon")
        page.fill("input[name=note]", "CHG-4711")
        page.click("button[value=drain]")
        page.wait_for_selector("#wrong-for >> text=found 'soon'; expected a time such as 90s")
        page.wait_for_function("document.activeElement.name == 'for'")
        looks_right(page, "change-wrong", "dark")
        page.fill("input[name=for]", "2h")
        page.click("button[value=drain]")
        page.wait_for_selector("h1:has-text('Drain farm/ns2?')")
        assert "CHG-4711" in page.inner_text(".facts") and overlay(shared) == []


@pytest.mark.usefixtures("page")
def test_a_page_that_is_not_there_leads_back(
    browser: Any, served: tuple[str, str], looks_right: Callable[..., None]
) -> None:
    ready, expected = "a:has-text('Back to Pools')", "Failed to load resource"
    with opened(browser, f"{served[0]}/pools/none", expected=expected, ready=ready) as page:
        looks_right(page, "page-missing", "dark")
        page.click("text=Back to Pools")
        page.wait_for_selector("h1:has-text('Pools')")
        page.goto(f"{served[0]}/path?client=x&port=1&vip=dns")
        page.wait_for_selector("#wrong-client")
        assert page.evaluate("document.activeElement.name") == "client"
        looks_right(page, "path-wrong", "dark")
