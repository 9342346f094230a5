"""The keys of `top`: the order, scrolling, and the filter that is typed after `/`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dnsteer.cli.top_frame import Sort

ORDERS: Mapping[str, Sort] = {"r": "rate", "n": "name", "s": "state", "d": "difference"}
"""The keys that choose an order."""
_STEPS = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_FIRST, _LAST = ("g", "\x1b[H", "\x1bOH", "\x1b[1~"), ("G", "\x1b[F", "\x1bOF", "\x1b[4~")
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?|[^\x1b]", re.DOTALL)
"""A key as a terminal sends it: a sequence that begins with an escape, the escape key alone, or a character."""
_ENTER, _ESCAPE, _BACK = ("\r", "\n"), "\x1b", ("\x7f", "\b")


@dataclass
class TopKeys:
    """What has been chosen: the order, the first row that is shown, and the filter, which may be being *typed*."""

    sort: Sort
    matching: str = ""
    skip: int = 0
    typed: bool = False
    earlier: str = ""
    """The filter from before one is typed."""

    def press(self, data: str, *, page: int, rows: int) -> bool:
        """Obey keys; whether to go on. *page* is how many rows a page scrolls, *rows* how many the longer table has."""
        for key in _keys_of(data):
            if self.typed:
                self._type(key)
            elif key in ("q", "Q"):
                return False
            elif key == "/":
                self.typed, self.earlier, self.matching, self.skip = True, self.matching, "", 0
            elif key == _ESCAPE:
                self.matching, self.skip = "", 0
            elif key.lower() in ORDERS:
                self.sort, self.skip = ORDERS[key.lower()], 0
            else:
                self._scroll(key, page, rows)
        return True

    def _type(self, key: str) -> None:
        self.skip = 0
        if key in _ENTER:
            self.typed = False
        elif key == _ESCAPE:
            self.typed, self.matching = False, self.earlier
        elif key in _BACK:
            self.matching = self.matching[:-1]
        elif key.isprintable():
            self.matching += key

    def _scroll(self, key: str, page: int, rows: int) -> None:
        last = max(0, rows - 1)
        if key in _FIRST:
            self.skip = 0
        elif key in _LAST:
            self.skip = last
        else:
            moved = self.skip + _STEPS.get(key, 0) + page * _PAGES.get(key, 0)
            self.skip = min(max(0, moved), last)

    def foot(self, every: float) -> str:
        """The line at the end: what is shown, and the keys. *every* is how often frames come, in seconds."""
        if self.typed:
            before = f"{self.earlier!r} again" if self.earlier else "none"
            return f"filter: {self.matching}_   Enter: keep it, Esc: {before}"
        chosen = f"every {every:g} s, by {self.sort}" + (f", with {self.matching!r}" if self.matching else "")
        return f"{chosen}   q quit  / filter  r rate  n name  s state  d difference"


def _keys_of(data: str) -> Iterator[str]:
    yield from _KEY.findall(data)
