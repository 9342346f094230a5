# SPDX-License-Identifier: Apache-2.0
"""Load at a fixed rate on all addresses of a VIP, for as long as a change takes: dnsperf by UDP and some by TCP.

The load is open up to its limit of queries under way (*outstanding*): as long as answers come, the rate is kept whatever
happens. Where answers stay away, the queries under way are soon all lost ones, and dnsperf waits for their time limit before
it sends more. So 0 lost means that nothing was lost; the number lost in an outage is a lower bound, and the slowest second
shows the outage as well.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from bench.change.priority import LOADING, prefer_process
from dnsteer.lab import traffic
from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState
from dnsteer.lab.traffic import Load, LoadResult, RunningLoad

QPS = 24_000
"""Queries a second by UDP, over all addresses."""
TCP_QPS = 500
OUTSTANDING, TCP_OUTSTANDING = 100, 20
"""Queries under way, over all addresses: with the probes' no more than the raw sockets of the lab's switch hold."""
LONGEST = 3600.0
"""Seconds after which a load ends by itself."""
_TIMEOUT = 2
_MAX_SOCKETS = 2 * traffic.MAX_CLIENTS
"""Sockets of one dnsperf. Each 256 take a thread, and more than two threads spend their time on each other."""
_CONNECTING = 0.25
"""Seconds in which a dnsperf opens its TCP connections, all at once: several, or one beside the UDP, would be more packets
than a raw socket of the lab's switch holds."""
_GOOD = ("NOERROR", "NXDOMAIN")


@dataclass(frozen=True)
class Total:
    """What a load came to, by UDP or by TCP, over all addresses.

    *lost* got no answer within two seconds, or were on a TCP connection that broke; *interrupted* were under way at the end,
    at most as many as OUTSTANDING; *errors* are answers other than the zone's; *slowest* is the lowest rate of a whole
    second, *latency* the slowest answer (s).
    """

    sent: int = 0
    completed: int = 0
    lost: int = 0
    interrupted: int = 0
    errors: int = 0
    reconnections: int = 0
    seconds: float = 0.0
    qps: float = 0.0
    slowest: float = 0.0
    latency: float = 0.0


@dataclass(frozen=True)
class Steady:
    """The result of a load."""

    udp: Total
    tcp: Total
    parts: tuple[LoadResult, ...] = field(default=(), repr=False)

    @property
    def lost(self) -> int:
        """Queries lost by UDP and TCP."""
        return self.udp.lost + self.tcp.lost


class SteadyLoad:
    """dnsperf to each address of *slots* at a client, from now until `stop`. As a context manager it ends with the block.

    *slots* has for each address the number of slots of the pool behind it. By UDP the source ports reach all of them alike
    (the lowest bit of a port chooses nothing), or 256 of them when there are more: `Clients` reach them all. By TCP they are
    whatever the kernel gives. Raises LabError for a rate that is not positive or more addresses than queries under way.
    """

    def __init__(
        self,
        lab: LabState,
        slots: Mapping[str, int],
        *,
        qps: int = QPS,
        tcp_qps: int = TCP_QPS,
        outstanding: int = OUTSTANDING,
        port: int = 53,
        uplink: str | None = None,
    ) -> None:
        if not slots or qps < len(slots) or outstanding < len(slots) > TCP_OUTSTANDING:
            raise LabError(f"{qps} queries a second, {outstanding} under way, to {len(slots)} addresses: too few")
        self._udp: list[RunningLoad] = []
        self._tcp: list[RunningLoad] = []
        with ExitStack() as stack:
            for transport, rate, limit, into in (
                ("tcp", tcp_qps, TCP_OUTSTANDING, self._tcp),
                ("udp", qps, outstanding, self._udp),
            ):
                for number, (address, count) in enumerate(slots.items() if rate else ()):
                    # TCP: setting up more connections takes time and shows no more.
                    sockets = min(max(128, 2 * count), _MAX_SOCKETS) if transport == "udp" else 128
                    load = Load(
                        address,
                        port,
                        transport,
                        clients=sockets,
                        threads=-(-sockets // traffic.MAX_CLIENTS),
                        outstanding=_part(limit, number, len(slots)),
                        max_qps=_part(rate, number, len(slots)),
                        seconds=LONGEST,
                        timeout=_TIMEOUT,
                        report_seconds=1.0,
                        any_ports=transport == "tcp",
                        uplink=uplink,
                    )
                    into.append(stack.enter_context(traffic.start_dnsperf(lab, load)))
                    if transport == "tcp":
                        time.sleep(_CONNECTING)
            self._stack = stack.pop_all()

    def __enter__(self) -> SteadyLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def prefer(self) -> None:
        """Let it run before what is measured, in a lab that runs before both; without, its rate gives way to the changes."""
        for running in (*self._udp, *self._tcp):
            prefer_process(running.pid, LOADING)

    def stop(self) -> Steady:
        """End it and count. Takes a little over two seconds, so that what is lost by now is known to be.

        Raises CommandError when a dnsperf had failed before, LabError when one had ended.
        """
        time.sleep(_TIMEOUT + 0.2)
        for running in (*self._udp, *self._tcp):
            if running.done():
                result = running.wait(0.0)  # raises when it failed
                raise LabError(f"a load ended by itself after {result.seconds:g} s: {' '.join(result.argv)}")
        udp, tcp = ([running.stop() for running in group] for group in (self._udp, self._tcp))
        return Steady(_total(udp), _total(tcp), (*udp, *tcp))


def _part(whole: int, number: int, of: int) -> int:
    """The share of number *number* of *of* when *whole* is dealt out; at least 1."""
    return max(1, whole // of + (number < whole % of))


def _total(parts: Sequence[LoadResult]) -> Total:
    if not parts:
        return Total()
    seconds = max(p.seconds for p in parts)
    completed = sum(p.completed for p in parts)
    # The loads begin at about the same time (UDP milliseconds apart, TCP a second in all). In the first second they start.
    rates = [sum(rates) for rates in zip(*(p.rates for p in parts), strict=False)][1:]
    return Total(
        sent=sum(p.sent for p in parts),
        completed=completed,
        lost=sum(p.lost for p in parts),
        interrupted=sum(p.interrupted for p in parts),
        errors=sum(n for p in parts for code, n in p.rcodes.items() if code not in _GOOD),
        reconnections=sum(p.reconnections for p in parts),
        seconds=seconds,
        qps=round(sum(p.qps for p in parts), 1),
        slowest=round(min(rates, default=0.0), 1),
        latency=max(p.max_latency for p in parts),
    )
