"""The runbooks for real: every playbook against the lab, through the connection plugin for network namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer import __version__, lab
from dnsteer.lab import names
from dnsteer.lab.command import inside, run
from dnsteer.spec.load import load_spec

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root: network namespaces and raw sockets"),
]
ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "runbooks"
QUICKSTART = ROOT / "examples" / "quickstart.yaml"
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
OLD, NEW, UNOWNED = "192.0.2.53", "192.0.2.54", "192.0.2.99"
ADDRESSES = "[192.0.2.53, 2001:db8::53]"
EVERY_ONE_UP = {"ns1": "up", "ns2": "up", "ns3": "up", "ns4": "up"}
SWITCHES = ("dpu-1", "dpu-2")
"""Two names of the lab's one switch, so that there is one to spare when the canary fails."""


@dataclass(frozen=True)
class Played:
    """What a run of ansible-playbook gave."""

    code: int
    output: str

    def changed(self, host: str = "dpu-1") -> int:
        """The number of changed tasks in the recap of *host*."""
        found = re.search(rf"^{host}\s.*changed=(\d+)", self.output, re.MULTILINE)
        assert found is not None, self.output
        return int(found.group(1))

    def said(self, text: str) -> bool:
        """Whether the output has *text*, wherever its lines were broken."""
        return " ".join(text.split()) in " ".join(self.output.split())


@dataclass(frozen=True)
class Site:
    """A controller with its inventory, and the lab as its network."""

    folder: Path

    def spec(self, name: str, addresses: str = ADDRESSES, **changes: str) -> Path:
        """A spec like the lab's, with other VIP addresses, and each of *changes* replaced by its value."""
        text = QUICKSTART.read_text(encoding="utf-8").replace(ADDRESSES, addresses)
        for old, new in changes.items():
            text = text.replace(old, new)
        file = self.folder / f"{name}.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    def play(self, playbook: str, *options: str, **variables: Any) -> Played:
        """Run a playbook; *variables* are given with -e."""
        argv = [
            str(ANSIBLE),
            "-i",
            str(self.folder / "inventory.yml"),
            str(RUNBOOKS / "playbooks" / playbook),
            *options,
        ]
        argv += ["-e", json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in variables.items()})]
        home = {"ANSIBLE_CONFIG": str(RUNBOOKS / "ansible.cfg"), "ANSIBLE_HOME": str(self.folder / "ansible")}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, cwd=self.folder,
                              env={**os.environ, **home, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"})  # fmt: skip
        return Played(done.returncode, done.stdout + done.stderr)

    def dnsteer(self, *argv: str) -> dict[str, Any]:
        """What the command says with --json."""
        done = subprocess.run([str(self.folder / "dnsteer"), *argv, "--json"], capture_output=True, text=True, timeout=60,
                              check=False, env={**os.environ, "DNSTEER_DB": names.db_target()})  # fmt: skip
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def backends(self) -> dict[str, str]:
        """The state of each backend, as the switch says."""
        (pool,) = self.dnsteer("status", "--no-verify", "--interval", "0.5s")["pools"]
        return {b["name"]: b["state"] for b in pool["backends"]}

    def flows(self) -> list[str]:
        """The flows of the switch, without their counters."""
        said = run(["ovs-ofctl", "-O", "OpenFlow15", "--no-stats", "dump-flows", f"unix:{names.RUN_DIR}/br-dns.mgmt"])
        return sorted(said.splitlines())


def answers(address: str) -> bool:
    """Whether the client gets an answer from *address*."""
    argv = ["kdig", f"@{address}", "h0.dnsteer.test", "A", "+retry=0", "+timeout=1"]
    done = subprocess.run(inside("dnst-c-p0", argv), capture_output=True, text=True, timeout=10, check=False)
    return done.returncode == 0 and "NOERROR" in done.stdout


def write_inventory(folder: Path) -> None:
    host = {"ansible_netns_name": names.SWITCH_NAMESPACE, "dnsteer_probe_host": "client"}
    backends = {
        f"ns{n}": {
            "ansible_netns_name": f"dnst-b-ns{n}",
            "dnsteer_backend_of": [f"authoritative/ns{n}"],
            "dnsteer_backend_addresses": [f"192.0.2.1{n}"],
        }
        for n in (1, 2, 3, 4)
    }
    common = {
        "ansible_connection": "netns",
        "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": str(folder / "remote"),
        "dnsteer_bin": str(folder / "dnsteer"),
        "dnsteer_db": names.db_target(),
        "dnsteer_folder": str(folder / "etc-{{ inventory_hostname }}"),
        "dnsteer_probe_name": "h0.dnsteer.test",
        "dnsteer_probe_type": "A",
        "dnsteer_probe_count": 1,
        "dnsteer_health_tries": 3,
        "dnsteer_ovs_rundir": str(names.RUN_DIR),
        "dnsteer_ovs_logdir": str(names.RUN_DIR),
        "dnsteer_yes": True,
    }
    groups = {
        "dpus": {"hosts": dict.fromkeys(SWITCHES, host)},
        "canary": {"hosts": {"dpu-1": {}}},
        "clients": {"hosts": {"client": {"ansible_netns_name": "dnst-c-p0"}}},
        "backends": {"hosts": backends},
        "controller": {"hosts": {"here": {"ansible_netns_name": ""}, "nowhere": {"ansible_netns_name": "dnst-none"}}},
    }
    inventory = {"all": {"vars": common, "children": groups}}
    (folder / "inventory.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The controller, without a lab."""
    if not ANSIBLE.exists():
        pytest.skip("ansible-core is not installed in this environment")
    folder = tmp_path_factory.mktemp("site")
    command = folder / "dnsteer"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT / "generator"} exec {sys.executable} -m dnsteer "$@"\n', encoding="ascii"
    )
    command.chmod(0o755)
    write_inventory(folder)
    return Site(folder)


