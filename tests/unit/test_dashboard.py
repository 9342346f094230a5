# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: Grafana reads all of it, it asks for what is served, and its panels say what is so."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.metrics.families import FAMILIES
from tests.unit.grafana_model import mistakes
from tests.unit.test_monitoring import ROOT, labels_of, refuse_unknown

BOARD: dict[str, Any] = json.loads((ROOT / "ovs" / "monitoring" / "grafana-dashboard.json").read_text())
VARIABLES = ["datasource", "switch", "bridge", "vip", "pool", "console"]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus)"
)


def every_panel() -> Iterator[dict[str, Any]]:
    """All panels and rows; those of a row that is closed are inside of it."""
    for panel in BOARD["panels"]:
        yield panel
        yield from panel.get("panels", [])


PANELS = {panel["title"]: panel for panel in every_panel() if panel["type"] != "row"}


def expression(title: str, target: int = 0) -> str:
    """The query of a panel, as Grafana sends it when all values of all variables are chosen."""
    return resolved(PANELS[title]["targets"][target]["expr"])


def resolved(query: str) -> str:
    found = query.replace("$__rate_interval", "5m").replace("$__range", "3h")
    return re.sub(r"\$(switch|bridge|vip|pool)\b", ".*", found)


def defaults_of(board: Any) -> Any:
    return board["panels"][1]["fieldConfig"]["defaults"]


def test_grafana_knows_all_that_the_dashboard_has() -> None:
    # What a data source has of its own in an annotation is open in Grafana's schema, and not in its package.
    of_prometheus = re.compile(r"\$\.annotations\.list\[\d\]\.(step|titleFormat|tagKeys): Grafana has no such key")
    assert [found for found in mistakes(BOARD) if not of_prometheus.fullmatch(found)] == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda board: board.update(refreshes="30s"), "$.refreshes"),
        (lambda board: board.update(graphTooltip=7), "$.graph_tooltip"),
        (lambda board: board["panels"][1]["gridPos"].update(w="6"), ".grid_pos.w"),
        (lambda board: defaults_of(board).update(threshold={}), "$.panels[1].fieldConfig.defaults.threshold"),
        (lambda board: board["panels"][1]["options"].update(colorMode="loud"), "$.panels[1].options.color_mode"),
        (lambda board: board["panels"][1]["targets"][0].update(instantly=True), "$.panels[1].targets[0].instantly"),
        (lambda board: board["templating"]["list"][1].update(multi="yes"), "$.templating.list_val[1].multi"),
    ],
)
def test_fields_unknown_to_grafana_are_found(change: Callable[[Any], None], path: str) -> None:
    board = copy.deepcopy(BOARD)
    change(board)
    assert [found for found in mistakes(board) if path in found]


def test_the_dashboard_is_sound() -> None:
    every = list(every_panel())
    assert len({panel["id"] for panel in every}) == len(every)
    assert [variable["name"] for variable in BOARD["templating"]["list"]] == VARIABLES
    for variable in BOARD["templating"]["list"][1:]:
        found = re.fullmatch(r"label_values\((\w+)(\{[^}]*\})?, (\w+)\)", variable["query"])
        assert found is not None and found[3] in labels_of(found[1])
    for panel in every:
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24 and place["h"] > 0
        for target in panel.get("targets", []):
            refuse_unknown(target["expr"].replace("$__rate_interval", "5m").replace("$__range", "3h"))
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {*VARIABLES, "__rate_interval", "__range"}
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for one, other in combinations([panel["gridPos"] for panel in every], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)
    drawn = [family.panel.title for family in FAMILIES if family.panel is not None]
    assert len(drawn) > 30 and set(drawn) <= set(PANELS)


def test_the_first_row_says_whether_the_switches_serve_and_rows_of_details_are_closed() -> None:
    first, *others = [panel for panel in BOARD["panels"] if panel["type"] == "row"]
    assert first["title"] == "Does it serve?" and BOARD["panels"][1]["title"] == "Switches"
    assert {row["title"]: row["collapsed"] for row in others} == {
        "Traffic": False,
        "Backends": False,
        "Health checks": False,
        "State": True,
        "Ports": True,
        "Datapath": True,
        "Agent": True,
    }


