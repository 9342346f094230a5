# SPDX-License-Identifier: Apache-2.0
"""Text that the terminal's charset lacks: symbols become an ASCII character of the same width, all else an escape.

Only the standard library is imported here, since every start of the command sets its streams up.
"""

from __future__ import annotations

import codecs
import sys

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
