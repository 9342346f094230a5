# SPDX-License-Identifier: Apache-2.0
"""Tables of names and numbers in the width of a terminal: names stay whole, and columns that matter less leave first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dnsteer.cli.charset_console import fit_charset
from dnsteer.cli.output import out

Cell = str | Text
_GAP = 2
_LEAST = 16
"""Columns of a terminal below which words of a table are not narrowed."""
_MANY = 200
_PARTS = re.compile(r"[^-./:_@ ]*[-./:_@ ]*")
"""Parts of a name, each with the separators behind it."""


@dataclass(frozen=True)
class TableColumn:
    """A column. *leaves* is its place in the order in which columns leave a narrow terminal; 0: it stays.

    Of words that are not numbers the first ones to give way to others are those that *narrows* names, down to so many
    columns of the terminal; then names are broken, behind a separator. *shortens* gives a text that is too wide in so many
    columns, where cells have one line; without it the end is cut.
    """

    title: str
    right: bool = False
    leaves: int = 0
    narrows: int = 0
    shortens: Callable[[str, int], str] | None = None


def shorten_name(name: str, width: int) -> str:
    """A name in *width* columns, cut in the middle: names of many things often differ only at their end."""
    if cell_len(name) <= width:
        return name
    tail = max(0, width - 1) // 2
    return f"{name[: max(0, width - 1 - tail)]}\u2026{name[len(name) - tail :]}"


def table_of(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], width: int, *, one_line: bool = False
) -> Table:
    """A table without lines, in *width* columns of the terminal. With *one_line* what is too long is cut, not broken."""
    encoding = out.rich.encoding  # columns are as wide as what is printed
    rows = [[fit_charset(cell, encoding) for cell in row] for row in rows]
    columns, rows, wide = _fit(columns, rows, width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold underline")
    for column, size in zip(columns, wide, strict=True):
        table.add_column(
            Text(break_name(column.title, size)),
            width=size,
            justify="right" if column.right else "left",
            no_wrap=column.right or one_line,
            overflow="ellipsis" if one_line else "fold",
        )
    whole = one_line or all(size >= _widest(cells) for size, cells in zip(wide, _cells(rows, columns), strict=True))
    if whole and not one_line and len(rows) > _MANY:
        # Where nothing is broken, cells of many lines look the same as many rows and take a third of the time.
        rows = [tuple(Text("\n").join(map(_text, cells)) for cells in zip(*rows, strict=True))]
    if one_line:
        rows = [[_shortened(*each) for each in zip(columns, row, wide, strict=True)] for row in rows]
    for row in rows:
        table.add_row(
            *(_broken(cell, size) for cell, size in zip(row, wide, strict=True)) if not (whole or one_line) else row
        )
    return table


def _fit(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], width: int
) -> tuple[Sequence[TableColumn], Sequence[Sequence[Cell]], list[int]]:
    """The columns that are shown, their cells, and how wide they are."""
    wide = [
        max(cell_len(column.title), _widest(cells))
        for column, cells in zip(columns, _cells(rows, columns), strict=True)
    ]
    kept, needs = list(range(len(columns))), list(wide)

    def over() -> int:
        return sum(wide[n] for n in kept) + _GAP * (len(kept) - 1) - width

    def narrow(n: int, least: int) -> None:
        wide[n] -= min(max(over(), 0), max(wide[n] - least, 0))

    for n, column in enumerate(columns):
        if column.narrows:
            narrow(n, column.narrows)
    for n in sorted((n for n in kept if columns[n].leaves), key=lambda n: columns[n].leaves):
        if over() > 0:
            kept.remove(n)
    for n in kept:  # what left may have made room again
        if columns[n].narrows:
            wide[n] = min(needs[n], wide[n] + max(0, -over()))
    words = [n for n in kept if not columns[n].right]
    while over() > 0 and any(wide[n] > _LEAST for n in words):
        widest = max(words, key=lambda n: wide[n])
        narrow(widest, max(_LEAST, wide[widest] - 1))
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows], [wide[n] for n in kept]


def _cells(rows: Sequence[Sequence[Cell]], columns: Sequence[TableColumn]) -> Sequence[Sequence[Cell]]:
    return list(zip(*rows, strict=True)) or [() for _ in columns]


def _widest(cells: Sequence[Cell]) -> int:
    return max((cell_len(line) for cell in cells for line in str(cell).split("\n")), default=0)


def _shortened(column: TableColumn, cell: Cell, width: int) -> Cell:
    if column.shortens is None:
        return cell
    text = _text(cell)
    return Text(column.shortens(text.plain, width), style=text.style)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _broken(cell: Cell, width: int) -> Cell:
    """The cell with names broken behind a separator. Of one with styles within rich breaks the lines, between words."""
    if isinstance(cell, Text):
        return cell if cell.spans else Text(break_name(cell.plain, width), style=cell.style)
    return break_name(cell, width)


def break_name(text: str, width: int) -> str:
    """*text* in lines of *width* columns, broken at spaces, else behind a separator, and within a word only where there is
    none."""
    return "\n".join(_break_line(line, width) for line in text.split("\n"))


def _break_line(text: str, width: int) -> str:
    lines, line = list[str](), ""
    for part in _PARTS.findall(text):
        if line and part and cell_len(line) + cell_len(part.rstrip(" ")) > width:
            lines.append(line.rstrip(" "))
            line = ""
        line += part
    return "\n".join([*lines, line]) if lines else text
