# SPDX-License-Identifier: Apache-2.0
"""The scripts for the hardware, on a synthetic tree of files and with stub programs that record what they are told.

No BlueField is here: the tree and the stubs are made by hand after public documentation, not recorded on one.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.bringup_cases import DOCA, DPDK, KERNEL, NETDEV, written

P0, P1 = "0000:03:00.0", "0000:03:00.1"
ASKED = ("pci: {p0: 0000:03:00.0, p1: 0000:03:00.1}", "multiport: true")

DEVLINK = r"""#!/bin/sh
echo "devlink $*" >>"$STATE/calls"
[ ! -e "$STATE/refuse" ] || ! echo "$*" | grep -q "$(cat "$STATE/refuse")" || exit 1
case "$1 $2 $3" in
"dev eswitch show")
    echo "$4: mode $(cat "$STATE/mode-${4#pci/}" 2>/dev/null || echo legacy) inline-mode none encap-mode basic"
    ;;
"dev eswitch set") echo "$6" >"$STATE/mode-${4#pci/}" ;;
"dev param show")
    printf '%s:\n  name %s type driver-specific\n    values:\n' "$4" "$6"
    echo "      cmode runtime value $(cat "$STATE/multiport-${4#pci/}" 2>/dev/null || echo false)"
    ;;
"dev param set") echo "$8" >"$STATE/multiport-${4#pci/}" ;;
"port show "*) cat "$STATE/ports" 2>/dev/null ;;
"port add "*)
    echo "$3/32768: type eth netdev sf0 flavour pcisf controller 0 pfnum $7 sfnum $9 external false" >>"$STATE/ports"
    echo "  function:" >>"$STATE/ports"
    ;;
