# SPDX-License-Identifier: Apache-2.0
"""Plots of benchmarks, as SVG text. Imported where a plot is asked for, as matplotlib takes a second to load."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE = {"font.size": 9, "svg.hashsalt": "dnsteer", "legend.frameon": False, "axes.grid": True, "grid.alpha": 0.3}
_POLICY_COLORS = ("#555555", "#b5542b", "#8a6d00", "#9ecae1", "#4292c6", "#084594")
_POLICY_MARKERS = ("o", "s", "^", "v", "D", "P")
_SPILL_PANELS = (
    ("served", "Queries answered", 100.0),
    ("mean_ms", "Mean latency, ms", 1.0),
    ("p99_ms", "p99 latency, ms", 1.0),
)
_LOAD_COLORS = {60: "#4292c6", 80: "#084594"}
_WORKER_ROWS = (("cv_busy", "coefficient of variation\nof busy shares"), ("p99_ms", "p99 latency, ms"))


def events_svg(events: Mapping[str, Mapping[str, Any]], qps: int, until: str) -> str:
    """Of `bench.announce` and `bench.vrrp`: a dot for each run of an event, its time until *until*, and lost queries."""
    with mpl.rc_context(_STYLE):
        picture = Figure(figsize=(10, 0.5 + 0.36 * len(events)), layout="constrained")
        left, right = picture.subplots(1, 2, sharey=True)
        for place, event in enumerate(events.values()):
            away = [run["away_s"] for run in event["runs"] if run["away_s"] is not None]
            left.plot(away, [place] * len(away), "o", color="#4292c6", markersize=5, alpha=0.7)
            if not away:
                left.text(0.5, place, "stays", va="center", ha="center", transform=left.get_yaxis_transform())
            lost = [run["lost"] / qps for run in event["runs"]]
            right.plot(lost, [place] * len(lost), "o", color="#b5542b", markersize=5, alpha=0.7)
        left.set_yticks(range(len(events)), list(events))
        left.invert_yaxis()
        left.set_xlim(left=0)
        left.set_xlabel(until)
        right.set_xlim(left=-0.02)
        right.set_xlabel("queries lost, in seconds of all queries")
        return _text_of(picture, "bench")


def spill_svg(policies: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Of `bench.spill`: served share, mean and p99 latency by load, for each policy."""
    with mpl.rc_context(_STYLE):
        picture = Figure(figsize=(11, 3.6), layout="constrained")
        for axes, (key, title, unit) in zip(picture.subplots(1, 3), _SPILL_PANELS, strict=True):
            for (policy, rows), color, marker in zip(policies.items(), _POLICY_COLORS, _POLICY_MARKERS, strict=True):
                axes.plot(
                    [row["load"] for row in rows],
                    [row[key] * unit for row in rows],
                    color=color,
                    marker=marker,
                    markersize=4,
                    linewidth=1.4,
                    label=policy,
                )
            axes.set_title(title, fontsize=9, loc="left")
            axes.set_xlabel("load, % of what both can do")
            axes.set_xticks(range(10, 101, 10))
            if key == "served":
                axes.set_ylabel("%")
                axes.legend(loc="lower left", fontsize=8)
            else:
                axes.set_yscale("log")
        return _text_of(picture, "bench.spill")


def workers_svg(summary: Sequence[Mapping[str, Any]]) -> str:
    """Of `bench.workers`: how unevenly workers are busy, and p99 latency, by the way in which queries get to them.

    Means of the draws of clients, with the least and the most.
    """
    services = list(dict.fromkeys(row["service"] for row in summary))
    ways = list(dict.fromkeys(row["way"] for row in summary))
    loads = list(dict.fromkeys(row["load"] for row in summary))
    with mpl.rc_context(_STYLE):
        picture = Figure(figsize=(11, 5.4), layout="constrained")
        grid = picture.subplots(len(_WORKER_ROWS), len(services), sharex=True, sharey="row", squeeze=False)
        for line, (key, label) in enumerate(_WORKER_ROWS):
            for column, service in enumerate(services):
                axes = grid[line][column]
                for nth, load in enumerate(loads):
                    found = {r["way"]: r[key] for r in summary if (r["service"], r["load"]) == (service, load)}
                    values = [found[way] for way in ways]
                    axes.errorbar(
                        [n + (nth - (len(loads) - 1) / 2) * 0.22 for n in range(len(ways))],
                        [v["mean"] for v in values],
                        yerr=[[v["mean"] - v["least"] for v in values], [v["most"] - v["mean"] for v in values]],
                        fmt="o",
                        capsize=3,
                        markersize=5,
                        color=_LOAD_COLORS.get(load),
                        label=f"{load} % load",
                    )
                if key == "p99_ms":
                    axes.set_yscale("log")
                    axes.set_xticks(range(len(ways)), [way.replace(", ", ",\n") for way in ways], fontsize=8)
                else:
                    axes.set_title(f"times of service: {service}", fontsize=9, loc="left")
                if not column:
                    axes.set_ylabel(label)
        grid[0][0].set_ylim(bottom=0)  # of the whole row, once all is drawn in it
        grid[0][0].legend(loc="lower left", fontsize=8)
        return _text_of(picture, "bench.workers")


def _text_of(picture: Figure, creator: str) -> str:
    out = io.StringIO()
    picture.savefig(out, format="svg", metadata={"Date": None, "Creator": creator})
    return out.getvalue()
