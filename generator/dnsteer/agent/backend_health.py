# SPDX-License-Identifier: Apache-2.0
"""The health of every backend, from the results of its probes, some of them compared with those of other backends."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

from dnsteer.agent.health import CheckState, Result, after_result, initial_state
from dnsteer.agent.health_decision import PoolHealth
from dnsteer.agent.probes.question import is_before
from dnsteer.agent.probes.targets import ProbeTarget, slots_name
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.health_checks import EffectiveQuery
from dnsteer.switch.agent_record import PastFailures, TargetKey


class Health:
    """States of the checks, by target. A backend is unhealthy while one of its checks is that takes it out."""

    def __init__(self) -> None:
        self.states: dict[TargetKey, CheckState] = {}
        self._by_slots: dict[str, dict[str, list[TargetKey]]] = {}
        """The targets of each backend that decide about a pool's slots (`slots_name`)."""
        self._untested: set[TargetKey] = set()
        """Targets of which it is not known yet whether they are healthy."""
        self._serials: dict[tuple[str, int, EffectiveQuery], Serials] = {}
        """By pool and number of the check, and what it asks."""
        self._evidence = Evidence()

    def adopt(
        self,
        targets: Iterable[ProbeTarget],
        overlay: Overlay,
        time: float,
        past: Mapping[TargetKey, PastFailures] | None = None,
    ) -> None:
        """Know these targets from now on. Backends that the record has as unhealthy begin so, all new ones as healthy.

        *past* are failures that an earlier agent has seen.
        """
        known_targets = list(targets)
        out = {
            (slots_name(entry.pool, entry.service), entry.backend): entry
            for entry in overlay
            if entry.kind == "health" and not entry.returns
        }
        known, self.states, self._by_slots = self.states, {}, {}
        asked = {_serials_of(target): set[TargetKey]() for target in known_targets}
        for target in known_targets:
            asked[_serials_of(target)].add(target.key)
        self._serials = {check: one for check, one in self._serials.items() if check in asked}
        for check, serials in self._serials.items():
            serials.keep(asked[check])
        tested = known.keys() - self._untested
        for target in known_targets:
            entry = next((out[key] for name in target.slots if (key := (name, target.backend)) in out), None)
            begins = CheckState(since=time) if entry is None else CheckState(False, why=entry.note, since=time)
            before = (past or {}).get(target.key)
            self.states[target.key] = known.get(target.key) or initial_state(
                begins, before, time, target.thresholds.hold_max
            )
            if target.check.on_failure == "warn":
                continue
            for name in target.slots:
                self._by_slots.setdefault(name, {}).setdefault(target.backend, []).append(target.key)
        self._untested = self.states.keys() - tested
        self._evidence.adopt(known_targets)

    def compare_serials(self, target: ProbeTarget, result: Result) -> Result:
        """Return a result as it is once the serial is compared with those of the pool's other backends."""
        allowed = target.query.serial_lag
        if allowed is None:
            return result
        serials = self._serials.setdefault(_serials_of(target), Serials())
        if result.serial is None:
            return result
        newest, lag = serials.lag(target.key, result.serial, result.time)
        if lag <= allowed:
            return result
        why = f"answered serial {result.serial}, behind {newest} of another backend for more than {allowed:g} s"
        return replace(result, why=f"{target.name}: {why}")

    def add(self, target: ProbeTarget, result: Result) -> bool:
        """Add a result; return whether the check changed its state."""
        before = self.states.get(target.key)
        if before is None:
            return False  # of a target that is gone
        after = after_result(before, result, target.thresholds)
        if result.good or not after.healthy:  # a first failure tells neither
            self._untested.discard(target.key)
        self.states[target.key] = after
        if result.serial is None and not after.healthy and (serials := self._serials.get(_serials_of(target))):
            serials.forget(target.key)  # one lost probe would tell nothing
        self._evidence.add(target, result)
        return after.healthy != before.healthy

    def unhealthy(self, slots: str) -> Mapping[str, str]:
        """The backends that are unhealthy for a pool's slots (`slots_name`), each with its last failure, in the order in
        which they failed."""
        found = {name: self._failed(keys) for name, keys in self._by_slots.get(slots, {}).items()}
        states = {name: self.states[keys[0]] for name, keys in found.items() if keys}
        return {name: state.why for name, state in sorted(states.items(), key=lambda item: item[1].since)}

    def of(self, slots: str) -> PoolHealth:
        """What is known of the backends for a pool's slots."""
        backends, unhealthy = self._by_slots.get(slots, {}), self.unhealthy(slots)
        failed = {name: self._failed(backends[name]) for name in unhealthy}
        return PoolHealth(
            unhealthy,
            recovering={name for name, keys in failed.items() if all(self.states[key].is_answering for key in keys)},
            unproven={name for name, keys in failed.items() if not any(map(self._evidence.proves, keys))},
            unknown={n for n, keys in backends.items() if n not in unhealthy and self._untested.issuperset(keys)},
        )

    def answering(self, slots: str) -> set[str]:
        """The backends that are unhealthy for a pool's slots though all that they fail they answer, in another way than
        expected."""
        found = {name: self._failed(keys) for name, keys in self._by_slots.get(slots, {}).items()}
        return {name for name, keys in found.items() if keys and all(self.states[key].answered for key in keys)}

    def untested(self, slots: str) -> dict[str, set[str]]:
        """The backends for a pool's slots of which a check does not know yet whether they are healthy, each with the
        addresses at which it is not known: of VIPs, through the bridge, or its own."""
        found = {
            name: {key[3] for key in self._untested.intersection(keys)}
            for name, keys in self._by_slots.get(slots, {}).items()
        }
        return {name: addresses for name, addresses in found.items() if addresses}

    def is_untested(self, target: ProbeTarget) -> bool:
        """Whether it is not known yet whether a target is healthy."""
        return target.key in self._untested

    def is_awaited(self, target: ProbeTarget) -> bool:
        """Whether the next result of a target shows if it is the fault of another backend that this one fails."""
        return self._evidence.is_awaited(target)

    def _failed(self, keys: Iterable[TargetKey]) -> list[TargetKey]:
        """Those of a backend's targets that are unhealthy, first failed first."""
        return sorted((key for key in keys if not self.states[key].healthy), key=lambda key: self.states[key].since)


