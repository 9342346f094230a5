# SPDX-License-Identifier: Apache-2.0
"""Limits that would let nothing pass, say nothing, or need more meters than there can be."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import FAMILIES, FAMILY_NAMES
from dnsteer.spec.model.limits import ClientLimits, VipLimits, least_burst, show_rate
from dnsteer.spec.model.spec import Flavor
from dnsteer.tables.client_limits import client_limits

_METERS = {Flavor.OVS_KERNEL: 200_000}
"""Linux: DP_METER_NUM_MAX in net/openvswitch/meter.h, and fewer with little memory; apply asks the switch."""
_MOST_METERS = 262_144
"""MAX_METERS in lib/dpif-netdev.c of Open vSwitch, which OVS-DOCA has too."""


def check_limits(scope: Scope) -> Iterator[Finding]:
    """Limits of VIPs, one by one and all together."""
    for name, vip in scope.spec.vips.items():
        if vip.limits is not None:
            yield from _of_vip(scope, ("vips", name, "limits"), vip.limits)
            if vip.limits.tcp_syn is not None and all(e.protocol.value != "tcp" for e in derived.endpoints(vip)):
                found = f"a limit of TCP, and no service of {name} is over TCP"
                yield scope.finding(
                    ("vips", name, "limits", "tcp_syn"), found, "a service such as dns or dot", "leave it out"
                )
    yield from _meters(scope)


def _of_vip(scope: Scope, path: Path, limits: VipLimits) -> Iterator[Finding]:
    words = {"queries": limits.queries, "clients": limits.clients, "tcp_syn": limits.tcp_syn}
    if not any(words.values()):
        yield scope.finding(path, "no limit", f"one of {', '.join(words)}", "without any, leave limits out")
    elif limits.queries is None and limits.burst is not None:
        yield scope.finding(
            (*path, "burst"),
            f"{limits.burst:,} without queries",
            "queries: RATE beside it",
            "clients have a burst of their own: limits.clients.burst",
        )
    elif limits.queries is None and limits.tcp_syn is None and limits.per == "service":
        yield scope.finding(
            (*path, "per"),
            "service without queries and tcp_syn",
            "one of them beside it",
            "what clients may send is for all services of a VIP",
        )
    if limits.queries is not None:
        yield from _burst(scope, (*path, "burst"), limits.queries, limits.burst)
    if limits.clients is not None:
        clients = (*path, "clients")
        yield from _burst(scope, (*clients, "burst"), limits.clients.rate, limits.clients.burst)
        yield from _prefixes(scope, clients, limits.clients)


def _burst(scope: Scope, path: Path, rate: int, burst: int | None) -> Iterator[Finding]:
    if burst is not None and burst < least_burst(rate):
        yield scope.finding(
            path,
            f"{burst:,}",
            f"at least {least_burst(rate):,} packets with {show_rate(rate)}, those of 10 ms",
            "Open vSwitch credits a meter by whole milliseconds, and one that holds less than a millisecond's packets "
            "lets nothing pass any more once it is empty; leave it out for those of 100 ms",
        )


def _prefixes(scope: Scope, path: Path, clients: ClientLimits) -> Iterator[Finding]:
    for family in FAMILIES:
        length: int = getattr(clients.prefix, family)
        if length < clients.bits:
            yield scope.finding(
                (*path, "prefix", family),
                f"{length}",
                f"at least {clients.bits}: the last bits of the prefix choose one of {clients.buckets:,} buckets",
                f"there are fewer prefixes of {FAMILY_NAMES[family]} than buckets; set buckets: {max(16, 1 << length)}"
                if length >= 4
                else "a longer prefix tells clients apart",
            )


def _meters(scope: Scope) -> Iterator[Finding]:
    """More buckets than a switch can have meters; what else has meters is counted with the switch, when it is known."""
    limits, flavor = client_limits(scope.spec), scope.spec.switch.flavor
    most, total = _METERS.get(flavor, _MOST_METERS), sum(one.clients.buckets for one in limits)
    if total > most:
        last = limits[-1]
        yield scope.finding(
            (*last.path, "buckets"),
            f"{total:,} buckets in {len(limits)} different limits of clients",
            f"at most {most:,} meters, which is what Open vSwitch can have with flavor {flavor.value}",
            "VIPs whose clients: are the same share their buckets; or set fewer buckets",
        )
