# SPDX-License-Identifier: Apache-2.0
"""What the threads of the userspace datapath have counted, as ovs-vswitchd prints it.

Open vSwitch up to 3.7 has `dpif-netdev/pmd-stats-show` for this. 4.0 has that name still, but answers what
`dpif-netdev/pmd-perf-show` answers, which says the same in other words, and of cycles only their sum exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Appctl

_SHOW, _SHOW_LATER = "dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show"
_HEADING = re.compile(r"^(pmd|main) thread(?: (numa_id \d+))?(?: (core_id \d+))?:$", re.M)
_STATS = {
    "received": r"packets received: (\d+)",
    "recirculations": r"packet recirculations: (\d+)",
    "simple": r"simple match hits: (\d+)",
    "emc": r"emc hits: (\d+)",
    "smc": r"smc hits: (\d+)",
    "megaflow": r"megaflow hits: (\d+)",
    "lookups": r"avg\. subtable lookups per megaflow hit: ([\d.]+)",
    "upcalls": r"miss with success upcall: (\d+)",
    "lost": r"miss with failed upcall: (\d+)",
    "batch": r"avg\. packets per output batch: ([\d.]+)",
    "idle": r"idle cycles: (\d+)",
    "processing": r"processing cycles: (\d+)",
}
_PERF = {
    "received": r"Rx packets: +(\d+)",
    "passes": r"Datapath passes: +(\d+)",
    "simple": r"- Simple Match hits: *(\d+)",
    "emc": r"- EMC hits: +(\d+)",
    "smc": r"- SMC hits: +(\d+)",
    "megaflow": r"- Megaflow hits: +(\d+)",
    "lookups": r"- Megaflow hits: .*?([\d.]+) subtbl lookups/hit",
    "upcalls": r"- Upcalls: +(\d+)",
    "lost": r"- Lost upcalls: +(\d+)",
    "batch": r"Tx batches: .*\(([\d.]+) pkts/batch",
    "used": r"- Used TSC cycles: +(\d+)",
}
_NEEDED = frozenset(["received", "recirculations", "simple", "emc", "megaflow", "lookups", "upcalls", "lost"])
"""What every version prints. The SMC and simple matches are newer than the rest; cycles are not there before the first."""
_NOT_MEASURED = re.compile(r"Measurement duration: 0\.000 s\s*\Z")
MAIN = "main"
"""The name of the thread that is no PMD thread."""
_FRACTIONS = ("lookups", "batch")


class UnknownFormatError(SwitchError):
    """What the switch printed has another form than any version known here."""


@dataclass(frozen=True)
class ThreadCounters:
    """A thread, `main` or such as `numa_id 0 core_id 2`, and its packets: received, and how they found their flows.

    *lookups* are subtables looked up for a hit of a megaflow, *batch* packets sent at once, both on average. Cycles are of
    the time stamp counter, None where the switch does not say them exactly: *used* is the sum of *idle* and *processing*.
    """

    name: str
    received: int
    recirculations: int
    simple: int = 0
    emc: int = 0
    smc: int = 0
    megaflow: int = 0
    lookups: float = 0.0
    upcalls: int = 0
    lost: int = 0
    batch: float = 0.0
    idle: int | None = None
    processing: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class Counters:
    """Packets that the userspace datapath received, and their recirculations."""

    received: int
    recirculations: int


def show_threads(switch: Appctl) -> str:
    """Ask a switch for what `read_threads` reads, by the name of the command that it has. Raises SwitchError."""
    try:
        return switch.run(_SHOW)
    except UnavailableError:
        raise
    except SwitchError:
        return switch.run(_SHOW_LATER, "-nh")


def read_counters(text: str) -> Counters:
    """Read the counters of all threads together. Raises UnknownFormatError."""
    threads = read_threads(text)
    return Counters(sum(each.received for each in threads), sum(each.recirculations for each in threads))


def read_threads(text: str) -> list[ThreadCounters]:
    """Read the counters of each thread; none in the millisecond in which 4.0 has cleared them and says nothing.

    Raises UnknownFormatError.
    """
    headings = list(_HEADING.finditer(text))
    if not headings:
        raise UnknownFormatError(_not_understood(text, "a line such as 'main thread:'"))
    out = []
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        lines = text[heading.end() : after.start() if after else None]
        found = {**_numbers(_STATS, lines), **_numbers(_PERF, lines)}
        if not found and _NOT_MEASURED.search(text, 0, heading.start()):
            return []
        out.append(_thread(" ".join(filter(None, heading.groups()[1:])) or heading[1], found, text))
    return out


def _numbers(patterns: Mapping[str, str], lines: str) -> dict[str, float]:
    found: Iterator[tuple[str, re.Match[str] | None]]
    found = ((name, re.search(rf"^ +{pattern}", lines, re.M)) for name, pattern in patterns.items())
    return {name: float(m[1]) if name in _FRACTIONS else int(m[1]) for name, m in found if m}


def _thread(name: str, found: dict[str, float], text: str) -> ThreadCounters:
    """Make one thread's counters of what was *found*. Raises UnknownFormatError where a number is missing."""
    passes = found.pop("passes", None)
    if passes is not None and "received" in found:
        found["recirculations"] = passes - found["received"]
    elif found.keys() <= {"received", "used"} and found.get("received") == 0:
        found.update(dict.fromkeys(_NEEDED, 0))  # 4.0 says nothing else of a thread that has received nothing
    if missing := sorted(_NEEDED - found.keys()):
        raise UnknownFormatError(_not_understood(text, f"of thread {name} also: {', '.join(missing)}"))
    if "idle" in found and "processing" in found:
        found["used"] = found["idle"] + found["processing"]
    return ThreadCounters(name, **found)  # type: ignore[arg-type]


def _not_understood(text: str, expected: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
    return (
        f"the counters of the datapath's threads are left out: {_SHOW} answers in a form that dnsteer does not know (known "
        f"up to Open vSwitch 4.0; docs/metrics.md): found {first[:80]!r}, expected {expected}"
    )
