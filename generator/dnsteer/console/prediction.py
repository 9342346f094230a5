# SPDX-License-Identifier: Apache-2.0
"""The predicted capacity of an applied spec, for the page Offload. Packages above the console compute it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dnsteer.switch.state import AppliedState


@dataclass(frozen=True)
class PredictedRate:
    """A rate a second with its range, how it was obtained, and what limits it."""

    value: float
    low: float
    high: float
    kind: str
    limit: str


@dataclass(frozen=True)
class Prediction:
    """What is predicted of a spec.

    *masks* is the most masks that traffic can make, *budget* what the spec allows; None where it could not be computed. The
    rates are those of all VIPs together on *hardware*, None where there is none; *why_not* says why. *notes* and *because*
    say what they leave out and why they are not readings, *sources* are the measurements that they rest on.
    """

    masks: int | None = None
    budget: int | None = None
    hardware: str = ""
    flavor: str = ""
    queries: PredictedRate | None = None
    connections: PredictedRate | None = None
    notes: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    why_not: str = ""


Predict = Callable[[AppliedState], Awaitable[Prediction]]
"""Predicts; may take many seconds, and can be cancelled. Raises nothing else."""
