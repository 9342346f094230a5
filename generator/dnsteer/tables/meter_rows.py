# SPDX-License-Identifier: Apache-2.0
"""The meters of a spec as rows: of the echo requests that the switch answers, and of the VIPs with limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from dnsteer.spec.errors import Path
from dnsteer.tables.client_limits import client_limits
from dnsteer.tables.cookies import BUCKET_METERS, METER_BASE, Category, Subject, number_names

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Spec, Vip
    from dnsteer.tables.context import Context

_BITS = (BUCKET_METERS - METER_BASE).bit_length() - 1
LimitKind = Literal["echo", "errors", "queries", "clients", "tcp_syn", "backends"]


class Limited(NamedTuple):
    """What a meter limits: a VIP's packets, of one *service* such as `53/udp` or of all, or ICMP of no VIP.

    The service of echo requests is `vips` or `gateways`, of ICMP errors `vips` or `backends`, of what comes for a backend's
    own address that. *vip* is the first of those that share buckets.
    """

    vip: str
    service: str
    kind: LimitKind


class MeterRow(NamedTuple):
    """A meter of one band, which drops. *rate* is in packets a second, *burst* in packets.

    *bucket* is that of clients which it is for.
    """

    subject: Subject
    number: int
    rate: int
    burst: int
    limited: Limited
    bucket: int = 0


def meters(ctx: Context) -> list[MeterRow]:
    """Return the meters of a spec, those of echo requests first and those of buckets last."""
    return ctx.once("meters", lambda: list(_meters(ctx)))


def echo_meter(ctx: Context, side: str) -> int:
    """Return the number of the meter of echo requests to `vips` or `gateways`; 0: there is none."""
    return next((row.number for row in meters(ctx) if row.limited == Limited("", side, "echo")), 0)


def meter_of(ctx: Context, kind: LimitKind, vip: str, service: str) -> int:
    """Return the number of the meter that limits a service of a VIP; 0: nothing does."""
    numbers = ctx.once("meter_numbers", lambda: {row.limited: row.number for row in meters(ctx)})
    return numbers.get(Limited(vip, "", kind)) or numbers.get(Limited(vip, service, kind), 0)


def limits_by_meter(spec: Spec) -> dict[int, Limited]:
    """Return what each meter of a spec limits, by its number; those of the buckets of a limit have one."""
    wanted = _wanted(spec)
    numbers = _numbers(wanted)
    found = {METER_BASE + numbers[each.limited]: each.limited for each in wanted}
    for limit in client_limits(spec):
        meters = range(limit.first_meter, limit.first_meter + limit.clients.buckets)
        found |= dict.fromkeys(meters, Limited(limit.vips[0], "", "clients"))
    return found


class _Wanted(NamedTuple):
    """What a meter that is no bucket's is for, with its title and place in the spec."""

    limited: Limited
    title: str
    path: Path
    rate: int
    burst: int


def _meters(ctx: Context) -> Iterator[MeterRow]:
    from dnsteer.spec.model.limits import burst_of  # here, since the quick verbs do without it

    wanted = _wanted(ctx.spec)
    numbers = _numbers(wanted)
    for each in wanted:
        number = numbers[each.limited]
        subject = ctx.subject(Category.METER, number, each.title, each.path)
        yield MeterRow(subject, METER_BASE + number, each.rate, each.burst, each.limited)
    for limit in client_limits(ctx.spec):
        subject = ctx.subject(Category.METER, limit.first_meter, limit.title, limit.path)
        limited = Limited(limit.vips[0], "", "clients")
        rate, burst = limit.clients.rate, burst_of(limit.clients.rate, limit.clients.burst)
        for bucket in range(limit.clients.buckets):
            yield MeterRow(subject, limit.first_meter + bucket, rate, burst, limited, bucket)


def _wanted(spec: Spec) -> list[_Wanted]:
    return [
        *_echo(spec),
        *_errors(spec),
        *_backends(spec),
        *(each for name, vip in spec.vips.items() for each in _of_vip(name, vip)),
    ]


def _numbers(wanted: Iterable[_Wanted]) -> dict[Limited, int]:
    names = {each.limited: " ".join(each.limited) for each in wanted}
    numbers = number_names(names.values(), _BITS)
    return {limited: numbers[name] for limited, name in names.items()}


def _echo(spec: Spec) -> Iterator[_Wanted]:
    from dnsteer.spec.model.limits import ECHO_RATE, usual_burst  # here, since the quick verbs do without it

    switch = spec.switch
    given = switch.limits is not None and "echo" in switch.limits.model_fields_set
    rate = switch.limits.echo if switch.limits is not None else ECHO_RATE
    path: Path = ("switch", "limits", "echo") if given else ("switch",)
    sides = [("vips", "VIPs"), *([("gateways", "gateways")] if switch.gateways else [])]
    for side, words in sides if rate else []:
        limited = Limited("", side, "echo")
        yield _Wanted(limited, f"limit of echo requests to {words}", path, rate, usual_burst(rate))


def _errors(spec: Spec) -> Iterator[_Wanted]:
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.model.limits import ERROR_RATE, usual_burst

    limits = spec.switch.limits
    rate = limits.errors if limits is not None else ERROR_RATE
    path: Path = ("switch", "limits", "errors") if limits and "errors" in limits.model_fields_set else ("switch",)
    if any(derived.copies_errors(vip, spec.pools[vip.pool]) for vip in spec.vips.values()):
        yield _Wanted(Limited("", "vips", "errors"), "limit of ICMP errors to VIPs", path, rate, usual_burst(rate))
    if spec.switch.own_traffic is not None:
        title = "limit of ICMP of and for backends themselves"
        yield _Wanted(Limited("", "backends", "errors"), title, path, rate, usual_burst(rate))


def _backends(spec: Spec) -> Iterator[_Wanted]:
    from dnsteer.spec.model.limits import OWN_RATE, usual_burst  # here, since the quick verbs do without it
    from dnsteer.spec.own_traffic import has_outside, own_addresses

    limits = spec.switch.limits
    rate = limits.backends if limits is not None else OWN_RATE
    for own in own_addresses(spec) if has_outside(spec) else ():
        title = f"limit of what comes for backend {own.backend.name}'s own address {own.address}"
        yield _Wanted(Limited("", own.address, "backends"), title, own.path, rate, usual_burst(rate))


def _of_vip(name: str, vip: Vip) -> Iterator[_Wanted]:
    from dnsteer.spec import derived  # here, since the quick verbs do without it
    from dnsteer.spec.health_checks import service_name
    from dnsteer.spec.model.limits import burst_of, usual_burst

    limits = vip.limits
    if limits is None:
        return
    services = [service_name(e.protocol.value, e.port) for e in derived.endpoints(vip)]
    if limits.queries is not None:
        for service in services if limits.per == "service" else [""]:
            title = f"limit of VIP {name}{f' port {service}' if service else ''}"
            limited = Limited(name, service, "queries")
            yield _Wanted(
                limited, title, ("vips", name, "limits"), limits.queries, burst_of(limits.queries, limits.burst)
            )
    if limits.tcp_syn is not None:
        over_tcp = [service for service in services if service.endswith("/tcp")]
        for service in over_tcp if limits.per == "service" else [""]:
            title = f"limit of TCP SYN of VIP {name}{f' port {service}' if service else ''}"
            path: Path = ("vips", name, "limits", "tcp_syn")
            yield _Wanted(Limited(name, service, "tcp_syn"), title, path, limits.tcp_syn, usual_burst(limits.tcp_syn))
