# SPDX-License-Identifier: Apache-2.0
"""OpenFlow meters of a bridge: read them, and add, change and delete them.

A bundle has no room for meters, so that each is a command of its own: those that flows will use come before the bundle of
these flows, those that no flow uses any more go after it. A meter that is deleted takes the flows with it that use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dnsteer.render.meters import Meter
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import CommandError, SwitchError, TimedOutError

_COUNTS = re.compile(r"^meter:(\d+) .*?packet_in_count:(\d+).*?\n0: packet_count:(\d+)", re.M | re.S)
_MAX = re.compile(r"\bmax_meter:(\d+)")
_ERROR = re.compile(r"OFPT_ERROR[^:]*: (\w+)")
_FULL, _UNKNOWN = "OFPMMFC_OUT_OF_METERS", "OFPMMFC_UNKNOWN_METER"


class MetersLostError(SwitchError):
    """A meter that was there is gone: the switch was restarted meanwhile, or somebody has deleted it."""


@dataclass(frozen=True)
class MeterCount:
    """What a meter has met since it was made: all packets, and those of them that it dropped."""

    packets: int
    dropped: int


def read_meter_counts(client: OpenFlow) -> dict[int, MeterCount]:
    """Return what each meter of the bridge has counted, by number. Raises SwitchError or its kinds."""
    text = client.ofctl("meter-stats")
    return {int(m[1]): MeterCount(int(m[2]), int(m[3])) for m in _COUNTS.finditer(text)}


def max_meters(client: OpenFlow) -> int:
    """Return how many meters the bridge can have; 0: its datapath has none. Raises SwitchError or its kinds."""
    m = _MAX.search(client.ofctl("meter-features"))
    return int(m[1]) if m else 0


def bring_meters(client: OpenFlow, add: Sequence[Meter], change: Sequence[Meter], before: Iterable[Meter] = ()) -> None:
    """Add meters and change others. Where one is refused, those that were brought are taken back; *before* has all of
    the bridge's meters as they were.

    Raises MetersLostError, or SwitchError with the number that the switch can have where that is the reason.
    """
    done: list[Meter] = []
    try:
        for command, meters in (("add-meter", add), ("mod-meter", change)):
            for meter in meters:
                _command(client, command, meter)
                done.append(meter)
    except SwitchError as err:
        said = take_back_meters(client, done, before) if not isinstance(err, MetersLostError) else ""
        if said:
            raise SwitchError(f"{err}; {said}") from None
        raise


def take_back_meters(client: OpenFlow, brought: Iterable[Meter], before: Iterable[Meter]) -> str:
    """Delete or change back meters that were brought. Returns what could not be taken back, in words."""
    were = {meter.number: meter for meter in before}
    try:
        for meter in brought:
            if meter.number in were:
                _command(client, "mod-meter", were[meter.number])
            else:
                client.ofctl("del-meter", f"meter={meter.number}")
    except SwitchError as err:
        return f"meters that were brought for it stay until the next apply ({err})"
    return ""


def delete_meters(client: OpenFlow, meters: Iterable[Meter]) -> None:
    """Delete meters. One that is gone already makes no difference. Raises SwitchError or its kinds."""
    for meter in meters:
        client.ofctl("del-meter", f"meter={meter.number}")


def _command(client: OpenFlow, command: str, meter: Meter) -> None:
    try:
        client.ofctl(command, meter.text)
    except TimedOutError:
        raise
    except CommandError as err:
        m = _ERROR.search(err.said)
        why = m[1] if m else err.said
        if why == _UNKNOWN:
            raise MetersLostError(f"meter {meter.number} is gone from the bridge; repeat the command") from None
        if why == _FULL or not max_meters(client):
            most = max_meters(client)
            raise SwitchError(
                f"the switch has no room for meter {meter.number} ({meter.text}): it can have {most:,} meters, those of "
                "others included; leave out limits, or set switch.limits.echo: none where it can have none"
            ) from None
        raise SwitchError(f"the switch refused meter {meter.number}: {why}: {meter.text}") from None
