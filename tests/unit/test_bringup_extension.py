# SPDX-License-Identifier: Apache-2.0
"""Bring-up of a spec with an extension: functions and their names, pages, program and unit; on stubs, as no card is here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dnsteer.bringup.files import EXTENSION_UNIT, bringup_files, scripts_of
from dnsteer.bringup.inspection.items import inspect
from dnsteer.bringup.inspection.machine import Machine
from dnsteer.card.scalable_functions import CardFunction
from dnsteer.spec.errors import SpecError
from tests.unit.bluefield import REMOTE, BlueField
from tests.unit.bringup_cases import DOCA, analyzed, setup, written
from tests.unit.test_bringup_scripts import P0

EXT = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-doca
  hardware: bluefield-3
  bridge: br-dns
  mac: 02:00:00:00:00:53
  uplinks:
    p0:
  extension:
    ingress: {port: ext-in}
    egress: {port: ext-out, device: enp3s0f0s54}
    ipv4: 192.0.2.2
  bringup:
    pci: {p0: 0000:03:00.0}
    mtu: 1600
pools:
  ns:
    slots: 64
    backends:
      - {name: a, ipv4: 192.0.2.11, mac: 02:00:00:00:01:01}
      - {name: b, ipv4: 192.0.2.12, mac: 02:00:00:00:01:02}
vips:
  dns: {addresses: [198.51.100.53], services: [dns], pool: ns, forwarding: ipip}
"""
KERNEL = ("flavor: ovs-doca", "flavor: ovs-kernel")
NETDEV = (("flavor: ovs-doca", "flavor: ovs-netdev"), ("    pci: {p0: 0000:03:00.0}\n", ""))
DPDK = (
    ("flavor: ovs-doca", "flavor: ovs-dpdk"),
    ("    p0:\n", "    p0: {options: {dpdk-devargs: '0000:03:00.0'}}\n"),
    ("{port: ext-in}", "{port: ext-in, options: {dpdk-devargs: '0000:03:00.0,representor=sf[8]'}}"),
    ("{port: ext-out, ", "{port: ext-out, options: {dpdk-devargs: '0000:03:00.0,representor=sf9'}, "),
)
PROGRAM, UNIT = "/etc/dnsteer/ext/program.json", f"/etc/systemd/system/{EXTENSION_UNIT}"
INGRESS = CardFunction("p0", 53, None, True, "ext-in", "ext-in", "ingress")
EGRESS = CardFunction("p0", 54, None, True, "ext-out", "enp3s0f0s54", "egress")


# Values


def test_two_functions_are_made_where_the_spec_names_none() -> None:
    assert setup(EXT).eswitch.scalable == (INGRESS, EGRESS)
    assert setup(EXT, *NETDEV).eswitch.scalable == ()
    assert setup(DOCA).eswitch.scalable[0].role == ""


def functions(text: str, *changes: tuple[str, str]) -> list[tuple[str, int, bool, str, str]]:
    return [(f.uplink, f.number, f.trust, f.port, f.role) for f in setup(text, *changes).eswitch.scalable]


def test_the_specs_trusted_functions_are_taken_in_their_order() -> None:
    named = (
        "mtu: 1600",
        "functions:\n      - {uplink: p0, number: 4}\n      - {uplink: p0, number: 7, trust: true}\n    mtu: 1600",
    )
    assert functions(EXT, named) == [
        ("p0", 4, False, "", ""),
        ("p0", 7, True, "ext-in", "ingress"),
        ("p0", 53, True, "ext-out", "egress"),
    ]
    taken = ("mtu: 1600", "functions: [{uplink: p0, number: 53}]\n    mtu: 1600")
    assert [number for _, number, *_ in functions(EXT, taken)] == [53, 54, 55]


