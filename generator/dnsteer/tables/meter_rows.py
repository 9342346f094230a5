# SPDX-License-Identifier: Apache-2.0
"""The meters of a spec as rows: of the echo requests that the switch answers, and of the VIPs with limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from dnsteer.spec.errors import Path
from dnsteer.tables.cookies import METER_BASE, METER_LAST, Category, Subject, number_names

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Spec, Vip
    from dnsteer.tables.context import Context

_BITS = (METER_LAST - METER_BASE).bit_length()


class MeterRow(NamedTuple):
    """A meter of one band, which drops. *rate* is in packets a second, *burst* in packets.

    *vip* and *service* say whose queries it is for: all of a VIP's without a service, such as `53/udp`; no VIP: it is for
    echo requests, to *service* `vips` or `gateways`.
    """

    subject: Subject
    number: int
    rate: int
    burst: int
    vip: str
    service: str


def meters(ctx: Context) -> list[MeterRow]:
    """Return the meters of a spec, those of echo requests first."""
    return ctx.once("meters", lambda: list(_meters(ctx)))


def echo_meter(ctx: Context, side: str) -> int:
    """Return the number of the meter of echo requests to `vips` or `gateways`; 0: there is none."""
    return next((row.number for row in meters(ctx) if not row.vip and row.service == side), 0)


def meter_numbers(ctx: Context) -> dict[tuple[str, str], int]:
    """Return the numbers of the meters of VIPs, by VIP and service as rows have them."""
    return ctx.once("meter_numbers", lambda: {(row.vip, row.service): row.number for row in meters(ctx)})


def limits_by_meter(spec: Spec) -> dict[int, tuple[str, str]]:
    """Return VIP and service, as rows have them, of each meter of a spec by its number."""
    wanted = _wanted(spec)
    numbers = _numbers(wanted)
    return {METER_BASE + numbers[f"{vip}/{service}"]: (vip, service) for vip, service, *_ in wanted}


def _meters(ctx: Context) -> Iterator[MeterRow]:
    wanted = _wanted(ctx.spec)
    numbers = _numbers(wanted)
    for vip, service, title, path, rate, burst in wanted:
        number = numbers[f"{vip}/{service}"]
        subject = ctx.subject(Category.METER, number, title, path)
        yield MeterRow(subject, METER_BASE + number, rate, burst, vip, service)


def _wanted(spec: Spec) -> list[_Wanted]:
    return [*_echo(spec), *(each for name, vip in spec.vips.items() for each in _of_vip(name, vip))]


def _numbers(wanted: Iterable[_Wanted]) -> dict[str, int]:
    return number_names((f"{vip}/{service}" for vip, service, *_ in wanted), _BITS)


_Wanted = tuple[str, str, str, Path, int, int]
"""Of a meter: VIP, service, title, place in the spec, rate and burst."""


def _echo(spec: Spec) -> Iterator[_Wanted]:
    from dnsteer.spec.model.limits import ECHO_RATE, usual_burst  # here, since the quick verbs do without it

    switch = spec.switch
    given = switch.limits is not None and "echo" in switch.limits.model_fields_set
    rate = switch.limits.echo if switch.limits is not None else ECHO_RATE
    path: Path = ("switch", "limits", "echo") if given else ("switch",)
    sides = [("vips", "VIPs"), *([("gateways", "gateways")] if switch.gateways else [])]
    for side, words in sides if rate else []:
        yield "", side, f"limit of echo requests to {words}", path, rate, usual_burst(rate)


def _of_vip(name: str, vip: Vip) -> Iterator[_Wanted]:
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.health_checks import service_name

    limits = vip.limits
    if limits is None:
        return
    services = [""]
    if limits.per == "service":
        services = [service_name(e.protocol.value, e.port) for e in derived.endpoints(vip)]
    for service in services:
        title = f"limit of VIP {name}{f' port {service}' if service else ''}"
        yield name, service, title, ("vips", name, "limits"), limits.queries, limits.burst_size
