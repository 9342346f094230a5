# SPDX-License-Identifier: Apache-2.0
"""Plot capacity as SVG: rate against frame size with the limits, and rate and latency against pipe depth."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dnsteer.capacity import estimate
from dnsteer.capacity.bounds import Bound, figures, is_in_hardware
from dnsteer.capacity.capacity_report import CapacityReport, PathGroup
from dnsteer.capacity.frame_sizes import JUMBO, MIN_FRAME, message
from dnsteer.capacity.model import Model, line_rate
from dnsteer.capacity.readings import FEW, SwitchState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DEPTHS = range(1, 31)
_COLORS = ("#0b6fa4", "#c4501b", "#3d7d2c", "#7a4fa3", "#9c7a00", "#5a5a5a")
_MAX = len(_COLORS)
_STYLE: Any = {
    "svg.hashsalt": "dnsteer",  # without it the picture's ids are random
    "svg.fonttype": "none",  # text stays text: smaller and searchable
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def draw(report: CapacityReport, before: CapacityReport | None = None) -> bytes:
    """Return the plot as SVG. The same report gives the same bytes with the same version of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        picture = Figure(figsize=(11, 5.6), layout="constrained")
        sizes, depths = picture.subplots(1, 2)
        setup = report.setup
        title = f"{setup.flavor.value} on {setup.model.published.title}, {setup.link_gbps:g} Gb/s: {_file(report)}"
        picture.suptitle(title, fontsize=10, fontweight="bold")
        _by_size(sizes, report, before)
        _by_depth(depths, report)
        out = io.BytesIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": "dnsteer capacity", "Title": title})
    return out.getvalue()


def _file(report: CapacityReport) -> str:
    return report.loaded.file.rpartition("/")[2]


def _grid(low: float, high: float, steps: int = 120) -> list[float]:
    return [low * (high / low) ** (n / steps) for n in range(steps + 1)]


def _curves(report: CapacityReport) -> Iterator[tuple[str, PathGroup]]:
    """Yield one group for each kind of path, with its label; at most as many as there are colors."""
    sorts: dict[tuple[object, ...], list[PathGroup]] = {}
    for group in report.groups:
        path = group.path
        hops = tuple(hop.tables for hop in path.hops)
        key = (
            (path.depth, path.rewrites > 0, path.conntrack, hops) if path.offloaded == "yes" else (path.offloaded, hops)
        )
        sorts.setdefault(key, []).append(group)
    for found in list(sorts.values())[:_MAX]:
        path = found[0].path
        place = f"{len(path.hops)} passes" if path.hops else f"depth {path.depth}"
        place = place if is_in_hardware(path) else "Arm cores"
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        direction = "queries" if path.direction == "query" else "answers"
        yield f"{path.vip} {direction} {path.family.replace('ip', 'IP')}{more} ({place})", found[0]


def _by_size(axes: Axes, report: CapacityReport, before: CapacityReport | None) -> None:
    setup, grid = report.setup, _grid(MIN_FRAME, JUMBO)
    axes.set(xscale="log", yscale="log", xlabel="frame, bytes", ylabel="millions of packets per second")
    axes.set_title("Rate against frame size", fontsize=9)
    line = [line_rate(setup.link_gbps, size) for size in grid]
    axes.plot(grid, line, color="black", linestyle=(0, (4, 2)), linewidth=1, label=f"link, {setup.link_gbps:g} Gb/s")
    low = min(line)
    curves = list(_curves(report))
    for number, (label, group) in enumerate(curves):
        color = _COLORS[number]
        found = [figures(setup, group.path, ((round(size), 1),)) for size in grid]
        rates = [f.rate for f in found]
        axes.fill_between(
            grid,
            [max(r.low, 1e-3) for r in rates],
            [r.high for r in rates],
            color=color,
            alpha=0.2 / len(curves),
            linewidth=0,
        )
        axes.plot(grid, [r.value for r in rates], color=color, linewidth=2, label=label)
        engine: Bound = next(b for b in found[0].bounds if b != "link")
        limit = [f.bounds[engine].value for f in found if engine in f.bounds]
        axes.plot(grid[: len(limit)], limit, color=color, linestyle=":", linewidth=1)
        low = min(low, *(r.value for r in rates))
    if before is not None:
        _before(axes, before, grid)
    marks = {message(setup.sizes.query, "ipv4", "udp"): "query", message(setup.sizes.answer, "ipv4", "udp"): "answer"}
    for size, word in marks.items():
        axes.axvline(size, color="#888888", linewidth=0.6)
        _word(axes, size, word)
    axes.plot([], [], color="#666666", linestyle=":", linewidth=1, label="what the switch or cores allow")
    ticks = [64, 128, 256, 512, 1024, 1518, 4096, JUMBO]
    axes.set_xticks(ticks, [str(t) for t in ticks], rotation=45)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(bottom=0.7 * low)
    _legend(axes, *axes.get_legend_handles_labels())