def test_ports_may_name_their_function() -> None:
    """By devargs, where nothing has to be named; or by the name that the kernel gives a representor."""
    assert functions(EXT, *DPDK) == [("p0", 8, True, "", "ingress"), ("p0", 9, True, "", "egress")]
    by_name = functions(EXT, ("port: ext-in", "port: en3f0pf0sf8"), ("port: ext-out", "port: pf0sf9"))
    assert by_name == [("p0", 8, True, "en3f0pf0sf8", "ingress"), ("p0", 9, True, "pf0sf9", "egress")]
    other = functions(
        EXT,
        ("p0:\n", "p0:\n    p1:\n"),
        ("{p0: 0000:03:00.0}", "{p0: 0000:03:00.0, p1: 0000:03:00.1}"),
        ("port: ext-out", "port: en3f1pf1sf9"),
        ("01:01}", "01:01, port: p0}"),
        ("01:02}", "01:02, port: p0}"),
    )
    assert other == [("p1", 9, True, "en3f1pf1sf9", "egress"), ("p0", 53, True, "ext-in", "ingress")]


def test_several_uplinks_need_one_eswitch() -> None:
    two = setup(
        EXT,
        ("p0:\n", "p0:\n    p1:\n"),
        ("{p0: 0000:03:00.0}", "{p0: 0000:03:00.0, p1: 0000:03:00.1}"),
        ("01:01}", "01:01, port: p0}"),
        ("01:02}", "01:02, port: p0}"),
    )
    assert two.eswitch.multiport
    assert two.eswitch.why.startswith("queries that come in by p1 go to ext-in: hardware forwards that only where")


@pytest.mark.parametrize(("changes", "count"), [((), 3072 + 128), ((KERNEL,), 128), (NETDEV, 0)])
def test_the_extension_has_pages_of_its_own(changes: tuple[tuple[str, str], ...], count: int) -> None:
    assert sum(p.count for p in setup(EXT, *changes).memory.pages) == count


def test_pages_follow_the_budgets() -> None:
    large = ("ipv4: 192.0.2.2", "ipv4: 192.0.2.2\n    budgets: {slots: 1048576}")
    (pages,) = setup(EXT, KERNEL, large).memory.pages
    assert pages.count == 1280 / 2
    assert pages.why == "1280 MB for the extension: 512 MB of actions at each of its ports, and DPDK's own"
    spare = ("ipv4: 192.0.2.2", "ipv4: 192.0.2.2\n    budgets: {slots: 100000, backends: 65536}")
    (pages,) = setup(
        EXT, KERNEL, spare
    ).memory.pages  # (2 * (100000 + 32768) + 2 * 2 * 65536 + 256) * 128 bytes: 64.4 MB
    assert pages.why == "512 MB for the extension: 128 MB of actions at each of its ports, and DPDK's own"
    said = ("mtu: 1600", "hugepages: {count: 4000}\n    mtu: 1600")
    assert [p.count for p in setup(EXT, said).memory.pages] == [4000]  # the spec's word counts


def test_scripts_unit_and_program_are_there_where_there_are_functions() -> None:
    assert scripts_of(setup(EXT)) == [
        "10-hugepages.sh",
        "20-eswitch.sh",
        "25-functions.sh",
        "30-openvswitch.sh",
        "40-bridge.sh",
        "50-extension.sh",
    ]
    assert {EXTENSION_UNIT, "program.json", "50-extension.sh"} <= set(bringup_files(setup(EXT)))
    for other in (setup(DOCA), setup(EXT, *NETDEV)):
        assert not {EXTENSION_UNIT, "program.json", "50-extension.sh"} & set(bringup_files(other))
    assert "./50-extension.sh" in bringup_files(setup(EXT))["bringup.sh"]
    program = json.loads(bringup_files(setup(EXT))["program.json"])
    assert program["ports"] == {"in": "ext-in", "out": "enp3s0f0s54"}
    assert "by dnsteer bringup" in program["about"]
    assert [s.value for s in setup(EXT).settings if s.key == "dpdk-max-memzones"] == ["50000"]


def test_notes_name_what_was_never_run_on_hardware() -> None:
    (note,) = [n for n in setup(EXT).notes if "the extension" in n]
    assert (
        "ingress: function 53 of p0, egress: function 54 of p0" in note and "none of it has run on a BlueField" in note
    )
    (note,) = [n for n in setup(EXT, *NETDEV).notes if "the extension" in n]
    assert "ovs-netdev has no scalable functions" in note and "software model" in note


