# SPDX-License-Identifier: Apache-2.0
"""The demo's result: as JSON, and as tables for people."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from dnsteer.lab.client_affinity import ClientAffinity
from dnsteer.lab.command import program_environment
from dnsteer.lab.extension_program import ExtensionCounters
from dnsteer.lab.shares import ExpectedQueries
from dnsteer.lab.traffic import Load, LoadResult
from dnsteer.render.atomic_files import write_file
from dnsteer.spec.errors import counted
from dnsteer.switch.megaflows import Megaflow, masks
from dnsteer.switch.thread_counters import Counters


@dataclass(frozen=True)
class DnsperfRun:
    """One run of dnsperf: its *load* and its *result*. *path* is `vip`, `direct`, `sweep` (a few queries to every
    slot, for the megaflows) or `one socket`. *began* is in seconds since the demo's first run.
    """

    target: str
    path: str
    load: Load
    result: LoadResult
    began: float = 0.0


@dataclass(frozen=True)
class OneSocketRun:
    """Queries of one socket to a sprayed target. *seen* are the name servers' own counts."""

    target: str
    result: LoadResult
    seen: dict[str, int]
    expected: ExpectedQueries

    def problems(self) -> list[str]:
        """Shares that are too far off."""
        return [f"from one socket to {self.target}, {text}" for text in _deviations(self.expected, self.seen)]


@dataclass(frozen=True)
class DemoReport:
    """All runs and what they add up to. *seen* are the name servers' own counts of the VIP runs."""

    bridge: str
    runs: list[DnsperfRun]
    seen: dict[str, int]
    expected: ExpectedQueries
    flows: list[Megaflow]
    passes: Counters
    one_socket: list[OneSocketRun]
    clients: list[ClientAffinity]
    moved: list[str]
    extension: ExtensionCounters | None
    left_out: list[str]
    notes: list[str]
    machine: dict[str, Any]
    time: str = ""
    """When it ended, ISO 8601."""
    file: str = ""
    """The spec's."""

    @cached_property
    def problems(self) -> list[str]:
        """Messages about lost queries, unexpected response codes and wrong shares; empty when all is well."""
        found: list[str] = []
        asked = [*self._vip_runs()]
        lost = sum(r.result.lost for r in asked)
        if lost:
            found.append(f"{lost} of {sum(r.result.sent for r in asked)} queries to the VIPs were lost")
        wrong = sum(n for r in asked for code, n in r.result.rcodes.items() if code not in _GOOD)
        if wrong:
            found.append(f"{wrong} answers with another code than {' or '.join(sorted(_GOOD))}")
        found += _deviations(self.expected, self.seen)
        found += [text for one in self.one_socket for text in one.problems()]
        found += [text for many in self.clients for text in many.problems()]
        found += self.moved
        if self.extension is not None:
            found += self.extension.problems()
        return found

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def queries(self) -> int:
        """Queries sent to the VIPs."""
        return sum(r.result.sent for r in self._runs_of("vip"))

    def qps(self, path: str, target: str | None = None) -> float:
        """Answered queries per second over all runs of *path* (`vip` or `direct`), or those of one target."""
        runs = [r.result for r in self._runs_of(path) if target in (None, r.target)]
        seconds = sum(r.seconds for r in runs)
        return sum(r.completed for r in runs) / seconds if seconds else 0.0

    def median_ratio(self) -> float | None:
        """Median of the rate through the VIP over the direct rate next to it; single disturbances do not move it."""
        ratios: list[float] = []
        for target in self.targets():
            vip, direct = (
                [r.result.qps for r in self._runs_of(path) if r.target == target] for path in ("vip", "direct")
            )
            ratios += [a / b for a, b in zip(vip, direct, strict=False) if b]
        return median(ratios) if ratios else None

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        direct = self.qps("direct")
        return {
            "ok": self.ok,
            "problems": self.problems,
            "time": self.time,
            "bridge": self.bridge,
            "spec": self.file,
            "queries": self.queries,
            "lost": sum(r.result.lost for r in self._vip_runs()),
            "qps": round(self.qps("vip"), 1),
            "direct_qps": round(direct, 1),
            "qps_ratio": round(self.qps("vip") / direct, 4) if direct else None,
            "median_pair_ratio": self.median_ratio(),
            "vip_seconds": round(sum(r.result.seconds for r in self._runs_of("vip")), 3),
            "direct_queries": sum(r.result.sent for r in self._runs_of("direct")),
            "direct_lost": sum(r.result.lost for r in self._runs_of("direct")),
            "backends": _shares(self.expected, self.seen),
            "one_socket": {
                each.target: {
                    "queries": each.result.sent,
                    "lost": each.result.lost,
                    "qps": round(each.result.qps, 1),
                    "backends": _shares(each.expected, each.seen),
                }
                for each in self.one_socket
            },
            "clients": {each.target: asdict(each) for each in self.clients},
            "extension": self.extension.as_json() if self.extension is not None else None,
            "megaflows": len(self.flows),
            "masks": masks(self.flows),
            "transport_megaflows": len(self.transport_flows()),
            "transport_masks": masks(self.transport_flows()),
            "recirculations": self.passes.recirculations,
            "datapath_packets": self.passes.received,
            "targets": {
                target: {
                    "qps": round(self.qps("vip", target), 1),
                    "direct_qps": round(self.qps("direct", target), 1),
                }
                for target in self.targets()
            },
            "left_out": self.left_out,
            "notes": self.notes,
            "runs": [
                {
                    "target": r.target,
                    "path": r.path,
                    "began": round(r.began, 3),
                    "load": asdict(r.load),
                    **asdict(r.result),
                }
                for r in self.runs
            ],
            "machine": self.machine,
        }

    def transport_flows(self) -> list[Megaflow]:
        """The megaflows of UDP and TCP; the others are of ARP, neighbour discovery and what is dropped."""
        return [flow for flow in self.flows if "udp(" in flow.text or "tcp(" in flow.text]

    def targets(self) -> list[str]:
        """The VIP addresses and services that were loaded."""
        return list(dict.fromkeys(r.target for r in self.runs))

    def _runs_of(self, path: str) -> Iterable[DnsperfRun]:
        return (r for r in self.runs if r.path == path)

    def _vip_runs(self) -> Iterable[DnsperfRun]:
        """All runs to the VIPs."""
        return (r for r in self.runs if r.path != "direct")


