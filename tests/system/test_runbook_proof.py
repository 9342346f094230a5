# SPDX-License-Identifier: Apache-2.0
"""Where deploy.yml proves a spec, what it says where that is not possible, and that nothing is changed then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dnsteer import __version__
from dnsteer.status.record import read_record
from tests.system.playbooks import Site
from tests.system.runbook_machine import SPEC, machine

pytestmark = [pytest.mark.system, pytest.mark.root("network and mount namespaces")]
_LOGGED = '#!/bin/sh\necho "$@" >> {log}\nexec {command} "$@"\n'
_SUDO = '#!/bin/sh\necho "$@" >> {log}\nwhile [ "$1" != -u ]; do shift; done\nshift 2\nexec "$@"\n'


class Proving:
    """The controller and the switch, each of which writes down what `dnsteer` is asked to do."""

    def __init__(self, site: Site, database: str) -> None:
        self.site, self.database = site, database
        self.spec = site.folder / "specs" / "dpu-1.yaml"
        self.at_switch = self._log("at-switch", site.folder / "opt" / "dnsteer" / "bin" / "dnsteer")
        self.at_controller = self._log("at-controller", site.folder / "bin" / "dnsteer")
        site.environment["PATH"] = f"{site.folder}/bin:{site.environment['PATH']}"

    def _log(self, name: str, command: Path) -> Path:
        log = self.site.folder / name
        command.parent.mkdir(exist_ok=True)
        script(command, _LOGGED.format(log=log, command=self.site.folder / "dnsteer"))
        return log

    def checks(self, log: Path) -> list[str]:
        """The proofs that were asked for."""
        said = log.read_text().splitlines() if log.exists() else []
        return [line for line in said if line.startswith("check ")]

    def state(self) -> int:
        """Number of the state that is applied; 0: nothing was applied."""
        reading = read_record(self.database, None, 10)
        return reading.state.number if reading.state else 0


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def proving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proving]:
    with machine(tmp_path_factory.mktemp("site")) as (site, running):
        found = Proving(site, running.database)
        assert site.play("deploy.yml").code == 0
        yield found


@pytest.fixture(autouse=True)
def nothing_asked(proving: Proving) -> None:
    for log in (proving.at_switch, proving.at_controller):
        log.unlink(missing_ok=True)


def test_the_controller_proves_unless_the_switch_is_to(proving: Proving) -> None:
    given = proving.site.play("deploy.yml", dnsteer_sample=2)
    assert given.code == 0, given.output
    assert proving.checks(proving.at_controller) == [f"check {proving.spec} --sample 2"]
    assert proving.checks(proving.at_switch) == []
    given = proving.site.play("deploy.yml", dnsteer_check_on="switch")
    assert given.code == 0, given.output
    assert len(proving.checks(proving.at_controller)) == 1
    assert proving.checks(proving.at_switch) == ["check /etc/dnsteer/next.yaml"]


def test_the_controller_proves_without_root(proving: Proving) -> None:
    """Where the switch is worked on as root, the controller is not."""
    folder = proving.site.folder
    log = folder / "as-root"
    sudo = script(folder / "sudo", _SUDO.format(log=log))
    inventory = yaml.safe_load((folder / "inventory.yml").read_text())
    inventory["all"]["vars"] = {"ansible_become": True, "ansible_become_exe": str(sudo)}
    (folder / "as-root.yml").write_text(yaml.safe_dump(inventory))
    played = proving.site.play("deploy.yml", "-i", str(folder / "as-root.yml"))
    assert played.code == 0, played.output
    assert len(proving.checks(proving.at_controller)) == 1
    asked = log.read_text().splitlines()
    assert len(asked) >= len(proving.at_switch.read_text().splitlines())
    assert all(str(folder / "shell") in line for line in asked), asked  # the switch's shell


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (None, "the controller has no dnsteer that runs (nowhere/dnsteer: "),
        ('{real} | sed \'s/"dnsteer": ".*"/"dnsteer": "0.0.9"/\'', f"dnsteer 0.0.9 and the switch {__version__}, so"),
        (
            "unshare --mount sh -c 'mount --bind /dev/null {vswitchd} && exec {real}' sh \"$@\"",
            "the controller has no Open vSwitch, in which specs are proven",
        ),
    ],
    ids=["none", "another-version", "no-open-vswitch"],
)
def test_a_controller_that_cannot_prove(proving: Proving, command: str | None, said: str) -> None:
    name = "nowhere/dnsteer"
    vswitchd = Path(shutil.which("ovs-vswitchd", path=f"{os.environ['PATH']}:/usr/sbin") or "").resolve()
    if command is not None:
        real = f'{proving.site.folder / "dnsteer"} "$@"'
        name = str(
            script(proving.site.folder / "other", f"#!/bin/sh\n{command.format(real=real, vswitchd=vswitchd)}\n")
        )
    before = proving.state()
    proving.spec.write_text(SPEC.replace("slots: 16", "slots: 32"))
    played = proving.site.play("deploy.yml", dnsteer_check_bin=name, dnsteer_yes=True)
    proving.spec.write_text(SPEC)
    assert played.code != 0
    assert played.said(said), played.output
    assert played.said(
        f"nothing was changed. Install dnsteer {__version__} and Open vSwitch on the controller and set"
        " dnsteer_check_bin, or prove on the switch: -e dnsteer_check_on=switch"
    ), played.output
    assert proving.state() == before


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("dnsteer_check_on", "dpu", "dnsteer_check_on: found dpu; expected controller or switch"),
        (
            "dnsteer_spec",
            "/nowhere.yaml",
            "there is no file /nowhere.yaml on the controller; set dnsteer_spec to one",
        ),
        ("dnsteer_dig", "nowhere", "there is no program nowhere at client: install it"),
    ],
)
def test_impossible_settings_are_refused_before_any_change(
    proving: Proving, variable: str, value: str, said: str
) -> None:
    before = proving.state()
    proving.spec.write_text(SPEC.replace("slots: 16", "slots: 32"))
    given = {"dnsteer_yes": True, "dnsteer_probe_host": "client", variable: value}
    played = proving.site.play("deploy.yml", **given)
    proving.spec.write_text(SPEC)
    assert played.code != 0
    assert played.said(said), played.output
    assert proving.state() == before
    if variable == "dnsteer_dig":
        played = proving.site.play("rollback.yml", **given)
        assert played.code != 0 and played.said(said), played.output
        assert proving.state() == before
