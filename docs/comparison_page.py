# SPDX-License-Identifier: Apache-2.0
"""What `make bench-peers` found (docs/comparison.json), as tables of docs/comparison.md, a plot and an HTML page.

    .venv/bin/python docs/comparison_page.py REPORT.json      # docs/comparison.json, docs/comparison.svg, build/comparison.html

docs/generate.py, which has the tables only, imports no matplotlib.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FILE = DOCS / "comparison.json"
_TABLES = re.compile(r"(<!-- compared -->\n).*?(<!-- end of compared -->)", re.DOTALL)
_SHOWN = "udp IPv4"
_SATURATED = "Answers a second at saturation, in thousands: the middle round (the least to the most)."
_BY_RATE = (
    "UDP over IPv4 at three rates: latency in milliseconds that 50 %, 99 % and 99.9 % of the answers keep (p50 / p99 / p99.9), lost "
    "queries, and seconds of CPU of the whole machine for a million queries, beyond what the same queries cost without a "
    "balancer. Middle rounds."
)
_PLOTS = (
    "Left: what each peer answers, as a share of what the same machine answers without a balancer right before and after; "
    "bars are middle rounds, lines the least and the most. Right: the latency that 1 of 100 answers exceeds, at three rates."
)

Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def saturated(report: Mapping[str, Any]) -> Table:
    """Answers a second by transport and family, of the control for UDP over IPv4, balance and memory."""
    kinds = list(dict.fromkeys(kind for row in report["summary"] for kind in row["saturation"]))
    head = ["peer", *kinds, f"{_SHOWN}, of the control", "most loaded server", "memory, MiB"]
    rows = []
    for row in _rows(report):
        found = row["saturation"]
        first = next(iter(found.values()))
        rows.append(
            [
                f"`{row['peer']}`",
                *(_spread(found[kind]["qps"], 1000, 1) if kind in found else "" for kind in kinds),
                _spread(found[_SHOWN]["of_control"], 1, 2) if _SHOWN in found else "",
                f"{100 * first['balance']['median']:.0f} %",
                f"{row['memory_mib']['median']:.0f}" if row["memory_mib"]["median"] else "",
            ]
        )
    return head, rows


def by_rate(report: Mapping[str, Any]) -> Table:
    """Latency, losses and CPU time by rate."""
    rates = report["load"]["rates"]
    head = ["peer", *(f"{what} at {rate:,}/s" for rate in rates for what in ("ms", "lost", "CPU s"))]
    rows = []
    for row in _rows(report):
        cells = [f"`{row['peer']}`"]
        for at in row["rates"]:
            cells.append(" / ".join(f"{at[f'latency_{key}_ms']['median']:.2f}" for key in ("p50", "p99", "p999")))
            cells += [f"{100 * at['lost']['median']:.2f} %", f"{at['cpu_s_per_million']['median']:.0f}"]
        if row["rates"]:
            rows.append(cells)
    return head, rows


def _rows(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The summary in the order of the peers."""
    order = list(report["peers"])
    return sorted(report["summary"], key=lambda row: order.index(row["peer"]))


def _spread(found: Mapping[str, float], unit: float, digits: int) -> str:
    middle, least, most = (f"{found[key] / unit:.{digits}f}" for key in ("median", "min", "max"))
    return f"{middle} ({least} to {most})"


def peers(report: Mapping[str, Any]) -> Table:
    """What each peer is."""
    return ["peer", "what it is", "version"], [
        [f"`{name}`", about["is"], about["version"]] for name, about in report["peers"].items()
    ]


def conditions(report: Mapping[str, Any]) -> str:
    """The machine, the load, what was left out, and rows whose control moved."""
    machine, load = report["machine"], report["load"]
    marked = [f"`{row['peer']}` {row['marked']}" for row in report["summary"] if not row["marked"].startswith("0 ")]
    said = [
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; {report['rounds']} rounds of {load['seconds']:g} s, "
        f"{load['sockets']} sockets (TCP: 64 connections), {load['outstanding']} queries that wait for an answer; "
        f"{report['seconds'] / 60:.0f} minutes in all."
    ]
    if marked:
        said.append(f"Runs whose control moved by more than 15 % in each of three tries: {', '.join(marked)}.")
    if report["left_out"]:
        said.append(f"Not measured: {'; '.join(report['left_out'])}.")
    return " ".join(said)


