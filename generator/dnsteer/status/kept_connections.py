# SPDX-License-Identifier: Apache-2.0
"""How many TCP connections the tracker keeps with each backend (`keep: connections`), at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now
from dnsteer.plan.bridge import wanted_bridge
from dnsteer.slots.membership import Membership
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Spec
from dnsteer.switch.connection_counts import MOST, ZoneCounts, count_connections

COUNT_INTERVAL = 10.0
"""Seconds between two counts, at least: a count holds up ovs-vswitchd's main thread for as long as it takes."""


@dataclass(frozen=True)
class BackendConnections:
    """A backend and its open connections."""

    pool: str
    backend: str
    open: int


@dataclass(frozen=True)
class KeptConnections:
    """The connections that the tracker knew at a *time*: entries of its *zone*, and the most that it may have (0: any).

    *backends* has all that keep connections; None: there are too many entries to count them by backend. *ended* are entries
    of connections that were closed or reset, until the tracker forgets them.
    """

    time: datetime
    zone: int
    entries: int
    limit: int
    ended: int = 0
    backends: tuple[BackendConnections, ...] | None = None

    @cached_property
    def by_backend(self) -> Mapping[tuple[str, str], int]:
        """The open connections by pool and backend; empty where they are not counted."""
        return {(one.pool, one.backend): one.open for one in self.backends or ()}

    @property
    def is_counted(self) -> bool:
        """Whether it is known how many each backend has."""
        return self.backends is not None

    def age(self, time: datetime) -> float:
        """Seconds since the count."""
        return max(0.0, (time - self.time).total_seconds())

    @property
    def text(self) -> str:
        """In words, without the time."""
        many = f"{self.entries:,}" if self.is_counted else f"over {MOST:,}, not counted by backend"
        ended = f" ({self.ended:,} of them ended)" if self.ended else ""
        return f"{many}{ended} of {f'{self.limit:,}' if self.limit else 'any number'}, zone {self.zone}"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object. *entries* is None where there are more than are dumped, which *over* says then."""
        return {
            "time": self.time.isoformat(),
            "zone": self.zone,
            "entries": self.entries if self.is_counted else None,
            "over": None if self.is_counted else MOST,
            "ended": self.ended if self.is_counted else None,
            "limit": self.limit or None,
        }


def name_backends(found: ZoneCounts, members: Iterable[Membership], time: datetime) -> KeptConnections:
    """The counts with the names of the backends that keep connections; marks of others count as entries alone."""
    backends = None
    if found.open is not None:
        numbers = {(pool.pool, m.name): m.number for pool in members if pool.keeps for m in pool.members}
        opened = found.open
        backends = tuple(BackendConnections(*name, opened.get(number, 0)) for name, number in numbers.items())
    return KeptConnections(time, found.zone, found.entries, found.limit, found.ended, backends)


def count_kept(switch: TargetSwitch, spec: Spec, members: Iterable[Membership]) -> KeptConnections | None:
    """Count them on the switch now; None where the spec keeps none. Raises SwitchError, also for a switch elsewhere."""
    if not derived.keeps_connections(spec):
        return None
    kind = wanted_bridge(spec).datapath_type or "system"
    time = now()  # of the beginning: what comes meanwhile may be missing
    return name_backends(
        count_connections(switch.remote, switch.timeout, kind, derived.tracking(spec).zone), members, time
    )
