"""The plot of `bench.spill`: served share, mean and p99 latency by load, for each policy."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_COLORS = ("#555555", "#b5542b", "#8a6d00", "#9ecae1", "#4292c6", "#084594")
_MARKERS = ("o", "s", "^", "v", "D", "P")
_PANELS = (
    ("served", "Queries answered", 100.0),
    ("mean_ms", "Mean latency, ms", 1.0),
    ("p99_ms", "p99 latency, ms", 1.0),
)


def svg(policies: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The plot as SVG."""
    with mpl.rc_context(
        {"font.size": 9, "svg.hashsalt": "dnsteer", "legend.frameon": False, "axes.grid": True, "grid.alpha": 0.3}
    ):
        picture = Figure(figsize=(11, 3.6), layout="constrained")
        for axes, (key, title, unit) in zip(picture.subplots(1, 3), _PANELS, strict=True):
            for (policy, rows), color, marker in zip(policies.items(), _COLORS, _MARKERS, strict=True):
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
        out = io.StringIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "bench.spill"})
    return out.getvalue()
