# SPDX-License-Identifier: Apache-2.0
"""Metrics of the agent's own work. Needs prometheus_client."""

from __future__ import annotations

import socket
from collections import Counter as Tally
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from dnsteer import __version__
from dnsteer.metrics.families import metric_family
from dnsteer.metrics.family import BRIDGE, MAX_REASON, SWITCH
from dnsteer.metrics.observer import (
    AgentObserver,
    AppliedBridge,
    Check,
    CheckTurn,
    Duration,
    KeptChange,
    PanicChange,
    SwitchInspection,
)
from dnsteer.slots.maintenance import NO_OVERLAY, STATE_WORDS, FoundNeighbor, Overlay
from dnsteer.status.agent_knowledge import UnannouncedPrefix, UnannouncedVip
from dnsteer.status.bonds import BondView
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.switch.state import BridgeRecord, DamagedError

if TYPE_CHECKING:
    from dnsteer.deploy.overlay_change import OverlayChange

_KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
_M = TypeVar("_M", bound=MetricWrapperBase)
_THIS_MACHINE = socket.gethostname() or "unnamed"
"""What the switch is called while nothing else is known of it."""


class AgentMetrics(AgentObserver):
    """The agent's own metrics in *registry*, without the labels that all have, and what it knows of the switch."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.common: Mapping[str, str] = {SWITCH: _THIS_MACHINE, BRIDGE: ""}
        """The labels that all metrics have. Replaced as a whole, since the thread of readings has it too."""
        self.known: AppliedBridge | None = None
        """None while the agent stands by: another one tells of the switch then."""
        self.record: BridgeRecord | None = None
        self._overlay = NO_OVERLAY
        self._number = 0
        self._unhealthy: Tally[Check] = Tally()
        self._seen: set[Check] = set()
        self._panicking: set[str] = set()
        self._results = self._make("dnsteer_check_results_total", Counter)
        self._answers = self._make("dnsteer_check_duration_seconds", Histogram)
        self._healthy = self._make("dnsteer_check_healthy", Gauge)
        self._metric = self._make("dnsteer_backend_metric", Gauge)
        self._announced = self._make("dnsteer_vip_announced", Gauge)
        self._announced_prefixes = self._make("dnsteer_prefix_announced", Gauge)
        self._unannounced = self._make("dnsteer_vip_unannounced_info", Gauge)
        self._held_vips = self._make("dnsteer_vip_held_until_timestamp_seconds", Gauge)
        self._standby = self._make("dnsteer_switch_standby", Gauge)
        self._neighbors = self._make("dnsteer_neighbor_answers", Gauge)
        self._neighbor_moves = self._make("dnsteer_neighbor_moves_total", Counter)
        self._asked: set[str] = set()
        self._connections = self._make("dnsteer_backend_connections", Gauge)
        self._tracked = self._make("dnsteer_tracked_connections", Gauge)
        self._tracked_limit = self._make("dnsteer_tracked_connections_limit", Gauge)
        self._member_up = self._make("dnsteer_uplink_member_up", Gauge)
        self._member_active = self._make("dnsteer_uplink_member_active", Gauge)
        self._panic = self._make("dnsteer_pool_panic", Gauge)
        self._kept = self._make("dnsteer_pool_kept_backends", Gauge)
        self._keeping: dict[str, int] = {}
        self._panics = self._make("dnsteer_agent_panics_total", Counter)
        self._changes = self._make("dnsteer_changes_total", Counter)
        self._differences = self._make("dnsteer_drift_differences", Gauge)
        self._found = self._make("dnsteer_drift_found_total", Counter)
        self._repaired = self._make("dnsteer_drift_repaired_total", Counter)
        self._foreign = self._make("dnsteer_foreign_flows", Gauge)
        self._held = self._make("dnsteer_agent_claim_held", Gauge)
        self._targets = self._make("dnsteer_agent_targets", Gauge)
        self._moved = self._make("dnsteer_agent_slots_moved_total", Counter)
        self._defects = self._make("dnsteer_agent_defects_total", Counter)
        self._unrecorded = self._make("dnsteer_agent_unrecorded", Gauge)
        self._lists_wrong = self._make("dnsteer_access_list_files_wrong", Gauge)
        self._errors = self._make("dnsteer_agent_switch_errors_total", Counter)
        self._times = {
            what: self._make(f"dnsteer_agent_{what}_seconds", Histogram)
            for what in ("decision_wait", "effect_duration", "loop_duration", "look_duration")
        }
        self._make("dnsteer_agent_info", Gauge).labels(__version__).set(1)
        for kind in ("apply", "deny", *STATE_WORDS):
            self._changes.labels(kind)
        for kind in ("flows", "settings"):
            self._found.labels(kind)
            self._repaired.labels(kind)

    def _make(self, name: str, kind: type[_M]) -> _M:
        of = metric_family(name)
        if _KINDS[of.type] is not kind:
            raise TypeError(f"{name} is a {of.type}")
        more: dict[str, Any] = {"buckets": of.buckets} if of.buckets else {}
        return kind(of.base, of.help, of.labels, registry=self.registry, **more)

    @property
    def bridge(self) -> str:
        """The bridge; empty while it is not known."""
        return self.common[BRIDGE]

    def claim_changed(self, name: str, *, held: bool, switch: str = "") -> None:
        """See AgentObserver."""
        common = {SWITCH: switch or _THIS_MACHINE, BRIDGE: name}
        if common != self.common:
            self.common = common
        self._held.set(held)
        if not held:
            self.known = self.record = None

    def adopted(self, known: AppliedBridge, checks: Sequence[Check], failing: Sequence[CheckTurn] = ()) -> None:
        """See AgentObserver."""
        self.known = known
        self._targets.set(len(checks))
        self._unhealthy = Tally()
        for metric in (self._healthy, self._panic, self._kept):
            metric.clear()
        for check in checks:
            self._healthy.labels(*check).set(1)
            self._panic.labels(check[0]).set(check[0] in self._panicking)
            self._kept.labels(check[0]).set(self._keeping.get(check[0], 0))
        self._forget_checks(set(checks))
        for turn in failing:
            self.turned(turn)

    def neighbors_heard(self, answers: Mapping[str, bool]) -> None:
        """See AgentObserver."""
        for address in self._asked - answers.keys():
            self._neighbors.remove(address)
            self._neighbor_moves.remove(address)
        self._asked = {*answers}
        for address, answers_now in answers.items():
            self._neighbors.labels(address).set(answers_now)
            self._neighbor_moves.labels(address)

    def neighbor_moved(self, title: str, found: FoundNeighbor, decision: str) -> None:
        """See AgentObserver."""
        if found.before:
            self._neighbor_moves.labels(found.address).inc()

    def _forget_checks(self, checks: set[Check]) -> None:
        """Forget the results of checks that are gone, so that the number of series stays bounded."""
        for check in self._seen - checks:
            for outcome in ("good", "bad"):
                self._results.remove(*check, outcome)
        for answers in {_answers(check) for check in self._seen} - {_answers(check) for check in checks}:
            self._answers.remove(*answers)
        for pool in {check[0] for check in self._seen} - {check[0] for check in checks}:
            with suppress(KeyError):  # of most there is none
                self._panics.remove(pool)
        for check in checks - self._seen:
            for outcome in ("good", "bad"):
                self._results.labels(*check, outcome)
            self._answers.labels(*_answers(check))
        self._seen = checks

    def followed(self, record: BridgeRecord, decision: str = "") -> None:
        """See AgentObserver."""
        try:
            number, overlay = record.number, record.overlay
        except DamagedError:
            return
        if self.record is not None:
            if number != self._number:
                self._changes.labels("apply").inc()
            for kind in _altered(self._overlay, overlay) if overlay != self._overlay else ():
                self._changes.labels(kind).inc()
        self._number, self._overlay, self.record = number, overlay, record

    def checked(self, check: Check, took: float, *, good: bool, decision: str = "") -> None:
        """See AgentObserver."""
        if check not in self._seen:
            return  # of a state that is no longer applied
        self._results.labels(*check, "good" if good else "bad").inc()
        self._answers.labels(*_answers(check)).observe(took, _exemplar(decision))

    def turned(self, turn: CheckTurn) -> None:
        """See AgentObserver."""
        check = turn.check
        if check not in self._seen:
            return
        self._unhealthy[check] = max(0, self._unhealthy[check] + (-1 if turn.healthy else 1))
        self._healthy.labels(*check).set(not self._unhealthy[check])

    def panicked(
        self, pool: str, services: tuple[str, ...], decision: str = "", change: PanicChange | None = None
    ) -> None:
        """See AgentObserver."""
        self._panic.labels(pool).set(bool(services))
        if services:
            self._panics.labels(pool).inc(pool not in self._panicking)
            self._panicking.add(pool)
        else:
            self._panicking.discard(pool)

    def kept(self, pool: str, backends: Collection[str], decision: str = "", change: KeptChange | None = None) -> None:
        """See AgentObserver."""
        self._keeping[pool] = len(backends)
        self._kept.labels(pool).set(len(backends))

    def connections_counted(self, found: KeptConnections | None) -> None:
        """See AgentObserver."""
        for gauge in (self._connections, self._tracked, self._tracked_limit):
            gauge.clear()
        if found is None:
            return
        for name, connections in found.by_backend.items():
            self._connections.labels(*name).set(connections)
        self._tracked.labels(str(found.zone)).set(found.entries)
        if found.limit:
            self._tracked_limit.labels(str(found.zone)).set(found.limit)

    def bonds_seen(self, bonds: Sequence[BondView]) -> None:
        """See AgentObserver."""
        self._member_up.clear()
        self._member_active.clear()
        for bond in bonds:
            for member in bond.members:
                self._member_active.labels(bond.name, member.name).set(member.active)
                if member.link != "unknown":
                    self._member_up.labels(bond.name, member.name).set(member.link == "up")

    def load_measured(self, metric: Mapping[tuple[str, str], float]) -> None:
        """See AgentObserver."""
        self._metric.clear()
        for backend, value in metric.items():
            self._metric.labels(*backend).set(value)

    def announcements_changed(
        self,
        vips: Mapping[str, bool],
        held: Mapping[str, float],
        unannounced: Mapping[str, UnannouncedVip],
        prefixes: Mapping[str, UnannouncedPrefix | None],
    ) -> None:
        """See AgentObserver."""
        self._held_vips.clear()
        for vip, until in held.items():
            self._held_vips.labels(vip).set(until)
        self._announced.clear()
        for vip, announced in vips.items():
            self._announced.labels(vip).set(announced)
        self._announced_prefixes.clear()
        for prefix, one_prefix in prefixes.items():
            self._announced_prefixes.labels(prefix).set(one_prefix is None)
        self._unannounced.clear()
        for name, one in unannounced.items():
            cause = "people" if one.by_people else "health" if one.withdrawn else "routing"
            self._unannounced.labels(name, cause, one.why[:MAX_REASON]).set(1)

    def role(self, *, standby: bool) -> None:
        """See AgentObserver."""
        self._standby.set(standby)

    def overlay_changed(self, change: OverlayChange, decision: str, seconds: float) -> None:
        """See AgentObserver."""
        self._moved.inc(sum(move.moved for move in change.moves))

    def inspected(self, found: SwitchInspection, *, repaired: bool, seconds: float, decision: str = "") -> None:
        """See AgentObserver."""
        self._times["look_duration"].observe(seconds, _exemplar(decision))
        self._differences.set(0 if repaired else found.flows + found.settings)
        self._foreign.set(len(found.foreign))
        for kind, differ in (("flows", found.flows), ("settings", found.settings)):
            self._found.labels(kind).inc(differ)
            if repaired:
                self._repaired.labels(kind).inc(differ)

    def lists_wrong(self, said: str) -> None:
        """See AgentObserver."""
        self._lists_wrong.set(bool(said))

    def took(self, what: Duration, seconds: float, decision: str = "") -> None:
        """See AgentObserver."""
        self._times[what if what == "decision_wait" else f"{what}_duration"].observe(seconds, _exemplar(decision))

    def failed(self, why: str) -> None:
        """See AgentObserver."""
        self._errors.inc()

    def defect(self, part: str, said: str = "") -> None:
        """See AgentObserver."""
        self._defects.labels(part.removeprefix("the ")).inc()

    def unrecorded(self, said: str) -> None:
        """See AgentObserver."""
        self._unrecorded.set(bool(said))


def _exemplar(decision: str) -> dict[str, str] | None:
    """The exemplar of an observation that was for a decision: by it a slow one is found in the log."""
    return {"decision": decision} if decision else None


def _answers(check: Check) -> tuple[str, str]:
    """Pool and kind of a check: its labels without the backend."""
    return check[0], check[2]


def _altered(before: Overlay, after: Overlay) -> Iterable[str]:
    """The kind of each entry that is only in one of them, or another one in both."""
    was = {(a.name, a.kind, a.service): a for a in before}
    now = {(a.name, a.kind, a.service): a for a in after}
    found = [key[1] for key in {**was, **now} if was.get(key) != now.get(key)]
    denied, denies = {a.key: a for a in before.denials}, {a.key: a for a in after.denials}
    return found + ["deny" for key in {**denied, **denies} if denied.get(key) != denies.get(key)]
