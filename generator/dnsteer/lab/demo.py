# SPDX-License-Identifier: Apache-2.0
"""The demo: load the VIPs of a running lab with real queries and compare the result with the spec.

Runs through a VIP alternate with runs to one backend that bypass the load balancer, over the same switch and hops, with the
same number of queries, sockets and queries in flight. The load is closed: at most OUTSTANDING queries are in flight, fewer
than the switch's sockets hold, so that a lost query points to the switch's flows and not to a slow machine.

Sprayed VIPs are also queried from one socket, and VIPs whose slots are chosen by the client from many addresses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dnsteer.lab import client_affinity, extension_program, openvswitch, traffic
from dnsteer.lab.demo_report import DemoReport, DnsperfRun, OneSocketRun, machine, print_report, write_report
from dnsteer.lab.errors import LabError, NoLabError
from dnsteer.lab.lifecycle import status
from dnsteer.lab.openvswitch import direct_path
from dnsteer.lab.shares import ExpectedQueries, queries_needed
from dnsteer.lab.state import LabState, fingerprint
from dnsteer.lab.targets import LoadTarget, targets_of
from dnsteer.lab.topology import Topology, plan_network
from dnsteer.lab.traffic import Load, LoadResult
from dnsteer.lab.zone import WHOAMI
from dnsteer.spec.model.spec import Selection, Spec
from dnsteer.switch.megaflows import Megaflow, read_megaflows
from dnsteer.switch.thread_counters import Counters, read_counters

OUTSTANDING = 100
"""Queries in flight. The raw sockets of the userspace datapath hold about 250 small frames (rmem_default 212,992 bytes)."""
LEAST_QUERIES = 100_000
"""Fewest queries to the VIPs, and from one socket to a sprayed one."""
MAX_QUERIES = 1_000_000
"""Above this, no more queries are sent just to measure a sprayed share more precisely; its tolerance is then wider."""
ROUNDS = 6
"""Fewest alternations between VIP and direct path: many short ones, so that other load on the machine affects both alike."""
MAX_TARGETS = 16
"""Most VIP addresses and services loaded; further ones are left out and named."""
_MAX_SECONDS = 600.0
_RUN_SECONDS = 30.0
"""A run is cut off after this: it is meant to take 2.5 s at most, unless queries are lost and the load waits for them."""
_CALIBRATION_SECONDS = 1.0
_MANY_LOST = 100


def run(spec: Spec, report_file: Path, *, console: Console, seconds: float = 24.0, file: str = "") -> DemoReport:
    """Load the VIPs of *spec*, which is in *file*, for at least *seconds*, write *report_file* and print a summary.

    The lab must be up and the spec applied. The report's `ok` says whether nothing was lost and every share is right.
    Raises LabError.
    """
    lab, topology = require_lab(spec)
    demo = _Demo(spec, lab, topology, seconds, file)
    demo.check_answers()
    demo.load(console)
    if not demo.lost():
        demo.sweep()
        demo.from_one_socket(console)
        demo.from_many_clients()
    report = demo.report()
    write_report(report, report_file)
    print_report(report, console, report_file)
    return report


def require_lab(spec: Spec) -> tuple[LabState, Topology]:
    """The lab that is up for *spec*, with a bridge. Raises LabError when there is none."""
    lab = status()
    if lab is None:
        raise NoLabError
    topology = plan_network(spec)
    if lab.phase != "up":
        raise LabError(f"the lab is {lab.phase} ({lab.problem or 'wait for it'})")
    if lab.fingerprint != fingerprint(topology):
        raise LabError("the lab was made for a spec with another network: `dnsteer lab down`, then up with this one")
    if not lab.applied:
        raise LabError(f"no bridge in the lab yet: run `dnsteer apply SPEC --db {lab.db}` first")
    return lab, topology


@dataclass
class _Demo:
    spec: Spec
    lab: LabState
    topology: Topology
    seconds: float
    file: str
    runs: list[DnsperfRun] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    flows: list[Megaflow] = field(default_factory=list)
    passes: Counters = field(default_factory=lambda: Counters(0, 0))
    one_socket: list[OneSocketRun] = field(default_factory=list)
    clients: list[client_affinity.ClientAffinity] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    """Messages about runs from one client address that reached several servers, although the client determines the slot."""
    turns: Iterator[int] = field(default_factory=count)
    first: float | None = None
    """When the first run began."""

    def __post_init__(self) -> None:
        every = list(targets_of(self.spec, self.topology))
        if not every:
            raise LabError("no VIP has a plain DNS service, and dnsperf needs one")
        self.targets = every[:MAX_TARGETS]
        self.left_out = [t.label for t in every[MAX_TARGETS:]]
        self.expected = ExpectedQueries(self.spec, self.topology.server_of)
        self.machine = machine()
        self.counters_before = extension_program.read_counters() if self.lab.extension else None

    def check_answers(self) -> None:
        """Send one query to each target, which also lets the client learn its neighbours. Raises LabError without answer."""
        for target in self.targets:
            transport = target.endpoint.protocol.value
            for _ in range(3):  # the first packets wait for address resolution at both ends
                answer = traffic.ask(
                    self.lab, str(target.address), WHOAMI, "TXT", port=target.endpoint.port, transport=transport
                )
                if answer is not None:
                    break
            else:
                raise LabError(
                    f"no answer from {target.label} at {target.address}; `dnsteer verify` compares the switch"
                )

    def load(self, console: Console) -> None:
        """Alternate runs through the VIPs and on the direct path until time and queries suffice."""
        each = min(max(self.seconds / len(self.targets) / ROUNDS, 0.25), 2.5)
        started = time.monotonic()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("measuring the machine", total=self.seconds, rate="")

            def show(target: LoadTarget, path: str) -> None:
                rate = f"{sum(r.result.completed for r in self.runs):,} queries, {self.lost()} lost"
                progress.update(task, description=f"{target.label} {path}", completed=self._vip_seconds(), rate=rate)

            repeats: dict[LoadTarget, int] = {}
            for target in self.targets:
                show(target, "measuring the machine")
                rate = self._calibrate(target)
                repeats[target] = max(1, round(rate * each / traffic.queries_in_file() / target.windows))
            for number in range(1000):
                for place, target in enumerate(self.targets):
                    # The order of the two alternates too, so that a drift in the machine's speed affects both alike.
                    for path in ("direct", "vip") if (number + place) % 2 == 0 else ("vip", "direct"):
                        show(target, "through the VIP" if path == "vip" else "direct")
                        if path == "vip":
                            self._through_vip(target, repeats[target])
                        else:
                            self._direct(target, repeats[target])
                        if self.lost() > _MANY_LOST:
                            return  # the result is clear, and every lost query delays the load
                total = self.expected.total
                enough = self._vip_seconds() >= self.seconds and total >= LEAST_QUERIES
                enough = enough and (self.expected.has_enough_sprayed() or total >= MAX_QUERIES)
                if (number + 1 >= ROUNDS and enough) or time.monotonic() - started > _MAX_SECONDS:
                    break

    def _vip_seconds(self) -> float:
        return sum(r.result.seconds for r in self.runs if r.path == "vip")

    def lost(self) -> int:
        """Queries lost so far, on both paths."""
        return sum(r.result.lost for r in self.runs)

    def _calibrate(self, target: LoadTarget) -> float:
        """Measure the queries per second that the direct path sustains, from which the runs' lengths follow."""
        with direct_path(self.topology, target.direct_server, self.topology.clients[0]):
            load = replace(next(self._loads(target, 1, direct=True)), repeats=None, seconds=_CALIBRATION_SECONDS)
            with traffic.start_dnsperf(self.lab, load) as running:
                result = running.wait(30.0)
        least = 2 * traffic.queries_in_file() / _RUN_SECONDS  # a run sends the file once at least, and is cut off
        if result.qps < least:
            raise LabError(
                f"the direct path to {target.direct_server} answers only {result.qps:,.0f} queries a second; "
                f"the demo needs {least:,.0f}"
            )
        return result.qps

    def _direct(self, target: LoadTarget, repeats: int) -> None:
        with direct_path(self.topology, target.direct_server, self.topology.clients[0]):
            for load in self._loads(target, repeats, direct=True):
                self._run(target, "direct", load)

    def _through_vip(self, target: LoadTarget, repeats: int) -> None:
        seen, passes = self._query_counts(), _passes()
        for load in self._loads(target, repeats):
            result = self._run(target, "vip", load)
            key = target.hashed(load.local or "") if target.client_affinity else None
            self.expected.add(target.pool, target.reached, result.sent - result.interrupted, target.clients, key)
        now = _passes()
        self.passes = Counters(
            self.passes.received + now.received - passes.received,
            self.passes.recirculations + now.recirculations - passes.recirculations,
        )
        gained = self._counts_since(seen)
        for name, number in gained.items():
            self.seen[name] = self.seen.get(name, 0) + number
        by = [name for name, number in gained.items() if number]
        if target.client_affinity and len(by) > 1:
            self.moved.append(f"{target.label}: one client's queries were answered by {', '.join(by)}")

    def _loads(self, target: LoadTarget, repeats: int, *, direct: bool = False) -> Iterator[Load]:
        """Yield the runs that use every source port equally often; the direct path does so too, to be comparable."""
        client = self.lab.client()
        own = client.direct if direct else client.addresses
        address, port = (
            (target.direct_address, target.direct_port) if direct else (target.address, target.endpoint.port)
        )
        local = next(a for a in own if (":" in a) == (address.version == 6))
        if target.client_affinity and not direct:  # another client each time, so that all servers get some
            many = client_affinity.addresses(self.lab, address.version)
            local = many[next(self.turns) % len(many)]
        first = traffic.reserve_ports(local, target.source_ports)
        for window in range(target.windows):
            yield Load(
                str(address),
                port,
                target.endpoint.protocol.value,
                clients=target.clients,
                outstanding=OUTSTANDING,
                repeats=repeats,
                local=local,
                first_port=first + window * target.clients,
            )

    def sweep(self) -> None:
        """Send a few queries to every slot of every target, then count the megaflows, which expire after 10 s idle."""
        for target in self.targets:
            for load in self._loads(target, 1):
                self._run(target, "sweep", load)
        self.flows = read_megaflows(openvswitch.appctl("dpctl/dump-flows", "-m"))

    def from_one_socket(self, console: Console) -> None:
        """Send queries from one client and source port to sprayed targets, enough of them to make chance negligible."""
        for target in self.targets:
            if target.selection is not Selection.SPRAY:
                continue
            console.print(f"from one socket: {target.label}", highlight=False)
            expected = ExpectedQueries(self.spec, self.topology.server_of)
            wanted = queries_needed(expected.shares(target.pool, target.reached))
            wanted = max(LEAST_QUERIES, min(wanted, MAX_QUERIES // 2))
            seen = self._query_counts()
            load = Load(
                str(target.address),
                target.endpoint.port,
                clients=1,
                outstanding=OUTSTANDING,
                repeats=-(-wanted // traffic.queries_in_file()),
            )
            result = self._run(target, "one socket", load)
            expected.add(target.pool, target.reached, result.sent - result.interrupted, 1)
            gained = {name: n for name, n in self._counts_since(seen).items() if n or expected.queries.get(name)}
            self.one_socket.append(OneSocketRun(target.label, result, gained, expected))

    def from_many_clients(self) -> None:
        """Queries from many addresses, where the client's address chooses the slot or takes part in it."""
        for target in self.targets:
            if target.selection is Selection.CLIENT:
                self.clients.append(client_affinity.ask_from(self.lab, target, self.expected))

    def _run(self, target: LoadTarget, path: str, load: Load) -> LoadResult:
        now = time.monotonic()
        began = now - (self.first if self.first is not None else now)
        self.first = now - began
        with traffic.start_dnsperf(self.lab, load) as running:
            late = not running.done(_RUN_SECONDS)
            result = running.stop() if late else running.wait(0.0)
        self.runs.append(DnsperfRun(target.label, path, load, result, began))
        return result

    def _query_counts(self) -> dict[str, int]:
        return {name: sum(by.values()) for name, by in traffic.query_counters(self.lab).items()}

    def _counts_since(self, before: dict[str, int]) -> dict[str, int]:
        return {name: number - before[name] for name, number in self._query_counts().items()}

    def report(self) -> DemoReport:
        """What was measured, and what is wrong with it."""
        counted = (
            extension_program.read_counters().since(self.counters_before) if self.counters_before is not None else None
        )
        return DemoReport(
            bridge=self.spec.switch.bridge,
            runs=self.runs,
            seen=self.seen,
            expected=self.expected,
            flows=self.flows,
            passes=self.passes,
            one_socket=self.one_socket,
            clients=self.clients,
            moved=self.moved,
            extension=counted,
            left_out=self.left_out,
            notes=list(self.lab.notes),
            machine=self.machine,
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            file=self.file,
        )


def _passes() -> Counters:
    return read_counters(openvswitch.appctl("dpif-netdev/pmd-stats-show"))
