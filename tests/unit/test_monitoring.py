# SPDX-License-Identifier: Apache-2.0
"""Alert rules and the dashboard: they use only what is served, and every alert has a fault that it is tried with."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.cli.main import application
from dnsteer.metrics.families import SERIES
from tests.unit.test_docs import options

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "ovs" / "monitoring" / "dnsteer.rules.yml"
ALERTS = ROOT / "tests" / "monitoring" / "alerts.yml"
_NAME = re.compile(r"(?<![\w:\"$])(?:(?:[a-z]+:)?dnsteer_\w+(?::\w+)?|ALERTS)")
_SELECTED = re.compile(r"((?:[a-z]+:)?dnsteer_\w+(?::\w+)?|ALERTS)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")
COMMON = {"instance", "job", "le"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALL = {rule["alert"]: rule for rule in rules() if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in rules() if "record" in rule}


def labels_of(name: str) -> set[str]:
    """The labels of a series that a query may name."""
    if name == "ALERTS":
        return {"alertname", "alertstate", "severity", "switch", "bridge", "pair", "vip", "pool", "backend"}
    if name in RECORDED:
        found = _BY.search(RECORDED[name]["expr"])
        assert found is not None, name
        return set(found[1].split(", "))
    assert name in SERIES, f"no metric of that name: {name}"
    return {*SERIES[name].all_labels, *COMMON}


def refuse_unknown(expression: str) -> None:
    names = set(_NAME.findall(expression))
    assert names or "up{" in expression, expression
    every = set[str]().union(*(labels_of(name) for name in names), {"job"} if "up{" in expression else set())
    for name, matchers in _SELECTED.findall(expression):
        for label in re.findall(r"(\w+)\s*[=!]~?\"", matchers):
            assert label in labels_of(name), f"{name} has no label {label}"
    for by in _BY.findall(expression):
        assert {label.strip() for label in by.split(",")} <= every, expression


@pytest.mark.parametrize("rule", rules(), ids=lambda r: r.get("alert") or r["record"])
def test_rules_use_what_is_served(rule: dict[str, Any]) -> None:
    refuse_unknown(rule["expr"])


@pytest.mark.parametrize(
    "wrong", ["rate(dnsteer_nothing_total[5m])", 'dnsteer_switch_up{vip="a"}', "sum by (vip) (dnsteer_switch_up)"]
)
def test_rules_with_unknown_series_are_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        refuse_unknown(wrong)


@pytest.mark.parametrize("name", ALL)
def test_alerts_say_how_bad_it_is_and_how_to_look_further(name: str) -> None:
    alert = ALL[name]
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    verbs = re.findall(r"\bdnsteer ([a-z]+)((?: --[a-z-]+)*)", alert["annotations"]["description"])
    verbs = [(verb, given) for verb, given in verbs if verb not in ("make",)]
    assert verbs or "systemctl" in alert["annotations"]["description"]
    for verb, given in verbs:
        assert verb in options(), f"no verb {verb}"
        assert set(given.split()) <= options()[verb]
    assert application() is not None


@pytest.mark.parametrize("name", [name for name in ALL if name != "DnsteerAgentAbsent"])
def test_the_summary_of_an_alert_begins_with_the_switch(name: str) -> None:
    summary = ALL[name]["annotations"]["summary"]
    # A target that has never answered has no name of a switch.
    named = "{{ with $labels.switch }}{{ . }}: {{ end }}" if name == "DnsteerAgentDown" else "{{ $labels.switch }}: "
    assert summary.startswith(named), summary


def test_alerts_lead_to_their_section_of_the_page() -> None:
    assert set(re.findall(r"^### (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.M)) == set(ALL)
    for name, alert in ALL.items():
        assert alert["annotations"]["runbook_url"] == f"https://docs.example.net/dnsteer/alerts.md#{name.lower()}"


def test_rules_sum_by_switch_and_bridge() -> None:
    """But of pairs, whose switches are taken together on purpose."""
    for rule in rules():
        for by in _BY.findall(rule["expr"]):
            assert {"switch", "bridge"} <= set(by.split(", ")) or (by == "pair" and "Pair" in rule["alert"]), rule


def test_every_alert_is_tried_firing_and_silent() -> None:
    tests = yaml.safe_load(ALERTS.read_text())["tests"]
    fires, silent, healthy = set(), set(), set()
    for test in tests:
        for case in test["alert_rule_test"]:
            (fires if case["exp_alerts"] else silent).add(case["alertname"])
            if test["name"] == "nothing is wrong":
                healthy.add(case["alertname"])
        for series in test["input_series"]:
            name, _, matchers = series["series"].partition("{")
            if name != "up":
                assert set(re.findall(r"(\w+)=\"", matchers)) <= labels_of(name), series
    assert fires == silent == healthy == set(ALL)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus)")
def test_promtool_accepts_the_rules() -> None:
    for argv in (["check", "rules", str(RULES)], ["test", "rules", str(ALERTS)]):
        done = subprocess.run(["promtool", *argv], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