_GOOD = frozenset({"NOERROR", "NXDOMAIN"})


def share(part: float, whole: float) -> float:
    """*part* of *whole*, as a number to show."""
    return round(part / whole, 6) if whole else 0.0


def _shares(expected: ExpectedQueries, seen: dict[str, int]) -> dict[str, Any]:
    by_weight = expected.by_weight()
    return {
        server: {
            "queries": number,
            "share": share(number, sum(seen.values())),
            "expected": share(expected.queries.get(server, 0.0), expected.total),
            "by_weight": share(by_weight.get(server, 0.0), expected.total),
            "tolerance": round(expected.allowed(server), 4),
        }
        for server, number in sorted(seen.items())
    }


def _deviations(expected: ExpectedQueries, seen: dict[str, int]) -> list[str]:
    """What is wrong with the shares."""
    found: list[str] = []
    for server, number in sorted(seen.items()):
        deviation, allowed = expected.deviation(server, number), expected.allowed(server)
        if abs(deviation) > allowed:
            found.append(f"{server} got {number} queries, {deviation:+.1%} from its share ({allowed:.1%} allowed)")
    return found


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
        "openvswitch": _version("ovs-vswitchd", "--version"),
        "nsd": _version("nsd", "-v"),
        "dnsperf": _version("dnsperf", "-h"),
    }


def _cpu() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else platform.machine()


