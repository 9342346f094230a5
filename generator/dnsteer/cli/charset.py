"""Text that the terminal's charset lacks: symbols become an ASCII character of the same width, all else an escape.

Only the standard library is imported here, since every start of the command sets its streams up.
"""

from __future__ import annotations

import codecs
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

ERRORS = "dnsteer.approximate"
"""The name of the error handler, for `errors=` of a stream."""
_SYMBOLS: dict[str, str] = {
    **dict.fromkeys(
        "\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c\u256d\u256e\u256f\u2570\u255e\u2561\u256a", "+"
    ),
    **dict.fromkeys("\u2500\u2501\u2504\u2508\u254c\u2574\u2576\u2578\u257a\u2013\u2014", "-"),
    **dict.fromkeys("\u2502\u2503", "|"),
    **dict.fromkeys(map(chr, range(0x2588, 0x258D)), "#"),  # blocks of at least half a column
    **dict.fromkeys(map(chr, range(0x258D, 0x2590)), "-"),
    **dict.fromkeys(map(chr, range(0x2800, 0x2900)), "*"),  # the spinner, in Braille
    "\u2550": "=",
    "\u2026": "~",
    "\u2022": "*",
    "\u00b7": ".",
    "\u2018": "'",
    "\u2019": "'",
    "\u00d7": "x",
    "\u00a0": " ",
}
"""What rich and the pages of `lint` draw with."""
_T = TypeVar("_T", bound="RenderableType")


def set_up_streams() -> None:
    """Have standard output and standard error write what their charset lacks in another form, instead of raising."""
    codecs.register_error(ERRORS, _approximate)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # None of what a program puts in the place of a stream
        if reconfigure is not None:
            reconfigure(errors=ERRORS)


def _approximate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_SYMBOLS.get(c) or _escaped(c) for c in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")


def is_unencodable(text: str, encoding: str) -> bool:
    """Whether *encoding* has no bytes for some character of *text*."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def as_printed(text: str, encoding: str) -> str:
    """*text* as a stream of this *encoding* will write it."""
    return (
        text
        if not is_unencodable(text, encoding)
        else "".join((_SYMBOLS.get(c) or _escaped(c)) if is_unencodable(c, encoding) else c for c in text)
    )


def fit_charset(shown: _T, encoding: str) -> _T:
    """Spell the text of *shown* (tables, groups and texts of rich) as a stream of this *encoding* will write it.

    Columns are as wide as their text, so this is done before rich lays them out. Changes *shown*, and returns it.
    """
    if encoding.lower().replace("-", "") in ("utf8", "utf16", "utf32"):
        return shown
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

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