@pytest.fixture(scope="module")
def site(controller: Site) -> Iterator[Site]:
    """The lab up, its name servers owning the old and the new VIP, and nothing applied yet."""
    if lab.status() is not None:
        pytest.skip("a lab is up on this machine, and there is one at a time: dnsteer lab down")
    both = controller.spec("lab", f"[{OLD}, 2001:db8::53, {NEW}]")
    try:
        lab.up(load_spec(both).spec)
        # The client is a router's neighbour: it would ask for any VIP, also for one that no server owns.
        run(["ip", "-n", "dnst-c-p0", "route", "add", f"{UNOWNED}/32", "dev", "eth0", "src", "198.18.0.2"])
        yield controller
    finally:
        lab.down()


@pytest.fixture
def deployed(site: Site) -> Site:
    """The lab with the quickstart applied."""
    assert site.dnsteer("apply", str(QUICKSTART), "--yes")["ok"]
    return site


@pytest.fixture
def draining(deployed: Site) -> Iterator[Site]:
    """The same for tests that drain: nothing is drained before and after."""
    yield deployed
    for name in EVERY_ONE_UP:
        assert deployed.dnsteer("undrain", f"authoritative/{name}")["ok"]


def test_first_deploy_that_does_not_answer_says_that_there_is_no_way_back_and_the_next_one_works(site: Site) -> None:
    played = site.play("deploy.yml", "--limit", "dpu-1", dnsteer_spec=site.spec("unowned", f"[{UNOWNED}]"))
    assert played.code != 0
    assert played.said("this was the first deploy, there is no state to roll back to"), played.output
    assert played.said(f"no good answer from {UNOWNED} at client"), played.output
    assert [s["state"] for s in site.dnsteer("history")["states"]] == [1]

    played = site.play("deploy.yml", dnsteer_spec=QUICKSTART)
    assert played.code == 0, played.output
    assert played.changed("dpu-1") == 2  # the switch and spec.yaml
    assert played.changed("dpu-2") == 2  # its folder and spec.yaml; the switch has it already
    assert answers(OLD)
    assert (site.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_check_mode_only_plans(deployed: Site) -> None:
    before = deployed.flows(), deployed.dnsteer("history")["current"]
    planned = deployed.play("deploy.yml", "--check", "--limit", "dpu-1", dnsteer_spec=deployed.spec("new", f"[{NEW}]"))
    assert (planned.code, planned.changed()) == (0, 1), planned.output
    assert (deployed.flows(), deployed.dnsteer("history")["current"]) == before


def test_deploy_of_a_bad_spec_changes_nothing(deployed: Site) -> None:
    before = deployed.flows(), deployed.dnsteer("history")["current"]
    bad = deployed.spec("bad", **{"weight: 3": "weight: heavy"})
    played = deployed.play("deploy.yml", dnsteer_spec=bad)
    assert played.code != 0
    assert played.said('found "heavy"'), played.output
    assert played.said("NO MORE HOSTS LEFT"), played.output
    assert (deployed.flows(), deployed.dnsteer("history")["current"]) == before


def test_a_canary_that_does_not_answer_is_rolled_back_and_the_others_are_left_alone(deployed: Site) -> None:
    before = deployed.flows(), deployed.dnsteer("history")["current"]
    unowned = deployed.spec("unowned", f"[{UNOWNED}]")
    played = deployed.play("deploy.yml", dnsteer_spec=unowned)
    assert played.code != 0
    assert played.said(f"dpu-1: rolled back to state {before[1]}. It was verified and its VIPs answer."), played.output
    assert played.said(f"The reason: Judge the answers: no good answer from {UNOWNED} at client"), played.output
    assert re.search(r"^dpu-2\s+: ok=1 ", played.output, re.MULTILINE), played.output  # the look at the spec's file
    assert answers(OLD)
    assert deployed.flows() == before[0]
    assert (deployed.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_drain_and_undrain(draining: Site) -> None:
    which = {"dnsteer_pool": "authoritative", "dnsteer_backend": "ns1"}
    tried = draining.play("drain-backend.yml", "--check", "--limit", "dpu-1", **which)
    assert (tried.code, tried.changed(), draining.backends()) == (0, 1, EVERY_ONE_UP), tried.output
    drained = draining.play(
        "drain-backend.yml", "--limit", "dpu-1", **which, dnsteer_over="2s", dnsteer_note="new kernel"
    )
    assert (drained.code, draining.backends()) == (0, {**EVERY_ONE_UP, "ns1": "drained"}), drained.output
    again = draining.play("drain-backend.yml", "--limit", "dpu-1", **which, dnsteer_note="new kernel")
    assert (again.code, again.changed()) == (0, 0), again.output
    back = draining.play("drain-backend.yml", **which, dnsteer_state="undrained")
    assert (back.code, draining.backends()) == (0, EVERY_ONE_UP), back.output


HOOK = """
- name: Write down what the switch says while this backend is worked on
  ansible.builtin.command:
    argv: [sh, -c, "{folder}/dnsteer status --json --no-verify --interval 0.5s > {folder}/during-$(ip netns identify)"]
  changed_when: true
"""


def test_rolling_upgrade_has_one_backend_out_at_a_time(draining: Site) -> None:
    hook = draining.folder / "hook.yml"
    hook.write_text(HOOK.format(folder=draining.folder), encoding="utf-8")
    played = draining.play("rolling-upgrade.yml", dnsteer_hook_tasks=hook, dnsteer_backends="ns1:ns2")
    assert played.code == 0, played.output
    for name in ("ns1", "ns2"):
        (pool,) = json.loads((draining.folder / f"during-dnst-b-{name}").read_text())["pools"]
        assert {b["name"]: b["state"] for b in pool["backends"]} == {**EVERY_ONE_UP, name: "drained"}
    assert draining.backends() == EVERY_ONE_UP


def test_rolling_upgrade_stops_at_a_hook_that_fails_and_does_not_go_on_by_itself(draining: Site) -> None:
    hook = ["sh", "-c", "ip netns identify | grep -qx dnst-b-ns1"]  # fails everywhere but on ns1
    played = draining.play("rolling-upgrade.yml", dnsteer_hook_command=hook, dnsteer_backends="ns1:ns2:ns3")
    assert played.code != 0
    assert played.said("ns2 STAYS DRAINED on every switch, and the backends after it were not touched"), played.output
    assert draining.backends() == {**EVERY_ONE_UP, "ns2": "drained"}
    again = draining.play("rolling-upgrade.yml", dnsteer_hook_command=["true"], dnsteer_backends="ns2:ns3")
    assert again.code != 0
    assert again.said("ns2 is drained already on dpu-1"), again.output
    assert draining.backends() == {**EVERY_ONE_UP, "ns2": "drained"}


def test_rolling_upgrade_stops_at_a_server_that_does_not_answer(draining: Site) -> None:
    played = draining.play("rolling-upgrade.yml", dnsteer_backends="ns3", dnsteer_health_tries=1,
                           dnsteer_hook_command=["true"], dnsteer_probe_name="not.our.zone")  # fmt: skip
    assert played.code != 0
    assert played.said("ns3 STAYS DRAINED on every switch"), played.output
    assert played.said("Failed: Ask the backend itself"), played.output
    assert draining.backends() == {**EVERY_ONE_UP, "ns3": "drained"}


def test_rolling_upgrade_refuses_to_leave_a_switch_out(draining: Site) -> None:
    given = {"dnsteer_backends": "ns1", "dnsteer_hook_command": ["true"]}
    played = draining.play("rolling-upgrade.yml", "--limit", "dpu-1", **given)
    assert played.code != 0
    assert played.said("ns1 must be drained on all its switches"), played.output
    assert draining.backends() == EVERY_ONE_UP


def test_rollback(deployed: Site) -> None:
    number = deployed.dnsteer("history")["current"]
    assert deployed.dnsteer("apply", str(deployed.spec("new", f"[{NEW}]")), "--yes")["changed"]
    assert not answers(OLD)
    tried = deployed.play("rollback.yml", "--check", "--limit", "dpu-1", dnsteer_rollback_to=number)
    assert (tried.code, tried.changed(), answers(OLD)) == (0, 1, False), tried.output
    played = deployed.play("rollback.yml", "--limit", "dpu-1")
    assert (played.code, played.changed(), answers(OLD)) == (0, 1, True), played.output
    assert (deployed.folder / "etc-dpu-1" / "spec.yaml").read_text() == QUICKSTART.read_text()


def test_rotation_keeps_the_old_address_until_it_is_confirmed(deployed: Site) -> None:
    both, new = deployed.spec("both", f"[{OLD}, {NEW}]"), deployed.spec("only-new", f"[{NEW}]")
    given = {"dnsteer_old": OLD, "dnsteer_new": NEW, "dnsteer_spec_both": both, "dnsteer_spec_new": new}
    swapped = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **{**given, "dnsteer_spec_both": new})
    assert swapped.code != 0
    assert (answers(OLD), answers(NEW)) == (True, False)
    first = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given)
    assert first.code == 0, first.output
    assert first.said("run again with -e dnsteer_confirmed=true"), first.output
    assert (answers(OLD), answers(NEW)) == (True, True)
    second = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True)
    assert second.code == 0, second.output
    assert (answers(OLD), answers(NEW)) == (False, True)
    third = deployed.play("rotate-vip.yml", "--limit", "dpu-1", **given, dnsteer_confirmed=True)
    assert (third.code, third.changed()) == (0, 0), third.output


