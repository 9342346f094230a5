# SPDX-License-Identifier: Apache-2.0
"""Prove that connections are kept: they begin, then slots move, once by drains and once because backends are down.

Of those whose answers the tracker sees, it must also say that they are established.
"""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.plan.build import build_plan
from dnsteer.proof.check_report import CheckReport, Failure
from dnsteer.proof.comparison import Comparison
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.connections import ConnectionReference, begins_connection
from dnsteer.proof.reference.outcome import Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.reference.wire import parse
from dnsteer.proof.traffic.connections import Connection, answer_to_begin, connections, errors_about, segments
from dnsteer.proof.traffic.senders import Senders, Vector
from dnsteer.slots.maintenance import NO_OVERLAY, Kind, Maintenance, Overlay
from dnsteer.spec.loaded import Loaded


def prove_kept(loaded: Loaded, harness: Harness, senders: Senders, report: CheckReport) -> None:
    """Send connections to all services that keep theirs, before and after slots move, and compare what leaves."""
    begun = connections(senders)
    if not begun:
        return
    known = ConnectionReference()
    first = _Stage(loaded, harness, report, known, NO_OVERLAY)
    first.begin(begun)
    first.send(begun, "A")
    first.send_errors(senders, begun)
    first.compare_states()
    kinds: tuple[Kind, ...] = ("drain", "down")
    for kind in kinds:
        overlay = _without_one_backend(senders, kind)
        harness.change(build_plan(loaded, overlay))
        stage = _Stage(loaded, harness, report, known, overlay)
        stage.send(begun, "A")
        stage.send(connections(senders), "PA")  # of which no beginning was seen
        later = connections(senders)
        stage.begin(later)
        stage.send(later, "A")
        stage.send_errors(senders, [*begun, *later, *connections(senders)])  # of the last ones no beginning was seen
        begun += later
    stage.send(begun[::2], "FA")
    stage.send(begun[1::2], "R")


class _Stage:
    """The switch with one overlay, and what the reference expects of it given the connections that are *known*."""

    def __init__(
        self, loaded: Loaded, harness: Harness, report: CheckReport, known: ConnectionReference, overlay: Overlay
    ) -> None:
        self._reference = Reference(loaded.spec, overlay, macs=overlay.macs, connections=known)
        self._comparison = Comparison(loaded, harness, self._reference, report)
        self._harness, self._report = harness, report
        self._answered: list[Vector] = []

    def send(self, found: Iterable[Connection], flags: str) -> None:
        """Send a packet of each connection."""
        self._compare(segments(found, flags))

    def send_errors(self, senders: Senders, found: Iterable[Connection]) -> None:
        """Send an ICMP error about each connection."""
        self._comparison.send(errors_about(senders, found))

    def begin(self, found: Iterable[Connection]) -> None:
        """Send a packet that begins each connection, twice, as a client does that sees no answer."""
        again = list(found)
        self.send(again, "S")
        self.send(again, "S")

    def compare_states(self) -> None:
        """Report connections that were answered, and are not established for the tracker."""
        states = self._harness.connections()
        for vector in self._answered:
            packet = parse(vector.data)
            state = states.get((packet.source, packet.sport, packet.destination, packet.dport), "unknown")
            if state != "ESTABLISHED":
                problem = f"the tracker should have seen its answer, and has it as {state}"
                self._report.add(Failure(vector.name, vector.port, problem, ()))

    def _compare(self, vectors: list[Vector]) -> None:
        answers = []
        for vector, frame in self._comparison.send(vectors):
            packet = parse(vector.data)
            backend = self._reference.receiver(Frame(vector.port, vector.data), frame)
            if begins_connection(packet) and backend is not None:
                self._reference.connections.begin(packet, backend)
                service = self._reference.services[packet.destination, packet.protocol, packet.dport]
                if service.mode.keeps_connections:
                    answers.append(answer_to_begin(vector, frame, self._reference.topology.gateway_mac))
                    self._answered.append(vector)
        self._comparison.send(answers)


def _without_one_backend(senders: Senders, kind: Kind) -> Overlay:
    """An overlay in which the first backend of each pool that has several is out."""
    first: dict[str, str] = {}
    for service in senders.reference.services.values():
        if service.keeps and len(service.owners) > 1:
            first.setdefault(senders.spec.vips[service.vip].pool, service.owners[0].name)
    since = "1970-01-01T00:00:00+00:00"
    return Overlay(tuple(Maintenance(pool, backend, kind, since, "check") for pool, backend in first.items()))
