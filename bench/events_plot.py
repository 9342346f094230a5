"""The plot of `bench.announce` and `bench.vrrp`: for each event, the time until it is dealt with, and the lost queries."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


def svg(events: Mapping[str, Mapping[str, Any]], qps: int, until: str) -> str:
    """The plot as SVG: a dot for each run. *until* says what its time is."""
    style = {"font.size": 9, "svg.hashsalt": "dnsteer", "axes.grid": True, "grid.alpha": 0.3}
    with mpl.rc_context(style):
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
        out = io.StringIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "bench"})
    return out.getvalue()