"port del "*) grep -v "^$3:" "$STATE/ports" >"$STATE/left" || true; mv "$STATE/left" "$STATE/ports" ;;
"port function set") ;;
*) exit 9 ;;
esac
"""
ETHTOOL = r"""#!/bin/sh
echo "ethtool $*" >>"$STATE/calls"
case $1 in
-k) echo "hw-tc-offload: $(cat "$STATE/offload-$2" 2>/dev/null || echo off)" ;;
-K) echo on >"$STATE/offload-$2" ;;
esac
"""
MOUNT = r"""#!/bin/sh
echo "mount $*" >>"$STATE/calls"
echo "none $6 hugetlbfs rw,relatime,$4 0 0" >>"$DNSTEER_ROOT/proc/mounts"
"""
UMOUNT = '#!/bin/sh\necho "umount $*" >>"$STATE/calls"\n: >"$DNSTEER_ROOT/proc/mounts"\n'
# A switch that is not there, for a teardown of the rest.
VSCTL = '#!/bin/sh\ncase "$*" in *br-exists*) exit 2 ;; esac\n'


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def changed(self) -> list[str]:
        return [line.split(": changed: ", 1)[1] for line in self.out.splitlines() if ": changed: " in line]


class Tree:
    """A synthetic machine: two physical functions, two uplinks, one NUMA node with no huge pages."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state, self.bin, self.scripts = (folder / n for n in ("root", "state", "bin", "scripts"))
        for part in (self.root, self.state, self.bin):
            part.mkdir()
        for name, text in (
            ("devlink", DEVLINK),
            ("ethtool", ETHTOOL),
            ("mount", MOUNT),
            ("umount", UMOUNT),
            ("ovs-vsctl", VSCTL),
        ):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.file("proc/mounts", "tmpfs /run tmpfs rw 0 0\n")
        self.pages = self.file("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "8\n")
        self.link("sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", self.pages)  # all are free
        for number, function in enumerate((P0, P1)):
            device = self.root / "sys/devices/pci0000:00" / function
            device.mkdir(parents=True)
            self.link(f"sys/bus/pci/devices/{function}", device)
            (self.root / f"sys/class/net/p{number}").mkdir(parents=True)
            self.link(f"sys/class/net/p{number}/device", device)

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def link(self, name: str, target: Path) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def render(self, text: str, *changes: tuple[str, str]) -> None:
        written(self.scripts, text, *changes)

    def function(self, physical: str, number: int) -> Path:
        """The device of a scalable function with number 10, with the driver that it has first."""
        device = self.root / f"sys/devices/pci0000:00/{physical}/mlx5_core.sf.{number}"
        device.mkdir()
        (device / "sfnum").write_text("10\n")
        drivers = "sys/bus/auxiliary/drivers"
        (self.root / drivers / "mlx5_core.sf").mkdir(parents=True, exist_ok=True)
        self.link(f"{drivers}/mlx5_core.sf_cfg/{device.name}", device)
        (device / "driver").symlink_to(self.root / drivers / "mlx5_core.sf_cfg")
        self.link(f"sys/bus/auxiliary/devices/{device.name}", device)
        return device

    def run(self, script: str, *args: str, wait: int = 0, **more: str) -> Ran:
        env = {
            **os.environ,
            "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
            "DNSTEER_ROOT": str(self.root),
            "STATE": str(self.state),
            "OVS_RUNDIR": str(self.state),
            "DNSTEER_WAIT": str(wait),
            **more,
        }
        done = subprocess.run(
            [str(self.scripts / script), *args], capture_output=True, text=True, check=False, env=env, timeout=30
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def calls(self, *words: str) -> list[str]:
        """What the stubs were told to change since the last time, or to do with *words* in it."""
        file = self.state / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.write_text("")
        return [line for line in lines if any(w in line for w in (words or (" set ", " add ", " del ", "-K", "mount")))]


def later(seconds: float, do: Callable[[], object]) -> None:
    """Do something while a script runs."""
    threading.Timer(seconds, do).start()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_huge_pages_are_added_once_and_taken_back(tree: Tree) -> None:
    tree.render(DOCA)
    first = tree.run("10-hugepages.sh")
    assert (first.code, first.err) == (0, "")
    assert first.changed == [
        "NUMA node 0: 8 -> 3072 pages of 2048 kB",
        f"hugetlbfs with pages of 2M at {tree.root}/dev/hugepages-2M",
    ]
    assert tree.calls() == [f"mount -t hugetlbfs -o pagesize=2M dnsteer {tree.root}/dev/hugepages-2M"]
    again = tree.run("10-hugepages.sh")
    assert (again.code, again.changed, tree.calls()) == (0, [], [])
    assert tree.pages.read_text() == "3072\n"


def test_more_pages_than_wanted_are_left_alone(tree: Tree) -> None:
    tree.pages.write_text("5000\n")
    tree.render(DOCA)
    tree.run("10-hugepages.sh")
    assert tree.pages.read_text() == "5000\n"


def test_pages_that_others_hold_do_not_count_until_the_switch_runs(tree: Tree) -> None:
    tree.render(DOCA)
    free = tree.pages.with_name("free_hugepages")
    free.unlink()
    free.write_text("1000\n")
    tree.pages.write_text("5000\n")
    assert tree.run("10-hugepages.sh").changed[0] == "NUMA node 0: 5000 -> 7072 pages of 2048 kB"
    free.write_text("0\n")
    (tree.state / "ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    assert tree.run("10-hugepages.sh").changed == []


def test_a_page_size_or_node_that_the_machine_lacks_is_named(tree: Tree) -> None:
    tree.render(DPDK, ("pools:", "  bringup: {hugepages: {size: 1G}}\npools:"))
    ran = tree.run("10-hugepages.sh")
    assert ran.code == 1
    assert "NUMA node 0 has no huge pages of 1048576 kB: set switch.bringup.hugepages" in ran.err
    tree.render(DPDK, ("pools:", "  bringup: {memory: [0, 512]}\npools:"))
    ran = tree.run("10-hugepages.sh")
    assert ran.code == 1
    assert "NUMA node 1 has no huge pages of 2048 kB" in ran.err


@pytest.mark.parametrize("pci", [[], [ASKED]], ids=["from the spec", "from the machine"])
def test_eswitches_become_switchdev_and_then_one(tree: Tree, pci: list[tuple[str, str]]) -> None:
    tree.render(DOCA, *pci)
    first = tree.run("20-eswitch.sh")
    assert (first.code, first.err) == (0, "")
    assert tree.calls() == [
        f"devlink dev eswitch set pci/{P0} mode switchdev",
        f"devlink dev eswitch set pci/{P1} mode switchdev",
        f"devlink dev param set pci/{P0} name esw_multiport value true cmode runtime",
        f"devlink dev param set pci/{P1} name esw_multiport value true cmode runtime",
    ]
    assert len(first.changed) == 4
    again = tree.run("20-eswitch.sh")
    assert (again.code, again.changed, tree.calls()) == (0, [], [])


def test_one_physical_function_gets_no_multiport(tree: Tree) -> None:
    (tree.root / "sys/class/net/p1/device").unlink()
    tree.link("sys/class/net/p1/device", tree.root / "sys/devices/pci0000:00" / P0)
    tree.render(DOCA, ASKED)
    assert tree.run("20-eswitch.sh").code == 0
    assert tree.calls() == [f"devlink dev eswitch set pci/{P0} mode switchdev"]


def test_a_virtual_function_in_use_stops_it_before_anything_changes(tree: Tree) -> None:
    virtual = tree.root / "sys/devices/pci0000:00/0000:03:00.2"
    (virtual / "driver").mkdir(parents=True)
    tree.link(f"sys/devices/pci0000:00/{P0}/virtfn0", virtual)
    tree.render(DOCA)
    ran = tree.run("20-eswitch.sh")
    assert (ran.code, tree.calls()) == (1, [])
    assert "the virtual function 0000:03:00.2 of 0000:03:00.0 is in use" in ran.err


@pytest.mark.parametrize(
    ("refuse", "said"),
    [
        ("eswitch show", "devlink does not show the eSwitch of 0000:03:00.0"),
        ("eswitch set", "the driver of 0000:03:00.0 refuses switchdev mode"),
        ("param show", "0000:03:00.0 has no parameter esw_multiport: it needs Linux 6.3"),
        ("param set", "mlxconfig -d 0000:03:00.0 set LAG_RESOURCE_ALLOCATION=1"),
    ],
)
def test_a_refusal_of_the_driver_is_named_with_its_remedy(tree: Tree, refuse: str, said: str) -> None:
    tree.render(DOCA)
    (tree.state / "refuse").write_text(refuse)
    ran = tree.run("20-eswitch.sh")
    assert ran.code == 1
    assert said in ran.err


def test_an_uplink_without_interface_and_without_address_is_named(tree: Tree) -> None:
    (tree.root / "sys/class/net/p1/device").unlink()
    tree.render(DOCA, ASKED)
    ran = tree.run("20-eswitch.sh")
    assert ran.code == 1
    assert "there is no network interface p1" in ran.err
    assert "bringup: {pci: {p1: 0000:03:00.0}}" in ran.err


def test_the_kernels_offload_is_switched_on(tree: Tree) -> None:
    tree.render(KERNEL)
    assert tree.run("20-eswitch.sh").changed == [f"eSwitch of {P0}: legacy -> switchdev", "hw-tc-offload of p0: on"]
    assert tree.calls()[-1] == "ethtool -K p0 hw-tc-offload on"
    assert tree.run("20-eswitch.sh").changed == []


def test_scalable_functions_are_made_once(tree: Tree) -> None:
    drivers = tree.root / "sys/bus/auxiliary/drivers"
    for number, physical in ((2, P0), (3, P1)):
        tree.function(physical, number)
    (drivers / "mlx5_core.sf_cfg/mlx5_core.sf.3").unlink()  # as with a kernel that has no such driver
    tree.render(DOCA)
    first = tree.run("25-functions.sh")
    assert (first.code, first.err) == (0, "")
    assert tree.calls() == [
        f"devlink port add pci/{P0} flavour pcisf pfnum 0 sfnum 10",
        f"devlink port function set pci/{P0}/32768 hw_addr 02:00:00:00:0a:01",
        f"devlink port function set pci/{P0}/32768 trust on",
        f"devlink port function set pci/{P0}/32768 state active",
        f"devlink port add pci/{P1} flavour pcisf pfnum 1 sfnum 10",
        f"devlink port function set pci/{P1}/32768 state active",
    ]
    assert (drivers / "mlx5_core.sf_cfg/unbind").read_text() == "mlx5_core.sf.2\n"
    assert (drivers / "mlx5_core.sf/bind").read_text() == "mlx5_core.sf.2\n"
    (drivers / "mlx5_core.sf_cfg/mlx5_core.sf.2").unlink()
    again = tree.run("25-functions.sh")
    assert (again.code, again.changed, tree.calls()) == (0, [], [])


def test_firmware_without_scalable_functions_is_named(tree: Tree) -> None:
    tree.render(DOCA)
    (tree.state / "refuse").write_text("port add")
    ran = tree.run("25-functions.sh")
    assert ran.code == 1
    assert f"mlxconfig -d {P0} set PF_BAR2_ENABLE=0 PER_PF_NUM_SF=1" in ran.err


def test_teardown_reverts_only_what_was_changed(tree: Tree) -> None:
    (tree.state / f"mode-{P1}").write_text("switchdev\n")  # that one was so before
    tree.render(DOCA)
    for number, physical in ((2, P0), (3, P1)):
        tree.function(physical, number)
    for script in ("10-hugepages.sh", "20-eswitch.sh", "25-functions.sh"):
        ran = tree.run(script)
        assert ran.code == 0, ran.err
    tree.calls()
    refused = tree.run("teardown.sh")
    assert refused.code == 1
    assert "to do it anyway: teardown.sh --yes" in refused.err
    assert tree.calls() == []
    done = tree.run("teardown.sh", "--yes")
    assert (done.code, done.err) == (0, "")
    assert tree.calls() == [
        f"devlink port function set pci/{P0}/32768 state inactive",
        f"devlink port del pci/{P0}/32768",
        f"devlink port function set pci/{P1}/32768 state inactive",
        f"devlink port del pci/{P1}/32768",
        f"devlink dev param set pci/{P0} name esw_multiport value false cmode runtime",
        f"devlink dev param set pci/{P1} name esw_multiport value false cmode runtime",
        f"devlink dev eswitch set pci/{P0} mode legacy",
        f"umount {tree.root}/dev/hugepages-2M",
    ]
    assert tree.pages.read_text() == "8\n"
    again = tree.run("teardown.sh", "--yes")
    assert (again.code, again.changed, tree.calls()) == (0, [], [])


def test_teardown_reverts_changes_by_scripts_of_an_earlier_spec(tree: Tree) -> None:
    tree.render(DOCA)
    for number, physical in ((2, P0), (3, P1)):
        tree.function(physical, number)
    for script in ("10-hugepages.sh", "20-eswitch.sh", "25-functions.sh"):
        assert tree.run(script).code == 0
    tree.calls()
    tree.render(NETDEV)
    assert sorted(f.name for f in tree.scripts.glob("*-*.sh")) == ["30-openvswitch.sh", "40-bridge.sh"]
    assert tree.run("teardown.sh", "--yes").code == 0
    assert [c for c in tree.calls() if " del " in c or " eswitch set " in c or "umount" in c] == [
        f"devlink port del pci/{P0}/32768",
        f"devlink port del pci/{P1}/32768",
        f"devlink dev eswitch set pci/{P0} mode legacy",
        f"devlink dev eswitch set pci/{P1} mode legacy",
        f"umount {tree.root}/dev/hugepages-2M",
    ]
    assert tree.pages.read_text() == "8\n"


def test_devices_that_come_late_are_waited_for(tree: Tree) -> None:
    """As at boot: the interface comes first, then the driver answers, then the device of a scalable function is there."""
    tree.render(DOCA, ASKED)
    target = (tree.root / "sys/class/net/p1/device").readlink()
    (tree.root / "sys/class/net/p1/device").unlink()
    later(1, lambda: tree.link("sys/class/net/p1/device", target))
    (tree.state / "refuse").write_text("eswitch show")
    later(2, (tree.state / "refuse").unlink)
    first = tree.run("20-eswitch.sh", wait=20)
    assert (first.code, first.err, len(first.changed)) == (0, "", 4)
    assert "waiting for devices, up to 20 s" in first.out
    tree.function(P0, 2)
    later(1, lambda: tree.function(P1, 3))
    second = tree.run("25-functions.sh", wait=20)
    assert (second.code, second.err) == (0, "")
    assert [line for line in second.changed if line.startswith("driver of")] == [
        "driver of mlx5_core.sf.2",
        "driver of mlx5_core.sf.3",
    ]


def test_a_scalable_function_without_a_device_is_named(tree: Tree) -> None:
    tree.render(DOCA)
    ran = tree.run("25-functions.sh", wait=1)
    assert ran.code == 1
    assert (
        f"no device with a driver came for the scalable function 10 of {P0} (pci/{P0}/32768) while waiting" in ran.err
    )
    (tree.function(P0, 2) / "driver").unlink()
    assert tree.run("25-functions.sh").code == 1


@pytest.mark.parametrize("script", ["bringup.sh", "20-eswitch.sh", "30-openvswitch.sh", "40-bridge.sh", "teardown.sh"])
def test_every_script_requires_root(tree: Tree, script: str) -> None:
    (tree.bin / "id").write_text("#!/bin/sh\necho 1000\n")
    (tree.bin / "id").chmod(0o755)
    tree.render(DOCA)
    ran = tree.run(script, DNSTEER_ROOT="")
    assert (ran.code, ran.out, ran.err) == (77, "", f"{script}: run this as root\n")
    assert tree.calls() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")
def test_a_process_of_another_user_runs_too(tree: Tree) -> None:
    """Or a restart that waits would be forgotten."""
    tree.render(DOCA)
    found = re.search(r"^process_of\(\) \{\n.*?^\}\n", (tree.scripts / "30-openvswitch.sh").read_text(), re.M | re.S)
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "ovs-vswitchd.pid").write_text("1\n")
        done = subprocess.run(
            ["sh", "-c", f"{found[0]}process_of"],
            capture_output=True,
            text=True,
            check=True,
            user=65534,
            env={**os.environ, "OVS_RUNDIR": folder},
            cwd="/",
        )
    assert done.stdout == "1\n"


def test_an_unknown_option_changes_nothing(tree: Tree) -> None:
    tree.render(DOCA)
    for script in ("bringup.sh", "teardown.sh"):
        ran = tree.run(script, "--force")
        assert ran.code == 1
        assert "unknown option --force" in ran.err
    assert tree.calls() == []
