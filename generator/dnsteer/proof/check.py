# SPDX-License-Identifier: Apache-2.0
"""Prove a spec: send packets through its flows on a real switch and compare every byte with the reference.

The spec is evaluated twice, by code that shares nothing. One part makes the plan, renders the flows and loads them into a
private switch (`harness`). The other computes the frames to send (`traffic`) and the expected result of each (`reference`).
`comparison` compares the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from dnsteer.plan.build import build_plan
from dnsteer.proof.check_report import CheckReport, Failure
from dnsteer.proof.comparison import Comparison, slot_problems
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.kept import prove_kept
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic import access
from dnsteer.proof.traffic.senders import Senders
from dnsteer.proof.traffic.vectors import Vector, batches
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
from dnsteer.spec.backups import standby_weights
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.neighbors import stand_ins_text
from dnsteer.switch.masks import Mask
from dnsteer.switch.private_switch import split_log_warnings
from dnsteer.switch.tools import SwitchError, TimedOutError
from dnsteer.tables.slot import GroupRow

_ATTEMPTS = 3
_PORTION = 10_000
"""Packets after which the megaflows are counted; they are deleted, and what else is to be sent is sent, once both are half
as many."""
_CHUNK = 2000
"""Packets that are sent before the captures are read."""
_EXPECTED_WARNINGS = ("Unable to NAT due to tuple space", "dummy")
"""Warnings in the switch's log to ignore: those that the test's fragments cause, and those of every dummy datapath."""

Progress = Callable[[int, int], None]
"""Called with the number of packets sent since the last call, and the approximate total to send."""


def prove(loaded: Loaded, *, per_service: int | None = None, progress: Progress = lambda *_: None) -> CheckReport:
    """Load the spec's flows into a private switch, send packets and compare what leaves with the reference.

    *per_service* limits the slots tested for each service; None tests as many as `coverage` chooses. A check that failed
    while its switch lacked CPU time is repeated. Raises SwitchError or UnavailableError when the switch itself fails.
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


def _attempt(loaded: Loaded, per_service: int | None, progress: Progress) -> CheckReport:
    report = _prove(loaded, NO_OVERLAY, per_service, progress)
    backups = _all_backups(loaded)
    if backups:
        report.include(_prove(loaded, backups, per_service, progress), "again with all backups in use")
    return report


def _all_backups(loaded: Loaded) -> Overlay:
    """The overlay with which the backends of all backups have slots, as the agent would give them."""
    return Overlay(
        tuple(
            Maintenance(name, backend, "backup", "", "", weight=weight)
            for name, pool in loaded.spec.pools.items()
            for backend, weight in standby_weights(loaded.spec, pool).items()
        )
    )


def _prove(loaded: Loaded, overlay: Overlay, per_service: int | None, progress: Progress) -> CheckReport:
    plan = build_plan(loaded, overlay)
    reference = Reference(loaded.spec, overlay, overlay.denials, overlay.macs)
    senders = Senders(loaded.spec, reference, per_service)
    with Harness(plan) as harness:
        report = CheckReport(harness.switch.version(), harness.flows, len(plan.rows.of(GroupRow)))
        _compare_extension_slots(harness, reference, report)
        comparison = Comparison(loaded, harness, reference, report)

        def send(vectors: Sequence[Vector]) -> None:
            for chunk in _chunks(vectors):
                comparison.send(chunk)
                progress(len(chunk), senders.coverage.queries)

        for way in harness.bond_ways():
            harness.use_bonds(way)
            if way.member:
                senders = Senders(loaded.spec, reference, per_service)
            _send_all(harness, batches(senders), send, report, counts=not way.down)
        comparison.compare_backends()
        if overlay == NO_OVERLAY:
            prove_kept(loaded, harness, senders, report)
        report.coverage = senders.covered + (f", {covers}" if (covers := access.sample(loaded.spec)) else "")
        report.coverage += f"; {text}" if (text := stand_ins_text(loaded.spec)) else ""
        report.extended = harness.extension_frames
        warnings = [line for line in harness.switch.complaints() if not any(w in line for w in _EXPECTED_WARNINGS)]
        report.complaints, report.notes = split_log_warnings(warnings)
    return report


def _send_all(
    harness: Harness,
    vector_batches: Iterable[Iterable[Vector]],
    send: Callable[[Sequence[Vector]], None],
    report: CheckReport,
    *,
    counts: bool,
) -> None:
    """Send all vectors, and if it *counts* add the megaflows and recirculations of queries and answers, and their masks."""
    megaflows: set[tuple[int, str]] = set()
    masks: set[Mask] = set()
    number, others = 0, list[Vector]()
    for portion in _portions(vector_batches):
        counted, more = _by_kind(portion)
        others += more
        before = harness.counters().recirculations
        send(counted)
        found = harness.megaflows()
        for flow in found:
            # A megaflow after recirculation matches a recirculation ID, which may be reused for something else once its
            # megaflows are deleted. Until then all VIPs of a pool of two passes share those of the second.
            megaflows.add((number if flow.recirculated else -1, flow.key))
            masks.add(flow.mask)
        report.recirculations += counts * (harness.counters().recirculations - before)
        if len(found) + len(others) >= _PORTION // 2:
            send(others)
            harness.forget_megaflows()
            number, others = number + 1, []
    send(others)
    harness.forget_megaflows()
    if counts:  # the members of a bond have megaflows of their own, of the same masks
        report.megaflows, report.masks = report.megaflows + len(megaflows), max(report.masks, len(masks))


def _compare_extension_slots(harness: Harness, reference: Reference, report: CheckReport) -> None:
    if harness.extension is None:
        return
    report.extension = f"dnsteer-ext on the {harness.extension.ask(command='status')['platform']}"
    for service, problem in slot_problems(reference, harness.extension.ask(command="dump")):
        report.add(Failure(service, harness.extension.ingress, problem, ()))


def _portions(vector_batches: Iterable[Iterable[Vector]]) -> Iterator[list[Vector]]:
    """Join batches into portions of at least _PORTION packets, whose megaflows fit into the switch."""
    portion: list[Vector] = []
    for batch in vector_batches:
        portion += batch
        if len(portion) >= _PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _by_kind(vectors: Iterable[Vector]) -> tuple[list[Vector], list[Vector]]:
    """Split into queries and answers, whose megaflows are reported, and all others; each list is sorted by port."""
    counted: list[Vector] = []
    others: list[Vector] = []
    for vector in vectors:
        (counted if vector.kind in ("query", "answer") else others).append(vector)
    counted.sort(key=lambda v: v.port)
    others.sort(key=lambda v: v.port)
    return counted, others


def _chunks(vectors: Sequence[Vector]) -> Iterable[Sequence[Vector]]:
    start = 0
    while start < len(vectors):
        end = start + _CHUNK
        while end < len(vectors) and _of_one_datagram(vectors[end - 1], vectors[end]):
            end += 1
        yield vectors[start:end]
        start = end


def _of_one_datagram(one: Vector, other: Vector) -> bool:
    """Whether two frames are fragments of one datagram, which leave only together. Each datagram has its own client."""
    if not one.kind == other.kind == "fragment":
        return False
    a, b = parse(one.data), parse(other.data)
    return (a.source, a.destination) == (b.source, b.destination)
