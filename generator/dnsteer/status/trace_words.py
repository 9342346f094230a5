"""What the flows of a trace do, in words: registers by their meaning, fields by their usual names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dnsteer.tables.order import PIPELINE, TABLES
from dnsteer.tables.table import Register

_SET = re.compile(r"set_field:(\S+?)->(\w+)\Z")
_MOVE = re.compile(r"move:(\w+)\[([\d.]*)\]->NXM_NX_(X*REG)(\d+)\[[\d.]*\]\Z")
_NOW = re.compile(r"-> \S+ is now (\S+)\Z")
_GOTO = re.compile(r"goto_table:(\w+)\Z")
_OUTPUT = re.compile(r"output:(\S+)\Z")
_GROUP = re.compile(r"group:(\d+)\Z")
_NUMBERS = {str(table.number): table.name for table in TABLES}
_FIELDS = {
    "NXM_OF_UDP_SRC": "source port",
    "NXM_OF_TCP_SRC": "source port",
    "eth_src": "source MAC",
    "eth_dst": "destination MAC",
    "ip_src": "source address",
    "ip_dst": "destination address",
    "nw_src": "source address",
    "nw_dst": "destination address",
    "ipv6_src": "source address",
    "ipv6_dst": "destination address",
    "udp_src": "source port",
    "udp_dst": "destination port",
    "tcp_src": "source port",
    "tcp_dst": "destination port",
    "nw_ttl": "TTL",
}
_NO_BUCKET = "-> no live bucket"
"""What the trace says where the switch's hash chooses: the bucket is known in the next pass only."""


def trace_in_words(table: int, actions: Iterable[str]) -> list[str]:
    """Return the trace's lines about a flow of an OpenFlow table in words. What is not known stays as it is."""
    lines = list(actions)
    return [*_words(table, lines)] or ["drops the packet: there is no action"]


def _words(table: int, lines: list[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if (m := _SET.match(line)) is not None:
            yield f"sets {_name(table, m[2])} to {_value(table, m[2], m[1])}"
        elif (m := _MOVE.match(line)) is not None:
            now = _NOW.match(following)
            if m[3] == "REG":  # the longer ones are only written, so that masks are alike
                bits = f", bits {m[2].replace('..', ' to ')}" if m[2] else ""
                yield f"sets {_name(table, f'reg{m[4]}')} to the {_FIELDS.get(m[1], m[1])}{bits}" + (
                    f": {_decimal(now[1])}" if now else ""
                )
        elif (m := _GOTO.match(line)) is not None:
            yield f"goes on to table {_NUMBERS.get(m[1], m[1])}"
        elif (m := _OUTPUT.match(line)) is not None:
            yield f"sends it out of port {m[1]}"
        elif line == "IN_PORT":
            yield "sends it out of the port that it came in by"
        elif (m := _GROUP.match(line)) is not None:
            yield f"takes a bucket of group {m[1]}, by the switch's hash"
        elif line == "drop":
            yield "drops the packet"
        elif line != _NO_BUCKET and not _NOW.match(line):
            yield line


def _name(table: int, field: str) -> str:
    """What a field is called, or a register that is live in the table."""
    register = _register(table, field)
    return register.name if register is not None else _FIELDS.get(field, field)


def _value(table: int, field: str, value: str) -> str:
    """A value, by its name where the register names it."""
    register = _register(table, field)
    names = register.values if register is not None else {}
    return next((name for name, number in names.items() if value in (str(number), hex(number))), value)


def _register(table: int, field: str) -> Register | None:
    for register in PIPELINE.registers.values():
        live = PIPELINE.owners[register.name].number <= table <= PIPELINE.tables[register.until].number
        if register.field == field and live:
            return register
    return None


def _decimal(text: str) -> str:
    try:
        return str(int(text, 0))
    except ValueError:
        return text
