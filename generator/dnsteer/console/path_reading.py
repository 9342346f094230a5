"""Paths of queries that are looked at: each traced at most every few seconds, a few of them again and again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dnsteer.console.defects import Defect, defect_of
from dnsteer.console.pace import next_pause
from dnsteer.console.path_query import BadQueryError, query_of
from dnsteer.console.rates import Series
from dnsteer.console.vswitchd import vswitchd
from dnsteer.deploy.recorded import load_state
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.metrics.observer import Known
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.status.flow_counts import Bucket, FlowKey, flow_packets, read_buckets
from dnsteer.status.path import PathTracer, PathView
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import GROUP_BASE
from dnsteer.view.snapshot import Side

AGAIN, RARELY = 2.0, 10.0
"""Seconds between two traces of one path, at least, and where one takes long."""
MAX_FOLLOWED = 4
"""Paths that are traced again while somebody looks; further ones are traced once."""
_KEPT = 64


@dataclass(frozen=True)
class BucketShare:
    """A backend's part of a group: its buckets, and the packets that these had."""

    backend: str
    buckets: int
    packets: int


@dataclass
class PathReading:
    """A path as it was traced at a *time*; *error* is why it could not be, *bad* what is wrong with what was asked for.

    *defect* is an exception that nobody expected.
    *packets* are those of the flows so far, *rates* packets a second; both by the flow. *followed*: it is traced again.
    """

    time: datetime
    view: PathView | None = None
    error: str = ""
    bad: BadQueryError | None = None
    defect: Defect | None = None
    packets: Mapping[FlowKey, int] = field(default_factory=dict)
    rates: Mapping[object, float | None] = field(default_factory=dict)
    shares: Sequence[BucketShare] = ()
    followed: bool = True


@dataclass
class _Path:
    reading: PathReading | None = None
    known: Known | None = None
    due: float = 0.0
    series: Series = field(default_factory=lambda: Series(60))


class PathReader:
    """Traces paths in a switch. Used by one thread at a time. *clock* counts seconds."""

    def __init__(self, switch: TargetSwitch, clock: Callable[[], float] = time.monotonic) -> None:
        self._switch, self._clock = switch, clock
        self._paths: OrderedDict[str, _Path] = OrderedDict()
        self._tracer: tuple[Side, PathTracer, Plan] | None = None

    def read(self, key: str, side: Side, followed: Collection[str]) -> PathReading:
        """The path of a page; *followed* are the pages of this kind that somebody looks at, oldest first."""
        path = self._paths.setdefault(key, _Path())
        self._paths.move_to_end(key)
        while len(self._paths) > _KEPT:
            self._paths.popitem(last=False)
        again = key not in followed or key in list(followed)[:MAX_FOLLOWED]
        due = again and self._clock() >= path.due
        if path.reading is None or due or path.known is not side.known:
            path.known, began = side.known, self._clock()
            path.reading = self._read(key, side, path.series)
            cost = (self._clock() - began) * min(MAX_FOLLOWED, max(1, len(followed)))
            path.due = began + next_pause(cost, AGAIN, RARELY)
        path.reading.followed = again
        return path.reading

    def _read(self, key: str, side: Side, series: Series) -> PathReading:
        reading = PathReading(now())
        try:
            query = query_of(key, side.known.spec)
        except BadQueryError as err:
            reading.bad = err
            return reading
        try:
            tracer, plan = self._tracer_of(side)
            with vswitchd(self._switch) as commands:
                view = reading.view = tracer.trace(commands, query)
            client = self._switch.client(side.known.bridge)
            steps = [*view.way.steps, *(view.answer.steps if view.answer is not None else ())]
            found = flow_packets(client, ((step.cookie, step.key.table) for step in steps))
            reading.packets = {step.key: found[step.key] for step in steps if step.key in found}
            series.add(self._clock(), {key: float(n) for key, n in reading.packets.items()})
            reading.rates = series.rates()
            if view.group:
                reading.shares = _shares(read_buckets(client, view.group), plan, view.group)
        except (SwitchError, OSError) as err:
            reading.error = str(err)
        except Exception as err:  # noqa: BLE001 what the switch prints may be what nobody foresaw
            reading.defect = defect_of(err)
        return reading

    def _tracer_of(self, side: Side) -> tuple[PathTracer, Plan]:
        """The tracer of what is applied now; remembered, since the plan of a large spec takes a second."""
        if self._tracer is None or self._tracer[0] is not side:
            loaded = load_state(side.known.state)
            plan = build_plan(loaded, side.overlay)
            self._tracer = side, PathTracer(loaded, plan, side.overlay), plan
        return self._tracer[1], self._tracer[2]


def _shares(buckets: Sequence[Bucket], plan: Plan, group: int) -> list[BucketShare]:
    """The buckets by backend, in the order of the pool."""
    members = next((m.members for m in plan.members if m.number == group - GROUP_BASE), ())
    names = {member.number: member.name for member in members}
    held: dict[int, list[Bucket]] = {member.number: [] for member in members}
    for bucket in buckets:
        held.setdefault(bucket.backend, []).append(bucket)
    return [
        BucketShare(names.get(n, f"number {n}"), len(found), sum(b.packets for b in found)) for n, found in held.items()
    ]