def _word(axes: Axes, at: float, word: str) -> None:
    """Write a word at the top of the plot, to the right of the vertical line at *at*."""
    axes.annotate(
        word,
        (at, 1),
        xycoords=("data", "axes fraction"),
        xytext=(2, -9),
        textcoords="offset points",
        fontsize=7,
        color="#666666",
    )


def _before(axes: Axes, before: CapacityReport, grid: list[float]) -> None:
    for number, (_, group) in enumerate(_curves(before)):
        rates = [figures(before.setup, group.path, ((round(size), 1),)).rate.value for size in grid]
        axes.plot(grid, rates, color="#999999", linewidth=1.2, label="before" if number == 0 else "_", zorder=1)


def _by_depth(axes: Axes, report: CapacityReport) -> None:
    rewrites = max((group.path.rewrites for group in report.groups), default=0)
    states = [SwitchState(d, report.setup.entries, report.setup.counters, rewrites, False, 64) for d in _DEPTHS]
    axes.set(xlabel="pipe depth: hardware tables that a packet passes", ylabel="millions of packets per second, 64 B")
    axes.set_title("Rate and latency against pipe depth", fontsize=9)
    most = _rates(axes, report.setup.model, states, rewrites)
    line = line_rate(report.setup.link_gbps, MIN_FRAME)
    if line < most:
        label = f"link, {report.setup.link_gbps:g} Gb/s"
        axes.axhline(line, color="black", linestyle=(0, (4, 2)), linewidth=1, label=label)
    _depths_of_spec(axes, report)
    axes.set_xlim(0, max(_DEPTHS) + 1)
    axes.set_ylim(0, most)
    latency = axes.twinx()
    _latencies(latency, report.setup.model, states)
    handles, labels = axes.get_legend_handles_labels()
    more, words = latency.get_legend_handles_labels()
    _legend(axes, handles + more, labels + words)


def _rates(axes: Axes, model: Model, states: Sequence[SwitchState], rewrites: int) -> float:
    """Plot the estimated rates and those that were measured; return the top of the plot."""
    blue = _COLORS[0]
    rates = [estimate.rate_estimate(model, state) for state in states]
    axes.fill_between(_DEPTHS, [r.low for r in rates], [r.high for r in rates], color=blue, alpha=0.12, linewidth=0)
    shown = "rate" + (f", {rewrites} field{'s' if rewrites > 1 else ''} rewritten" if rewrites else "")
    axes.plot(_DEPTHS, [r.value for r in rates], color=blue, linewidth=2, label=shown)
    rows = [row for _, row in model.rows.of(model.card, "switch-rate")]
    plain = sorted({(r.depth, r.value) for r in rows if not r.rewrites and r.entries <= FEW})
    axes.plot(*zip(*plain, strict=True), "o", color=blue, markersize=4, label="measured, no rewrite")
    written = sorted({(r.depth, r.value) for r in rows if r.rewrites and r.frames == "64 B"})
    if written:
        label = "measured, one rewrite"
        axes.plot(*zip(*written, strict=True), "s", color=blue, markersize=4, fillstyle="none", label=label)
    return 1.3 * max(*(r.high for r in rates), *(value for _, value in plain))


def _depths_of_spec(axes: Axes, report: CapacityReport) -> None:
    """Mark the depths of the spec's paths in hardware; a path with several passes has one for each."""
    offloaded = [group.path for group in report.groups if is_in_hardware(group.path)]
    depths = sorted({d for path in offloaded for d in [h.tables for h in path.hops] or [path.depth]})
    for depth in depths:
        axes.axvline(depth, color="#888888", linewidth=0.6)
    if depths:
        _word(axes, depths[-1], "this spec")


def _latencies(axes: Axes, model: Model, states: Sequence[SwitchState]) -> None:
    violet = _COLORS[3]
    axes.plot(_DEPTHS, [model.latency(s).value for s in states], color=violet, linewidth=1.5, label="latency")
    measured = sorted({(r.depth, r.value) for _, r in model.rows.of(model.card, "latency") if not r.tracking})
    axes.plot(*zip(*measured, strict=True), "o", color=violet, markersize=4, label="measured latency")
    axes.set(ylabel="latency at low load, hosts included, us", ylim=(0, None))
    axes.grid(visible=False)


def _legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    axes.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
