"""Prove a spec: send packets through its flows on a real switch and compare every byte with the reference."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dnsteer.plan.build import build_plan
from dnsteer.proof.harness import extension_slots
from dnsteer.proof.harness.extension_process import Crossing
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.packet_text import differences, summary
from dnsteer.proof.reference.packets import Expectation, Frame, Reference
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic.senders import Scene
from dnsteer.proof.traffic.slot_choice import Choices
from dnsteer.proof.traffic.vectors import Vector, batches
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.logs import sort_out
from dnsteer.switch.masks import Mask
from dnsteer.switch.tools import SwitchError, TimedOutError, ovs_version
from dnsteer.tables.slot import GroupRow

_ATTEMPTS = 3
_PORTION = 10_000  # packets after which the megaflows are counted and taken away
_CHUNK = 2000  # packets between two looks at the captures
_MOST_FAILURES = 20
_MACS = 12  # bytes
_EXPECTED_COMPLAINTS = ("Unable to NAT due to tuple space", "dummy")


@dataclass(frozen=True)
class Failure:
    """A packet that did not fare as the spec says."""

    vector: str
    port: str
    problem: str
    detail: tuple[str, ...]


@dataclass
class Report:
    """What a check found. Megaflows, masks and recirculations are those of queries and answers, by the switch's count.

    *coverage* says which slots were asked. *complaints* are warnings of the switch about something wrong, *notes* those
    about a machine that gave it no time, and what was repeated for it. *extended* packets went through the extension,
    which was *extension*: its program on what; empty where there is none.
    """

    ovs: str
    flows: int
    groups: int
    packets: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    failed: int = 0
    megaflows: int = 0
    masks: int = 0
    recirculations: int = 0
    extension: str = ""
    extended: int = 0
    coverage: str = ""
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything was as the spec says."""
        return self.failed == 0 and not self.complaints

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"ok": self.ok, **asdict(self)}


def check(
    loaded: Loaded, *, per_service: int | None = None, progress: Callable[[int, int], None] = lambda *_: None
) -> Report:
    """Load the spec's flows into a private switch and hold them against the reference.

    *per_service* limits the slots sampled for each service; None asks as many as `coverage` says. *progress* is told how
    many packets were sent since, and about how many are sent in all. A proof that failed while its switch got no time to
    run is made again. Raises SwitchError or UnavailableError when the switch itself fails.
    """
    start = time.monotonic()
    notes: list[str] = []
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            report = _attempt(loaded, per_service, progress)
        except TimedOutError as err:
            if attempt == _ATTEMPTS:
                raise SwitchError(f"{err}; {_ATTEMPTS} attempts ended so: is the machine too busy?") from None
            notes.append(f"attempt {attempt} was given up: {err}")
            continue
        if report.ok or not report.notes or attempt == _ATTEMPTS:
            break
        notes += [f"attempt {attempt} failed while the switch had to wait, and was repeated:", *report.notes]
    report.notes = notes + report.notes
    report.seconds = round(time.monotonic() - start, 3)
    return report


def _attempt(loaded: Loaded, per_service: int | None, progress: Callable[[int, int], None]) -> Report:
    plan = build_plan(loaded)
    reference = Reference(loaded.spec)
    scene = Scene(loaded.spec, reference, per_service)
    choices = Choices()
    seen: set[tuple[int, str]] = set()
    all_masks: set[Mask] = set()
    with Harness(plan) as harness:
        report = Report(
            ovs_version(),
            sum(1 for _ in _loaded_flows(harness)),
            len(plan.rows.of(GroupRow)),
            coverage=scene.coverage.words,
        )
        _look_inside(harness, reference, report)

        def run(some: Sequence[Vector]) -> None:
            for chunk in _chunks(some):
                _run(harness, reference, chunk, report, choices)
                progress(len(chunk), scene.coverage.queries)

        for number, portion in enumerate(_portions(batches(scene))):
            load, rest = _by_kind(portion)
            before = harness.counters().recirculations
            run(load)
            for flow in harness.megaflows():
                # A later pass is told by a number that another portion may use for something else.
                seen.add((number if flow.recirculated else -1, flow.key))
                all_masks.add(flow.mask)
            report.recirculations += harness.counters().recirculations - before
            run(rest)
            harness.forget_megaflows()
        report.megaflows, report.masks = len(seen), len(all_masks)
        for what, problem in choices.problems():
            _note(report, Failure(what, ", ".join(loaded.spec.switch.uplinks), problem, ()))
        report.extended = harness.crossed
        lines = [c for c in harness.switch.complaints() if not any(w in c for w in _EXPECTED_COMPLAINTS)]
        report.complaints, report.notes = sort_out(lines)
    return report


