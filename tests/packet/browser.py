# SPDX-License-Identifier: Apache-2.0
"""Chromium for tests: one for all of a module, and pages that note whatever goes wrong in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from bench.chromium import PATH, SETUP
from bench.chromium import chromium as launched

SIZES = ((375, 800), (1280, 800), (1920, 1080))


@contextmanager
def chromium(**more: Any) -> Iterator[Any]:
    """A browser with a profile of its own. Without one the test is skipped, or fails where set-up was told to install it
    (DNSTEER_BROWSER): a skip there would hide that nothing was looked at."""
    missing = [
        what for what, there in (("playwright", find_spec("playwright")), (str(PATH), PATH.exists())) if not there
    ]
    if missing:
        leave_out = pytest.fail if os.environ.get("DNSTEER_BROWSER") else pytest.skip
        leave_out(f"no {' and no '.join(missing)}: {SETUP}")
    with launched(**more) as browser:
        browser.set_default_timeout(15_000)
        yield browser


def overflow(page: Any) -> list[str]:
    """What is wider than the window, where the page scrolls sideways."""
    found: list[str] = page.evaluate(
        """() => {
          const wide = document.documentElement.clientWidth;
          if (document.documentElement.scrollWidth <= wide) return [];
          return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > wide + 1)
            .map((e) => e.tagName + "." + e.className).slice(0, 5).concat("scrolls");
        }"""
    )
    return found


def cut_text(page: Any) -> list[str]:
    """Elements whose content is wider than they are, but those that are made to scroll."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((e) => e instanceof HTMLElement && e.clientWidth && e.scrollWidth > e.clientWidth + 1)
          .filter((e) => !e.matches(".wide, pre, .tall, .skip, select, [type=search]"))
          .map((e) => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`).slice(0, 5)"""
    )
    return found


@contextmanager
def opened(
    browser: Any,
    url: str,
    size: tuple[int, int] = SIZES[1],
    expected: str = "\0",
    ready: str = "#link[data-state=live]",
) -> Iterator[Any]:
    """A page, in which nothing but *expected* may go wrong: no error, no breach of its policy, no request to elsewhere.

    It is there when it has *ready*.
    """
    page = browser.new_page()
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda r: None if r.url.startswith(url.split("/", 3)[0] + "//127.0.0.1:") else wrong.append(r.url)
    )
    try:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.goto(url)
        page.wait_for_selector("[aria-busy=true]", state="detached")  # the page itself reads what it shows
        page.wait_for_selector(ready)
        yield page
        assert [words for words in wrong if expected not in words] == []
    finally:
        page.close()


def refuse_axe_findings(page: Any, *schemes: str) -> None:
    """axe has no serious finding in the page, in each colour scheme; without axe the test is skipped."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no axe: make setup DNSTEER_BROWSER=1"
    ).Axe()
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found = axe.run(page).response["violations"]
        grave = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]
        assert grave == [], (page.url, scheme)


def refuse_findings(page: Any, *schemes: str) -> None:
    """axe has no serious finding, and the page fits each size."""
    refuse_axe_findings(page, *schemes)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert overflow(page) == [], (page.url, width)