def test_panels_group_by_switch_and_bridge_except_pairs() -> None:
    for title, panel in PANELS.items():
        for target in panel["targets"]:
            outer = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            assert outer, title
            for by in outer:
                assert {"switch", "bridge"} <= set(by.split(", ")) or by == "pair", (title, by)


def test_panels_set_their_own_thresholds() -> None:
    """Those are green below 80. What is 0 or 1 has words, and a colour for each."""
    for title, panel in PANELS.items():
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["thresholds"]["steps"][0]["value"] is None, title
        if panel["type"] != "stat":
            continue
        assert panel["targets"][0]["instant"], f"{title} would show the last value of a switch that is gone"
        assert defaults["color"]["mode"] == "thresholds"
    words = {
        title: {value: (one["text"], one["color"]) for value, one in mapped["options"].items()}
        for title, panel in PANELS.items()
        for mapped in panel["fieldConfig"]["defaults"]["mappings"]
    }
    yes_is_good = {"0": ("no", "red"), "1": ("yes", "green")}
    assert {title for title, found in words.items() if found == yes_is_good} == {
        "Tables as recorded",
        "Extension answers",
        "An agent acts",
    }
    assert words["Switches"] == {
        "1": ("answers", "green"),
        "0": ("does not answer", "red"),
        "-1": ("its agent is silent", "red"),
    }
    assert words["Active switches of each pair"]["2"] == ("both", "red")


def test_the_limit_is_beside_the_megaflows_and_each_console_has_a_link() -> None:
    megaflows = [target["expr"] for target in PANELS["Megaflows, and their limit"]["targets"]]
    found = [re.findall(r"dnsteer_\w+", query) for query in megaflows]
    assert found == [["dnsteer_datapath_megaflows"], ["dnsteer_datapath_megaflows_limit"]]
    (override,) = PANELS["Consoles"]["fieldConfig"]["overrides"]
    assert override["matcher"]["options"] == "url"
    assert override["properties"][0]["value"][0]["url"] == "${__value.raw}"
    assert BOARD["links"][0]["url"] == "${console}"


def test_changes_are_shown_as_annotations() -> None:
    for annotation in BOARD["annotations"]["list"]:
        refuse_unknown(annotation["expr"])
        assert annotation["enable"] and set(annotation["tagKeys"].split(",")) == {"switch", "bridge", "kind"}


@needs_promtool
@pytest.mark.parametrize("seconds", [15, 60])
def test_a_change_is_drawn_at_any_interval_of_scrapes_and_a_restart_of_the_agent_is_not(
    tmp_path: Path, seconds: int
) -> None:
    """Changes at minutes 10 and 40; the agent is restarted at minute 20, and counts from 0 again."""
    per_minute = 60 // seconds
    counted = " ".join(f"{value}x{10 * per_minute - 1}" for value in (0, 1, 0, 0, 1))
    drawn = {
        minute: minute in range(10, 14) or minute in range(40, 44)
        for minute in range(5, 49)
        if minute % 10 != 4  # the end of the window: either is right
    }
    applies, maintenance = (one["expr"].replace("$__rate_interval", "4m") for one in BOARD["annotations"]["list"])
    series = [
        {"series": f"dnsteer_changes_total{{{at('dpu-1', kind=kind)}}}", "values": counted}
        for kind in ("apply", "drain")
    ]
    cases = [
        {
            "expr": f"({resolved(query)}) > bool 0",
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{switch="dpu-1", bridge="br-dns", kind="{kind}"}}', "value": 1}] * is_drawn,
        }
        for minute, is_drawn in drawn.items()
        for kind, query in (("apply", applies), ("drain", maintenance))
    ]
    promtool_agrees(tmp_path, f"{seconds}s", series, cases)


