"""Whether it is the backend that fails, and not the way to all of them: another one passed the same check meanwhile.

An interruption of the switch, or of what asks, fails the probes of some backends twice and of others once, and ends before
all are unhealthy. So a backend is known to fail once between two of its failed probes another one was asked and answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dnsteer.agent.health import Result
from dnsteer.agent.probes.targets import ProbeTarget
from dnsteer.switch.agent_record import TargetKey

Peers = tuple[str, ...]
"""What targets have in common that are compared."""


class Evidence:
    """What is known of each target that fails. Times are those of the results."""

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