def _version(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, env=program_environment(), check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def write_report(report: DemoReport, file: Path) -> None:
    """Write the report as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, json.dumps(report.as_json(), indent=2) + "\n")


def print_report(report: DemoReport, console: Console, file: Path) -> None:
    """Print the summary."""
    rates = Table(title="queries per second: through the VIP, and directly to one backend through the same switch")
    for column in ("VIP", "queries", "lost", "VIP qps", "direct qps", "ratio"):
        rates.add_column(column, justify="left" if column == "VIP" else "right")
    for target in [*report.targets(), None]:
        runs = [r.result for r in report.runs if r.path == "vip" and target in (None, r.target)]
        vip, direct = report.qps("vip", target), report.qps("direct", target)
        ratio = f"{vip / direct:.2f}" if direct else ""
        sent, lost = sum(r.sent for r in runs), sum(r.lost for r in runs)
        style = "bold" if target is None else None
        row = (target or "all", f"{sent:,}", str(lost), f"{vip:,.0f}", f"{direct:,.0f}", ratio)
        rates.add_row(*row, style=style)
    console.print(rates)
    pairs = report.median_ratio()
    if pairs is not None:
        console.print(f"median ratio of runs next to each other: {pairs:.2f}", highlight=False)
    console.print(_shares_table("shares, by the name servers' own counters", report.expected, report.seen))
    for one in report.one_socket:
        rate = f"{one.result.sent:,} queries, {one.result.lost} lost, {one.result.qps:,.0f} a second"
        console.print(_shares_table(f"one socket to {one.target}: {rate}", one.expected, one.seen))
    if report.clients:
        console.print(_clients(report.clients))
    if report.extension is not None:
        console.print(_extension(report.extension))
    passes = f"{report.passes.recirculations:,} second passes of {report.passes.received:,} packets"
    every, transport = report.flows, report.transport_flows()
    seen = counted(masks(every), "mask")
    flows = f"{counted(len(every), 'megaflow')} ({len(transport)} of UDP and TCP), {seen} ({masks(transport)})"
    console.print(f"datapath: {flows}, {passes}", highlight=False)
    for label in report.left_out:
        console.print(f"not loaded: {label}", highlight=False)
    console.print(f"report: {file}", highlight=False, soft_wrap=True)
    for problem in report.problems:
        console.print(f"[red]problem:[/red] {problem}", highlight=False)
    if report.ok:
        console.print("[green]nothing lost, every share as expected[/green]")


def _shares_table(title: str, expected: ExpectedQueries, seen: dict[str, int]) -> Table:
    table = Table(title=title)
    for column in ("name server", "queries", "share", "expected", "deviation", "allowed"):
        table.add_column(column, justify="left" if column == "name server" else "right")
    for server, number in sorted(seen.items()):
        due = share(expected.queries.get(server, 0.0), expected.total)
        off, allowed = expected.deviation(server, number), expected.allowed(server)
        table.add_row(
            server,
            f"{number:,}",
            f"{share(number, sum(seen.values())):.2%}",
            f"{due:.2%}",
            f"{off:+.2%}",
            f"{allowed:.1%}",
        )
    return table


def _clients(every: list[ClientAffinity]) -> Table:
    table = Table(title="many clients: each has one name server, and they are spread")
    for column in ("VIP", "clients", "queries", "lost", "with several", "clients by name server (share)"):
        table.add_column(column, justify="left" if column.startswith(("VIP", "clients by")) else "right")
    for each in every:
        by = ", ".join(f"{s} {each.seen.get(s, 0)} ({due:.0f})" for s, due in each.expected.items())
        numbers = (each.clients, each.queries, each.unanswered, len(each.moved))
        table.add_row(each.target, *map(str, numbers), by)
    return table


def _extension(counted: ExtensionCounters) -> Table:
    dropped = sum(counted.dropped.values()) + counted.missed
    table = Table(title=f"packets of the extension, by its own counters: {dropped} dropped")
    for column in ("service", "packets", "by backend"):
        table.add_column(column, justify="right" if column == "packets" else "left", overflow="fold")
    for name, by in counted.services.items():
        table.add_row(name, f"{sum(by.values()):,}", ", ".join(f"{backend} {n:,}" for backend, n in sorted(by.items())))
    return table
