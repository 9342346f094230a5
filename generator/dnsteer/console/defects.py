"""Defects: exceptions that nobody expected while a page was made. The pages say so, and all else goes on."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Defect(NamedTuple):
    """An exception: what it says, and the *place* in the code that raised it."""

    text: str
    place: str

    def __str__(self) -> str:
        return f"{self.text} ({self.place})"


class DefectError(Exception):
    """A page cannot be made because of a defect that was met before."""

    def __init__(self, defect: Defect) -> None:
        super().__init__(str(defect))
        self.defect = defect


def defect_of(err: Exception) -> Defect:
    """What is known of an exception."""
    if isinstance(err, DefectError):
        return err.defect
    frames = traceback.extract_tb(err.__traceback__)
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "unknown place"
    return Defect(traceback.format_exception_only(err)[-1].strip(), place)


class Defects:
    """Says each defect once: by its place, since its text may differ from packet to packet."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def page(self, key: str, err: Exception) -> Defect:
        """Return what is known of an exception that ended the making of the page *key*; say it if it is new."""
        return self.met(f"the page {key.partition('?')[0]} cannot be made", err)

    def met(self, what: str, err: Exception) -> Defect:
        """Return what is known of an exception, because of which there is not *what* should be; say it if it is new."""
        defect = defect_of(err)
        if defect.place not in self._said:
            self._said.add(defect.place)
            self._say(f"a defect of the console: {what}: {defect}")
        return defect
