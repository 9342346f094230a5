"""What rows of OVSDB have for the settings of settings.SETTINGS, as text."""

from __future__ import annotations

from typing import Any

from dnsteer.switch.settings import SETTINGS, Place
from dnsteer.switch.state import CAPTURE_KEY

_NAMED = ("name", "target", "targets", "type")  # the first of these columns stands for a row that is referred to


def columns_of(place: Place) -> list[str]:
    """The columns of a table of OVSDB that the list needs."""
    found = [s for s in SETTINGS if s.place is place and " " not in s.name]
    names = [s.name.partition(":")[0] for s in found] + [s.burst for s in found if s.burst]
    return list(dict.fromkeys(names))


REFERRED = {
    "Mirror": ["name", "external_ids"],
    "NetFlow": ["targets"],
    "sFlow": ["targets"],
    "IPFIX": ["targets"],
    "Controller": ["target"],
    "QoS": ["type", "other_config", "queues"],
    "Queue": ["other_config"],
}
"""Tables of OVSDB whose rows are named by a column."""


def read_row(row: Any, place: Place) -> dict[str, str]:
    """The settings of a row of OVSDB as text; empty: not set. What the database has no column for is left out."""
    out: dict[str, str] = {}
    for setting in SETTINGS:
        column, _, key = setting.name.partition(":")
        if setting.place is place and hasattr(row, column):
            value = getattr(row, column)
            out[setting.name] = _text(value.get(key, "") if key else value)
            burst = _text(getattr(row, setting.burst, 0)) if setting.burst else "0"
            if out[setting.name] != setting.default and burst != "0":
                out[setting.name] += f" burst {burst}"
    return out


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(each) for each in value if CAPTURE_KEY not in getattr(each, "external_ids", ()))
    if isinstance(value, (str, int)):
        return str(value)
    named = next((_text(getattr(value, name)) for name in _NAMED if hasattr(value, name)), "set")
    return named + (_rates(value) if hasattr(value, "queues") else "")


def _rates(qos: Any) -> str:
    """The rates of a row of QoS, and of the queue that all packets go to which are put into no other."""
    queue = qos.queues.get(0)
    places = [("", qos.other_config), (" queue 0", queue.other_config if queue is not None else {})]
    return "".join(f"{where} {key} {own[key]}" for where, own in places for key in ("max-rate", "cir") if key in own)
