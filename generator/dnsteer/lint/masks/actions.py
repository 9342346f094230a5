"""Actions of OpenFlow flows, as far as they decide what is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dnsteer.lint.masks import fields
from dnsteer.lint.masks.fields import Place, UnknownError


@dataclass(frozen=True)
class Write:
    """Write *value* to some bits. It looks at them as well: the switch wants to know whether they change."""

    field: str
    mask: int
    value: int


@dataclass(frozen=True)
class Move:
    """Copy bits, which looks at both. Nothing is known of what is there afterwards unless it is known of the source."""

    source: Place
    target: Place


@dataclass(frozen=True)
class Goto:
    """Go on in a table."""

    table: int


@dataclass(frozen=True)
class Track:
    """Through the connection tracker, and in a new pass on in a table. *rewrites*: addresses and ports may change."""

    table: int
    rewrites: bool


@dataclass(frozen=True)
class Select:
    """To a bucket of a group, by the datapath's hash in a new pass."""

    group: int


@dataclass(frozen=True)
class Send:
    """Out of a port."""


Action = Write | Move | Goto | Track | Select | Send

_PART = re.compile(r"[^,(]+(?:\((?:[^()]|\([^()]*(?:\([^()]*\))?[^()]*\))*\))?[^,]*")
_MOVE = re.compile(r"(\w+)\[(?:(\d+)(?:\.\.(\d+))?)?\]")
_RESUBMIT = re.compile(r"resubmit\(,(\d+)\)")
_TABLE = re.compile(r"\btable=(\d+)")
_SENDS = ("IN_PORT", "LOCAL", "in_port", "local")


@lru_cache(maxsize=100_000)
def parse_actions(text: str) -> tuple[Action, ...]:
    """Read actions as ovs-ofctl prints them. Raises UnknownError for what the model does not know."""
    return tuple(_actions(text))


def _actions(text: str) -> Iterator[Action]:
    for part in _PART.findall(text):
        name, _, rest = part.partition(":")
        if part == "drop":
            continue
        if name == "set_field":
            yield from _set_field(rest)
        elif name == "move":
            yield from _move(rest)
        elif name == "goto_table":
            yield Goto(int(rest))
        elif m := _RESUBMIT.fullmatch(part):
            yield Goto(int(m[1]))
        elif name == "group":
            yield Select(int(rest))
        elif part.startswith("ct(") and (m := _TABLE.search(part)):
            yield Track(int(m[1]), "nat" in part)
        elif name == "output" or part in _SENDS:
            yield Send()
        else:
            raise UnknownError(f"action {part} is not in the model of the classifier")


def _set_field(text: str) -> Iterator[Action]:
    value, _, name = text.rpartition("->")
    value, slash, mask = value.partition("/")
    found = fields.places(name)
    if len(found) != 1:
        raise UnknownError(f"action set_field:{text} writes more than one field")
    whole = found[0].mask
    yield Write(
        found[0].field, fields.number(found[0].field, mask) if slash else whole, fields.number(found[0].field, value)
    )


def _move(text: str) -> Iterator[Action]:
    source, _, target = text.partition("->")
    sources, targets = _places(source), _places(target)
    if len(sources) == len(targets):
        yield from (Move(a, b) for a, b in zip(sources, targets, strict=True))
    else:  # between a wide field and registers: what counts is that all of it was looked at
        yield from (Move(sources[0], target) for target in targets)


def _places(text: str) -> list[Place]:
    m = _MOVE.fullmatch(text)
    if m is None:
        raise UnknownError(f"move of {text} is not in the model of the classifier")
    low, high = (int(m[2]) if m[2] else None), int(m[3] or m[2]) if m[2] else None
    return fields.places(m[1], low, high)
