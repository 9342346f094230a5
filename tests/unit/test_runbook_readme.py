# SPDX-License-Identifier: Apache-2.0
"""The README of the runbooks names every variable with its default, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
README = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
DEFAULTS: dict[str, Any] = yaml.safe_load((RUNBOOKS / "roles/dnsteer/defaults/main.yml").read_text(encoding="utf-8"))
ELSEWHERE = {
    "dnsteer_targets",
    "dnsteer_canary",
    "dnsteer_serial",  # of the plays themselves
    "dnsteer_backend_of",
    "dnsteer_backend_addresses",
    "dnsteer_switches",
    "dnsteer_health_from",  # of a backend's host
    "dnsteer_clients",
    "dnsteer_pool",
    "dnsteer_backend",
    "dnsteer_old",
    "dnsteer_new",
    "dnsteer_spec_both",
    "dnsteer_spec_new",  # required
}


def documented() -> dict[str, str]:
    """The variables of the table, and what it says of their defaults."""
    rows = re.findall(r"^\| (`dnsteer_[^|]*) \| ([^|]*?) ?\| ", README, re.MULTILINE)
    return {name: default for names, default in rows for name in re.findall(r"dnsteer_\w+", names)}


def test_every_variable_is_there_with_its_default() -> None:
    found = documented()
    assert set(found) == {*DEFAULTS, *ELSEWHERE}
    for name, value in DEFAULTS.items():
        said = "" if found[name] == "empty" else found[name].strip("`")
        assert said == value if isinstance(value, str) else yaml.safe_load(said) == value, name


def test_playbooks_use_the_documented_defaults() -> None:
    """Those defaults stand in the playbooks."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (RUNBOOKS / "playbooks").glob("*.yml")}
    assert all("dnsteer_targets | default('dpus')" in text for text in texts.values())
    assert "dnsteer_canary | default('canary')" in texts["deploy.yml"]
    assert "default([1, '25%', '100%'])" in texts["deploy.yml"]
    assert "| default(1)" in texts["rotate-vip.yml"]
