"""Counters of a bridge's ports, from `ovs-ofctl dump-ports`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PORT = re.compile(r"\s*port\s+(\S.*?):\s+rx (.*)")
_SENT = re.compile(r"\s+tx (.*)")
_VALUES = re.compile(r"(pkts|bytes|drop|errs)=(\d+)")
_WORDS = {"pkts": "packets", "bytes": "bytes", "drop": "dropped", "errs": "errors"}


def read_ports(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield port, counter such as `receive_packets`, and value; those that a device does not count are left out."""
    name = ""
    for line in text.splitlines():
        if m := _PORT.match(line):
            name = _unquoted(m[1])
            found, way = m[2], "receive"
        elif name and (m := _SENT.match(line)):
            found, way = m[1], "transmit"
        else:
            continue
        for word, value in _VALUES.findall(found):
            yield name, f"{way}_{_WORDS[word]}", int(value)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('\\"', '"').replace("\\\\", "\\") if name.startswith('"') else name