def test_diagnostics_note_what_could_not_be_had(deployed: Site) -> None:
    to = deployed.folder / "archives"
    (names.RUN_DIR / "ovsdb-server.log").unlink()
    played = deployed.play("collect-diagnostics.yml", "--limit", "dpu-1", dnsteer_archives=to)
    assert (played.code, played.changed()) in ((0, 0), (0, 1)), played.output  # the fetched file counts as a change
    (archive,) = to.iterdir()
    with tarfile.open(archive) as tar:
        found = {Path(m.name).name: tar.extractfile(m) for m in tar.getmembers() if m.isfile()}
        texts = {name: file.read().decode() for name, file in found.items() if file is not None}
    assert texts["spec.yaml"] == QUICKSTART.read_text()
    assert json.loads(texts["status.json"])["ok"]
    assert json.loads(texts["history.json"])["current"]
    assert "cookie=0xd453" in texts["flows-br-dns.txt"]
    assert "br-dns" in texts["ovs-vsctl-show.txt"]
    assert "netdev@ovs-netdev" in texts["dpif-show.txt"]
    assert "ovsdb-server.log: FAILED, exit code 1" in texts["SUMMARY"]
    assert texts["SUMMARY"].count("FAILED") == 1, texts["SUMMARY"]
    assert played.said("1 failed"), played.output