def _serials_of(target: ProbeTarget) -> tuple[str, int, EffectiveQuery]:
    """With whose serials those of a target are compared: its own check of the pool's backends."""
    return target.pool, target.number, target.query


Peers = tuple[str, ...]
"""What targets have in common that are compared."""


class Evidence:
    """Whether it is the backend that fails, and not the way to all of them. Times are those of the results.

    An interruption of the switch, or of what asks, fails the probes of some backends twice and of others once, and ends
    before all are unhealthy. So a backend is known to fail once between two of its failed probes another one was asked
    the same and answered.
    """

    def __init__(self) -> None:
        self._peers: dict[TargetKey, Peers] = {}
        self._passed: dict[Peers, dict[str, tuple[float, float]]] = {}
        """When the last two probes were sent that a backend passed, by backend."""
        self._since: dict[TargetKey, float] = {}
        """When the first of the failed probes in a row was sent."""
        self._proven: set[TargetKey] = set()
        self._awaiting: dict[Peers, set[TargetKey]] = {}
        """The targets that fail and are not proven to do so by themselves, by what they are compared with."""
        self._at_once: set[TargetKey] = set()
        """Targets that one failed probe takes out: then one that is sent later and answered is enough."""

    def adopt(self, targets: Iterable[ProbeTarget]) -> None:
        """Know these targets from now on. What is known of them stays."""
        targets = list(targets)
        backends: dict[Peers, set[str]] = {}
        for target in targets:
            for peers in _peers(target):
                backends.setdefault(peers, set()).add(target.backend)
        self._peers = {t.key: next((peers for peers in _peers(t) if len(backends[peers]) > 1), ()) for t in targets}
        self._at_once = {target.key for target in targets if target.thresholds.fall == 1}
        self._passed = {peers: at for peers, at in self._passed.items() if peers in backends}
        self._since = {key: at for key, at in self._since.items() if key in self._peers}
        self._proven &= self._peers.keys()
        self._awaiting = {}
        for key in self._since.keys() - self._proven:
            self._awaiting.setdefault(self._peers[key], set()).add(key)

    def add(self, target: ProbeTarget, result: Result) -> None:
        """Add a result of a target."""
        sent, key = result.time - result.took, target.key
        if result.good:
            self._since.pop(key, None)
            self._proven.discard(key)
            self._settle(key)
            for peers in _peers(target):
                passed = self._passed.setdefault(peers, {})
                passed[target.backend] = sent, passed.get(target.backend, (sent, sent))[0]
            return
        began = self._since.setdefault(key, sent)
        if any(began < at < sent for at in self._passed_by_others(key)):
            self._proven.add(key)
        if self.proves(key):
            self._settle(key)
        else:
            self._awaiting.setdefault(self._peers[key], set()).add(key)

    def proves(self, key: TargetKey) -> bool:
        """Whether a target that fails is known to do so by itself; one without peers is."""
        if key in self._proven or not self._peers.get(key):
            return True
        return key in self._at_once and any(at > self._since.get(key, at) for at in self._passed_by_others(key))

    def is_awaited(self, target: ProbeTarget) -> bool:
        """Whether another backend fails, and it shows if that is its own fault whether this target passes."""
        waiting = (self._awaiting.get(peers, ()) for peers in _peers(target)) if self._awaiting else ()
        return any(key[1] != target.backend for keys in waiting for key in keys)

    def _settle(self, key: TargetKey) -> None:
        """Wait no longer for others to be asked."""
        peers = self._peers.get(key, ())
        if key in (waiting := self._awaiting.get(peers, set())):
            waiting.remove(key)
            if not waiting:
                del self._awaiting[peers]

    def _passed_by_others(self, key: TargetKey) -> Iterator[float]:
        passed = self._passed.get(self._peers.get(key, ()), {})
        return (at for backend, both in passed.items() if backend != key[1] for at in both)


