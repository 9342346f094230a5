# SPDX-License-Identifier: Apache-2.0
"""Every variable of the playbooks may be left out where their headers say so: all at once, and while the others are given.

Each playbook is played against a real private switch, on a machine that is what the defaults say.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.checks.load import load_spec
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import bring_back
from dnsteer.deploy.run import deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.record import RecordReading, read_record
from tests.system.playbooks import RUNBOOKS, Played, Site, make_wheel
from tests.system.runbook_machine import NEW, OLD, SPEC, documented, machine

pytestmark = [pytest.mark.system, pytest.mark.root("network and mount namespaces")]
REQUIRED: dict[str, dict[str, Any]] = {
    "bringup.yml": {},
    "collect-diagnostics.yml": {},
    "deploy.yml": {},
    "drain-backend.yml": {"dnsteer_pool": "farm", "dnsteer_backend": "ns1"},
    "deny-clients.yml": {"dnsteer_clients": "203.0.113.7"},
    "install.yml": {},
    "rollback.yml": {},
    "rolling-upgrade.yml": {"dnsteer_backend_of": ["farm/ns1"], "dnsteer_hook_command": ["true"]},
    "rotate-vip.yml": {
        "dnsteer_old": OLD,
        "dnsteer_new": NEW,
        "dnsteer_spec_both": "both.yaml",
        "dnsteer_spec_new": "new.yaml",
        "dnsteer_probe_host": "client",
    },
}
"""What each playbook cannot do without."""
_TARGETS = {"dnsteer_targets": "dpus"}
_YES = {"dnsteer_yes": True}
_PARTS = {"dnsteer_vars_files": ["more.yaml"], "dnsteer_include_from": ["."]}
_PROBE = {
    "dnsteer_probe_host": "client",
    "dnsteer_probe_name": "none.example.org",
    "dnsteer_probe_type": "A",
    "dnsteer_probe_count": 1,
    "dnsteer_probe_baseline": False,
    "dnsteer_verify_baseline": False,
    "dnsteer_probe_skip": ["tcp/53"],
    "dnsteer_probe_expect": "NXDOMAIN",
}
OPTIONAL: dict[str, dict[str, Any]] = {
    "bringup.yml": {
        **_TARGETS,
        **_PARTS,
        "dnsteer_spec": "specs/dpu-1.yaml",
        "dnsteer_restart": True,
        "dnsteer_bringup_folder": "/etc/dnsteer/scripts",
        "dnsteer_bringup_strict": False,
    },
    "collect-diagnostics.yml": {
        **_TARGETS,
        "dnsteer_archives": "archives",
        "dnsteer_folder": "/etc/dnsteer",
        "dnsteer_log_lines": 5,
        "dnsteer_ovs_rundir": "/run/openvswitch",
        "dnsteer_ovs_logdir": "/run/openvswitch",
    },
    "deploy.yml": {
        **_TARGETS,
        **_YES,
        **_PROBE,
        **_PARTS,
        "dnsteer_spec": "specs/dpu-1.yaml",
        "dnsteer_canary": "dpu-1",
        "dnsteer_serial": [1],
        "dnsteer_note": "ticket",
        "dnsteer_check_on": "switch",
        "dnsteer_check_bin": "./dnsteer",
        "dnsteer_sample": 1,
    },
    "drain-backend.yml": {
        **_TARGETS,
        **_YES,
        "dnsteer_state": "drained",
        "dnsteer_over": "1s",
        "dnsteer_wait": "20s",
        "dnsteer_for": "1h",
        "dnsteer_note": "disk",
    },
    "deny-clients.yml": {
        **_TARGETS,
        **_YES,
        "dnsteer_denied": True,
        "dnsteer_port": 53,
        "dnsteer_vip": "dns",
        "dnsteer_for": "1h",
        "dnsteer_note": "flood",
    },
    "install.yml": {
        **_TARGETS,
        "dnsteer_wheel": "wheel",
        "dnsteer_venv": "/opt/other",
        "dnsteer_bin": "/opt/other/bin/dnsteer",
        "dnsteer_python": sys.executable,
        "dnsteer_pip_options": ["--no-index", "--no-deps", "--no-compile"],
        "dnsteer_ovs_package": "ovs",
        "dnsteer_units_from": str(RUNBOOKS.parent / "ovs" / "systemd"),
        "dnsteer_db": "unix:/run/openvswitch/db.sock",
        "dnsteer_openflow": "unix:/run/openvswitch/br-dns.mgmt",
        "dnsteer_environment": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
    },
    "rollback.yml": {**_TARGETS, **_YES, "dnsteer_rollback_to": 1, "dnsteer_probe_host": "client"},
    "rolling-upgrade.yml": {
        **_YES,
        "dnsteer_hook_tasks": "hook.yml",
        "dnsteer_backends": "ns1",
        "dnsteer_probe_baseline": False,
        "dnsteer_over": "1s",
        "dnsteer_wait": "20s",
        "dnsteer_note": "new kernel",
        "dnsteer_for": "1h",
        "dnsteer_health_tries": 2,
        "dnsteer_backend_addresses": ["192.0.2.12"],
        "dnsteer_switches": "dpus",
        "dnsteer_health_from": "client",
    },
    "rotate-vip.yml": {
        **_TARGETS,
        **_YES,
        **_PARTS,
        "dnsteer_confirmed": True,
        "dnsteer_quiet_for": "1s",
        "dnsteer_quiet_rate": 1,
        "dnsteer_serial": 2,
    },
}
"""What each playbook may be given: something else than the default, where that works here."""
PLAIN: dict[str, tuple[str, ...]] = {
    "bringup.yml": (
        "dnsteer_targets",
        *_PARTS,
        "dnsteer_restart",
        "dnsteer_bringup_folder",
        "dnsteer_bringup_strict",
    ),
    "collect-diagnostics.yml": (
        "dnsteer_targets",
        "dnsteer_folder",
        "dnsteer_ovs_rundir",
        "dnsteer_ovs_logdir",
        "dnsteer_log_lines",
        "dnsteer_archives",
    ),
    "deploy.yml": (
        "dnsteer_targets",
        *_PARTS,
        "dnsteer_yes",
        "dnsteer_note",
        "dnsteer_probe_name",
        "dnsteer_probe_type",
        "dnsteer_probe_count",
        "dnsteer_probe_skip",
        "dnsteer_probe_expect",
        "dnsteer_probe_baseline",
        "dnsteer_serial",
        "dnsteer_verify_baseline",
        "dnsteer_sample",
        "dnsteer_check_bin",
    ),
    "drain-backend.yml": (
        "dnsteer_targets",
        "dnsteer_yes",
        "dnsteer_note",
        "dnsteer_over",
        "dnsteer_wait",
        "dnsteer_for",
    ),
    "deny-clients.yml": (
        "dnsteer_targets",
        "dnsteer_yes",
        "dnsteer_denied",
        "dnsteer_port",
        "dnsteer_vip",
        "dnsteer_for",
        "dnsteer_note",
    ),
    "install.yml": (
        "dnsteer_targets",
        "dnsteer_bin",
        "dnsteer_python",
        "dnsteer_ovs_package",
        "dnsteer_units_from",
        "dnsteer_db",
        "dnsteer_openflow",
    ),
    "rollback.yml": ("dnsteer_targets", "dnsteer_yes"),
    "rolling-upgrade.yml": (
        "dnsteer_yes",
        "dnsteer_over",
        "dnsteer_wait",
        "dnsteer_note",
        "dnsteer_for",
        "dnsteer_health_tries",
        "dnsteer_backends",
        "dnsteer_probe_baseline",
    ),
    "rotate-vip.yml": (
        "dnsteer_targets",
        *_PARTS,
        "dnsteer_yes",
        "dnsteer_quiet_for",
        "dnsteer_quiet_rate",
        "dnsteer_serial",
    ),
}
"""Variables that have a default, or are an option of a command: they are left out together, all others one at a time."""
TOGETHER: dict[str, tuple[str, ...]] = {
    "deploy.yml": ("dnsteer_spec", "dnsteer_canary", "dnsteer_check_on"),
    "drain-backend.yml": ("dnsteer_state", "dnsteer_for"),
    "rolling-upgrade.yml": ("dnsteer_hook_tasks", "dnsteer_for", "dnsteer_switches"),
}
"""Further ones that are left out together: different tasks read them, and all of these run, so that none hides another."""
SIMPLE = {"bringup.yml", "collect-diagnostics.yml", "install.yml"}
"""Playbooks that read all of their variables at every play: without those of PLAIN is as without all."""
NO_INDEX = {"dnsteer_pip_options", "dnsteer_environment"}
"""Of install.yml: without them, and with a wheel, it would fetch packages from the network."""
_weights = cycle((2, 3, 4, 5))


@dataclass
class Bench:
    """The controller, and the switch."""

    site: Site
    switch: TargetSwitch

    def record(self) -> RecordReading:
        return read_record(self.switch.remote, None, 10)

    def apply(self, text: str = SPEC) -> None:
        """Bring the switch to a spec, and let nobody be out."""
        spec = self.site.folder / "applied.yaml"
        spec.write_text(text)
        deploy(FileSource(load_spec(spec)), self.switch)
        for entry in self.record().overlay or ():
            change_overlay(self.switch, None, bring_back(entry.name, entry.kind))
        change_overlay(self.switch, None, lambda overlay, _state, _time: overlay.with_denials(()))

    def play(self, playbook: str, given: dict[str, Any]) -> Played:
        """Prepare what the playbook works on, and play it."""
        folder = self.site.folder
        self.apply(SPEC)
        if playbook == "deploy.yml":
            (folder / "specs" / "dpu-1.yaml").write_text(another())
        if playbook == "rollback.yml":
            self.apply(another())
        if playbook == "install.yml" and not given.get("dnsteer_wheel"):  # then it must be there
            there = folder / given.get("dnsteer_venv", "/opt/dnsteer")[1:] / "bin"
            there.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "dnsteer", there / "dnsteer")
        given = dict(given)
        if given.get("dnsteer_rollback_to"):
            state = self.record().state
            assert state is not None
            given["dnsteer_rollback_to"] = state.number - 1
        if given.get("dnsteer_wheel"):
            given["dnsteer_wheel"] = make_wheel(folder).name
        if given.get("dnsteer_hook_tasks"):
            given["dnsteer_hook_tasks"] = folder / "hook.yml"
        return self.site.play(playbook, **given)

    def done(self, playbook: str, given: dict[str, Any]) -> bool:
        """Whether the switch, or the controller, now is what the playbook is for."""
        folder, found = self.site.folder, self.record()
        if playbook == "deploy.yml":
            return found.state is not None and same(found.state.text, folder / "specs" / "dpu-1.yaml")
        if playbook == "rollback.yml":
            return found.state is not None and found.state.text == SPEC
        if playbook == "drain-backend.yml":
            return [(a.name, a.gone) for a in found.overlay or ()] == [("farm/ns1", 1000)]
        if playbook == "deny-clients.yml":
            return [a.prefix for a in (found.overlay.denials if found.overlay else ())] == ["203.0.113.7/32"]
        if playbook == "rolling-upgrade.yml":
            return not found.overlay and ((folder / "hooked").exists() or "dnsteer_hook_tasks" not in given)
        if playbook == "rotate-vip.yml":
            name = "new.yaml" if given.get("dnsteer_confirmed") else "both.yaml"
            return found.state is not None and same(found.state.text, folder / name)
        if playbook == "collect-diagnostics.yml":
            return len(list((folder / given.get("dnsteer_archives", "diagnostics")).glob("*.tar.gz"))) > 0
        if playbook == "bringup.yml":
            scripts = given.get("dnsteer_bringup_folder", "/etc/dnsteer/bringup")
            return (folder / f"{scripts[1:]}/bringup.sh").exists()
        return (folder / given.get("dnsteer_venv", "/opt/dnsteer")[1:] / "bin" / "dnsteer").exists()


def same(text: str, file: Path) -> bool:
    """Whether a recorded spec is the one in *file*, which has other text where variables were given."""
    return bool(yaml.safe_load(text) == yaml.safe_load(file.read_text()))


def another() -> str:
    """The spec with weights that it did not have before."""
    return SPEC.replace("mac: '02:00:00:00:01:03'", f"mac: '02:00:00:00:01:03', weight: {next(_weights)}")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("site")
    with machine(folder) as (site, running):
        (folder / "both.yaml").write_text(SPEC.replace(OLD, f"{OLD}, {NEW}"))
        (folder / "new.yaml").write_text(SPEC.replace(OLD, NEW))
        (folder / "more.yaml").write_text("nobody: asks\n")
        (folder / "hook.yml").write_text(
            f"- name: Hook\n  ansible.builtin.command:\n    argv: [touch, {folder}/hooked]\n  changed_when: true\n"
        )
        yield Bench(site, TargetSwitch(running.database))


@pytest.fixture(autouse=True)
def command(bench: Bench) -> Iterator[None]:
    """The command of this tree in /opt/dnsteer, where a wheel may have been installed."""
    yield
    shutil.copy(bench.site.folder / "dnsteer", bench.site.folder / "opt" / "dnsteer" / "bin" / "dnsteer")


def test_every_documented_variable_is_tested() -> None:
    for playbook in sorted(path.name for path in (RUNBOOKS / "playbooks").glob("*.yml")):
        tried = {*REQUIRED[playbook], *OPTIONAL[playbook]}
        assert documented(playbook) - tried == set(), playbook


@pytest.mark.parametrize("playbook", sorted(REQUIRED))
def test_playbooks_work_without_optional_variables(bench: Bench, playbook: str) -> None:
    played = bench.play(playbook, REQUIRED[playbook])
    assert played.code == 0, played.output
    assert bench.done(playbook, {}), played.output
    if playbook in ("deploy.yml", "rollback.yml"):
        assert played.said("the VIPs of dpu-1 are not asked: there is no dnsteer_probe_host"), played.output


def omissions() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each playbook with variables to leave out while the others are given."""
    for playbook, given in sorted(OPTIONAL.items()):
        together = TOGETHER.get(playbook, ())
        plain = () if playbook in SIMPLE else PLAIN[playbook]
        yield from ((playbook, names) for names in (plain, together) if names)
        yield from ((playbook, (name,)) for name in given if name not in {*PLAIN[playbook], *together, *NO_INDEX})


@pytest.mark.parametrize(("playbook", "left_out"), list(omissions()), ids=lambda v: v if isinstance(v, str) else v[0])
def test_playbooks_work_without_any_single_optional_variable(
    bench: Bench, playbook: str, left_out: tuple[str, ...]
) -> None:
    given = {**REQUIRED[playbook], **{k: v for k, v in OPTIONAL[playbook].items() if k not in left_out}}
    played = bench.play(playbook, given)
    assert played.code == 0, played.output
    assert bench.done(playbook, given), played.output