def test_the_unit_serves_at_the_specs_socket_and_asks_for_what_the_file_does_not_have() -> None:
    text = bringup_files(setup(EXT))[EXTENSION_UNIT]
    assert f"ExecStart=/usr/bin/dnsteer-ext --program {PROGRAM} --socket /run/dnsteer-ext/control.sock\n" in text
    assert "ExecStartPost=-/usr/bin/systemctl --no-block start dnsteer-reconcile.service\n" in text
    bound = bringup_files(setup(EXT, ("mtu: 1600", "extension_core: 0\n    mtu: 1600")))[EXTENSION_UNIT]
    assert "--socket /run/dnsteer-ext/control.sock --core 0\n" in bound
    assert "RuntimeDirectory=dnsteer-ext\nRuntimeDirectoryMode=0700\n" in text
    other = ("ipv4: 192.0.2.2", "ipv4: 192.0.2.2\n    control: /var/lib/ext/sock")
    text = bringup_files(setup(EXT, other))[EXTENSION_UNIT]
    assert "--socket /var/lib/ext/sock" in text and "ReadWritePaths=/var/lib/ext" in text
    assert "RuntimeDirectory" not in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    folder = written(tmp_path / "here", EXT)
    unit = folder / EXTENSION_UNIT
    unit.write_text(unit.read_text().replace("/usr/bin/dnsteer-ext", "/bin/true"))
    assert analyzed(unit) == (0, "")
    unit.write_text(unit.read_text().replace("Type=notify", "Type=notice"))
    assert "notice" in analyzed(unit)[1]


