"""The demo's result as tables for people."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from dnsteer.lab.client_affinity import ClientAffinity
from dnsteer.lab.extension_counters import ExtensionCounters
from dnsteer.lab.report import DemoReport, share
from dnsteer.lab.shares import ExpectedQueries
from dnsteer.spec.errors import counted
from dnsteer.switch.megaflows import masks


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
    console.print(_shares("shares, by the name servers' own counters", report.expected, report.seen))
    for one in report.one_socket:
        rate = f"{one.result.sent:,} queries, {one.result.lost} lost, {one.result.qps:,.0f} a second"
        console.print(_shares(f"one socket to {one.target}: {rate}", one.expected, one.seen))
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


def _shares(title: str, expected: ExpectedQueries, seen: dict[str, int]) -> Table:
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
