# SPDX-License-Identifier: Apache-2.0
"""Playbooks with specs of several files: two switches of one site, and what is refused before any of them is changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dnsteer.spec.parts.effective_text import without_places
from dnsteer.status.record import read_record
from dnsteer.switch.state import AppliedState
from tests.packet.test_bringup import NOISE, Running
from tests.system.playbooks import Played, Site
from tests.system.runbook_machine import NEW, OLD, SPEC, machine, write_bare_inventory, write_host

pytestmark = [pytest.mark.system, pytest.mark.root("network and mount namespaces")]
SWITCHES = ("dpu-1", "dpu-2")
MAIN = "apiVersion: dnsteer/v1\ninclude: [shared/*.yaml]\nswitch: {{name: {name}}}\n"
SWITCH = "switch:\n  flavor: ovs-netdev\n  bridge: br-dns\n  mac: ${switch_mac}\n  uplinks: {p0: }\n"
POOLS = """\
pools:
  farm:
    slots: 16
    backends:
      - {name: ns1, ipv4: 192.0.2.11, mac: '02:00:00:00:01:01'}
      - {name: ns2, ipv4: 192.0.2.12, mac: '02:00:00:00:01:02', weight: WEIGHT}
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: farm}
"""
PLAIN = SPEC.replace("bridge: br-dns", "bridge: br-dns\n  name: dpu-1")
UNSET = r'shared/switch\.yaml:4: \$\.switch\.mac: found the variable "switch_mac", which is not set;'
_weights = count(2)


@dataclass
class Farm:
    """The controller, and its two switches."""

    site: Site
    running: dict[str, Running]
    specs: Path = field(init=False)

    def __post_init__(self) -> None:
        self.specs = self.site.folder / "specs"

    def write(self, name: str, text: str) -> None:
        """Write a file of the site."""
        (self.specs / name).parent.mkdir(parents=True, exist_ok=True)
        (self.specs / name).write_text(text)

    def play(self, playbook: str = "deploy.yml", *options: str, **given: Any) -> Played:
        return self.site.play(playbook, *options, **{"dnsteer_serial": 2, "dnsteer_yes": True, **given})

    def state(self, name: str) -> AppliedState:
        state = read_record(self.running[name].database, None, 10).state
        assert state is not None
        return state

    def states(self) -> list[int]:
        """Numbers of the states that the switches have; 0: none."""
        return [self.state(name).number if "br-dns" in self.running[name].bridges() else 0 for name in SWITCHES]

    def etc(self, name: str) -> Path:
        """The folder of the specs on a switch."""
        return self.site.folder / ("etc" if name == "dpu-1" else "dpu-2/etc") / "dnsteer"

    def sent(self, name: str) -> set[str]:
        """The files of the spec on a switch."""
        parts = self.etc(name) / "next-parts"
        return {str(file.relative_to(parts)) for file in parts.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder = tmp_path_factory.mktemp("site")
    with machine(folder) as (site, first), Running() as second:
        second.expected = NOISE
        shell = write_host(folder / "dpu-2", folder / "dnsteer", second)
        write_bare_inventory(folder, folder / "shell", shell)
        yield Farm(site, dict(zip(SWITCHES, (first, second), strict=True)))


@pytest.fixture
def farm(made: Farm) -> Farm:
    """With a site of shared files, in which a weight is one that the switches have not had."""
    shutil.rmtree(made.specs)
    made.write("shared/switch.yaml", SWITCH)
    made.write("shared/pools.yaml", POOLS.replace("WEIGHT", str(next(_weights))))
    for number, name in enumerate(SWITCHES, 1):
        made.write(f"{name}.yaml", MAIN.format(name=name))
        made.write(f"vars/{name}.yaml", f"switch_mac: 02:00:00:00:00:5{number}\n")
    return made


def test_two_switches_of_one_site_and_again(farm: Farm) -> None:
    before = farm.states()
    planned = farm.play("deploy.yml", "--check", "--diff", dnsteer_check_on="switch")
    assert (planned.code, farm.states()) == (0, before), planned.output
    played = farm.play(dnsteer_probe_host="client")
    assert played.code == 0, played.output
    for number, name in enumerate(SWITCHES, 1):
        state = farm.state(name)
        assert state.file == f"{name}.yaml"
        where = f"shared/switch.yaml:4, ${{switch_mac}} of vars/{name}.yaml:1"
        assert f"  mac: 02:00:00:00:00:5{number}  # {where}\n" in state.text
        assert farm.sent(name) == {f"{name}.yaml", f"vars/{name}.yaml", "shared/pools.yaml", "shared/switch.yaml"}
        applied = (farm.etc(name) / "spec.yaml").read_text()
        assert without_places(applied) == without_places(state.text)
    after = farm.states()
    again = farm.play(dnsteer_probe_host="client", dnsteer_check_on="switch")
    assert (again.code, [again.changed(name) for name in SWITCHES], farm.states()) == (0, [0, 0], after), again.output


@pytest.mark.parametrize(
    ("place", "file", "text", "said"),
    [
        ("controller", "vars/dpu-2.yaml", "switch_mca: 02:00:00:00:00:52\n", UNSET),
        ("switch", "vars/dpu-2.yaml", "switch_mca: 02:00:00:00:00:52\n", UNSET),
        (
            "switch",
            "dpu-2.yaml",
            MAIN.format(name="dpu-2").replace("]", ", shared/none.yaml]"),
            r'dpu-2\.yaml:2: \$\.include\[1\]: found "shared/none\.yaml", which is not there;',
        ),
        ("controller", "vars/dpu-2.yaml", "switch_mac: [\n", r"vars/dpu-2\.yaml:1: found no value where one must be"),
        (
            "switch",
            "dpu-2.yaml",
            "",
            r"there is no file \S*/specs/dpu-2\.yaml on the controller; set dnsteer_spec to one",
        ),
    ],
    ids=["variable", "variable-at-the-switch", "part", "yaml", "main"],
)
def test_one_bad_spec_is_refused_before_any_switch_is_changed(
    farm: Farm, place: str, file: str, text: str, said: str
) -> None:
    farm.write(file, text)
    if not text:
        (farm.specs / file).unlink()
    before = farm.states()
    played = farm.play(dnsteer_check_on=place)
    assert played.code != 0 and re.search(said, played.text), played.output
    assert farm.states() == before
    assert [played.changed(name) for name in SWITCHES] == [0, 0]


def test_files_of_earlier_deploys_are_gone(farm: Farm) -> None:
    etc = farm.etc("dpu-1")
    farm.write("shared/more.yaml", "vips:\n  more: {addresses: [192.0.2.54], services: [dns], pool: farm}\n")
    (etc / ".next-parts.cut-off").mkdir(parents=True)
    assert farm.play("deploy.yml", "--limit", "dpu-1").code == 0
    assert "shared/more.yaml" in farm.sent("dpu-1") and list(etc.glob(".*")) == []
    number = farm.state("dpu-1").number

    (farm.specs / "shared" / "more.yaml").unlink()
    assert farm.play("deploy.yml", "--limit", "dpu-1").code == 0
    assert "shared/more.yaml" not in farm.sent("dpu-1") and "192.0.2.54" not in farm.state("dpu-1").text

    back = farm.play("rollback.yml", "--limit", "dpu-1", dnsteer_rollback_to=number)
    assert back.code == 0 and "192.0.2.54" in (etc / "spec.yaml").read_text(), back.output
    assert not (etc / "next-parts").exists()


def test_a_plain_spec_after_one_of_several_files(farm: Farm) -> None:
    assert farm.play("deploy.yml", "--limit", "dpu-1").code == 0
    farm.write("dpu-1.yaml", PLAIN)
    played = farm.play("deploy.yml", "--limit", "dpu-1")
    assert played.code == 0, played.output
    assert farm.state("dpu-1").text == (farm.etc("dpu-1") / "spec.yaml").read_text() == PLAIN
    assert not (farm.etc("dpu-1") / "next-parts").exists()


def test_variables_and_includes_from_elsewhere(farm: Farm) -> None:
    """One spec for both switches, with files outside its folder."""
    farm.write("ams/site.yaml", "apiVersion: dnsteer/v1\ninclude: [../shared/*.yaml]\nswitch: {name: '${name}'}\n")
    for number, name in enumerate(SWITCHES, 1):
        farm.write(f"given/{name}.yaml", f"name: {name}\nswitch_mac: 02:00:00:00:00:6{number}\n")
    given = {
        "dnsteer_spec": "specs/ams/site.yaml",
        "dnsteer_vars_files": ["specs/given/{{ inventory_hostname }}.yaml"],
        "dnsteer_include_from": ["specs/shared"],
    }
    for variable, said in (
        (
            "dnsteer_include_from",
            f"there is no folder {farm.site.folder}/nowhere on the controller; set dnsteer_include",
        ),
        (
            "dnsteer_vars_files",
            f"there is no file {farm.site.folder}/nowhere on the controller; set dnsteer_vars_files",
        ),
    ):
        refused = farm.play(**{**given, variable: ["nowhere"]})
        assert refused.code != 0 and refused.said(said), refused.output
    refused = farm.play(**{**given, "dnsteer_include_from": []}, dnsteer_check_on="switch")
    assert refused.code != 0 and refused.said("outside the folder of the spec"), refused.output
    played = farm.play(**given)
    assert played.code == 0, played.output
    for number, name in enumerate(SWITCHES, 1):
        text = farm.state(name).text
        assert f"02:00:00:00:00:6{number}  # ../shared/switch.yaml:4, ${{switch_mac}} of ../given/{name}.yaml:2" in text
        assert farm.sent(name) == {"ams/site.yaml", "shared/pools.yaml", "shared/switch.yaml", f"given/{name}.yaml"}


def test_a_rotation_whose_addresses_are_variables(farm: Farm) -> None:
    pools = (farm.specs / "shared" / "pools.yaml").read_text()
    farm.write("shared/pools.yaml", pools.partition("vips:")[0])
    for name, addresses in (("old", "[192.0.2.53]"), ("both", "[192.0.2.53, '${new}']"), ("new", "['${new}']")):
        farm.write(f"vips/{name}.yaml", f"vips:\n  dns: {{addresses: {addresses}, services: [dns], pool: farm}}\n")
        farm.write(
            f"{name}.yaml", MAIN.format(name="dpu-1").replace("]", f", vips/{name}.yaml]") + f"vars: {{new: {NEW}}}\n"
        )
    deployed = farm.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec="specs/old.yaml")
    assert deployed.code == 0, deployed.output
    given = {"dnsteer_old": OLD, "dnsteer_new": NEW, "dnsteer_quiet_for": "1s", "dnsteer_probe_host": "client"}
    given |= {"dnsteer_spec_both": "specs/both.yaml", "dnsteer_spec_new": "specs/new.yaml"}
    first = farm.play("rotate-vip.yml", "--limit", "dpu-1", **given)
    assert first.code == 0 and OLD in farm.state("dpu-1").text and NEW in farm.state("dpu-1").text, first.output
    second = farm.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True, dnsteer_check_on="switch")
    assert second.code == 0 and farm.state("dpu-1").file == "new.yaml", second.output
    assert OLD not in farm.state("dpu-1").text


OLDER = """\
#!/bin/sh
[ "$2" != --effective ] || {{ echo 'Error: No such option: --effective' >&2; exit 64; }}
exec {command} "$@"
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            "controller",
            "install one and set dnsteer_check_bin, or have it done on the switch: -e dnsteer_check_on=switch",
        ),
        ("switch", "A dnsteer is needed there that knows specs of several files: install one, with install.yml"),
    ],
    ids=["controller", "switch"],
)
def test_an_older_dnsteer_is_said_before_any_switch_is_changed(farm: Farm, place: str, said: str) -> None:
    older = farm.site.folder / "opt" / "dnsteer" / "bin" / "older"
    older.write_text(OLDER.format(command=farm.site.folder / "dnsteer"))
    older.chmod(0o755)
    given = {"dnsteer_check_bin": older} if place == "controller" else {"dnsteer_bin": "/opt/dnsteer/bin/older"}
    before = farm.states()
    played = farm.play("deploy.yml", "--limit", "dpu-1", dnsteer_check_on=place, **given)
    assert played.code != 0 and played.said(said), played.output
    assert farm.states() == before
    if place == "switch":
        farm.write("dpu-1.yaml", PLAIN)
        plain = farm.play("deploy.yml", "--limit", "dpu-1", dnsteer_check_on=place, **given)
        assert plain.code == 0, plain.output


def test_bringup_of_a_spec_of_several_files(farm: Farm) -> None:
    scripts = farm.etc("dpu-1") / "bringup"
    farm.write("vars/dpu-2.yaml", "switch_mca: 02:00:00:00:00:52\n")
    refused = farm.play("bringup.yml")
    assert refused.code != 0 and refused.said('shared/switch.yaml:4: $.switch.mac: found the variable "switch_mac"')
    assert not scripts.exists()
    played = farm.play("bringup.yml", "--limit", "dpu-1", dnsteer_bringup_strict=False)
    assert played.code == 0 and (scripts / "bringup.sh").exists(), played.output
    assert "of vars/dpu-1.yaml:1" in (farm.etc("dpu-1") / "bringup.yaml").read_text()
    again = farm.play("bringup.yml", "--limit", "dpu-1", dnsteer_bringup_strict=False)
    assert (again.code, again.changed()) == (0, 0), again.output
