"""The demo's result: as JSON for programs, as tables for people."""

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

from dnsteer.lab.command import environment
from dnsteer.lab.shares import Expectation
from dnsteer.lab.traffic import Load, LoadResult
from dnsteer.switch.megaflows import Counters, Megaflow, masks


@dataclass(frozen=True)
class Run:
    """One run of dnsperf: what it was told and what it reported. *path* is `vip`, `direct`, or `sweep`: a few queries to
    every slot, for the megaflows.
    """

    target: str
    path: str
    load: Load
    result: LoadResult


@dataclass(frozen=True)
class DemoReport:
    """All runs and what they add up to. *seen* are the name servers' own counts of the VIP runs."""

    bridge: str
    runs: list[Run]
    seen: dict[str, int]
    expected: Expectation
    flows: list[Megaflow]
    passes: Counters
    left_out: list[str]
    notes: list[str]
    machine: dict[str, Any]

    @cached_property
    def problems(self) -> list[str]:
        """What is not as it should be; empty when all is well."""
        found: list[str] = []
        asked = [*self._of("vip"), *self._of("sweep")]
        lost = sum(r.result.lost for r in asked)
        if lost:
            found.append(f"{lost} of {sum(r.result.sent for r in asked)} queries to the VIPs were lost")
        wrong = sum(n for r in asked for code, n in r.result.rcodes.items() if code not in _GOOD)
        if wrong:
            found.append(f"{wrong} answers with another code than {' or '.join(sorted(_GOOD))}")
        for server, seen in sorted(self.seen.items()):
            deviation, allowed = self.expected.deviation(server, seen), self.expected.allowed(server)
            if abs(deviation) > allowed:
                found.append(f"{server} got {seen} queries, {deviation:+.1%} from its share ({allowed:.1%} allowed)")
        return found

    @property
    def ok(self) -> bool:
        """Whether nothing was lost and every share is right."""
        return not self.problems

    @property
    def queries(self) -> int:
        """Queries sent to the VIPs."""
        return sum(r.result.sent for r in self._of("vip"))

    def qps(self, path: str, target: str | None = None) -> float:
        """Answered queries per second over all runs of *path* (`vip` or `direct`), or those of one target."""
        runs = [r.result for r in self._of(path) if target in (None, r.target)]
        seconds = sum(r.seconds for r in runs)
        return sum(r.completed for r in runs) / seconds if seconds else 0.0

    def median_ratio(self) -> float | None:
        """Median of the rate through the VIP over the direct rate next to it; single disturbances do not move it."""
        ratios: list[float] = []
        for target in self.targets():
            vip, direct = ([r.result.qps for r in self._of(path) if r.target == target] for path in ("vip", "direct"))
            ratios += [a / b for a, b in zip(vip, direct, strict=False) if b]
        return median(ratios) if ratios else None

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        direct = self.qps("direct")
        return {
            "ok": self.ok,
            "problems": self.problems,
            "queries": self.queries,
            "lost": sum(r.result.lost for r in (*self._of("vip"), *self._of("sweep"))),
            "qps": round(self.qps("vip"), 1),
            "direct_qps": round(direct, 1),
            "qps_ratio": round(self.qps("vip") / direct, 4) if direct else None,
            "median_pair_ratio": self.median_ratio(),
            "vip_seconds": round(sum(r.result.seconds for r in self._of("vip")), 3),
            "direct_queries": sum(r.result.sent for r in self._of("direct")),
            "direct_lost": sum(r.result.lost for r in self._of("direct")),
            "backends": {
                server: {
                    "queries": seen,
                    "share": _share(seen, sum(self.seen.values())),
                    "expected": _share(self.expected.queries.get(server, 0.0), self.expected.total),
                    "tolerance": round(self.expected.allowed(server), 4),
                }
                for server, seen in sorted(self.seen.items())
            },
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

    def _of(self, path: str) -> Iterable[Run]:
        return (r for r in self.runs if r.path == path)


_GOOD = frozenset({"NOERROR", "NXDOMAIN"})


def _share(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0


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
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, env=environment(), check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def write_report(report: DemoReport, file: Path) -> None:
    """Write the report as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")


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
    shares = Table(title="shares, by the name servers' own counters")
    for column in ("name server", "queries", "share", "expected", "deviation", "allowed"):
        shares.add_column(column, justify="left" if column == "name server" else "right")
    total = sum(report.seen.values())
    for server, seen in sorted(report.seen.items()):
        deviation, allowed = report.expected.deviation(server, seen), report.expected.allowed(server)
        expected = _share(report.expected.queries.get(server, 0.0), report.expected.total)
        shares.add_row(
            server, f"{seen:,}", f"{_share(seen, total):.2%}", f"{expected:.2%}", f"{deviation:+.2%}", f"{allowed:.1%}"
        )
    console.print(shares)
    passes = f"{report.passes.recirculations:,} second passes of {report.passes.received:,} packets"
    every, transport = report.flows, report.transport_flows()
    flows = f"{len(every)} megaflows ({len(transport)} of UDP and TCP), {masks(every)} masks ({masks(transport)})"
    console.print(f"datapath: {flows}, {passes}", highlight=False)
    for label in report.left_out:
        console.print(f"not loaded: {label}", highlight=False)
    console.print(f"report: {file}", highlight=False, soft_wrap=True)
    for problem in report.problems:
        console.print(f"[red]problem:[/red] {problem}", highlight=False)
    if report.ok:
        console.print("[green]nothing lost, every share as expected[/green]")