def _peers(target: ProbeTarget) -> tuple[Peers, Peers]:
    """What a target is compared with: the same check of the same VIP, or in the same family; or else just the same check."""
    family = "ipv6" if ":" in target.address else "ipv4"
    return (target.pool, str(target.number), target.address if target.vip else family), (
        target.pool,
        str(target.number),
    )


_MAX_KEPT = 256
"""Serials of which it is known when they were first seen: of a zone that changes each second, four minutes exactly."""


class Serials:
    """How long the zone of each backend has been behind the newest of its pool (`serial_lag`).

    That is by the serials that the targets of one check answer, and when each was first seen. Times in seconds.
    """

    def __init__(self) -> None:
        self._now: dict[object, int] = {}
        """The last answer of each target."""
        self._first_seen: dict[int, float] = {}

    def lag(self, target: object, serial: int, time: float) -> tuple[int, float]:
        """Take an answer. Return the newest serial that a target has now, and since how long this one is behind.

        That is the time since the first serial after its own was seen; 0 where there is none.
        """
        before = self._now.get(target, serial)
        self._now[target] = newest = serial
        for other in self._now.values():
            newest = other if is_before(newest, other) else newest
        if is_before(serial, before):  # it was set back
            for seen in [s for s in self._first_seen if is_before(newest, s)]:
                del self._first_seen[seen]
        self._first_seen.setdefault(serial, time)
        if len(self._first_seen) > _MAX_KEPT:
            del self._first_seen[min(self._first_seen, key=self._first_seen.__getitem__)]
        later = (at for s, at in self._first_seen.items() if is_before(serial, s) and not is_before(newest, s))
        return newest, time - min(later, default=time)

    def keep(self, targets: Container[object]) -> None:
        """Know only these targets from now on."""
        self._now = {target: serial for target, serial in self._now.items() if target in targets}

    def forget(self, target: object) -> None:
        """Know a target's serial no longer: it has failed, and does not make others late."""
        self._now.pop(target, None)
