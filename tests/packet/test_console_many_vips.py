# SPDX-License-Identifier: Apache-2.0
"""The console of many VIPs, of long names and of high rates, in a real browser at phones, laptops and screens on walls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.packet.agents import wait
from tests.packet.browser import chromium, cut_text, opened, overflow, refuse_axe_findings
from tests.packet.console_server import served_console
from tests.unit.console_cases import Console, entry, record
from tests.unit.many_vips import RATES, long_name, long_named_vips, two_hundred_vips

PHONE, LAPTOP, WALL, WALL_4K = (360, 800), (1280, 800), (1920, 1080), (3840, 2160)
SIZES = (PHONE, LAPTOP, WALL, WALL_4K)
SCREENS = {
    "/": (6, 2.6, 2),
    "/?pool=pool1": (3, 1.5, 1.1),
    "/attention": (6, 3, 2.2),
    "/pools": (7, 3, 2.5),
    "/vips/vip1": (3, 1.5, 1.2),
    "/changes": (5, 1.6, 1.3),
    "/changes/2": (2, 1.2, 1.1),
    "/changes/1": (1, 1, 1),
}
"""How many heights of a window a page of 200 VIPs may have: at a phone, a laptop and a screen on a wall."""
LONG = ("/", "/?all=on", "/attention", "/pools", "/changes", "/changes/2", "/path", "/offload", "vip", "pool")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def consoles(browser: Any) -> Iterator[dict[str, tuple[Console, str]]]:
    """Consoles, and where they are. The browser comes first: without one all is skipped."""
    made = {
        "many": two_hundred_vips(),
        "few": long_named_vips(8),
        "tiles": long_named_vips(23),
        "long": long_named_vips(30),
    }
    with ExitStack() as stack:
        yield {name: (console, stack.enter_context(served_console(console))) for name, console in made.items()}


@pytest.fixture
def many(consoles: dict[str, tuple[Console, str]]) -> str:
    """Where the console of 200 VIPs is."""
    return consoles["many"][1]


def fits(page: Any) -> None:
    assert overflow(page) == [], page.viewport_size
    assert cut_text(page) == [], page.viewport_size


@pytest.mark.parametrize("size", SIZES)
def test_figures_fit_their_tiles(browser: Any, consoles: dict[str, tuple[Console, str]], size: tuple[int, int]) -> None:
    with opened(browser, consoles["tiles"][1], size) as page:
        assert page.locator(".tile").count() == 23
        figures = page.locator(".tile .rate b").all_inner_texts()
        assert figures[: len(RATES)] == ["0", "999", "1.00 k", "12.3 k", "999 k", "1.20 M", "35.0 M", "7.30"]
        fits(page)


@pytest.mark.parametrize("path", LONG)
def test_long_names_fit_each_size(browser: Any, consoles: dict[str, tuple[Console, str]], path: str) -> None:
    path = {"vip": f"/vips/{long_name('vip', 1)}", "pool": f"/pools/{long_name('pool', 1)}"}.get(path, path)
    with opened(browser, consoles["long"][1] + path, PHONE, ready="main") as page:
        for fold in page.locator("details").all():
            fold.evaluate("fold => { fold.open = true; }")
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            fits(page)


@pytest.mark.parametrize("path", SCREENS)
def test_pages_of_200_vips_are_bounded(browser: Any, many: str, path: str, record_property: Any) -> None:
    with opened(browser, many + path, ready="main") as page:
        for (width, height), most in zip((PHONE, LAPTOP, WALL), SCREENS[path], strict=True):
            page.set_viewport_size({"width": width, "height": height})
            fits(page)
            screens = page.evaluate("document.documentElement.scrollHeight / innerHeight")
            record_property(f"screens of {path} at {width}", round(screens, 1))
            assert screens <= most, width


def test_a_wall_is_filled(browser: Any, consoles: dict[str, tuple[Console, str]]) -> None:
    with opened(browser, consoles["few"][1], LAPTOP) as page:
        sizes, rests = [], []
        for width, height in (LAPTOP, WALL, WALL_4K):
            page.set_viewport_size({"width": width, "height": height})
            sizes.append(page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)"))
            boxes = [tile.bounding_box() for tile in page.locator(".tile").all()]
            right, bottom = (max(b[at] + b[side] for b in boxes) for at, side in (("x", "width"), ("y", "height")))
            rests.append((1 - right / width, 1 - bottom / height))
        assert sizes == sorted(set(sizes)) and sizes[2] > 1.9 * sizes[0], "from 4K on, text has twice its size"
        for across, down in rests[1:]:
            assert across < 0.02 and down < 0.1


@pytest.mark.parametrize("path", ["/", "/vips/vip1", "/attention"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(browser: Any, many: str, path: str, scheme: str) -> None:
    with opened(browser, many + path) as page:
        refuse_axe_findings(page, scheme)


def head(page: Any) -> tuple[str, str]:
    return page.inner_text("#found"), page.inner_text(".total b >> nth=0")


def test_a_filter_works_while_it_is_typed(browser: Any, consoles: dict[str, tuple[Console, str]]) -> None:
    console, url = consoles["many"]
    with opened(browser, url) as page:
        whole = head(page)
        page.evaluate("window.mark = 1")
        page.fill("#filter [name=text]", "vip19")
        wait(lambda: head(page)[0] == "11 of 200", lambda: str(head(page)))
        assert page.locator(".vip").count() == 11 and head(page)[1] != whole[1]
        page.select_option("#filter [name=pool]", "pool40")
        wait(lambda: head(page)[0] == "1 of 200", lambda: str(head(page)))
        assert page.locator(".vip .name").all_inner_texts() == ["vip190"]
        assert page.url == f"{url}/?text=vip19&pool=pool40" and page.evaluate("window.mark") == 1
        assert page.evaluate("document.activeElement.name") in ("text", "pool")
        page.wait_for_selector("#link[data-state=live]")
        before = console.recorder.snapshot().applied.overlay.entries  # type: ignore[union-attr]
        try:
            console.recorder.followed(record(2, *before, entry("ns0", "health", pool="pool40")))
            page.wait_for_selector(".vip.warning >> text=vip190")
            assert page.evaluate("window.mark") == 1, "what is shown stays up to date"
        finally:
            console.recorder.followed(record(2, *before))
        page.fill("#filter [name=text]", "")
        page.select_option("#filter [name=pool]", "")
        wait(lambda: head(page)[0] == "200", lambda: str(head(page)))
        assert head(page) == whole and page.url == f"{url}/"


def test_a_filter_works_without_scripts(browser: Any, many: str) -> None:
    page = browser.new_page()
    try:
        page.route("**/*.js", lambda route: route.abort())
        page.goto(many)
        assert page.locator("button.copy:visible").count() == 0
        page.fill("#filter [name=text]", "vip10")
        page.check("#filter [name=trouble]")
        page.click("#filter button")
        page.wait_for_url(f"{many}/?text=vip10&pool=&trouble=on")
        assert page.inner_text("#found") == "11 of 200"
        assert page.input_value("#filter [name=text]") == "vip10" and page.is_checked("#filter [name=trouble]")
    finally:
        page.close()


NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
NO_COPY = "document.execCommand = () => false;"


@pytest.mark.parametrize(("missing", "at"), [("", 1), (NO_CLIPBOARD, 2)])
def test_a_command_is_copied(browser: Any, many: str, missing: str, at: int) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"], origin=many)
    with opened(browser, many) as page:
        page.evaluate(f"() => {{ {missing} }}")
        page.click(f"button.copy >> nth={at}")
        page.wait_for_selector("button.copy >> text=Copied")
        page.focus("#filter [name=text]")
        page.keyboard.press("Control+v")
        assert page.input_value("#filter [name=text]") == page.locator(".command code").nth(at).inner_text()


def test_without_a_clipboard_the_command_is_selected(browser: Any, many: str) -> None:
    with opened(browser, f"{many}/vips/vip1") as page:
        page.evaluate(f"() => {{ {NO_CLIPBOARD} {NO_COPY} }}")
        page.click("#run button.copy >> nth=0")
        page.wait_for_selector("button.copy >> text=Selected: press Ctrl+C")
        assert page.evaluate("getSelection().toString()") == page.locator("#run code").first.inner_text()
