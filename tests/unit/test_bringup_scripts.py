"""The scripts for the hardware, on a synthetic tree of files and with stub programs that record what they are told.

No BlueField is here: the tree and the stubs are made by hand after public documentation, not recorded on one.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.bringup_cases import DOCA, DPDK, KERNEL, written

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
        for name, text in (("devlink", DEVLINK), ("ethtool", ETHTOOL), ("mount", MOUNT), ("umount", UMOUNT),
                           ("ovs-vsctl", VSCTL)):  # fmt: skip
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

    def run(self, script: str, *args: str) -> Ran:
        env = {**os.environ, "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin", "DNSTEER_ROOT": str(self.root),
               "STATE": str(self.state), "OVS_RUNDIR": str(self.state)}  # fmt: skip
        done = subprocess.run([str(self.scripts / script), *args], capture_output=True, text=True, check=False, env=env,
                              timeout=30)  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def calls(self, *words: str) -> list[str]:
        """What the stubs were told to change since the last time, or to do with *words* in it."""
        file = self.state / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.write_text("")
        return [line for line in lines if any(w in line for w in (words or (" set ", " add ", " del ", "-K", "mount")))]


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


def test_one_physical_function_needs_no_multiport_even_where_the_spec_says_so(tree: Tree) -> None:
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
def test_what_the_driver_refuses_is_said_with_what_to_do(tree: Tree, refuse: str, said: str) -> None:
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
    device = tree.root / f"sys/devices/pci0000:00/{P0}/mlx5_core.sf.2"
    device.mkdir()
    (device / "sfnum").write_text("10\n")
    tree.link("sys/bus/auxiliary/devices/mlx5_core.sf.2", device)
    tree.link("sys/bus/auxiliary/drivers/mlx5_core.sf_cfg/mlx5_core.sf.2", device)
    (tree.root / "sys/bus/auxiliary/drivers/mlx5_core.sf").mkdir()
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
    drivers = tree.root / "sys/bus/auxiliary/drivers"
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


def test_teardown_takes_back_what_was_changed_and_only_that(tree: Tree) -> None:
    (tree.state / f"mode-{P1}").write_text("switchdev\n")  # that one was so before
    tree.render(DOCA)
    (tree.root / "sys/bus/auxiliary/drivers/mlx5_core.sf").mkdir(parents=True)
    for script in ("10-hugepages.sh", "20-eswitch.sh", "25-functions.sh"):
        ran = tree.run(script)
        assert ran.code == 0, ran.err
    tree.calls()
    refused = tree.run("teardown.sh")
    assert refused.code == 1
    assert "if that is meant: teardown.sh --yes" in refused.err
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


def test_an_unknown_option_changes_nothing(tree: Tree) -> None:
    tree.render(DOCA)
    for script in ("bringup.sh", "teardown.sh"):
        ran = tree.run(script, "--force")
        assert ran.code == 1
        assert "unknown option --force" in ran.err
    assert tree.calls() == []