def comparison_page(text: str) -> str:
    """docs/comparison.md with its tables made anew."""
    report = json.loads(FILE.read_text(encoding="utf-8"))
    parts = [_markdown(peers(report)), conditions(report), _SATURATED, _markdown(saturated(report))]
    parts += [_BY_RATE, _markdown(by_rate(report))]
    whole = "\n\n".join(parts)
    return _TABLES.sub(lambda found: f"{found[1]}\n{whole}\n\n{found[2]}", text)


def _markdown(table: Table) -> str:
    head, rows = table
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def plot(report: Mapping[str, Any]) -> str:
    """Shares of the control, and p99 latency at each rate, as SVG that can be read in black and white."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style = {"font.size": 9, "svg.hashsalt": "dnsteer", "legend.frameon": False, "axes.grid": True, "grid.alpha": 0.3}
    with mpl.rc_context(style):
        picture = Figure(figsize=(12, 5), layout="constrained")
        left, right = picture.subplots(1, 2, sharey=True)
        rows = sorted(
            (row for row in report["summary"] if row["rates"]),
            key=lambda row: row["saturation"][_SHOWN]["of_control"]["median"],
        )
        for place, row in enumerate(rows):
            found = row["saturation"][_SHOWN]["of_control"]
            own = row["peer"].startswith("dnsteer")
            error = [[found["median"] - found["min"]], [found["max"] - found["median"]]]
            left.barh(
                place,
                found["median"],
                xerr=error,
                color="#4292c6" if own else "#dddddd",
                edgecolor="#333333",
                hatch="//" if own else "",
                capsize=3,
            )
            for at, marker, color in zip(row["rates"], "o^s", ("#bbbbbb", "#777777", "#084594"), strict=True):
                label = f"{at['rate']:,} queries a second" if not place else None
                right.plot(at["latency_p99_ms"]["median"], place, marker=marker, color=color, linestyle="", label=label)
        left.set_yticks(range(len(rows)), [row["peer"] for row in rows])
        left.set_xlabel("answers a second over UDP and IPv4 at saturation, without a balancer = 1")
        right.set_xscale("log")
        right.set_xlabel("p99 latency over UDP and IPv4, ms")
        right.legend(fontsize=8)
        out = io.StringIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "docs/comparison_page.py"})
    return out.getvalue()


def html_page(report: Mapping[str, Any], picture: str) -> str:
    """All of it as one page that needs nothing beside it."""
    tables = [
        ("Peers", "", peers(report)),
        ("Saturation", _SATURATED, saturated(report)),
        ("Rates", _BY_RATE, by_rate(report)),
    ]
    parts = [f"<p>{escape(conditions(report))}</p>", picture[picture.index("<svg") :], f"<p>{escape(_PLOTS)}</p>"]
    for title, says, (head, rows) in tables:
        lines = [_html_row("th", head), *(_html_row("td", row) for row in rows)]
        parts.append(f"<h2>{title}</h2><p>{escape(says)}</p><table>{''.join(lines)}</table>")
    style = (
        "body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}"
        "table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #bbb;padding:.25rem .5rem;"
        "text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto}"
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>dnsteer beside other balancers</title>'
        f"<style>{style}</style></head><body><h1>dnsteer beside other balancers</h1>{''.join(parts)}</body></html>\n"
    )


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell.strip(chr(96)))}</{tag}>' for cell in cells)}</tr>"


def main() -> int:
    """Keep the report without its single runs, and write plot and page."""
    if len(sys.argv) != 2:
        sys.exit("usage: docs/comparison_page.py REPORT.json")
    report = {key: value for key, value in json.loads(Path(sys.argv[1]).read_text()).items() if key != "runs"}
    FILE.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    picture = plot(report)
    (DOCS / "comparison.svg").write_text(picture, encoding="utf-8")
    page = DOCS.parent / "build" / "comparison.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text(html_page(report, picture), encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
