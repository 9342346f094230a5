# SPDX-License-Identifier: Apache-2.0
"""OpenFlow meters of a bridge: read them, and add, change and delete them.

A bundle has no room for meters, so that they change by themselves: those that flows will use come before the bundle of
these flows, those that no flow uses any more go after it. A meter that is deleted takes the flows with it that use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dnsteer.render.meters import Meter
from dnsteer.switch.meter_messages import MeterChange, MeterCommand, change_meters
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.tools import SwitchError, reworded

_COUNTS = re.compile(r"^meter:(\d+) .*?packet_in_count:(\d+).*?\n0: packet_count:(\d+)", re.M | re.S)
_MAX = re.compile(r"\bmax_meter:(\d+)")


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
    changes = [
        *(MeterChange(MeterCommand.ADD, meter) for meter in add),
        *(MeterChange(MeterCommand.MODIFY, meter) for meter in change),
    ]
    try:
        refused = change_meters(client, changes, client.timeout)
    except SwitchError as err:
        raise _with_rest(err, take_back_meters(client, [each.meter for each in changes], before)) from None
    if not refused:
        return
    place, reason = next(iter(refused.items()))
    refusal = _refusal(client, changes[place].meter, reason)
    if isinstance(refusal, MetersLostError):
        raise refusal
    brought = [each.meter for place, each in enumerate(changes) if place not in refused]
    raise _with_rest(refusal, take_back_meters(client, brought, before))


def take_back_meters(client: OpenFlow, brought: Iterable[Meter], before: Iterable[Meter]) -> str:
    """Delete or change back meters that were brought. Returns what could not be taken back, in words."""
    were = {meter.number: meter for meter in before}
    changes = [
        MeterChange(MeterCommand.MODIFY, were[meter.number])
        if meter.number in were
        else MeterChange(MeterCommand.DELETE, meter)
        for meter in brought
    ]
    try:
        refused = change_meters(client, changes, client.timeout)
    except SwitchError as err:
        return f"meters that were brought for it stay until the next apply ({err})"
    if refused:
        return f"meters that were brought for it stay until the next apply ({next(iter(refused.values()))})"
    return ""


def delete_meters(client: OpenFlow, meters: Iterable[Meter]) -> None:
    """Delete meters. One that is gone already makes no difference. Raises SwitchError or its kinds."""
    changes = [MeterChange(MeterCommand.DELETE, meter) for meter in meters]
    for place, reason in change_meters(client, changes, client.timeout).items():
        raise SwitchError(f"the switch refused to delete meter {changes[place].meter.number}: {reason}")


def _with_rest(err: SwitchError, said: str) -> SwitchError:
    return reworded(err, f"{err}; {said}") if said else err


def _refusal(client: OpenFlow, meter: Meter, reason: str) -> SwitchError:
    if reason == "UNKNOWN_METER":
        return MetersLostError(f"meter {meter.number} is gone from the bridge; repeat the command")
    most = max_meters(client)
    if reason == "OUT_OF_METERS" or not most:
        return SwitchError(
            f"the switch has no room for meter {meter.number} ({meter.text}): it can have {most:,} meters, those of others "
            "and the old ones beside the new included; leave out limits, set fewer buckets, or set switch.limits.echo: none "
            "where it can have none"
        )
    return SwitchError(f"the switch refused meter {meter.number}: {reason}: {meter.text}")