def make_wheel(folder: Path) -> Path:
    """A wheel of the tree, packed here: building one properly would fetch the build system from the network."""
    wheel = folder / f"dnsteer-{__version__}-py3-none-any.whl"
    info = f"dnsteer-{__version__}.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        for top, inside_it in ((ROOT / "generator" / "dnsteer", "dnsteer"), (ROOT / "templates", "dnsteer/templates")):
            for file in sorted(top.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    packed.write(file, f"{inside_it}/{file.relative_to(top)}")
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: dnsteer\nVersion: {__version__}\n")
        packed.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{info}/entry_points.txt", "[console_scripts]\ndnsteer = dnsteer.cli.main:run\n")
        packed.writestr(f"{info}/RECORD", "")
    return wheel


def test_install_from_a_wheel_and_again(controller: Site) -> None:
    venv = controller.folder / "opt"
    given = {
        "dnsteer_targets": "here", "dnsteer_wheel": make_wheel(controller.folder), "dnsteer_venv": venv,
        "dnsteer_bin": venv / "bin" / "dnsteer", "dnsteer_python": sys.executable,
        "dnsteer_pip_options": ["--no-index", "--no-deps"],
        # The dependencies are those of this environment.
        "dnsteer_environment": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
    }  # fmt: skip
    first = controller.play("install.yml", **given)
    assert first.code == 0, first.output
    assert first.changed("here") > 0
    second = controller.play("install.yml", **given)
    assert (second.code, second.changed("here")) == (0, 0), second.output
    nothing = controller.play("install.yml", **{**given, "dnsteer_wheel": "", "dnsteer_bin": "/nonexistent/dnsteer"})
    assert nothing.code != 0
    assert nothing.said("there is no /nonexistent/dnsteer on the host; give a wheel"), nothing.output


def test_a_namespace_that_is_not_there_is_an_unreachable_host(controller: Site) -> None:
    played = controller.play("collect-diagnostics.yml", dnsteer_targets="nowhere")
    assert played.code != 0
    assert played.said("no network namespace 'dnst-none'"), played.output
    assert "unreachable=1" in played.output