def _portions(stream: Iterable[Iterable[Vector]]) -> Iterator[list[Vector]]:
    """Batches together, so that the megaflows of each portion have room in the switch."""
    portion: list[Vector] = []
    for batch in stream:
        portion += batch
        if len(portion) >= _PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _loaded_flows(harness: Harness) -> Iterable[object]:
    return harness.openflow.dump().flows


def _look_inside(harness: Harness, reference: Reference, report: Report) -> None:
    """Hold the slots of the extension's program against the reference's."""
    if harness.beside is None:
        return
    report.extension = f"dnsteer-ext on the {harness.beside.ask(command='status')['platform']}"
    for what, problem in extension_slots.differences(reference, harness.beside.ask(command="dump")):
        _note(report, Failure(what, harness.beside.ingress, problem, ()))


def _by_kind(stream: Iterable[Vector]) -> tuple[list[Vector], list[Vector]]:
    """Queries and answers, whose megaflows are reported, and all others."""
    load: list[Vector] = []
    rest: list[Vector] = []
    for vector in stream:
        (load if vector.kind in ("query", "answer") else rest).append(vector)
    load.sort(key=lambda v: v.port)  # packets of one port go in together
    rest.sort(key=lambda v: v.port)
    return load, rest


def _chunks(items: Sequence[Vector]) -> Iterable[Sequence[Vector]]:
    start = 0
    while start < len(items):
        end = start + _CHUNK
        while end < len(items) and _of_one_datagram(items[end - 1], items[end]):
            end += 1
        yield items[start:end]
        start = end


def _of_one_datagram(one: Vector, other: Vector) -> bool:
    """Whether two frames are fragments that leave only together. Every datagram has a client of its own."""
    if not one.kind == other.kind == "fragment":
        return False
    a, b = parse(one.data), parse(other.data)
    return (a.source, a.destination) == (b.source, b.destination)


def _run(harness: Harness, reference: Reference, chunk: Sequence[Vector], report: Report, choices: Choices) -> None:
    expected = [reference.expect(v.port, v.data) for v in chunk]
    owners: dict[Frame, list[int]] = defaultdict(list)
    for i, expectation in enumerate(expected):
        for frame in expectation.options:
            owners[frame].append(i)
    hits = Counter[int]()
    stray: list[Frame] = []
    crossings: dict[bytes, Crossing] = {}  # by what the switch does not change on the way to the extension

    def note(crossing: Crossing) -> None:
        crossings[crossing.data[_MACS:]] = crossing

    for frame in harness.send((Frame(v.port, v.data) for v in chunk), note):
        candidates = owners.get(frame)
        if candidates:
            # Packets with the same answer (two ARP requests) share it in turn.
            taken = min(candidates, key=lambda i: hits[i])
            hits[taken] += 1
            choices.add(chunk[taken], expected[taken], frame)
        else:
            stray.append(frame)
    for i, vector in enumerate(chunk):
        report.packets[vector.kind] = report.packets.get(vector.kind, 0) + 1
        wanted = 1 if expected[i].options else 0
        if hits[i] != wanted:
            _failed(report, harness, vector, expected[i], hits[i], stray, crossings.get(vector.data[_MACS:]))
    for frame in stray:
        _note(report, Failure("(no packet)", frame.port, "left although nothing should have", (summary(frame.data),)))


def _failed(
    report: Report,
    harness: Harness,
    vector: Vector,
    want: Expectation,
    hits: int,
    stray: list[Frame],
    crossing: Crossing | None,
) -> None:
    detail = [f"by the spec: {want.why}", f"in:       {vector.port}: {summary(vector.data)}"]
    if hits > 1:
        problem = f"left {hits} times"
    else:
        near = _nearest(want, stray)
        one = min(want.options, key=lambda f: f.port)
        detail.append(f"expected: {one.port}: {summary(one.data)}")
        if near is None:
            problem = "did not leave"
        else:
            stray.remove(near)
            problem = "left otherwise"
            detail.append(f"left:     {near.port}: {summary(near.data)}")
            detail += differences(one.data, near.data)
    if crossing is not None:
        detail.append(f"the extension: {crossing.verdict} what came by its port {crossing.port}, {crossing.why}")
    if len(report.failures) < 3:
        trace = harness.trace(vector.port, vector.data)
        detail += ["the switch's own trace:", *(f"    {line}" for line in trace.splitlines() if line.strip())]
    _note(report, Failure(vector.name, vector.port, problem, tuple(detail)))


def _nearest(want: Expectation, stray: Sequence[Frame]) -> Frame | None:
    """The stray frame that ends like the expected one: payloads are unique, headers are what goes wrong."""
    tails = {f.data[-16:] for f in want.options}
    return next((f for f in stray if f.data[-16:] in tails), None)


def _note(report: Report, failure: Failure) -> None:
    report.failed += 1
    if len(report.failures) < _MOST_FAILURES:
        report.failures.append(failure)
