# SPDX-License-Identifier: Apache-2.0
"""Events at a switch under load, for `bench.announce` and `bench.vrrp`: when another has taken over, and what was lost."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machine import machine

SETTLE = 1.5
"""Seconds of load before it happens."""
_POLL = 0.003
"""Seconds between two looks."""


def parser(description: str, seconds: float) -> argparse.ArgumentParser:
    """The options: repetitions, load, its *seconds* around an event, and which events."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--repeat", type=int, default=5)
    found.add_argument("--qps", type=int, default=2000)
    found.add_argument("--seconds", type=float, default=seconds)
    found.add_argument("--plot", type=Path, default=None, metavar="FILE.svg")
    found.add_argument("--only", default="", help="events whose name has this")
    return found


@contextmanager
def watching(looks: Mapping[Hashable, Callable[[], bool]]) -> Iterator[dict[Hashable, float]]:
    """Call each of *looks* in a thread of its own until it is true; when that was, by `time.monotonic`."""
    seen: dict[Hashable, float] = {}
    ends = threading.Event()

    def watch(who: Hashable, look: Callable[[], bool]) -> None:
        while not ends.wait(_POLL):
            if look():
                seen[who] = time.monotonic()
                return

    threads = [threading.Thread(target=watch, args=one) for one in looks.items()]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def repeated(name: str, repeat: int, pause: float, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """*repeat* runs of an event, each after *pause* seconds; the middle and extremes of `away_s` (or None) and `lost`."""
    runs = []
    for _ in range(repeat):
        time.sleep(pause)
        runs.append(measure())
        print(f"{name}: {runs[-1]}", file=sys.stderr)
    away = [run["away_s"] for run in runs if run["away_s"] is not None]
    return {
        "away_s": spread(away) if away else None,
        "away": f"{len(away)} of {len(runs)}",
        "lost": spread([run["lost"] for run in runs]),
        "sent": sum(run["sent"] for run in runs),
        "runs": runs,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """The middle one of *values*, and their extremes."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def report(options: argparse.Namespace, found: Mapping[str, Any], until: str) -> None:
    """Print what was *found* of each event as JSON; plot it where that is asked for. `away_s` is seconds *until*."""
    if options.plot is not None:
        from bench.plots import events_svg

        options.plot.write_text(events_svg(found, options.qps, f"seconds until {until}"))
    print(json.dumps({"machine": machine(), "qps": options.qps, "repeat": options.repeat, "events": found}, indent=1))