@needs_promtool
def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    found = [target["expr"] for panel in PANELS.values() for target in panel["targets"]]
    found += [annotation["expr"] for annotation in BOARD["annotations"]["list"]]
    named = [{"record": f"panel:n{n}", "expr": resolved(query)} for n, query in enumerate(found)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": named}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def at(switch: str, **more: str) -> str:
    """The labels of a series of a switch, all of whose bridges have one name."""
    return ",".join(
        f'{k}="{v}"' for k, v in {"switch": switch, "bridge": "br-dns", "instance": f"{switch}:9853", **more}.items()
    )


ONE, TWO, THREE = ({"switch": name, "bridge": "br-dns"} for name in ("dpu-1", "dpu-2", "dpu-3"))
SAID: list[tuple[str, dict[str, str], list[tuple[dict[str, str], float]]]] = [
    (  # of dpu-2 ovs-vswitchd was killed, of dpu-3 the whole machine
        "Switches",
        {
            f"dnsteer_switch_up{{{at('dpu-1')}}}": "1x30",
            f"dnsteer_switch_up{{{at('dpu-2')}}}": "1x10 0x20",
            f"dnsteer_switch_up{{{at('dpu-3')}}}": "1x10 stale",
        },
        [(ONE, 1), (TWO, 0), (THREE, -1)],
    ),
    (  # the agent of dpu-1 was restarted while the database was down, that of host-2 has never read a record
        "Switches",
        {
            f"dnsteer_switch_up{{{at('dpu-1')}}}": "1x10 stale",
            f"dnsteer_switch_up{{{at('host-1', bridge='', instance='dpu-1:9853')}}}": "_x12 0x20",
            f"dnsteer_switch_up{{{at('host-2', bridge='')}}}": "0x30",
        },
        [(ONE, 0), ({"switch": "host-2"}, 0)],
    ),
    (  # dpu-1 had no label `switch` before an upgrade, dpu-2 was renamed, the agent of dpu-3 has another address now
        "Switches",
        {
            f"dnsteer_switch_up{{{at('', instance='dpu-1:9853')}}}": "1x10 stale",
            f"dnsteer_switch_up{{{at('dpu-1')}}}": "_x10 1x20",
            f"dnsteer_switch_up{{{at('old-name', instance='dpu-2:9853')}}}": "1x10 stale",
            f"dnsteer_switch_up{{{at('dpu-2')}}}": "_x10 0x20",
            f"dnsteer_switch_up{{{at('dpu-3')}}}": "1x10 stale",
            f"dnsteer_switch_up{{{at('dpu-3', instance='dpu-3:9999')}}}": "_x10 1x20",
        },
        [(ONE, 1), (TWO, 0), (THREE, 1)],
    ),
    (  # families with backends of their own: b serves one of them, c is out for one
        "Backends in service",
        {
            f"dnsteer_backend_in_service{{{at('dpu-1', pool='farm', title=title, backend=backend)}}}": value
            for title, backend, value in (
                ("farm (IPv4)", "a", "1x30"),
                ("farm (IPv6)", "a", "1x30"),
                ("farm (IPv4)", "b", "1x30"),
                ("farm (IPv4)", "c", "1x30"),
                ("farm (IPv6)", "c", "0x30"),
            )
        },
        [({**ONE, "pool": "farm"}, 2)],
    ),
    (
        "Failed checks",
        {
            f"dnsteer_check_results_total{{{at('dpu-1', pool='farm', backend='a', check='dns', outcome=outcome)}}}": value
            for outcome, value in (("good", "0+600x30"), ("bad", "0+60x30"))
        },
        [({**ONE, "pool": "farm", "backend": "a"}, 1)],
    ),
    (
        "Pools without a backend in service",
        {
            f"dnsteer_pool_{what}{{{at(switch, pool=pool, title=pool)}}}": value
            for switch, pool, all_of, now in (
                ("dpu-1", "farm", "2x30", "2x30"),
                ("dpu-2", "farm", "2x30", "0x30"),
                ("dpu-2", "idle", "0x30", "0x30"),
            )
            for what, value in (("backends", all_of), ("backends_in_service", now))
        },
        [(ONE, 0), (TWO, 1)],
    ),
    (
        "VIPs that should be announced and are not",
        {
            f"dnsteer_vip_announced{{{at('dpu-1', vip='dns')}}}": "1x30",
            f"dnsteer_vip_announced{{{at('dpu-1', vip='asked')}}}": "0x30",
            f"dnsteer_vip_unannounced_info{{{at('dpu-1', vip='asked', cause='people', reason='x')}}}": "1x30",
            f"dnsteer_vip_announced{{{at('dpu-2', vip='dns')}}}": "0x30",
            f"dnsteer_vip_unannounced_info{{{at('dpu-2', vip='dns', cause='health', reason='x')}}}": "1x30",
        },
        [(ONE, 0), (TWO, 1)],
    ),
    (
        "Active switches of each pair",
        {
            f"dnsteer_pair_active{{{at(switch, pair=pair)}}}": value
            for switch, pair, value in (
                ("dpu-1", "right", "1x30"),
                ("dpu-2", "right", "0x30"),
                ("dpu-3", "both", "1x30"),
                ("dpu-4", "both", "1x30"),
                ("dpu-5", "none", "1x10 stale"),
                ("dpu-6", "none", "0x30"),
            )
        },
        [({"pair": "right"}, 1), ({"pair": "both"}, 2), ({"pair": "none"}, 0)],
    ),
    (  # of each pair one switch does not answer; "alone" has a name that the other one has not yet, "same" one name twice
        "Active switches of each pair",
        {
            f"dnsteer_{what}{{{at(switch, instance=instance, **labels)}}}": value
            for switch, instance, pair, active, up in (
                ("dpu-1", "1", "taken over", "1x30", "1x10 0x20"),
                ("dpu-2", "2", "taken over", "0x10 1x20", "1x30"),
                ("dpu-3", "3", "not taken over", "1x30", "1x10 0x20"),
                ("dpu-4", "4", "not taken over", "0x30", "1x30"),
                ("dpu-5", "5", "dead", "1x30", "0x30"),
                ("dpu-6", "6", "alone", "0x30", "1x30"),
                ("dpu-7", "7", "same", "1x30", "1x30"),
                ("dpu-7", "8", "same", "1x30", "1x30"),
            )
            for what, labels, value in (("pair_active", {"pair": pair}, active), ("switch_up", {}, up))
        },
        [
            ({"pair": "taken over"}, 1),
            ({"pair": "not taken over"}, 0),
            ({"pair": "dead"}, 0),
            ({"pair": "alone"}, -1),
            ({"pair": "same"}, 2),
        ],
    ),
    (
        "Roles of the switches of pairs",
        {
            f"dnsteer_{what}{{{at(switch, **labels)}}}": value
            for switch, active, up in (("dpu-1", "1x30", "1x10 0x20"), ("dpu-2", "0x10 1x20", "1x30"))
            for what, labels, value in (("pair_active", {"pair": "site-a"}, active), ("switch_up", {}, up))
        },
        [({**TWO, "pair": "site-a"}, 1)],
    ),
    (
        "Queries a second",
        {
            f"dnsteer_service_packets_total{{{at(switch, vip='dns', service=service, pool='farm')}}}": value
            for switch, service, value in (
                ("dpu-1", "53/udp", "0+6000x30"),
                ("dpu-1", "53/tcp", "0+600x30"),
                ("dpu-2", "53/udp", "0+60x30"),
            )
        },
        [(ONE, 100), (TWO, 1)],
    ),
    (
        "Certificate ends in",
        {f"dnsteer_certificate_end_timestamp_seconds{{{at('dpu-1')}}}": "87600x30"},
        [(ONE, 86400)],
    ),
]


@needs_promtool
@pytest.mark.parametrize(("title", "series", "said"), SAID, ids=[f"{title}-{n}" for n, (title, *_) in enumerate(SAID)])
def test_panels_show_the_expected_values(
    tmp_path: Path, title: str, series: dict[str, str], said: list[tuple[dict[str, str], float]]
) -> None:
    samples = [
        {"labels": "{" + ", ".join(f'{k}="{v}"' for k, v in labels.items()) + "}", "value": value}
        for labels, value in said
    ]
    given = [{"series": name, "values": values} for name, values in series.items()]
    case = {"expr": expression(title), "eval_time": "20m", "exp_samples": samples}
    promtool_agrees(tmp_path, "1m", given, [case])


def promtool_agrees(tmp_path: Path, interval: str, series: list[dict[str, str]], cases: list[dict[str, Any]]) -> None:
    """Let promtool ask a Prometheus that has these series."""
    test = {"interval": interval, "input_series": series, "promql_expr_test": cases}
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
