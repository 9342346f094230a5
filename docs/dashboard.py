# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: whether the switches serve, then a panel for each metric that has one. Used by docs/generate.py."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dnsteer.metrics.families import FAMILIES, metric_family
from dnsteer.metrics.family import (
    BRIDGE,
    NONE_IS_GOOD,
    PLAIN,
    ROWS,
    SWITCH,
    Family,
    Panel,
    ValueScale,
)

SIZES = {"stat": (6, 4), "state-timeline": (12, 6), "timeseries": (8, 8), "table": (12, 8)}
"""Columns and lines of a panel; a row of the dashboard has 24 columns. A row has its panels in this order."""
_COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_VARIABLES = {SWITCH: '{}=~"$switch"', BRIDGE: '{}=~"$bridge"', "vip": '{}=~"$vip"', "pool": '{}=~"$pool"'}
_HERE = 'switch=~"$switch", bridge=~"$bridge"'
_OPEN = ("Traffic", "Backends", "Health checks")
"""Rows that are open when somebody comes; the others are read by Grafana when they are opened."""
_UNIT_OF_QUERIES = "reqps"
_ANSWERS = ValueScale(
    ((None, "red"), (1, "green")),
    ((1, "answers", "green"), (0, "does not answer", "red"), (-1, "its agent is silent", "red")),
)
_ACTIVE = ValueScale(
    ((None, "red"), (1, "green"), (2, "red")),
    ((-1, "one on standby, alone", "orange"), (0, "none", "red"), (1, "one", "green"), (2, "both", "red")),
)
_ROLE = ValueScale(((None, "blue"), (1, "green")), ((0, "on standby", "blue"), (1, "active", "green")))


@dataclass(frozen=True)
class Drawn:
    """A panel as it is drawn: its queries, each with the name of its series, and what is said where there is no series."""

    title: str
    about: str
    draw: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    scale: ValueScale = PLAIN
    nothing: str = ""


