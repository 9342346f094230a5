"""Seconds until a real Chromium has painted something of a page, from when it is asked for."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

CHROMIUM = Path("/usr/bin/chromium")
_PAINTED = """new Promise((told) => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    if (paint) told(paint.startTime / 1000); else setTimeout(look, 10);
  };
  look();
})"""


def first_paints(at: str, pages: Mapping[str, str]) -> dict[str, float] | str:
    """Seconds by page, each asked for once, a second after the one before showed all; why not, where there is no browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "no playwright: make setup DNSTEER_BROWSER=1"
    if not CHROMIUM.exists():
        return f"no {CHROMIUM}: make setup DNSTEER_BROWSER=1"
    found = {}
    with sync_playwright() as driver, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = driver.chromium.launch_persistent_context(
            profile, executable_path=str(CHROMIUM), headless=True, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, path in pages.items():
            page = browser.new_page()
            page.goto(f"http://{at}{path}")
            found[name] = round(page.evaluate(_PAINTED), 2)
            page.wait_for_selector("[aria-busy=true]", state="detached")
            page.close()
            time.sleep(1)
        browser.close()
    return found
