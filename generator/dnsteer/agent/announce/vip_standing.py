# SPDX-License-Identifier: Apache-2.0
"""What becomes of each VIP: announced, withdrawn by people or for health, or held back; when and why.

A VIP that fails again and again is held back longer each time. Only its own failures count for that: people who withdraw it,
or have its backends out, and a switch that is on standby, hide it for as long as they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal

from dnsteer.agent.health import CheckState, Result, Thresholds, after_result

Standing = Literal["announced", "kept", "asked", "standby", "failing", "held", "unknown", "missing"]

_STEP = timedelta(seconds=1)
"""How far the machine's clock must be off to have been set."""


@dataclass(frozen=True)
class VipStanding:
    """Where a VIP stands.

    `announced`; `kept`: announced though no backend passes its checks; `missing`: to be announced, but BIRD has not all of
    its routes. Withdrawn are `asked`: by people; `standby`: the switch is on standby; `failing`: it does not work; `held`:
    it works, and is held back; `unknown`: whether it works is not known yet. *reason* says why, and *until* when what holds
    it back ends, if that is known.
    """

    state: Standing
    reason: str = ""
    until: datetime | None = None

    @property
    def wanted(self) -> bool:
        """Whether BIRD should have its routes."""
        return self.state in ("announced", "kept", "missing")


@dataclass(frozen=True)
class VipVerdict:
    """What is known of a VIP now. *obstacle* is why it does not work, empty if it does, None where that is not known.

    *stays*: it stays announced though no backend passes. *order* is why it may not be announced, however well it works.
    *unanswered*: none of its backends passes, and none of them answers either. *withheld*: the obstacle is only that people
    have backends out, which is no failure.
    """

    obstacle: str | None
    stays: bool = False
    order: VipStanding | None = None
    unanswered: bool = False
    withheld: bool = False


class VipStandings:
    """Where all VIPs stand. Times in seconds are of one steady clock."""

    def __init__(self) -> None:
        self._checks: dict[str, CheckState] = {}
        self._verdicts: dict[str, VipVerdict] = {}
        self._worked: set[str] = set()
        """VIPs that have worked since nobody answered for them: no other stays announced when no backend passes."""
        self._time = 0.0
        """The time of what was followed last."""
        self._zero = datetime.min.replace(tzinfo=timezone.utc)
        """When the steady clock was 0."""

    def begin(self, announced: Mapping[str, bool]) -> None:
        """Know whether VIPs are announced, when nothing else is known."""
        self._checks = {name: CheckState(healthy=is_so) for name, is_so in announced.items()}
        self._worked = {name for name, is_so in announced.items() if is_so}
        self._verdicts = {}

    def follow(self, verdicts: Mapping[str, VipVerdict], time: float, now: datetime, hold_max: float) -> None:
        """Take in what is known of all VIPs now."""
        limits = Thresholds(1, 1, hold_max)
        self._checks = {name: self._checks.get(name, CheckState(healthy=False)) for name in verdicts}
        self._verdicts, self._time = dict(verdicts), time
        zero = now - timedelta(seconds=time)
        if abs(zero - self._zero) > _STEP:
            self._zero = zero
        for name, verdict in verdicts.items():
            if verdict.obstacle is not None and not verdict.withheld and not self._is_kept(name):
                self._checks[name] = after_result(self._checks[name], Result(time, verdict.obstacle), limits)
        self._worked = {
            name
            for name, check in self._checks.items()
            if check.healthy or (name in self._worked and not verdicts[name].unanswered)
        }

    def all(self) -> dict[str, VipStanding]:
        """Where each VIP stands, as far as it is not BIRD's business."""
        return {name: self._of(name) for name in self._verdicts}

    def kept(self) -> list[str]:
        """The VIPs that are announced though no backend passes."""
        return [name for name, standing in self.all().items() if standing.state == "kept"]

    def _is_kept(self, name: str) -> bool:
        return self._verdicts[name].stays and name in self._worked

    def _of(self, name: str) -> VipStanding:
        check, verdict = self._checks[name], self._verdicts[name]
        until = self._zero + timedelta(seconds=check.held) if check.held > self._time else None
        if verdict.order is not None:
            return verdict.order
        if self._is_kept(name):
            return VipStanding("kept", verdict.obstacle or "")
        if verdict.withheld:
            return VipStanding("failing", verdict.obstacle or "", until)
        if check.healthy:
            return VipStanding("announced")
        if verdict.obstacle:
            return VipStanding("failing", verdict.obstacle, until)
        if verdict.obstacle is None:
            return VipStanding("unknown", check.why)
        return VipStanding("held", check.why, until)
