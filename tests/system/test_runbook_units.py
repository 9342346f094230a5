# SPDX-License-Identifier: Apache-2.0
"""The units that install.yml copies and enables, in place of those of earlier versions; systemctl is a script here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.system.playbooks import ROOT, Played, Site

pytestmark = pytest.mark.system
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: dnsteer, tasks_from: units.yml}
"""
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$STATE/calls"
enabled="$STATE/$2.enabled" active="$STATE/$2.active"
case $1 in
show)
    [ -f "$active" ] && now=active || now=inactive
    echo LoadState=loaded; echo ActiveState=$now ;;
is-enabled) [ -f "$enabled" ] && echo enabled || { echo disabled; exit 1; } ;;
enable) touch "$enabled" ;;
disable) rm "$enabled" ;;
start) touch "$active" ;;
stop) rm "$active" ;;
daemon-reload) ;;
*) exit 99 ;;
esac
"""


@pytest.fixture
def host(tmp_path: Path) -> Site:
    """A host on which systemctl writes down what it is told."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    (tmp_path / "state").mkdir()
    local = f"{{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}"
    (tmp_path / "inventory.yml").write_text(f"all: {{hosts: {{localhost: {local}}}}}\n")
    (tmp_path / "units.yml").write_text(PLAY)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return Site(tmp_path, {"PATH": path, "STATE": str(tmp_path / "state")})


def play(host: Site, **variables: object) -> Played:
    return host.play(
        str(host.folder / "units.yml"),
        dnsteer_units_from=ROOT / "ovs" / "systemd",
        dnsteer_units_to=host.folder / "units",
        dnsteer_settings_file=host.folder / "settings",
        **variables,
    )


def test_units_replace_those_of_earlier_versions(host: Site) -> None:
    """The timer had another name once; left alone it would end maintenance a second time."""
    units, state = host.folder / "units", host.folder / "state"
    units.mkdir()
    for name in ("dnsteer-due.timer", "dnsteer-due.service"):
        (units / name).write_text("[Unit]\n")
    for name in ("enabled", "active"):
        (state / f"dnsteer-due.timer.{name}").touch()

    first, second = play(host, dnsteer_agent=True), play(host, dnsteer_agent=True)
    assert (first.code, second.code) == (0, 0), first.output + second.output
    installed = {str(p.relative_to(units)) for p in units.rglob("*") if p.is_file()}
    assert installed == {
        "dnsteer-agent.service",
        "dnsteer-reconcile.service",
        "dnsteer-reconcile.timer",
        "dnsteer-restore.service",
        "ovs-vswitchd.service.d/dnsteer.conf",
    }
    assert {p.name for p in state.glob("*.*")} == {
        "dnsteer-reconcile.timer.enabled",
        "dnsteer-reconcile.timer.active",
        "dnsteer-restore.service.enabled",
        "dnsteer-agent.service.enabled",
        "dnsteer-agent.service.active",
    }
    assert second.changed("localhost") == 0, second.output
    third = play(host)
    assert third.code == 0, third.output
    assert not list(state.glob("dnsteer-agent.*"))
