# SPDX-License-Identifier: Apache-2.0
"""How long a server that loses some of its queries is in service, by its checks alone: computed over many hours.

A measurement of a minute shows a few changes. The rules are the agent's own; dnsdist's are the same without a hold.
"""

from __future__ import annotations

import random
from typing import Any

from bench.agent.figures import out_of_service
from bench.agent.world import FALL, INTERVAL, RISE
from dnsteer.agent.health import CheckState, Result, Thresholds, after_result

HOURS = 24.0


def in_the_long_run(loss: float, hold_max: float, *, hours: float = HOURS, seed: int = 53) -> dict[str, Any]:
    """Changes an hour and the share of time out of service, with so much *loss* (0 to 1) and *hold_max* seconds."""
    dice, state, limits = random.Random(seed), CheckState(), Thresholds(RISE, FALL, hold_max)
    marks: list[tuple[float, bool]] = []
    probes = int(hours * 3600 / INTERVAL)
    for number in range(probes):
        after = after_result(state, Result(number * INTERVAL, "lost" if dice.random() < loss else ""), limits)
        if after.healthy != state.healthy:
            marks.append((number * INTERVAL, after.healthy))
        state = after
    times, out = out_of_service(marks, 0.0, probes * INTERVAL)
    return {"times_out_an_hour": round(times / hours, 1), "share_out": round(out, 3)}
