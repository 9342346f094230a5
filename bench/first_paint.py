# SPDX-License-Identifier: Apache-2.0
"""Seconds until a real Chromium has painted something of a page, from when it is asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench.chromium import SETUP, chromium

_PAINTED = """new Promise((told) => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    if (paint) told(paint.startTime / 1000); else setTimeout(look, 10);
  };
  look();
})"""


def first_paints(at: str, pages: Mapping[str, str]) -> dict[str, float] | str:
    """Seconds by page, each asked for once, a second after the one before showed all; why not, where there is no browser."""
    found = {}
    try:
        with chromium() as browser:
            for name, path in pages.items():
                page = browser.new_page()
                page.goto(f"http://{at}{path}")
                found[name] = round(page.evaluate(_PAINTED), 2)
                page.wait_for_selector("[aria-busy=true]", state="detached")
                page.close()
                time.sleep(1)
    except (ImportError, FileNotFoundError) as err:
        return f"{err}: {SETUP}"
    return found