_EACH = "{{switch}} {{bridge}}"
_DEAD = "on (switch, bridge, instance) dnsteer_switch_up == 0"
"""Of switches that do not answer the role is that of their record; they may be dead."""
_NAMED = f'dnsteer_switch_up{{{_HERE}, bridge!=""}}'
"""Of agents that have read the record, where the name of the switch is."""
SERVING = (
    Drawn(
        "Switches",
        "Whether Open vSwitch answers its agent. A switch that was there in the time shown, and whose agent Prometheus no "
        "longer reaches, is silent: whether it forwards is not known. An agent that was restarted and has not read the record "
        "stands for the switch that was seen at its address before.",
        "stat",
        (
            (
                f"min by (switch, bridge) ({_NAMED}) "
                f"or 0 * min by (switch, bridge) (last_over_time({_NAMED}[$__range]) "
                'and on (instance, job) dnsteer_switch_up{bridge=""}) '
                f"or 0 * min by (switch, bridge) (last_over_time({_NAMED}[$__range]) "
                "unless on (instance, job) dnsteer_switch_up) - 1 "
                f'or min by (switch, bridge) (dnsteer_switch_up{{{_HERE}, bridge=""}} '
                'unless on (instance, job) last_over_time(dnsteer_switch_up{bridge!=""}[$__range]))',
                _EACH,
            ),
        ),
        scale=_ANSWERS,
    ),
    Drawn(
        "Pools without a backend in service",
        "Their VIPs lose queries, or live on the backup.",
        "stat",
        (
            (
                f"count by (switch, bridge) (min by (switch, bridge, pool) (dnsteer_pool_backends_in_service{{{_HERE}}}) == 0 "
                f"and max by (switch, bridge, pool) (dnsteer_pool_backends{{{_HERE}}}) > 0) "
                f"or 0 * max by (switch, bridge) (dnsteer_pool_backends{{{_HERE}}})",
                _EACH,
            ),
        ),
        scale=NONE_IS_GOOD,
    ),
    Drawn(
        "VIPs that should be announced and are not",
        "Without those that people have withdrawn, or that a switch on standby has.",
        "stat",
        (
            (
                f"count by (switch, bridge) (dnsteer_vip_announced{{{_HERE}}} == 0 unless on (switch, bridge, vip) "
                f'dnsteer_vip_unannounced_info{{{_HERE}, cause="people"}}) '
                f"or 0 * max by (switch, bridge) (dnsteer_vip_announced{{{_HERE}}})",
                _EACH,
            ),
        ),
        scale=NONE_IS_GOOD,
        nothing="no announcements",
    ),
    Drawn(
        "Active switches of each pair",
        "Of the switches with one switch.pair in their specs (else the same lowest address of their VIPs) one should be active. "
        "A switch that does not answer counts as not active.",
        "stat",
        (
            (
                "(count by (pair) (group by (switch, bridge, instance, pair) "
                f"(dnsteer_pair_active == 1 unless {_DEAD})) "
                "or 0 * max by (pair) (dnsteer_pair_active == 1) "
                "or 0 * (count by (pair) (group by (switch, bridge, instance, pair) "
                "(last_over_time(dnsteer_pair_active[$__range]))) > 1) "
                "or max by (pair) (dnsteer_pair_active) - 1) "
                f"and on (pair) dnsteer_pair_active{{{_HERE}}}",
                "{{pair}}",
            ),
        ),
        scale=_ACTIVE,
        nothing="no pairs",
    ),
    Drawn(
        "Queries a second",
        "Packets to services by UDP. Queries by TCP, TLS, HTTPS and QUIC have several packets each and are not among them.",
        "timeseries",
        (
            (
                f'sum by (switch, bridge) (rate(dnsteer_service_packets_total{{{_HERE}, vip=~"$vip", pool=~"$pool", '
                'service=~".*/udp"}[$__rate_interval]))',
                _EACH,
            ),
        ),
        unit=_UNIT_OF_QUERIES,
    ),
    Drawn(
        "Queries for which there is no backend",
        "Packets that reach a VIP and are dropped.",
        "timeseries",
        (
            (
                f"sum by (switch, bridge, reason) (rate(dnsteer_dropped_packets_total{{{_HERE}, "
                'table=~"slot|forward|egress"}[$__rate_interval]))',
                f"{_EACH} {{{{reason}}}}",
            ),
        ),
        unit="pps",
        scale=ValueScale(((None, "green"), (0.001, "red"))),
    ),
    Drawn(
        "Roles of the switches of pairs",
        "Which switch was active when. A switch that did not answer has a gap.",
        "state-timeline",
        (
            (
                f"max by (pair, switch, bridge) (dnsteer_pair_active{{{_HERE}}} unless {_DEAD})",
                "{{pair}}: {{switch}} {{bridge}}",
            ),
        ),
        scale=_ROLE,
        nothing="no pairs",
    ),
    Drawn(
        "Alerts that fire",
        "Those of dnsteer.rules.yml.",
        "table",
        (
            (
                "max by (severity, alertname, switch, bridge, pair, vip, pool, backend) "
                '(ALERTS{alertname=~"Dnsteer.*", alertstate="firing", switch=~"$switch|"})',
                "",
            ),
        ),
        nothing="no alert fires",
    ),
    Drawn(
        "Consoles",
        "Where each agent serves its web console, if it does.",
        "table",
        ((f"max by (switch, bridge, instance, url) (dnsteer_console_info{{{_HERE}}})", ""),),
        nothing="no agent serves a console",
    ),
)


