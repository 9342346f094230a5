"""Measure one change: everything that the clients of a VIP notice of it, while it is under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from bench.change.clients import Answers, Clients
from bench.change.counters import Counters, Received
from bench.change.load import QPS, TCP_QPS, Steady, SteadyLoad
from bench.change.priority import prefer
from bench.change.tcp import Connections
from dnsteer.lab.errors import LabError
from dnsteer.lab.state import LabState
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Spec

LEAD, TRAIL = 1.0, 1.5
"""Seconds of load before the change and after it."""
PAUSE = 0.1
"""Seconds between two asks of all clients."""


@dataclass(frozen=True)
class Effect:
    """What one change did. Source ports stand for clients; all of one address of the VIP.

    *took* is how long the change itself ran (s), *settled* how long after its start the last client had its new backend, to
    within the time between two asks, *asks* their number. *astray* counts answers by a backend that is neither the
    client's old nor its new one. *probe_lost* are first queries of the probes that got no answer. *dead* are the TCP
    connections that broke, and why. *received_after* is what came to each name server later than a tenth of a second
    after the change.
    """

    took: float
    settled: float
    asks: int
    before: Answers
    after: Answers
    astray: int
    probe_lost: int
    connections: int
    dead: Mapping[int, str]
    load: Steady
    received_after: Mapping[str, Received]

    @property
    def moved(self) -> Mapping[int, tuple[str | None, str | None]]:
        """The clients that another backend answers now: before and after."""
        return self.after.moved_since(self.before)

    def broken(self, ports_moved: set[int]) -> tuple[int, int]:
        """Connections that broke in *ports_moved*, and elsewhere."""
        inside = sum(1 for port in self.dead if port in ports_moved)
        return inside, len(self.dead) - inside


class Probes:
    """Clients and connections of the first VIP of *spec*, at its first address, to measure one change after another."""

    def __init__(self, lab: LabState, spec: Spec) -> None:
        prefer(lab)
        vip = next(iter(spec.vips.values()))
        self._lab = lab
        self._addresses = [str(a) for a in vip.addresses]
        self.slots = derived.slot_count(spec, spec.pools[vip.pool])
        with ExitStack() as stack:
            self.clients = stack.enter_context(Clients(lab, self._addresses[0], self.slots))
            self.connections = stack.enter_context(Connections(lab, self._addresses[0], self.slots))
            self._stack = stack.pop_all()
        self.counters = Counters(lab)

    def __enter__(self) -> Probes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def measure(self, change: Callable[[], object], *, qps: int = QPS, tcp_qps: int = TCP_QPS) -> Effect:
        """Run *change* under load and say what it did. Connections that broke before are opened again first.

        Raises LabError when they cannot be, and whatever *change* raises.
        """
        failed = self.connections.reopen()
        if failed:
            raise LabError(
                f"{len(failed)} connections cannot be opened before the change, for example {min(failed.items())}"
            )
        asked: list[Answers] = []
        with SteadyLoad(self._lab, dict.fromkeys(self._addresses, self.slots), qps=qps, tcp_qps=tcp_qps) as load:
            time.sleep(LEAD)
            before = self.clients.ask()
            self.connections.check()
            with _asking(self.clients, asked):
                started = time.monotonic()
                change()
                ended = time.monotonic()
                time.sleep(0.1)
                counted = self.counters.read()
                time.sleep(TRAIL)
            received = self.counters.since(counted)
            checked = self.connections.check()
            result = load.stop()
        after = asked[-1]
        last_other = max((i for i, a in enumerate(asked) if a.moved_since(after)), default=-1)
        settled = asked[last_other + 1]
        return Effect(
            took=ended - started,
            settled=max(0.0, settled.started + settled.seconds - started) if last_other >= 0 else 0.0,
            asks=len(asked),
            before=before,
            after=after,
            astray=sum(_astray(a, before, after) for a in asked),
            probe_lost=sum(len(a.first_try_lost) for a in (before, *asked)),
            connections=len(self.connections.ports),
            dead=checked.dead,
            load=result,
            received_after=received,
        )


class _asking:  # noqa: N801 (used as a function)
    """Ask all clients again and again, in a thread, until the block ends."""

    def __init__(self, clients: Clients, into: list[Answers]) -> None:
        self._clients, self._into = clients, into
        self._end = threading.Event()
        self._problem: LabError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self._into.append(self._clients.ask())
                self._end.wait(PAUSE)
            self._into.append(self._clients.ask())
        except LabError as err:
            self._problem = err

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        if self._problem is not None and err is None:
            raise self._problem


def _astray(asked: Answers, before: Answers, after: Answers) -> int:
    return sum(
        name is not None and name not in (before.backends[port], after.backends[port])
        for port, name in asked.backends.items()
    )
