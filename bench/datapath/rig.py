# SPDX-License-Identifier: Apache-2.0
"""The bridge that is measured: packets come in by p0 and go out by p1, both DPDK devices without a card."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

from bench.datapath.counters import Sample, read_counters, read_port, sample_of
from bench.datapath.dpdk import DpdkSwitch
from dnsteer.plan import min_fragment
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import groups_of, lines_of
from dnsteer.render.meters import meters_of
from dnsteer.switch.meters import bring_meters
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.thread_counters import ThreadCounters
from dnsteer.switch.tools import SwitchError

BRIDGE = "br-dns"
PORTS = ("p0", "p1")
"""Ports of the bridge; their OpenFlow numbers are 1 and 2."""
_IDLE = "net_null{n},no-rx=1"
_MAX_WAIT = 0.01
_TRIES = 5
_PATIENCE = 10.0
_QUIET = 0.5
"""Seconds without a packet after which no more come: the thread may get no core for a while."""


class Rig:
    """A bridge with p0 and p1 on an OVS-DPDK. Devices can be changed under its tables."""

    def __init__(self, switch: DpdkSwitch) -> None:
        self.switch = switch
        self._numbers = count()  # of devices: one that is closed lives on for a moment
        switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev", "fail_mode=secure")
        for port in PORTS:
            self.device(port, _IDLE)
        self._openflow = OpenFlow(f"unix:{switch.dir}/{BRIDGE}.mgmt", switch.env)
        self.hertz = switch.hertz()

    def device(self, port: str, arguments: str = _IDLE) -> None:
        """Put another DPDK device behind *port*; `{n}` in *arguments* becomes a number that no other device has."""
        devargs = arguments.format(n=next(self._numbers))
        columns = ("type=dpdk", f"ofport_request={PORTS.index(port) + 1}", f'options:dpdk-devargs="{devargs}"')
        again = ("--if-exists", "del-port", port, "--", "add-port", BRIDGE, port)
        self.switch.vsctl(*again, "--", "set", "Interface", port, *columns)
        number, problem = (self.switch.vsctl("get", "Interface", port, c).strip() for c in ("ofport", "error"))
        if number != str(PORTS.index(port) + 1):
            raise SwitchError(f"port {port} with {devargs}: number {number}, {problem}")

    def load(self, plan: Plan) -> None:
        """Replace the tables by a plan's, and have the tracker take fragments as an apply does."""
        self.switch.appctl(*min_fragment.setting(min_fragment.SMALLEST))
        bring_meters(self._openflow, [m for m in meters_of(plan) if m.number not in self._openflow.dump().meters], ())
        self.load_lines([*(f"group add {g.text}" for g in groups_of(plan)), *(f"flow add {f}" for f in lines_of(plan))])

    def load_lines(self, lines: Iterable[str]) -> None:
        """Replace the tables, and let no megaflow of the old ones stay."""
        self._openflow.bundle(["flow delete", "group delete group_id=all", *lines])
        self._forget()

    def _forget(self) -> None:
        """Take all megaflows of p0 away while it is idle.

        One that the revalidator has in hand just then is passed over, stays as it was matched and gets the new tables'
        actions, so it is done until none is left. Raises SwitchError when some stay.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            self.switch.appctl("revalidator/purge")
            if f"in_port({PORTS[0]})" not in self.switch.appctl("dpctl/dump-flows", "--names"):
                return
            if time.monotonic() > deadline:
                raise SwitchError(f"megaflows of {PORTS[0]} stay, {_PATIENCE:g} s after they were to go")

    def implementations(self, lookup: bool, whole: bool) -> None:
        """Use the functions for AVX-512 to look up masked flows, and for the *whole* way of a packet, or the plain ones."""
        kind = "avx512" if whole else "scalar"
        self.switch.appctl("dpif-netdev/dpif-impl-set", f"dpif_{kind}")
        self.switch.appctl("dpif-netdev/miniflow-parser-set", "study" if whole else "scalar")
        self.switch.appctl("odp-execute/action-impl-set", kind)
        self.switch.appctl("dpif-netdev/subtable-lookup-prio-set", "avx512_gather", "5" if lookup else "0")

    def has_vector(self) -> bool:
        """Whether the build has functions for AVX-512."""
        return "avx512" in self.switch.appctl("dpif-netdev/subtable-lookup-prio-get")

    def measure(self, seconds: float, warm: float) -> Sample:
        """What the forwarding thread does for *seconds*, after *warm* seconds that fill its caches.

        Done again while others took the thread's core away; the sample says how much of the time it waited.
        """
        time.sleep(warm)
        samples: list[Sample] = []
        while len(samples) < _TRIES and not (samples and samples[-1].waited <= _MAX_WAIT):
            samples.append(self._once(seconds))
        return min(samples, key=lambda s: s.waited)

    def _once(self, seconds: float) -> Sample:
        thread, forwarded = self.switch.thread(), self._forwarded()
        self._clear()
        before, start = self._waited(thread), time.monotonic()
        time.sleep(seconds)
        counters = self.counters()
        length = time.monotonic() - start
        after, forwarded = self._waited(thread), self._forwarded() - forwarded
        return sample_of(counters, self.hertz, forwarded, (after - before) / length)

    def _clear(self) -> None:
        """Clear the forwarding thread's counters, which it does itself, when it next comes round."""
        start = time.monotonic()
        self.switch.appctl("dpif-netdev/pmd-stats-clear")
        time.sleep(0.002)  # 4.0 prints no counters in the millisecond in which they were cleared
        while True:
            counters, elapsed = self.counters(), time.monotonic() - start
            if (counters.used or 0) <= elapsed * self.hertz:
                return
            if elapsed > _PATIENCE:
                raise SwitchError(f"the forwarding thread did not clear its counters within {_PATIENCE:g} s")

    def counters(self) -> ThreadCounters:
        """What the forwarding thread counted since they were cleared."""
        return read_counters(self.switch.appctl("dpif-netdev/pmd-stats-show"))

    def _forwarded(self) -> int:
        return read_port(self.switch.appctl("dpctl/show", "-s"), PORTS[1]).sent

    @staticmethod
    def _waited(thread: Path) -> float:
        """Seconds that the thread was ready to run and did not."""
        return int((thread / "schedstat").read_text().split()[1]) / 1e9

    def feed_once(self, arguments: str, patience: float = 60) -> ThreadCounters:
        """Let p0's new device bring its packets in once, as fast as they are taken, and count until no more come.

        Raises SwitchError when that takes longer than *patience* seconds.
        """
        self.device(PORTS[0])
        self._forget()
        self._clear()
        self.device(PORTS[0], arguments)
        deadline, last, came = time.monotonic() + patience, 0, time.monotonic()
        while True:
            time.sleep(0.1)
            counters = self.counters()
            if counters.received != last:
                last, came = counters.received, time.monotonic()
            elif last and time.monotonic() > came + _QUIET:
                return counters
            if time.monotonic() > deadline:
                raise SwitchError(f"OVS-DPDK did not take all packets of {arguments} within {patience:g} s")

    def hurry(self) -> None:
        """Let nothing else run on the forwarding thread's core while it wants to (the kernel leaves others 5 %)."""
        os.sched_setscheduler(int(self.switch.thread().name), os.SCHED_FIFO, os.sched_param(1))


def flows(lines: Sequence[str]) -> list[str]:
    """Flows as lines of a bundle."""
    return [f"flow add {line}" for line in lines]
