# SPDX-License-Identifier: Apache-2.0
"""The demo of the agent: under load a name server is killed and comes back. When is it seen, what moves, what is lost?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from dnsteer.lab import names, nameserver, traffic
from dnsteer.lab.command import LabProgram, python_environment
from dnsteer.lab.demo import require_lab
from dnsteer.lab.errors import LabError
from dnsteer.lab.failover_report import FailoverReport, StreamQuery, add_to_report, print_failover, summarize_failover
from dnsteer.lab.state import LabState
from dnsteer.lab.targets import LoadTarget, targets_of
from dnsteer.lab.traffic import client_command
from dnsteer.lab.zone import WHOAMI
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec.model.spec import Protocol, Selection, Spec
from dnsteer.switch.session import Session

QPS = 2000
"""Queries a second."""
_MAX_PORTS = 512
_LEAD, _GONE, _TRAIL = 2.0, 3.0, 1.0
"""Seconds of load before the server is killed, from when the agent knows it to its start, and after all is as it was."""
_START, _PATIENCE = 10.0, 30.0
"""Seconds that the agent may take to start, and to notice beyond the times in the spec."""


def run(spec: Spec, report_file: Path, *, console: Console, file: str = "") -> FailoverReport:
    """Run the agent in a running lab whose spec, in *file*, is applied, kill a name server under load, and start it again.

    Prints a summary, and adds it as `agent` to *report_file*. Raises LabError; the report's `ok` says whether anybody lost a
    query who is not a client of that server.
    """
    lab, topology = require_lab(spec)
    target, victim = _choose(spec, list(targets_of(spec, topology)))
    server = lab.server(topology.server_of[target.pool, victim])
    pool = spec.pools[target.pool]
    longest = max(check.interval * max(check.rise, check.fall) for check in pool.health or ())
    patience = _PATIENCE + longest
    said = f"{target.pool}/{victim} is"
    with ExitStack() as stack:
        agent = stack.enter_context(
            LabProgram(names.SWITCH_NAMESPACE, [sys.executable, "-m", "dnsteer", "agent", "--db", lab.db])
        )
        _wait_for_message(agent, "targets", _START, 0.0)
        load = stack.enter_context(_load(lab, spec, target))
        with console.status(f"{target.label}: {QPS:,} queries a second"):
            time.sleep(_LEAD)
        killed = time.monotonic()
        pids = nameserver.kill(server.index, server.namespace)
        with console.status(f"killed {server.name} (process {', '.join(map(str, pids))})"):
            down = _wait_for_message(agent, f"{said} unhealthy", patience, killed)
            moved = _wait_for_message(agent, " slots of pool ", patience, down)
            time.sleep(_GONE)
        started = time.monotonic()
        nameserver.start(server.index, server.namespace)
        with console.status(f"started {server.name} again"):
            up = _wait_for_message(agent, f"{said} healthy", patience + pool.hold_max, started)
            whole = _in_service_again(lab, target.pool, victim, patience + pool.slow_start)
            time.sleep(_TRAIL)
        queries = load.end()
        lines = [text for _, text in agent.lines]
    report = summarize_failover(
        [StreamQuery(*values) for values in queries],
        target=target.label,
        backend=f"{target.pool}/{victim}",
        server=server.name,
        pids=pids,
        times=(killed, down, moved, started, up, whole),
        said=lines,
        time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        spec=file,
    )
    add_to_report(report, report_file)
    print_failover(report, console, report_file)
    return report


def _choose(spec: Spec, targets: Sequence[LoadTarget]) -> tuple[LoadTarget, str]:
    """The first target that the agent watches, and a backend of its pool whose clients are known.

    The lab's name servers are no resolvers: the checks of such pools fail there.
    """
    for target in targets:
        pool = spec.pools[target.pool]
        owners = slots_of(spec, pool, target.reached)
        working = list(dict.fromkeys(owners))
        spared = len(working) > max(1, pool.keep_at_least)
        if (
            pool.health
            and pool.serves != "resolver"
            and spared
            and pool.selection is not Selection.SPRAY
            and target.endpoint.protocol is Protocol.UDP
        ):
            return target, owners[0]
    raise LabError(
        "no VIP with plain DNS by UDP has a pool with `health` that can spare a backend, and that the "
        "lab's name servers can serve, which are no resolvers; examples/authoritative.yaml has one"
    )


class _Load:
    """The stream of queries, a process at the client."""

    def __init__(self, lab: LabState, spec: Spec, target: LoadTarget) -> None:
        client = lab.client()
        local = next(a for a in client.addresses if (":" in a) == (target.address.version == 6))
        slots = len(slots_of(spec, spec.pools[target.pool], target.reached))
        ports = min(2 * slots, _MAX_PORTS)  # each slot twice
        first = traffic.reserve_ports(local, ports)
        flows = [(str(target.address), target.endpoint.port, first + number) for number in range(ports)]
        self._process = subprocess.Popen(
            client_command(lab, [sys.executable, "-m", "dnsteer.lab.stream"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=python_environment(),
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"local": local, "flows": flows, "name": WHOAMI, "rate": QPS}) + "\n")
        self._process.stdin.flush()

    def end(self) -> list[tuple[float, float, int, str | None]]:
        """Its queries. Raises LabError when it failed."""
        out, _ = self._process.communicate(timeout=30)
        if self._process.returncode:
            raise LabError(f"the load ended with exit code {self._process.returncode}")
        queries: list[tuple[float, float, int, str | None]] = json.loads(out)["queries"]
        return queries

    def kill(self) -> None:
        """Kill it, where it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def _load(lab: LabState, spec: Spec, target: LoadTarget) -> Iterator[_Load]:
    load = _Load(lab, spec, target)
    try:
        yield load
    finally:
        load.kill()


def _wait_for_message(agent: LabProgram, text: str, seconds: float, since: float) -> float:
    """When the agent said *text*. Raises LabError when it does not in so many *seconds*."""
    line = agent.wait_for_line(lambda said: text in said, seconds, since)
    if line is None:
        last = " / ".join(said for _, said in agent.lines[-3:]) or "nothing"
        raise LabError(f"the agent did not say {text!r} within {seconds:g} s, but: {last}")
    return line[0]


def _in_service_again(lab: LabState, pool: str, backend: str, seconds: float) -> float:
    """When the record has the backend in service again, with all its slots. Raises LabError after so many *seconds*."""
    deadline = time.monotonic() + seconds
    while True:
        with Session(lab.db) as session:
            if session.record_of(lab.bridge).overlay.find(pool, backend, "health") is None:
                return time.monotonic()
        if time.monotonic() > deadline:
            raise LabError(
                f"{pool}/{backend} does not have all its slots after {seconds:g} s; look at `dnsteer status`"
            )
        time.sleep(0.1)
