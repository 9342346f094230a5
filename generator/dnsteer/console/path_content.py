"""What can change on the page Path: the way of one query through the tables, with the counters of its flows."""

from __future__ import annotations

from typing import Any

from dnsteer.console.desk import Picture
from dnsteer.console.path_query import KEY, BadQueryError, Form, form_of, query_of
from dnsteer.console.path_reading import MAX_FOLLOWED, PathReading
from dnsteer.status.path import Way
from dnsteer.view import wording

REFUSED = "refused"
"""How the shape of a page begins that could not be made of what was asked for."""


def path_parts(macros: Any, key: str, picture: Picture, read: object) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The shape, parts and numbers of a path's page."""
    side = picture.side
    if side is None:
        return "nothing", {"way": str(macros.nothing(picture.seen))}, {}
    shape = f"{picture.seen.bridge} {side.known.state.number}"
    if key == KEY:
        return shape, {"way": str(macros.hint())}, {}
    if not isinstance(read, PathReading):
        return shape, {"read": "", "summary": str(macros.awaited()), "way": "", "answer": ""}, {}
    if read.bad is not None:
        return f"{REFUSED} {shape}", {"way": ""}, {}
    values: dict[str, Any] = {}
    parts = {"read": str(macros.read(read, MAX_FOLLOWED)), "summary": str(macros.summary(read, side.known.state))}
    if read.view is None:
        return shape, {**parts, "way": "", "answer": ""}, values
    parts["way"] = str(macros.way(read.view.way, "q", read, side.known.state))
    parts["answer"] = str(macros.answer(read.view, read, side.known.state))
    whole = sum(share.packets for share in read.shares)
    for n, share in enumerate(read.shares):
        values[f"b-{n}"] = f"{share.packets:,}"
        values[f"s-{n}"] = wording.percent(share.packets, whole)
    _count(values, "q", read.view.way, read)
    if read.view.answer is not None:
        _count(values, "a", read.view.answer, read)
    return shape, parts, values


def _count(values: dict[str, Any], letter: str, way: Way, read: PathReading) -> None:
    for n, step in enumerate(way.steps):
        packets = read.packets.get(step.key)
        values[f"n-{letter}-{n}"] = f"{packets:,}" if packets is not None else None
        values[f"r-{letter}-{n}"] = wording.rounded(read.rates.get(step.key))


def path_page(picture: Picture, key: str) -> dict[str, Any]:
    """What the page has beside its parts: the form."""
    spec = picture.side.known.spec if picture.side is not None else None
    return {"form": _form(key, spec), "asked": key != KEY}


def _form(key: str, spec: Any) -> Form:
    if spec is not None and key != KEY:
        try:
            query_of(key, spec)
        except BadQueryError as err:
            return form_of(key, spec, err)
    return form_of(key, spec)
