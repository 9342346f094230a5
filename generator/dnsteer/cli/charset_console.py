# SPDX-License-Identifier: Apache-2.0
"""The console of rich that all verbs print tables with: what it prints fits the charset of the terminal."""

from __future__ import annotations

from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dnsteer.cli.charset import as_printed, is_unencodable

_T = TypeVar("_T", bound=RenderableType)


class CharsetConsole(Console):
    """A console that lays tables out as they are printed in its charset: what that lacks takes more columns, or others."""

    def fitted(self, shown: RenderableType) -> RenderableType:
        """*shown*, for what prints it by itself, as rich's `Live` does."""
        return fit_charset(shown, self.encoding)

    def print(self, *objects: Any, **options: Any) -> None:
        """As the original."""
        super().print(*(fit_charset(shown, self.encoding) for shown in objects), **options)

    def measure(self, renderable: RenderableType, *, options: ConsoleOptions | None = None) -> Measurement:
        """As the original."""
        return super().measure(self.fitted(renderable), options=options)


def screen_console() -> CharsetConsole:
    """The console of a verb that has the whole screen: unlike that of `output.out`, it does not break long lines."""
    return CharsetConsole(highlight=False, emoji=False)


def fit_charset(shown: _T, encoding: str) -> _T:
    """Spell the text of *shown* (tables, groups and texts of rich) as a stream of this *encoding* will write it.

    Columns are as wide as their text, so this is done before rich lays them out. Changes *shown*, and returns it.
    """
    if encoding.lower().replace("-", "") in ("utf8", "utf16", "utf32"):
        return shown
    if isinstance(shown, str):
        return as_printed(shown, encoding)  # type: ignore[return-value]
    if isinstance(shown, Text):
        return _fit_text(shown, encoding)  # type: ignore[return-value]
    if isinstance(shown, Group):
        shown._renderables = [fit_charset(part, encoding) for part in shown.renderables]  # type: ignore[assignment]
        shown._render = None
    elif isinstance(shown, Table):
        for column in shown.columns:
            column.header = fit_charset(column.header, encoding)
            column._cells = [fit_charset(cell, encoding) for cell in column._cells]
    return shown


def _fit_text(text: Text, encoding: str) -> Text:
    if not is_unencodable(text.plain, encoding):
        return text
    at = [n for n, c in enumerate(text.plain) if is_unencodable(c, encoding)]
    pieces = text.divide(sorted({edge for n in at for edge in (n, n + 1)}))
    out = text.blank_copy()
    for piece in pieces:
        fitted = as_printed(piece.plain, encoding)
        if fitted != piece.plain:  # the piece is this one character, so all its styles are of all of it
            spans = [(span.style, 0, len(fitted)) for span in piece.spans]
            piece.plain = fitted
            piece.spans.clear()
            for style, start, end in spans:
                piece.stylize(style, start, end)
        out.append_text(piece)
    return out
