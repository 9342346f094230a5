"""The JSON parser of Python's library behind the one of the package `ovs`, which reads OVSDB's messages letter by letter.

The package's own parser in C is in no wheel, and the one in Python took two fifths of the CPU time of tests in process:
each connection reads the schema. What is not JSON is left to the original, for its messages.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import ovs.json
import ovs.jsonrpc

_DECODER = json.JSONDecoder()
_CUT_OFF = 8
"""An error in the last letters may be a word that is not there as a whole."""


class FastParser:
    """One message, fed as it arrives: the part of `ovs.json.Parser` that connections use."""

    def __init__(self) -> None:
        self._text = ""
        self._value: Any = None
        self._done = False

    def feed(self, text: str) -> int:
        """Take what belongs to the message: how many letters."""
        before, self._text = len(self._text), self._text + text
        start = len(self._text) - len(self._text.lstrip())
        try:
            self._value, end = _DECODER.raw_decode(self._text, start)
        except json.JSONDecodeError as err:
            if err.pos < len(self._text) - _CUT_OFF and not err.msg.startswith("Unterminated string"):
                original = ovs.json.Parser()
                original.feed(self._text)
                self._value = original.finish()  # the message about it
                self._done = True
            return len(text)
        self._done = True
        return max(0, end - before)

    def is_done(self) -> bool:
        return self._done

    def finish(self) -> Any:
        return self._value


def package() -> SimpleNamespace:
    """The package `ovs` as `ovs.jsonrpc` names it, with this parser; not in `ovs.json`, whose own methods name its class."""
    module = SimpleNamespace(**{**vars(ovs.json), "Parser": FastParser})
    return SimpleNamespace(**{**vars(ovs), "json": module})