def dashboard() -> str:
    """The dashboard as JSON."""
    board = _Board()
    board.row("Does it serve?", SERVING)
    for row in ROWS:
        board.row(row, [_drawn(f, f.panel) for f in FAMILIES if f.row == row and f.panel is not None], row in _OPEN)
    console = {
        **_variable("console", f"label_values(dnsteer_console_info{{{_HERE}}}, url)", of_all=False),
        "label": "Console",
    }
    value = {
        "uid": "dnsteer",
        "title": "dnsteer",
        "tags": ["dns", "dnsteer"],
        "timezone": "browser",
        "schemaVersion": 38,
        "version": 2,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "annotations": {
            "list": [
                _changes("Applies", 'kind="apply"', "blue"),
                _changes("Maintenance", 'kind!="apply"', "orange"),
            ]
        },
        "links": [
            {
                "title": "Console",
                "type": "link",
                "url": "${console}",
                "icon": "external link",
                "targetBlank": True,
                "tags": [],
                "tooltip": "The console of the switch that is chosen above",
                "asDropdown": False,
                "includeVars": False,
                "keepTime": False,
            }
        ],
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("switch", "label_values(dnsteer_switch_up, switch)"),
                _variable("bridge", 'label_values(dnsteer_switch_up{switch=~"$switch"}, bridge)'),
                _variable("vip", f"label_values(dnsteer_service_packets_total{{{_HERE}}}, vip)"),
                _variable("pool", f"label_values(dnsteer_pool_slots{{{_HERE}}}, pool)"),
                console,
            ]
        },
        "panels": board.panels,
    }
    return json.dumps(value, indent=1) + "\n"


class _Board:
    """Panels in rows, one below the other."""

    def __init__(self) -> None:
        self.panels: list[dict[str, Any]] = []
        self._number, self._y = 0, 0

    def row(self, title: str, drawn: Iterable[Drawn], is_open: bool = True) -> None:
        """Add a row. The panels of one that is not open are inside of it."""
        row: dict[str, Any] = {
            "id": self._next(),
            "type": "row",
            "title": title,
            "collapsed": not is_open,
            "panels": [],
            "gridPos": {"x": 0, "y": self._y, "w": _COLUMNS, "h": 1},
        }
        self.panels.append(row)
        panels = self.panels if is_open else row["panels"]
        self._y, x, tall, last = self._y + 1, 0, 0, ""
        for each in sorted(drawn, key=lambda one: list(SIZES).index(one.draw)):
            width, height = SIZES[each.draw]
            if x + width > _COLUMNS or (last and last != each.draw):
                self._y, x, tall = self._y + tall, 0, 0
            panels.append(_panel(self._next(), each, {"x": x, "y": self._y, "w": width, "h": height}))
            x, tall, last = x + width, max(tall, height), each.draw
        self._y += tall

    def _next(self) -> int:
        self._number += 1
        return self._number


def _changes(name: str, which: str, color: str) -> dict[str, Any]:
    """An annotation at each change of the record: from then on for the window, which has four steps at least.

    So a change is seen whatever the step and the interval of scrapes, and a restart of the agent, which begins the counter
    anew, is none.
    """
    return {
        "name": name,
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "step": "1m",
        "expr": f"sum by (switch, bridge, kind) (increase(dnsteer_changes_total{{{_HERE}, {which}}}[$__rate_interval])) > 0",
        "titleFormat": "{{kind}} on {{switch}} {{bridge}}",
        "tagKeys": "switch,bridge,kind",
    }


def _variable(name: str, query: str, *, of_all: bool = True) -> dict[str, Any]:
    """A variable with a query; *of_all*: of several values, or of all."""
    several = {"multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        **(several if of_all else {"multi": False, "includeAll": False}),
    }


def _panel(number: int, drawn: Drawn, place: dict[str, int]) -> dict[str, Any]:
    targets = [_target("ABCD"[n], drawn.draw, *each) for n, each in enumerate(drawn.queries)]
    is_table = drawn.draw == "table"
    columns = {"excludeByName": {"Time": True, "Value": not _counts(drawn)}}
    return {
        "id": number,
        "type": drawn.draw,
        "title": drawn.title,
        "description": drawn.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": targets,
        "options": _OPTIONS[drawn.draw],
        "fieldConfig": {"defaults": _defaults(drawn), "overrides": _OVERRIDES if is_table else []},
        **({"transformations": [{"id": "organize", "options": columns}]} if is_table else {}),
    }


