# SPDX-License-Identifier: Apache-2.0
"""Figures of the datapath from ovs-vswitchd: megaflows, masks, hits, upcalls, recirculations, and what is in hardware."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dnsteer.switch.datapaths import USERSPACE, find_datapath, pick_datapath
from dnsteer.switch.masks import show_mask
from dnsteer.switch.megaflows import read_megaflow
from dnsteer.switch.thread_counters import ThreadCounters, UnknownFormatError, read_threads, show_threads
from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Appctl

MAX_DUMPED = 2000
"""Megaflows up to which they are dumped: reading more takes CPU time that packets need."""
_DUMP_AGAIN = 60.0
"""Seconds between two dumps."""
MAX_MASKS = 32
_LOOKUPS = re.compile(r"lookups: hit:(\d+) missed:(\d+) lost:(\d+)")
_FLOWS = re.compile(r"^  flows: (\d+)", re.M)
_MASKS = re.compile(r"masks: hit:(\d+) total:(\d+)")
_LIMIT = re.compile(r"flows +:.*\(limit (\d+)\)")
_REVALIDATION = re.compile(r"dump duration : (\d+)ms")
_PACKETS = re.compile(r"packets:(\d+)")


@dataclass
class Datapath:
    """A reading: counters and gauges by the end of their names, after `dnsteer_datapath_`; packets by mask, if dumped.

    *workers* has counters of each thread that forwards packets: ("packets", worker), and ("cycles", worker, what for).
    *not_understood* says what the switch told in a form that is not known: its figures are left out.
    """

    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    mask_packets: dict[str, int] = field(default_factory=dict)
    workers: dict[tuple[str, ...], int] = field(default_factory=dict)
    not_understood: str = ""


class DatapathReader:
    """Reads the datapath of bridges of a *kind*: `netdev`, `doca` or `system`. *clock* counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._dumped: tuple[float, dict[str, float], dict[str, int]] | None = None

    def read(self, switch: Appctl, kind: str) -> Datapath:
        """Read it. What this version of the switch does not tell is left out. Raises SwitchError."""
        found = read_figures(switch, kind)
        self._dump(switch, kind, found)
        return found

    def _dump(self, switch: Appctl, kind: str, found: Datapath) -> None:
        """Add what only a dump of all megaflows tells, at most once in _DUMP_AGAIN seconds."""
        if found.gauges.get("megaflows", 0) > MAX_DUMPED:
            self._dumped = None
            return
        if self._dumped is None or self._clock() >= self._dumped[0] + _DUMP_AGAIN:
            text = switch.run("dpctl/dump-flows", "-m", find_datapath(switch, kind))
            self._dumped = (self._clock(), *_read_dump(text))
        found.gauges = {**self._dumped[1], **found.gauges}
        found.mask_packets = self._dumped[2]


def read_figures(switch: Appctl, kind: str) -> Datapath:
    """Read what the datapath of a *kind* tells without a dump of its megaflows. Raises SwitchError."""
    found = Datapath()
    shown = _section(switch.run("dpctl/show"), kind)
    if m := _LOOKUPS.search(shown):
        found.counters.update(zip(("hits", "upcalls", "lost"), map(int, m.groups()), strict=True))
    if m := _FLOWS.search(shown):
        found.gauges["megaflows"] = int(m[1])
    if m := _MASKS.search(shown):
        found.counters["mask_lookups"] = int(m[1])
        found.gauges["masks"] = int(m[2])
        packets = found.counters.get("hits", 0)
        if packets:
            found.gauges["packets_lookups_ratio"] = int(m[1]) / packets
    upcalls = _section(switch.run("upcall/show"), kind)
    if m := _LIMIT.search(upcalls):
        found.gauges["megaflows_limit"] = int(m[1])
    if m := _REVALIDATION.search(upcalls):
        found.gauges["revalidation_seconds"] = int(m[1]) / 1000
    if kind in USERSPACE:
        try:
            _add_threads(read_threads(show_threads(switch)), found)
        except UnknownFormatError as err:
            found.not_understood = str(err)
        except SwitchError:
            pass  # it has none, or several datapaths
    return found


def _add_threads(threads: Sequence[ThreadCounters], found: Datapath) -> None:
    if not threads:
        return
    found.counters["recirculations"] = sum(each.recirculations for each in threads)
    if total := sum(each.megaflow for each in threads):
        found.gauges["packets_lookups_ratio"] = sum(each.lookups * each.megaflow for each in threads) / total
    for each in threads:
        found.workers["packets", each.name] = each.received
        for state, cycles in (("idle", each.idle), ("processing", each.processing)):
            if cycles is not None:
                found.workers["cycles", each.name, state] = cycles


def _read_dump(text: str) -> tuple[dict[str, float], dict[str, int]]:
    """Gauges, and packets by mask."""
    packets: Counter[str] = Counter()
    offloaded = 0
    for line in _megaflow_lines(text):
        m = _PACKETS.search(line)
        packets[show_mask(read_megaflow(line).mask)] += int(m[1]) if m else 0
        offloaded += "offloaded:yes" in line
    return {"masks": len(packets), "megaflows_offloaded": offloaded}, dict(packets.most_common(MAX_MASKS))


def _megaflow_lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if "recirc_id(" in line)


def _section(text: str, kind: str) -> str:
    """The part of the datapath of that kind: lines that are indented below its name."""
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            lines = parts.setdefault(line, [])
        else:
            lines.append(line)
    return "\n".join(parts.get(pick_datapath(parts, kind), []))
