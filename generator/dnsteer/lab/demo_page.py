# SPDX-License-Identifier: Apache-2.0
"""What the demo measured as a page with charts, from the figures that `lab demo` and `lab failover` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from dnsteer.lab.errors import LabError
from dnsteer.render.atomic_files import write_file
from dnsteer.view import charts
from dnsteer.view.charts import Chart, Dot, Shape
from dnsteer.view.drawing import colour
from dnsteer.view.html_file import make_html

_PAGES = Path(__file__).parent / "pages"
_WIDE, _HIGH, _LOW = 960, 300, 120
_SMALL_WIDE, _SMALL_HIGH = 440, 190


@dataclass(frozen=True)
class ChartedTarget:
    """A VIP's address and service that was loaded: its rates, and their chart."""

    name: str
    qps: float
    direct_qps: float
    queries: int
    lost: int
    chart: Chart


@dataclass(frozen=True)
class FailoverView:
    """The failover: answers by server and lost queries over time, and what happened when (seconds after the kill)."""

    answers: Chart
    lost: Chart
    servers: tuple[tuple[int, str], ...]
    moments: tuple[tuple[float, str], ...]


def write_demo_page(figures: Path, file: Path) -> None:
    """Write the page of the figures in a JSON file. Raises LabError when that is none."""
    try:
        measured = json.loads(figures.read_text(encoding="utf-8"))
        if not isinstance(measured, dict):
            raise TypeError("not a mapping")
        text = demo_page(measured)
    except (OSError, ValueError, KeyError, TypeError, UndefinedError) as err:
        why = f"{type(err).__name__}: {err}"
        raise LabError(
            f"{figures} has no figures of this version's demo ({why}): remove it, and measure again"
        ) from err
    write_file(file, text)


def demo_page(measured: Mapping[str, Any]) -> str:
    """The page."""
    load = measured if "runs" in measured else None
    agent = measured.get("agent")
    problems = [*(load["problems"] if load else ()), *(agent["problems"] if agent else ())]
    values = {
        "load": load,
        "targets": _targets(load) if load else (),
        "backends": _backends(load) if load else (),
        "agent": agent,
        "failover": _failover(agent) if agent else None,
        "problems": problems,
        "most": _most(load) if load else 0.0,
    }
    return make_html(_PAGES, "demo.html", values)


def _targets(load: Mapping[str, Any]) -> list[ChartedTarget]:
    runs: list[dict[str, Any]] = [run for run in load["runs"] if run["path"] in ("vip", "direct")]
    turns = _turns(runs)
    end = max((run["began"] + run["seconds"] for run in runs), default=1.0)
    most = max((qps for _, _, _, qps in turns), default=1.0)
    out = []
    for name, rates in load["targets"].items():
        chart, x, y = charts.frame(_SMALL_WIDE, _SMALL_HIGH, (0, end), most, title="seconds")
        lines, dots = list[Shape](), list[Dot]()
        for path in ("direct", "vip"):
            points = [(middle, qps) for target, by, middle, qps in turns if (target, by) == (name, path)]
            lines.append(Shape(path, charts.polyline(points, x, y)))
            dots += charts.dots(points, path, x, y)
        by_vip = [run for run in runs if (run["target"], run["path"]) == (name, "vip")]
        out.append(
            ChartedTarget(
                name,
                rates["qps"],
                rates["direct_qps"],
                sum(run["sent"] for run in by_vip),
                sum(run["lost"] for run in by_vip),
                replace(chart, lines=tuple(lines), dots=tuple(dots)),
            )
        )
    return out


def _turns(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Target, path, middle and rate of each turn: the runs of one path to one target between two of another."""
    found = []
    for (target, path), group in groupby(runs, key=lambda run: (run["target"], run["path"])):
        turn = list(group)
        seconds = sum(run["seconds"] for run in turn)
        middle = (turn[0]["began"] + turn[-1]["began"] + turn[-1]["seconds"]) / 2
        found.append((target, path, middle, sum(run["completed"] for run in turn) / seconds if seconds else 0.0))
    return found


def _backends(load: Mapping[str, Any]) -> Sequence[tuple[int, str, Mapping[str, Any]]]:
    """The name servers, numbered as they are in the charts of their shares."""
    return [(n, name, found) for n, (name, found) in enumerate(load["backends"].items(), 1)]


def _most(load: Mapping[str, Any]) -> float:
    """The largest share."""
    return max((max(b["share"], b["expected"], b["by_weight"]) for b in load["backends"].values()), default=0.0)


def _failover(agent: Mapping[str, Any]) -> FailoverView:
    timeline = agent["timeline"]
    step, begin = timeline["step"], timeline["begin"]
    edges = [round(begin + n * step, 3) for n in range(len(timeline["lost"]) + 1)]
    answered = {name: [n / step for n in numbers] for name, numbers in timeline["answered"].items()}
    lost = [n / step for n in timeline["lost"]]
    servers = tuple(enumerate(answered, 1))
    moments = _moments(agent)
    span = edges[0], edges[-1]
    most = max((sum(column) for column in zip(*answered.values(), lost, strict=True)), default=1.0)
    chart, x, y = charts.frame(_WIDE, _HIGH, span, most, title="seconds after the kill", marks=len(moments))
    bands = [(colour(n), answered[name]) for n, name in servers]
    named = [*((str(n), f"l{colour(n)}", answered[name]) for n, name in servers), ("lost", "on-lost", lost)]
    answers = replace(
        chart,
        areas=tuple(charts.stacked([*bands, ("lost", lost)], edges, x, y)),
        labels=tuple(charts.band_labels(named, edges, x, y)),
        marks=charts.marks([at for at, _ in moments], x),
    )
    below, x, y = charts.frame(_WIDE, _LOW, span, max(lost, default=0.0), title="seconds after the kill")
    return FailoverView(
        answers, replace(below, areas=tuple(charts.stacked([("lost", lost)], edges, x, y))), servers, moments
    )


def _moments(agent: Mapping[str, Any]) -> tuple[tuple[float, str], ...]:
    """What happened, in the words of the agent where it said something."""
    said: list[str] = agent["said"]
    unhealthy = next((line for line in said if " is unhealthy" in line), f"{agent['backend']} is unhealthy")
    moves = next((line for line in said if " slots of pool " in line), "its slots move")
    server, started = agent["server"], agent["started"]
    return (
        (0.0, f"{server} is killed (process {', '.join(map(str, agent['pids']))})"),
        (agent["noticed"], f"the agent knows: {unhealthy}"),
        (agent["moved"], moves),
        (started, f"{server} is started again"),
        (started + agent["healthy"], f"the agent knows: {agent['backend']} is healthy"),
        (started + agent["whole"], "it has all its slots again"),
    )