def _target(ref: str, draw: str, query: str, legend: str) -> dict[str, Any]:
    """A query. What a `stat` shows is the value now: over time, the last one of a switch that is gone would stay."""
    now = {"instant": True, "range": False} if draw in ("stat", "table") else {"range": True, "instant": False}
    form = "table" if draw == "table" else "time_series"
    return {"refId": ref, "datasource": _SOURCE, "expr": query, "legendFormat": legend, "format": form, **now}


def _counts(drawn: Drawn) -> bool:
    """Whether the value of a table says something, and not only that there is such a row."""
    return drawn.unit != "short" or ("_info" not in drawn.queries[0][0] and "ALERTS" not in drawn.queries[0][0])


def _defaults(drawn: Drawn) -> dict[str, Any]:
    words = {
        f"{value:g}": {"text": text, "color": color, "index": n}
        for n, (value, text, color) in enumerate(drawn.scale.words)
    }
    mapped = [{"type": "value", "options": words}] if words else []
    found: dict[str, Any] = {
        "unit": drawn.unit,
        "mappings": mapped,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"value": value, "color": color} for value, color in drawn.scale.steps],
        },
        "color": {"mode": "palette-classic" if drawn.draw in ("timeseries", "table") else "thresholds"},
        "custom": _CUSTOM[drawn.draw],
    }
    if drawn.draw == "timeseries" and drawn.scale is not PLAIN:
        found["custom"] = {**found["custom"], "thresholdsStyle": {"mode": "line"}}
    return {**found, **({"noValue": drawn.nothing} if drawn.nothing else {})}


_OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value_and_name",
    },
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True, "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "state-timeline": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
        "showValue": "auto",
        "mergeValues": True,
        "rowHeight": 0.8,
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}
_CUSTOM: dict[str, dict[str, Any]] = {
    "stat": {},
    "timeseries": {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False},
    "state-timeline": {"lineWidth": 0, "fillOpacity": 70},
    "table": {"align": "auto", "filterable": True},
}
_OVERRIDES = [
    {
        "matcher": {"id": "byName", "options": "url"},
        "properties": [
            {
                "id": "links",
                "value": [
                    {"title": "Open the console", "url": "${__value.raw}", "targetBlank": True},
                ],
            }
        ],
    },
]


def _drawn(family: Family, panel: Panel) -> Drawn:
    legend = " ".join(f"{{{{{label}}}}}" for label in (SWITCH, BRIDGE, *panel.by))
    queries = [(query(family, panel), legend)]
    if panel.beside:
        other = metric_family(panel.beside)
        queries.append((query(other, Panel(other.help)), f"{legend} limit"))
    return Drawn(panel.title, family.help, panel.draw, tuple(queries), panel.unit, panel.scale)


def query(family: Family, panel: Panel) -> str:
    """The PromQL of a panel."""
    only = [form.format(name) for name, form in _VARIABLES.items() if name in family.all_labels]
    only += [f'{label}="{value}"' for label, value in panel.only]
    series, by = f"{{{', '.join(only)}}}", ", ".join((SWITCH, BRIDGE, *panel.by))
    if panel.query:
        return panel.query.replace("METRIC", f"{family.name}{series}")
    if family.type == "histogram":
        return f"histogram_quantile(0.99, sum by ({by}, le) (rate({family.name}_bucket{series}[$__rate_interval])))"
    one = f"{family.name}{series}"
    found = f"{panel.combine} by ({by}) ({f'rate({one}[$__rate_interval])' if family.type == 'counter' else one})"
    return f"topk({panel.top}, {found})" if panel.top else found
