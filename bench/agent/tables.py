# SPDX-License-Identifier: Apache-2.0
"""The report as tables for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_COLUMNS = (
    ("share", "fault_share_before"),
    ("detected", "fault_detected_s"),
    ("to flows", "fault_effect_s"),
    ("elsewhere", "fault_elsewhere_s"),
    ("last bad", "fault_last_bad_s"),
    ("lost", "fault_lost"),
    ("errors", "fault_errors"),
    ("late", "fault_late"),
    ("healthy", "repair_detected_s"),
    ("to flows", "repair_effect_s"),
    ("back", "repair_back_s"),
    ("lost", "repair_lost"),
)


def show(report: dict[str, Any], console: Console) -> None:
    """Print the tables of a report."""
    title = "seconds from fault and from repair, medians; queries of the affected clients, sums"
    table = Table(title=title)
    table.add_column("fault")
    table.add_column("by")
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right")
    for name, ways in report["faults"].items():
        for number, (way, found) in enumerate(ways.items()):
            table.add_row("" if number else name, way, *(_cell(found.get(key)) for _, key in _COLUMNS))
    console.print(table)
    loss = report["loss"]
    table = Table(title=f"{loss['loss_percent']} % of the queries to a server lost, for {loss['seconds']:g} s")
    for heading in ("by", "first out", "times out", "time out", "clients' queries lost", "back", "time out in 24 h"):
        table.add_column(heading, justify="left" if heading == "by" else "right")
    for way, found in loss["measured"].items():
        long = loss["computed"].get(way)
        share = found.get("share_out")
        table.add_row(
            way,
            _cell(found.get("first_out_s")),
            _cell(found.get("times_out")),
            "" if share is None else f"{share:.0%}",
            f"{found['lost']} of {found['asked']} ({found['lost_share']:.0%})",
            _cell(found.get("back_s")),
            f"{long['share_out']:.0%} (computed)" if long else "",
        )
    console.print(table)
    others = report["other_servers_clients"]
    console.print(f"clients of the other servers: {others['asked']:,} queries, {others['lost']} lost", highlight=False)
    for name, known in report["published"].items():
        note = f"; {known['note']}" if "note" in known else ""
        console.print(f"{name}: {known['defaults']}{note} ({known['source']})", highlight=False)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, dict) and value["median"] is None):
        return ""
    if isinstance(value, dict):
        return f"{value['median']:.2f}"
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"
