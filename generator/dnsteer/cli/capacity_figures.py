"""Figures of `capacity` in words: numbers with their ranges, and marks that lead to what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from dnsteer.capacity.capacity_report import CapacityReport
from dnsteer.capacity.estimate import Estimate, worst_kind

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
BASIS = "limited by; basis"
FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6", None: "both"}


class Notes:
    """Numbers for measurements and letters for reasons, as they come up."""

    def __init__(self, report: CapacityReport) -> None:
        self._report = report
        self._rests: dict[str, int] = {}
        self._because: dict[str, int] = {}

    def mark(self, found: Estimate) -> str:
        """What a figure is and where to read on: `reading 1,2 a`."""
        return self.marks([found])

    def marks(self, found: Sequence[Estimate]) -> str:
        """The same of several figures together."""
        numbers = {self._rests.setdefault(r, len(self._rests) + 1) for e in found for r in e.rests_on}
        letters = {self._because.setdefault(b, len(self._because)) for e in found for b in e.because}
        words = [worst_kind(e.kind for e in found), ",".join(map(str, sorted(numbers)))]
        return " ".join([*words, ",".join(map(_letter, sorted(letters)))]).strip()

    def lines(self) -> Iterator[tuple[str, str]]:
        """What the numbers and letters stand for."""
        for name, number in self._rests.items():
            about, place, _ = self._report.cite(name)
            yield f"{number}", f"{name}: {about} ({place})"
        for reason, n in self._because.items():
            yield _letter(n), reason

    def sources(self) -> Iterator[tuple[str, str]]:
        """The publications."""
        for source in dict.fromkeys(self._report.cite(name)[2] for name in self._rests):
            name, _, title = source.partition(": ")
            yield name, title


def _letter(n: int) -> str:
    return _LETTERS[n] if n < len(_LETTERS) else f"{_LETTERS[n // 26 - 1]}{_LETTERS[n % 26]}"


def columns(left: Sequence[str], *names: str) -> Table:
    """A table without lines; the columns of *left* are words, which are broken where it is narrow, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for name in names:
        words = name in left
        table.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    return table


def figure_text(value: float, estimate: Estimate) -> str:
    """A figure; `<=` where it is the most that it can be."""
    at_most = "<= " if is_most(estimate) else ""
    return f"{at_most}{value:.2f}" if value < 10 else f"{at_most}{value:.1f}"


def is_most(found: Estimate) -> bool:
    """Whether the figure is the most it can be, and nobody knows how much less it is."""
    return found.low == 0 and found.high <= 1.0005 * found.value


def range_text(found: Estimate) -> str:
    """The range of a figure; `-` where there is none."""
    if is_most(found):
        return "not known"
    if found.high - found.low < 0.005 * found.value:
        return "-"
    digits = 2 if found.value < 10 else 1
    return f"{found.low:.{digits}f} .. {found.high:.{digits}f}"
