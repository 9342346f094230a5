# SPDX-License-Identifier: Apache-2.0
"""What a client of the control socket asks for: one JSON object on a line."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.switch.control_socket import refusal_of_client


class MalformedRequestError(Exception):
    """A malformed request; the message says what is wrong."""


@dataclass(frozen=True)
class Request:
    """A verb with its arguments, as on the command line, and options that count more than those among them.

    *by* is who asks, *environ* what the client's terminal is like, *terminal* whether its output is one, *files* what the
    files hold that the arguments name. *decision* is the id of what it decides, which the agent gives it. *encoding* is that
    of the client's output, as Python calls it.
    """

    argv: tuple[str, ...]
    options: tuple[str, ...]
    by: str
    environ: Mapping[str, str]
    terminal: bool
    files: Mapping[str, bytes]
    decision: str = ""
    encoding: str = "utf-8"

    @staticmethod
    def parse(line: bytes) -> Request:
        """Read a request. Raises MalformedRequestError."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedRequestError("found a line that is not JSON") from None
        if why := refusal_of_client(value if isinstance(value, dict) else {"v": str(value)}):
            raise MalformedRequestError(why)
        argv, options, by = value.get("argv"), value.get("options", []), value.get("by", "")
        environ, files, terminal = value.get("environ", {}), value.get("files", {}), value.get("terminal", False)
        encoding = value.get("encoding", "utf-8")
        texts = [by, encoding, *_words(argv), *_words(options), *_pairs(environ), *_pairs(files)]
        if not argv or not all(isinstance(text, str) for text in texts) or not isinstance(terminal, bool):
            raise MalformedRequestError(
                "expected argv: a list of words; and options, by, environ, terminal, encoding and files where needed"
            )
        try:
            held = {name: base64.b64decode(text, validate=True) for name, text in files.items()}
        except binascii.Error:
            raise MalformedRequestError("found a file that is not in base64") from None
        return Request(tuple(argv), tuple(options), by, environ, terminal, held, encoding=encoding)


def _words(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]


def _pairs(value: Any) -> list[Any]:
    return [word for pair in value.items() for word in pair] if isinstance(value, dict) else [None]
