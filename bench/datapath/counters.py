# SPDX-License-Identifier: Apache-2.0
"""What OVS-DPDK says of its forwarding thread and ports, and figures per packet made of it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from dnsteer.switch.thread_counters import MAIN, ThreadCounters, read_threads
from dnsteer.switch.tools import SwitchError


def read_counters(text: str) -> ThreadCounters:
    """Read the counters of the one forwarding thread. Raises SwitchError when there is not exactly one such thread."""
    threads = [each for each in read_threads(text) if each.name != MAIN]
    if len(threads) != 1:
        raise SwitchError(f"OVS-DPDK has {len(threads)} forwarding threads, not one")
    return threads[0]


@dataclass(frozen=True)
class PortCounters:
    """Packets of a port."""

    received: int
    sent: int


def read_port(text: str, port: str) -> PortCounters:
    """Read one port of `dpctl/show -s`. Raises SwitchError when it is not there."""
    found = re.search(rf"port \d+: {port} .*?RX packets:(\d+).*?TX packets:(\d+)", text, re.S)
    if found is None:
        raise SwitchError(f"no counters of port {port}")
    return PortCounters(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class Sample:
    """One measurement, per packet received.

    *mpps* million packets per second; *cycles* of the time stamp counter; *forwarded* packets sent, by the port's own
    count, and some more, since the port is read a moment before and after the thread; *waited* share of the time that the
    thread's core was taken away; the others say how packets found their flows.
    """

    mpps: float
    cycles: float
    forwarded: float
    waited: float
    passes: float
    simple: float
    emc: float
    smc: float
    megaflow: float
    lookups: float
    upcalls: int
    batch: float

    def as_json(self) -> dict[str, float]:
        """The sample as a JSON object."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def sample_of(counters: ThreadCounters, hertz: float, forwarded: int, waited: float) -> Sample:
    """Figures per packet. Raises SwitchError when there was none."""
    packets, cycles = counters.received, counters.used
    if not packets or not cycles:
        raise SwitchError("the forwarding thread received nothing")
    return Sample(
        mpps=packets / cycles * hertz / 1e6,
        cycles=cycles / packets,
        forwarded=forwarded / packets,
        waited=waited,
        passes=1 + counters.recirculations / packets,
        simple=counters.simple / packets,
        emc=counters.emc / packets,
        smc=counters.smc / packets,
        megaflow=counters.megaflow / packets,
        lookups=counters.lookups,
        upcalls=counters.upcalls + counters.lost,
        batch=counters.batch,
    )
