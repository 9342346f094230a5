# SPDX-License-Identifier: Apache-2.0
"""Lines of rates in a real browser: their scale, and what they are under the pointer and by the keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.packet.browser import SIZES, chromium, opened, overflow
from tests.packet.console_server import served_console
from tests.unit.console_cases import Console, known


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def seconds(text: str) -> int:
    """The time that a text names, in seconds of the day."""
    found = re.search(r" at (\d\d):(\d\d):(\d\d) UTC", text)
    assert found is not None, text
    hours, minutes, rest = map(int, found.groups())
    return hours * 3600 + minutes * 60 + rest


def test_a_chart_line_has_a_scale_and_shows_values(browser: Any) -> None:
    console = Console(known())
    for n in range(61):  # of 5 s each: 2000 a second first, then half of it
        console.reads(5.0, dns=2000.0 if n < 31 else 1000.0)
    with served_console(console) as url, opened(browser, url) as page:
        line = page.locator("svg[data-line]").first
        axis = page.locator(".axis").first
        assert axis.locator("span").all_inner_texts() == ["5 min ago", "0 to 2.00 k queries/s", "now"]
        box = line.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 0.1 * box["width"], middle)
        early = axis.inner_text()
        assert early.startswith("2.00 k queries/s at ") and page.locator(".cursor").count() == 1
        page.mouse.move(box["x"] + 0.9 * box["width"], middle)
        late = axis.inner_text()
        assert late.startswith("1.00 k queries/s at ")
        assert (seconds(late) - seconds(early)) % 86400 in range(230, 241)
        page.mouse.move(2, 2)
        assert axis.inner_text().startswith("5 min ago") and page.locator(".cursor").count() == 0
        line.focus()
        assert axis.get_attribute("aria-live") == "polite"
        for key, starts in (("Home", "2.00 k"), ("End", ""), ("ArrowLeft", "1.00 k"), ("ArrowLeft", "1.00 k")):
            page.keyboard.press(key)
            assert axis.inner_text().startswith(starts) and " UTC" in axis.inner_text(), key
        back = seconds(axis.inner_text())
        page.keyboard.press("ArrowLeft")
        assert (back - seconds(axis.inner_text())) % 86400 in range(4, 7)
        line.blur()
        assert axis.inner_text().startswith("5 min ago") and axis.get_attribute("aria-live") is None
        other = page.locator(".axis").nth(1)
        assert "0 to 0 queries/s" in other.inner_text() or "not known yet" in other.inner_text()
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert overflow(page) == [], width
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="no axe: make setup DNSTEER_BROWSER=1"
        ).Axe()
        found = axe.run(page).response["violations"]
        assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
