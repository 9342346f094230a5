# SPDX-License-Identifier: Apache-2.0
"""Chromium with a profile of its own, for pictures, measurements and tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATH = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SETUP = "make setup DNSTEER_BROWSER=1"
"""What installs it, and playwright."""


@contextmanager
def chromium(**more: Any) -> Iterator[Any]:
    """A browser context of playwright. Raises ImportError without playwright, FileNotFoundError without Chromium."""
    from playwright.sync_api import sync_playwright

    if not PATH.exists():
        raise FileNotFoundError(f"no {PATH}")
    with sync_playwright() as driver, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = driver.chromium.launch_persistent_context(
            profile, executable_path=str(PATH), headless=True, args=list(ARGUMENTS), **more
        )
        try:
            yield browser
        finally:
            browser.close()
