# SPDX-License-Identifier: Apache-2.0
"""Find out which server answers, from many addresses: a script for a client's namespace that uses only the standard library.

Standard input: {"server", "port", "transport", "name", "asks": [[address, source port or 0], ...]}. Standard output: for
each query the name that the answering server gives, or null.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from typing import Any

_SECONDS = 2.0
_HEADER = struct.Struct("!6H")
_RECORD = struct.Struct("!2sHHIH")  # with its name compressed, as it is the question's


def question(number: int, name: str) -> bytes:
    """A query for the TXT record of *name*."""
    labels = b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split("."))
    return _HEADER.pack(number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", 16, 1)


def text_of(answer: bytes, query: bytes) -> str | None:
    """The first string of the TXT record in *answer*, if it is one to *query*."""
    if len(answer) < len(query) + _RECORD.size + 1:
        return None
    number, flags, _, answers, _, _ = _HEADER.unpack_from(answer)
    if number != _HEADER.unpack_from(query)[0] or flags & 0x800F != 0x8000 or answers != 1:
        return None
    at = len(query) + _RECORD.size
    return answer[at + 1 : at + 1 + answer[at]].decode("ascii")


def ask(given: dict[str, Any], local: str, source_port: int, query: bytes) -> bytes:
    """The answer to *query* from a socket of its own. Raises OSError."""
    family = socket.AF_INET6 if ":" in local else socket.AF_INET
    stream = given["transport"] == "tcp"
    with socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as sock:
        sock.settimeout(_SECONDS)
        sock.bind((local, source_port))
        sock.connect((given["server"], given["port"]))
        if not stream:
            sock.send(query)
            return sock.recv(4096)
        sock.sendall(struct.pack("!H", len(query)) + query)
        with sock.makefile("rb") as file:
            return file.read(int.from_bytes(file.read(2), "big"))


def main() -> None:
    """Read the queries from standard input, send them one by one, and write the names to standard output."""
    given = json.load(sys.stdin)
    answers: list[str | None] = []
    for number, (local, source_port) in enumerate(given["asks"]):
        query = question(number & 0xFFFF, given["name"])
        try:
            answers.append(text_of(ask(given, local, source_port, query), query))
        except OSError:
            answers.append(None)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
