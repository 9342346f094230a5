# SPDX-License-Identifier: Apache-2.0
"""The scripts for Open vSwitch against a real one: settings, bridge, ports, and back; and the sizes that they rest on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.check import prove
from dnsteer.tables.vip import ServiceRow
from tests.packet.command import on
from tests.packet.full_disk import REFUSED, enduring, leave
from tests.packet.switches import EXAMPLES, Running, spec_of, unexpected
from tests.unit.bringup_cases import DOCA, KERNEL, NETDEV, settings, written

NOISE = ["Connection reset by peer", "connection dropped"]
# Ports of type dpdk are played by dummies: this switch has no DPDK.
VSCTL = """#!/bin/sh
for word; do
    shift
    [ "$word" != type=dpdk ] || word=type=dummy
    set -- "$@" "$word"
done
said=$(/usr/bin/ovs-vsctl "$@") || exit $?
[ -z "$said" ] || echo "$said" | sed s/^dummy$/dpdk/
"""


class Scripts:
    """The scripts of a spec, run on a switch."""

    def __init__(self, switch: Running, folder: Path) -> None:
        self.switch, self.folder = switch, folder

    def render(self, text: str, *changes: tuple[str, str]) -> None:
        written(self.folder, text, *changes)

    def run(self, script: str, *args: str) -> tuple[int, list[str], str]:
        """Exit code, what changed, and what was said on standard error."""
        env = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            **self.switch.env,
            "DNSTEER_DB": self.switch.database,
            "DNSTEER_ROOT": str(self.folder / "root"),
        }
        done = subprocess.run(
            [str(self.folder / script), *args], capture_output=True, text=True, check=False, env=env, timeout=60
        )
        changed = [line.split(": changed: ")[1] for line in done.stdout.splitlines() if ": changed: " in line]
        return done.returncode, changed, done.stderr

    def config(self) -> dict[str, str]:
        """All of other_config."""
        keys = self.switch.vsctl("--bare", "--columns=other_config", "list", "Open_vSwitch").strip()
        return {k: self.get(f"other_config:{k}") for k in (p.split("=")[0] for p in keys.split()) if k in KEYS}

    def get(self, key: str) -> str:
        return self.switch.vsctl("--if-exists", "get", "Open_vSwitch", ".", key).strip().strip('"')


KEYS = {*settings(DOCA), "doca-eswitch-max", "pmd-cpu-mask", "n-handler-threads"}


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    with Running() as running:
        running.expected = NOISE
        yield Scripts(running, tmp_path)
        found = unexpected(running)
    assert found == []


def test_settings_are_made_once(scripts: Scripts) -> None:
    scripts.render(DOCA)
    scripts.switch.kill_switch()  # before it starts, so that nothing waits for a restart
    code, changed, said = scripts.run("30-openvswitch.sh")
    assert (code, said) == (0, "")
    assert len(changed) == len(settings(DOCA))
    assert scripts.config() == settings(DOCA)
    assert scripts.run("30-openvswitch.sh") == (0, [], "")


def test_a_running_switch_is_not_restarted_unasked_and_not_forgotten(scripts: Scripts) -> None:
    scripts.render(NETDEV, ("p0: \n", "p0:\n  bringup: {pmd_cores: [0]}\n"))
    assert scripts.run("30-openvswitch.sh") == (0, ["flow-limit: none -> 200000", "pmd-cpu-mask: none -> 0x1"], "")
    scripts.render(DOCA.replace("ovs-doca", "ovs-kernel"), ("\n    mtu: 9000", ""))
    code, changed, said = scripts.run("30-openvswitch.sh")
    assert code == 3
    assert "hw-offload: none -> true" in changed
    assert "pmd-cpu-mask: as before (none)" in changed
    assert "runs with the settings of before: restart it" in said
    assert scripts.run("30-openvswitch.sh")[:2] == (3, [])
    assert scripts.run("30-openvswitch.sh", "--restart")[0] == 1  # no systemd here
    scripts.switch.kill_switch()
    scripts.switch.start_switch()
    assert scripts.run("30-openvswitch.sh") == (0, [], "")


def test_a_restart_that_is_needed_is_not_forgotten_on_a_full_disk(tmp_path: Path) -> None:
    """Wherever the disk fills: what the running switch must be restarted for is written before it is changed."""
    with enduring(tmp_path), Running() as running:
        running.expected = [*NOISE, *REFUSED]
        scripts = Scripts(running, tmp_path)
        scripts.render(NETDEV)
        assert scripts.run("30-openvswitch.sh")[0] == 0
        failed = [0, 0]
        for room in range(0, 2000, 140):
            for nth, text in enumerate((KERNEL, NETDEV)):  # there and back: one key is read at the start alone
                running.vsctl("remove", "Open_vSwitch", ".", "external_ids", "dnsteer-restart")
                scripts.render(text)
                leave(running, room)
                failed[nth] += scripts.run("30-openvswitch.sh")[0] == 1
                leave(running, None)
                assert scripts.run("30-openvswitch.sh")[0] == 3, (room, nth)
                assert scripts.run("30-openvswitch.sh")[:2] == (3, [])
        assert min(failed) >= 3
        assert unexpected(running) == []


def test_teardown_restores_previous_settings(scripts: Scripts) -> None:
    scripts.switch.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=30000", "other_config:n-handler-threads=1")
    scripts.switch.kill_switch()
    scripts.render(DOCA)
    assert "max-idle: 30000 -> 60000" in scripts.run("30-openvswitch.sh")[1]
    scripts.render(DOCA, ("mtu: 9000", "pmd_cores: [0]"))
    assert scripts.run("30-openvswitch.sh") == (0, ["pmd-cpu-mask: none -> 0x1"], "")
    scripts.render(DOCA)
    assert scripts.run("30-openvswitch.sh") == (0, ["pmd-cpu-mask: as before (none)"], "")
    code, changed, said = scripts.run("teardown.sh", "--yes")
    assert (code, said) == (0, "")
    assert "max-idle: as before (30000)" in changed
    assert scripts.config() == {"max-idle": "30000", "n-handler-threads": "1"}
    assert "dnsteer" not in scripts.get("external_ids")
    assert scripts.run("teardown.sh", "--yes") == (0, [], "")


def test_bridge_ports_and_mtu_then_flows_then_nothing(scripts: Scripts, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    text = NETDEV.replace("p0: \n", "p0:\n  bringup: {mtu: 9000}\n")
    spec.write_text(text)
    scripts.render(text)
    assert scripts.run("bringup.sh") == (
        0,
        ["flow-limit: none -> 200000", "bridge br-dns (netdev)", "port p0 (system)"],
        "",
    )
    assert scripts.switch.vsctl("get", "Interface", "p0", "mtu").strip() == "9000"
    assert scripts.switch.vsctl("get-fail-mode", "br-dns").strip() == "secure"
    database = scripts.switch.conf()
    assert scripts.run("bringup.sh") == (0, [], "")
    assert scripts.switch.conf() == database
    done = on(scripts.switch)("apply", spec)
    assert done.code == 0, done.err
    assert "create bridge" not in done.out
    tables = scripts.switch.tables()
    assert scripts.run("bringup.sh") == (0, [], "")  # forwarding goes on
    assert scripts.switch.tables() == tables
    assert on(scripts.switch)("verify", spec).code == 0
    assert scripts.run("teardown.sh")[0] == 1
    assert scripts.switch.bridges() == ["br-dns"]
    assert scripts.run("teardown.sh", "--yes")[:2] == (0, ["bridge br-dns is gone", "flow-limit: as before (none)"])
    assert scripts.switch.bridges() == []


def test_foreign_bridges_and_ports_are_left_alone(scripts: Scripts) -> None:
    scripts.switch.vsctl("add-br", "ovsbr1", "--", "add-port", "ovsbr1", "p0")
    scripts.render(NETDEV)
    code, _, said = scripts.run("40-bridge.sh")
    assert code == 1
    assert "port p0 is on bridge ovsbr1; take it off: ovs-vsctl del-port ovsbr1 p0" in said
    assert "CREATE_OVS_BRIDGES" in said
    scripts.switch.vsctl(
        "del-port", "p0", "--", "add-bond", "ovsbr1", "bond0-bond", "p0", "p1", "bond_mode=balance-tcp"
    )
    scripts.switch.vsctl("set", "Bridge", "ovsbr1", "external_ids:dnsteer=bond")
    code, _, said = scripts.run("40-bridge.sh")
    assert code == 1 and "port p0 is in a bond by LACP that dnsteer apply has made: run dnsteer apply" in said
    scripts.switch.vsctl("del-br", "br-dns", "--", "add-br", "br-dns")
    code, _, said = scripts.run("40-bridge.sh")
    assert code == 1
    assert "bridge br-dns exists and is not dnsteer's" in said
    code, _, said = scripts.run("teardown.sh", "--yes")
    assert code == 1
    assert "nothing was changed" in said
    assert scripts.switch.bridges() == ["br-dns", "ovsbr1"]


def test_a_bridge_of_another_datapath_is_not_made_anew_unasked(scripts: Scripts) -> None:
    scripts.switch.vsctl(
        "add-br", "br-dns", "--", "set", "Bridge", "br-dns", "datapath_type=system", "external_ids:dnsteer=bridge"
    )
    scripts.render(NETDEV)
    code, changed, said = scripts.run("40-bridge.sh")
    assert (code, changed) == (1, [])
    assert "has the datapath type system, and this spec wants netdev" in said


def test_the_ports_of_ovs_doca_have_their_type_options_and_mtu(scripts: Scripts) -> None:
    program = scripts.folder / "bin" / "ovs-vsctl"
    program.parent.mkdir()
    program.write_text(VSCTL)
    program.chmod(0o755)
    scripts.render(DOCA, ("p1:\n", "p1: {options: {n_rxq: 2}}\n"))
    ports = ["port p0 (dpdk)", "port p1 (dpdk)", "port pf0vf0 (dpdk)"]
    fragments = "smallest IPv4 fragment of the connection tracker: 1200 -> 400"  # its VIP is by NAT
    assert scripts.run("40-bridge.sh") == (0, ["bridge br-dns (netdev)", *ports, fragments], "")
    show = ["--format=csv", "--no-headings", "--columns=name,type,options,mtu_request", "list", "Interface"]
    rows = sorted(line for line in scripts.switch.vsctl(*show).splitlines() if "br-dns" not in line)
    assert rows == ["p0,dummy,{},9000", 'p1,dummy,"{n_rxq=""2""}",9000', "pf0vf0,dummy,{},9000"]
    assert scripts.run("40-bridge.sh") == (0, [], "")
    scripts.render(DOCA)
    assert scripts.run("40-bridge.sh") == (0, ["port p1 (dpdk)"], "")


def test_without_a_switch_the_program_to_start_is_named(scripts: Scripts) -> None:
    scripts.render(NETDEV)
    scripts.switch.kill_switch()
    code, _, said = scripts.run("40-bridge.sh")
    assert code == 1
    assert "ovs-vswitchd does not run: start it" in said
    scripts.switch.stop()
    code, _, said = scripts.run("30-openvswitch.sh")
    assert code == 1
    assert "cannot be reached: start it (systemctl start ovsdb-server)" in said


@pytest.mark.parametrize("example", ["quickstart", "one-armed-nat"])
def test_planned_rule_counts_equal_the_datapath_flows(example: str) -> None:
    loaded = load_spec(EXAMPLES / f"{example}.yaml")
    assert sizes_of(loaded.spec, build_plan(loaded)).total == prove(loaded).megaflows


def test_a_hash_is_sized_for_the_releases_that_have_most_values() -> None:
    """16 slots make 64 values there, each a rule, and one rule more sends packets to the hash."""
    text = (EXAMPLES / "own-ports.yaml").read_text()
    hashed, by_port = (spec_of(t) for t in (text, text.replace("selection: dp-hash\n    slots: 16", "slots: 64")))
    more = sizes_of(hashed.spec, build_plan(hashed)).total - sizes_of(by_port.spec, build_plan(by_port)).total
    plan = build_plan(hashed)
    assert more == sum(service.slot_bits == 0 for service in plan.rows.of(ServiceRow)) > 0
