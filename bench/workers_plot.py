"""The plot of `bench.workers`: how unevenly workers are busy, and p99 latency, by the way in which queries get to them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_COLORS = {60: "#4292c6", 80: "#084594"}
_ROWS = (("cv_busy", "coefficient of variation\nof busy shares"), ("p99_ms", "p99 latency, ms"))


def svg(summary: Sequence[Mapping[str, Any]]) -> str:
    """The plot as SVG: means of the draws of clients, with the least and the most."""
    services = list(dict.fromkeys(row["service"] for row in summary))
    ways = list(dict.fromkeys(row["way"] for row in summary))
    loads = list(dict.fromkeys(row["load"] for row in summary))
    with mpl.rc_context(
        {"font.size": 9, "svg.hashsalt": "dnsteer", "legend.frameon": False, "axes.grid": True, "grid.alpha": 0.3}
    ):
        picture = Figure(figsize=(11, 5.4), layout="constrained")
        grid = picture.subplots(len(_ROWS), len(services), sharex=True, sharey="row", squeeze=False)
        for line, (key, label) in enumerate(_ROWS):
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
                        color=_COLORS.get(load),
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
        out = io.StringIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "bench.workers"})
    return out.getvalue()
