# SPDX-License-Identifier: Apache-2.0
"""Pictures of pages, compared by their layout with those in tests/packet/pictures.

A picture is the window in squares of 8 pixels, with bars for its text, which changes from run to run: where things are, how
large they are and what colour they have. `pytest --regenerate` writes the pictures anew; look at them afterwards.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.packet.browser import SIZES

FOLDER = Path(__file__).with_name("pictures")
_SQUARE = 8
"""Pixels of a page, in each direction, that are one pixel of a picture."""
_DIFFERS = 24
"""Levels of 255 by which a colour differs: antialiasing of a border that is a pixel further makes less."""
_MAX = 0.03
"""Share of a picture that may differ: texts of another moment are longer, and their columns wider."""
_PATIENCE = 20.0
"""Seconds in which a page may still change: a check that was late on a busy machine is in time again."""
_BARS = """
*, *::before, *::after {
  color: transparent !important; text-shadow: none !important; transition: none !important; animation: none !important;
  text-decoration: line-through 0.7em #777 !important; text-decoration-skip-ink: none !important; }
canvas { visibility: hidden !important; }
"""
_ADD = """css => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]; }"""
"""The pages' policy refuses any other style that is added."""


def refuse_another_layout(page: Any, name: str, *, regenerate: bool) -> None:
    """Fail if the page, which is at its top, has another layout than its picture, at any of the sizes."""
    for figure in page.locator("figure.traffic").all():  # is larger once slots have been counted twice
        figure.locator(".scale").wait_for()
    page.evaluate(_ADD, _BARS)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        file = FOLDER / f"{name}-{width}.png"
        if regenerate:
            FOLDER.mkdir(exist_ok=True)
            _picture(page, width, height).save(file, optimize=True)
            continue
        wanted, deadline = Image.open(file).convert("RGB"), time.monotonic() + _PATIENCE
        while (differs := difference(_picture(page, width, height), wanted)) > _MAX:
            assert time.monotonic() < deadline, f"{differs:.1%} of {file} differ: pytest --regenerate, and look at it"
            time.sleep(0.5)


def _picture(page: Any, width: int, height: int) -> Image.Image:
    taken = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    return taken.resize((width // _SQUARE, height // _SQUARE), Image.Resampling.BOX)


def difference(one: Image.Image, other: Image.Image) -> float:
    """Share of the pixels that differ; all, where the sizes do."""
    if one.size != other.size:
        return 1.0
    apart = np.abs(np.asarray(one, dtype=int) - np.asarray(other, dtype=int)).max(axis=2)
    return float((apart > _DIFFERS).mean())