def test_the_unit_is_bounded() -> None:
    """What DPDK's guide of mlx5 asks for, and nothing that this would take away (docs/extension.md)."""
    settings = dict(
        line.split("=", 1) for line in bringup_files(setup(EXT))[EXTENSION_UNIT].splitlines() if re.match(r"\w+=", line)
    )
    assert settings["Wants"] == "dnsteer-bringup.service" and "Requires" not in settings
    assert set(settings["CapabilityBoundingSet"].split()) == {
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "CAP_IPC_LOCK",
        "CAP_SYS_ADMIN",
        "CAP_SYS_RAWIO",
        "CAP_DAC_OVERRIDE",
    }
    assert (settings["MemoryMax"], settings["LimitMEMLOCK"], settings["WatchdogSec"]) == ("4G", "infinity", "120")
    assert (settings["StartLimitIntervalSec"], settings["StartLimitBurst"]) == ("600", "20")
    # The driver's devices, its files in /sys, and calls that DPDK makes where it can.
    assert not {"PrivateDevices", "DevicePolicy", "ProtectKernelTunables", "MemoryDenyWriteExecute"} & settings.keys()
    assert "@raw-io" not in settings["SystemCallFilter"] and settings["SystemCallErrorNumber"] == "EPERM"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_the_unit_less_exposed_than_one_without_bounds(tmp_path: Path) -> None:
    unit = written(tmp_path / "here", EXT) / EXTENSION_UNIT
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=60", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("changes", [(), (KERNEL,), DPDK, NETDEV, (("    mtu: 1600\n", ""),)])
def test_the_scripts_are_good_shell(changes: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    written(tmp_path, EXT, *changes)
    scripts = sorted(map(str, tmp_path.glob("*.sh")))
    done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_names_with_shell_characters_are_refused(tmp_path: Path) -> None:
    """The schema takes none of them."""
    for name in ("'$(reboot)'", "a b", "-x"):
        with pytest.raises(SpecError):
            written(tmp_path, EXT, ("port: ext-in", f"port: {name}"))


# The look at a machine


def one(machine: BlueField, name: str, state: str, found: str, todo: str = "") -> None:
    """What is said of one thing."""
    (item,) = [i for i in inspect(Machine(machine.root, machine.run), setup(EXT), REMOTE) if i.name == name]
    assert (item.state, found in item.found, todo in item.todo) == (state, True, True), item


@pytest.fixture
def machine(tmp_path: Path) -> BlueField:
    """A BlueField on which all of the extension is as it should be."""
    found = BlueField(tmp_path, EXT)
    found.pages.write_text("3200\n")
    ports = {
        f"pci/{P0}/327{n}": {"flavour": "pcisf", "sfnum": n, "netdev": name, "function": {"state": "active"}}
        for n, name in ((53, "ext-in"), (54, "ext-out"))
    }
    found.says("devlink -j port show", json.dumps({"port": ports}))
    for n, name in ((2, "infiniband/ext-in"), (3, "net/enp3s0f0s54")):
        (found.root / f"sys/bus/auxiliary/devices/mlx5_core.sf.{n}/{name}").mkdir(parents=True)
    for n, number in ((2, 53), (3, 54)):
        found.file(f"sys/bus/auxiliary/devices/mlx5_core.sf.{n}/net/enp3s0f0s{number}/mtu", "1600\n")
    for name in ("ext-in", "ext-out"):
        found.file(f"sys/class/net/{name}/operstate", "up\n")
    found.file("usr/bin/dnsteer-ext", "").chmod(0o755)
    found.file(PROGRAM[1:], bringup_files(setup(EXT))["program.json"])
    unit = found.file(UNIT[1:], bringup_files(setup(EXT))[EXTENSION_UNIT])
    wants = unit.parent / "multi-user.target.wants"
    wants.mkdir()
    (wants / EXTENSION_UNIT).symlink_to(UNIT)
    found.says(f"systemctl is-active {EXTENSION_UNIT}", "active\n")
    return found


def test_a_complete_machine_has_no_finding(machine: BlueField) -> None:
    assert {*machine.wrong()} == {"port p0", "port ext-in", "port ext-out"}  # the synthetic database has another MTU
    one(machine, "scalable function 53 of p0, representor", "ok", "ext-in")
    one(machine, "scalable function 53 of p0, device", "ok", "ext-in (mlx5_core.sf.2)")
    one(machine, "scalable function 54 of p0, device", "ok", "enp3s0f0s54 (mlx5_core.sf.3)")
    one(machine, "scalable function 54 of p0, MTU", "ok", "1600")
    one(machine, "huge pages, node 0", "ok", "3200 of 3200")
    one(machine, "extension", "ok", "/usr/bin/dnsteer-ext")
    one(machine, "extension, program", "ok", PROGRAM)
    one(machine, "unit for the extension", "ok", "enabled")
    one(machine, "extension running", "ok", "active")


def test_missing_extension_parts_are_named(machine: BlueField) -> None:
    ports = {f"pci/{P0}/32753": {"sfnum": 53, "netdev": "en3f0pf0sf53", "function": {"trust": "off"}}}
    machine.says("devlink -j port show", json.dumps({"port": ports}))
    one(machine, "scalable function 53 of p0, trust", "missing", "off", "trust on")
    one(
        machine,
        "scalable function 53 of p0, representor",
        "missing",
        "en3f0pf0sf53; should be ext-in",
        "25-functions.sh",
    )
    one(machine, "scalable function 54 of p0", "missing", "there is none", "25-functions.sh")
    (machine.root / "sys/bus/auxiliary/devices/mlx5_core.sf.2/infiniband/ext-in").rmdir()
    one(machine, "scalable function 53 of p0, device", "missing", "none is called ext-in", "25-functions.sh")
    (machine.root / "usr/bin/dnsteer-ext").unlink()
    one(machine, "extension", "missing", "no /usr/bin/dnsteer-ext", "DOCA SDK")
    file = machine.root / PROGRAM[1:]
    file.write_text(file.read_text().replace('"vips": 256', '"vips": 128'))
    one(machine, "extension, program", "missing", "has other budgets", "50-extension.sh --restart")
    file.unlink()
    one(machine, "extension, program", "missing", f"no {PROGRAM}", "50-extension.sh")
    (machine.root / f"etc/systemd/system/multi-user.target.wants/{EXTENSION_UNIT}").unlink()
    one(machine, "unit for the extension", "missing", "not enabled", "systemctl enable")
    (machine.root / UNIT[1:]).unlink()
    one(machine, "unit for the extension", "missing", f"no {EXTENSION_UNIT}", "50-extension.sh")
    del machine.answers[f"systemctl is-active {EXTENSION_UNIT}"]
    one(machine, "extension running", "unknown", "")


def test_other_vips_in_the_program_are_no_finding(machine: BlueField) -> None:
    """They are the record's, and loaded by apply."""
    file = machine.root / PROGRAM[1:]
    file.write_text(file.read_text().replace("198.51.100.53", "198.51.100.99"))
    one(machine, "extension, program", "ok", PROGRAM)
