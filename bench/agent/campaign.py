# SPDX-License-Identifier: Apache-2.0
"""Faults one after the other, of one server each, under load: what the agent, dnsdist and their clients see of them."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.agent import dnsdist, loss
from bench.agent.faults import FAULTS, LOSS, UNSEEN_BY_PROXY, Fault, lossy
from bench.agent.figures import Query, out_of_service, phase
from bench.agent.world import POOL, SLOTS, TIMEOUT, VIP, address, server
from bench.change.inside import Helper
from bench.change.ports import PROBE_PORTS, slot_of, source_ports
from dnsteer.lab import names
from dnsteer.lab.command import LabProgram, Line
from dnsteer.lab.state import LabState
from dnsteer.lab.stream import WAIT
from dnsteer.lab.zone import HOSTS
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec.model.spec import Spec

RATE = 200
"""Queries a second of the affected clients, of each way."""
OTHERS = 1000
"""Queries a second of all clients of the VIP."""
LONGEST = {"fault": 8.0, "repair": 12.0, "loss": 40.0, "repair of loss": 60.0}
"""Seconds to wait for a checker."""
SETTLE = 1.0
"""Seconds of load before a fault, and after both have acted."""
_HOST_NAMES = [f"h{n}.{names.ZONE}" for n in range(HOSTS)]
_OTHERS_PORTS = 4 * SLOTS
"""Ports at the beginning of the range that are theirs: two of each slot, and some more for where the range begins."""
_WAYS = ("agent", "dnsdist")


class Campaign:
    """Runs in a lab whose spec is applied. As a context manager the programs end with the block."""

    def __init__(self, lab: LabState, spec: Spec, folder: Path) -> None:
        self._lab = lab
        self._slots = slots_of(spec, spec.pools[POOL], "ipv4")
        self._addresses = {server(n + 1): address(n + 1) for n in range(len(lab.servers))}
        self.collateral = {"asked": 0, "lost": 0, "errors": 0}
        """Queries of all clients to servers without a fault."""
        with ExitStack() as stack:
            self._agent = stack.enter_context(LabProgram(names.SWITCH_NAMESPACE, _dnsteer("agent", "--db", lab.db)))
            mgmt = f"unix:{names.RUN_DIR / lab.bridge}.mgmt"
            monitor = ["ovs-ofctl", "monitor", mgmt, "watch:!initial"]
            environment = {"OVS_RUNDIR": str(names.RUN_DIR)}
            self._flows = stack.enter_context(LabProgram(names.SWITCH_NAMESPACE, monitor, environment))
            self._dnsdist = stack.enter_context(dnsdist.started(lab, self._addresses, folder))
            self._streams = {way: stack.enter_context(Helper(lab, "bench.agent.stream")) for way in (*_WAYS, "others")}
            self._agent.wait_for_line(lambda text: "targets" in text, 10.0)
            for own in self._addresses.values():  # dnsdist begins with all of them down
                self._dnsdist.wait_for_line(lambda text, own=own: dnsdist.marks(text, own) == "up", 10.0)
            self._names = self._hashed_names()
            self._stack = stack.pop_all()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def one(self, name: str, backend: str) -> dict[str, dict[str, Any]]:
        """One fault of *backend* and its repair. What was seen, by way."""
        fault = FAULTS[name](self._lab, self._lab.server(backend))
        seen = set(_WAYS[:1] if name in UNSEEN_BY_PROXY else _WAYS)
        self._start(backend)
        time.sleep(SETTLE + random.random())  # at any time between two probes
        begin = fault.begin()
        found = self._both(backend, begin, "down", LONGEST["fault"], seen)
        time.sleep(
            WAIT
        )  # a server that hung answers what still waits for it: by then nobody does who asked in the fault
        repaired = fault.end()
        back = self._both(backend, repaired, "up", LONGEST["repair"], seen)
        time.sleep(SETTLE)
        queries, stopped = self._stop(backend)
        return {
            way: {
                "fault_share_before": _share(queries[way], backend, begin),
                **self._times("fault", way, backend, begin, found),
                **_seen("fault", queries[way], backend, begin, repaired),
                **self._times("repair", way, backend, repaired, back),
                **_seen("repair", queries[way], None, repaired, stopped, backend),
            }
            for way in _WAYS
        }

    def partial_loss(self, backend: str) -> dict[str, Any]:
        """Some of the queries to *backend* are lost for a while."""
        fault: Fault = lossy(self._lab, self._lab.server(backend))
        self._start(backend)
        time.sleep(SETTLE)
        begin = fault.begin()
        time.sleep(LONGEST["loss"])
        repaired = fault.end()
        back: dict[str, float | None] = {}
        for way in _WAYS:
            marks = self._marks(way, backend)
            out = bool(marks) and not marks[-1][1]
            line = self._waits(way, backend, "up", LONGEST["repair of loss"], marks[-1][0]) if out else None
            back[way] = round(max(0.0, line[0] - repaired), 3) if line is not None else None
        time.sleep(SETTLE)
        queries, _ = self._stop(backend)
        measured: dict[str, Any] = {}
        for way in _WAYS:
            inside = [q for q in queries[way] if begin <= q.sent < repaired]
            lost = sum(not q.answered for q in inside)
            marks = self._marks(way, backend)
            times, share = out_of_service(marks, begin, repaired)
            first = next((t for t, healthy in marks if t >= begin and not healthy), None)
            measured[way] = {
                "asked": len(inside),
                "lost": lost,
                "lost_share": round(lost / max(1, len(inside)), 3),
                "first_out_s": round(first - begin, 3) if first is not None else None,
                "times_out": times,
                "share_out": round(share, 3),
                "back_s": back[way],
            }
        return {
            "loss_percent": LOSS,
            "seconds": LONGEST["loss"],
            "measured": measured,
            "computed": {
                "agent": loss.in_the_long_run(LOSS / 100, 300.0),
                "dnsdist": loss.in_the_long_run(LOSS / 100, 0.0),
            },
        }

    def _start(self, backend: str) -> None:
        # No port of `others`: of two sockets with the same four numbers only one gets answers.
        own = [p for p in PROBE_PORTS[_OTHERS_PORTS:] if self._slots[slot_of(p, SLOTS)] == backend][:64]
        by_port = [(VIP, 53, port) for port in own]
        ports = PROBE_PORTS[:64]
        hashed = [(dnsdist.ADDRESS, dnsdist.PORT, port) for port in ports]
        self._all = [(VIP, 53, port) for port in source_ports(2 * SLOTS, SLOTS)]
        for way, flows, asked, rate in (
            ("agent", by_port, _HOST_NAMES, RATE),
            ("dnsdist", hashed, self._names[backend], RATE),
            ("others", self._all, _HOST_NAMES, OTHERS),
        ):
            self._begin(way, flows, asked, rate, each=way != "others")

    def _begin(self, way: str, flows: Sequence[object], asked: Sequence[str], rate: float, *, each: bool) -> None:
        local = self._lab.client().addresses[0]
        self._streams[way].call("start", timeout=20, flows=flows, local=local, names=asked, rate=rate, each=each)

    def _stop(self, backend: str) -> tuple[dict[str, list[Query]], float]:
        """End the streams; the queries of each, and until when they were sent."""
        stopped = time.monotonic()
        queries = {way: self._ended(way) for way in _WAYS}
        counts = self._streams["others"].call("stop", timeout=60)["counts"]
        for (_, _, port), (sent, _, errors, _, lost) in zip(self._all, counts, strict=True):
            if self._slots[slot_of(port, SLOTS)] != backend:
                self.collateral["asked"] += sent
                self.collateral["errors"] += errors
                self.collateral["lost"] += len(lost)
        return queries, stopped

    def _ended(self, way: str) -> list[Query]:
        return [Query(*values) for values in self._streams[way].call("stop", timeout=60)["queries"]]

    def _hashed_names(self) -> dict[str, list[str]]:
        """The names that dnsdist gives to each server, by asking for all of them."""
        flows = [(dnsdist.ADDRESS, dnsdist.PORT, port) for port in PROBE_PORTS[:64]]
        self._begin("dnsdist", flows, _HOST_NAMES, 1000, each=True)
        time.sleep(1.3 * HOSTS / 1000)
        found: dict[str, list[str]] = {name: [] for name in self._addresses}
        for query in self._ended("dnsdist"):
            if query.good and query.name not in found[query.server]:
                found[query.server].append(query.name)
        return found

    def _marks(self, way: str, backend: str) -> list[tuple[float, bool]]:
        """When the checker of *way* found the server unhealthy (False) and healthy."""
        if way == "agent":
            ours = f"{POOL}/{backend} is "
            return [
                (t, text.startswith(f"{ours}healthy")) for t, text in list(self._agent.lines) if text.startswith(ours)
            ]
        return [(t, word == "up") for t, word in dnsdist.marked(list(self._dnsdist.lines), self._addresses[backend])]

    def _waits(self, way: str, backend: str, word: str, seconds: float, since: float) -> Line | None:
        if way == "agent":
            said = f"{POOL}/{backend} is {'healthy' if word == 'up' else 'unhealthy'}"
            return self._agent.wait_for_line(lambda text: text.startswith(said), seconds, since)
        own = self._addresses[backend]
        return self._dnsdist.wait_for_line(lambda text: dnsdist.marks(text, own) == word, seconds, since)

    def _both(self, backend: str, since: float, word: str, seconds: float, by: set[str]) -> dict[str, float | None]:
        """When each checker that can see it found the server to be up or down."""
        until = time.monotonic() + seconds
        lines = {way: self._waits(way, backend, word, max(0.0, until - time.monotonic()), since) for way in sorted(by)}
        return {way: line[0] if line is not None else None for way, line in lines.items()}

    def _times(
        self, what: str, way: str, backend: str, begin: float, found: dict[str, float | None]
    ) -> dict[str, float | None]:
        """Seconds until the checker knew, and from there until the first and the last flow was changed."""
        time_found = found.get(way)
        out = {f"{what}_detected_s": time_found - begin if time_found is not None else None}
        if way == "agent":
            events = [
                t
                for t, text in list(self._flows.lines)
                if time_found is not None and t >= time_found and "event=" in text
            ]
            events = [t for t in events if t < events[0] + 1.0]
            out[f"{what}_effect_s"] = events[0] - time_found if events and time_found is not None else None
            out[f"{what}_effect_whole_s"] = events[-1] - time_found if events and time_found is not None else None
        return out


def _seen(
    what: str, queries: Sequence[Query], before: str | None, begin: float, end: float, back: str | None = None
) -> dict[str, Any]:
    """What the clients of a way saw of a fault, with *before* the server that has it, or of the repair of *back*."""
    found = asdict(phase(queries, before, begin, end, TIMEOUT, back if what == "repair" else None))
    if what == "repair":
        found["back"] = found.pop("elsewhere")
    return {f"{what}_{key}" + ("_s" if key in ("elsewhere", "last_bad", "back") else ""): v for key, v in found.items()}


def _share(queries: Sequence[Query], backend: str, until: float) -> float:
    """The share of the queries before the fault that *backend* answered."""
    before = [q for q in queries if q.sent < until]
    return sum(q.server == backend for q in before) / len(before)


def _dnsteer(*words: str) -> list[str]:
    return [sys.executable, "-m", "dnsteer", *words]
