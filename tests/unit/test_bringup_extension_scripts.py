# SPDX-License-Identifier: Apache-2.0
"""The scripts of bring-up that see to the extension, on a synthetic tree and with stub programs, as no card is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dnsteer.bringup.files import EXTENSION_UNIT, bringup_files
from tests.unit.bringup_cases import setup
from tests.unit.test_bringup_extension import EXT, PROGRAM, UNIT
from tests.unit.test_bringup_scripts import P0, Tree

DEVLINK = r"""#!/bin/sh
echo "devlink $*" >>"$STATE/calls"
case "$1 $2" in
"port show") cat "$STATE/ports" 2>/dev/null ;;
"port add")
    echo "$3/327$9: type eth netdev en3f0pf0sf$9 flavour pcisf controller 0 pfnum $7 sfnum $9" >>"$STATE/ports"
    mkdir -p "$DNSTEER_ROOT/sys/class/net/en3f0pf0sf$9"
    ;;
"port function" | "port del") ;;
esac
"""
IP = r"""#!/bin/sh
echo "ip $*" >>"$STATE/calls"
net=$DNSTEER_ROOT/sys/class/net
case $5 in
name) mv "$net/$4" "$net/$6" && sed -i "s/ netdev $4 / netdev $6 /" "$STATE/ports" ;;
mtu) echo "$6" >"$(find "$DNSTEER_ROOT/sys/devices" -path "*/net/$4/mtu")" ;;
esac
"""
RDMA = r"""#!/bin/sh
echo "rdma $*" >>"$STATE/calls"
old=$(find "$DNSTEER_ROOT/sys/devices" -path "*/infiniband/$3")
mv "$old" "${old%/*}/$5"
"""
SYSTEMCTL = r"""#!/bin/sh
echo "systemctl $*" >>"$STATE/calls"
case $1 in
show) cat "$STATE/pid" 2>/dev/null || echo 0 ;;
is-enabled) [ "$3" = dnsteer-ext.service ] && [ -e "$STATE/enabled" ] ;;
enable) : >"$STATE/enabled" ;;
start | restart) [ ! -e "$STATE/fails" ] && echo "$(($(cat "$STATE/pid" 2>/dev/null || echo 100) + 1))" >"$STATE/pid" ;;
disable) rm -f "$STATE/enabled" "$STATE/pid" ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    found = Tree(tmp_path)
    for name, text in (("devlink", DEVLINK), ("ip", IP), ("rdma", RDMA), ("systemctl", SYSTEMCTL)):
        (found.bin / name).write_text(text)
        (found.bin / name).chmod(0o755)
    found.file("usr/bin/dnsteer-ext", "#!/bin/sh\n").chmod(0o755)
    return found


def devices(tree: Tree) -> None:
    """The devices behind functions 53 and 54, with their own drivers."""
    drivers = tree.root / "sys/bus/auxiliary/drivers/mlx5_core.sf"
    drivers.mkdir(parents=True)
    for n, number in enumerate((53, 54), 2):
        name = f"sys/devices/pci0000:00/{P0}/mlx5_core.sf.{n}"
        tree.file(f"{name}/sfnum", f"{number}\n")
        tree.file(f"{name}/net/enp3s0f0s{number}/mtu", "1500\n")
        (tree.root / name / f"infiniband/mlx5_{n}").mkdir(parents=True)
        (tree.root / name / "driver").symlink_to(drivers)
        tree.link(f"sys/bus/auxiliary/devices/mlx5_core.sf.{n}", tree.root / name)


def test_functions_get_the_names_that_the_switch_and_the_extension_use(tree: Tree) -> None:
    devices(tree)
    tree.render(EXT)
    first = tree.run("25-functions.sh")
    assert (first.code, first.err) == (0, "")
    assert first.changed == [
        f"scalable function 53 of {P0}: pci/{P0}/32753",
        f"representor of pci/{P0}/32753: en3f0pf0sf53 -> ext-in",
        "RDMA device of mlx5_core.sf.2: mlx5_2 -> ext-in",
        "MTU of enp3s0f0s53 (mlx5_core.sf.2): 1600",
        f"scalable function 54 of {P0}: pci/{P0}/32754",
        f"representor of pci/{P0}/32754: en3f0pf0sf54 -> ext-out",
        "MTU of enp3s0f0s54 (mlx5_core.sf.3): 1600",  # its network interface is called so already
    ]
    calls = tree.calls()
    assert [c for c in calls if "trust" in c] == [
        f"devlink port function set pci/{P0}/327{n} trust on" for n in (53, 54)
    ]
    again = tree.run("25-functions.sh")
    assert (again.code, again.changed, tree.calls()) == (0, [], [])


def test_a_name_that_another_interface_has_is_refused(tree: Tree) -> None:
    devices(tree)
    (tree.root / "sys/class/net/ext-in").mkdir()
    tree.render(EXT)
    result = tree.run("25-functions.sh")
    assert result.code == 1
    assert "there is a network interface ext-in that is not the representor of" in result.err
    assert not tree.calls("ip link")


def test_a_function_of_others_that_is_not_trusted_is_refused(tree: Tree) -> None:
    devices(tree)
    shown = f"pci/{P0}/32753: type eth netdev x flavour pcisf controller 0 pfnum 0 sfnum 53\n  state active trust off\n"
    (tree.root / "sys/class/net/x").mkdir()
    (tree.state / "ports").write_text(shown)
    tree.render(EXT)
    result = tree.run("25-functions.sh")
    assert result.code == 1 and "was made by others and is not trusted" in result.err
    (tree.state / "ports").write_text(shown.replace("trust off", "trust on"))
    assert tree.run("25-functions.sh").code == 0


def test_devices_that_do_not_appear_are_named(tree: Tree) -> None:
    devices(tree)
    (tree.root / f"sys/devices/pci0000:00/{P0}/mlx5_core.sf.2/infiniband/mlx5_2").rmdir()
    tree.render(EXT)
    result = tree.run("25-functions.sh", wait=1)
    assert result.code == 1 and "no RDMA device came for mlx5_core.sf.2 while waiting" in result.err


def extension(tree: Tree, *args: str) -> tuple[int, list[str], list[str]]:
    """Exit code, changes and what systemctl was told to do."""
    result = tree.run("50-extension.sh", *args)
    told = [c.removeprefix("systemctl ") for c in tree.calls("systemctl") if not re.search(r" (show|is-enabled) ", c)]
    return result.code, [c.replace(str(tree.root), "") for c in result.changed], told


def test_the_extension_is_set_up_and_started_once(tree: Tree) -> None:
    tree.render(EXT)
    code, changed, told = extension(tree)
    assert (code, changed) == (0, [PROGRAM, UNIT, f"{EXTENSION_UNIT}: enabled", f"{EXTENSION_UNIT}: start"])
    reset = f"reset-failed {EXTENSION_UNIT}"
    assert told == ["daemon-reload", f"enable {EXTENSION_UNIT}", reset, f"start {EXTENSION_UNIT}"]
    assert (tree.root / PROGRAM[1:]).read_text() == bringup_files(setup(EXT))["program.json"]
    assert extension(tree) == (0, [], [])


def test_changed_vips_need_no_restart_and_changed_budgets_do(tree: Tree) -> None:
    tree.render(EXT)
    extension(tree)
    tree.render(EXT, ("198.51.100.53", "198.51.100.54"))
    assert extension(tree) == (0, [PROGRAM], [])
    tree.render(EXT, ("ipv4: 192.0.2.2", "ipv4: 192.0.2.2\n    budgets: {vips: 512}"))
    assert extension(tree) == (3, [PROGRAM], [])
    assert extension(tree) == (3, [], [])  # as often as it is run
    assert extension(tree, "--restart") == (0, [f"{EXTENSION_UNIT}: restart"], [f"restart {EXTENSION_UNIT}"])
    assert extension(tree) == (0, [], [])


def test_a_manual_restart_counts(tree: Tree) -> None:
    tree.render(EXT)
    extension(tree)
    tree.render(EXT, ("device: enp3s0f0s54", "device: mlx5_9"))
    assert extension(tree)[0] == 3
    (tree.state / "pid").write_text("4711\n")
    assert extension(tree) == (0, [], [])


def test_a_foreign_unit_is_left_alone(tree: Tree) -> None:
    tree.file(UNIT[1:], "[Unit]\n# mine\n")
    tree.render(EXT)
    code, changed, _ = extension(tree)
    assert code == 0 and UNIT not in changed
    assert (tree.root / UNIT[1:]).read_text() == "[Unit]\n# mine\n"


def test_a_missing_or_failing_program_is_named(tree: Tree) -> None:
    tree.render(EXT)
    (tree.state / "fails").touch()
    result = tree.run("50-extension.sh")
    assert result.code == 1 and "does not start; why is in its log: journalctl -u dnsteer-ext" in result.err
    (tree.root / "usr/bin/dnsteer-ext").unlink()
    result = tree.run("50-extension.sh")
    assert (
        result.code == 1 and "/usr/bin/dnsteer-ext is not installed: build datapath_ext with the DOCA SDK" in result.err
    )


def test_teardown_removes_the_extension(tree: Tree) -> None:
    devices(tree)
    tree.render(EXT)
    assert tree.run("25-functions.sh").code == 0
    extension(tree)
    done = tree.run("teardown.sh", "--yes")
    assert (done.code, done.err) == (0, "")
    said = [c.replace(str(tree.root), "") for c in done.changed]
    assert said == [
        f"{EXTENSION_UNIT} is gone",
        f"{PROGRAM} is gone",
        "interface ext-in -> en3f0pf0sf53",
        "interface ext-out -> en3f0pf0sf54",
        f"scalable function pci/{P0}/32753 is gone",
        f"scalable function pci/{P0}/32754 is gone",
    ]
    again = tree.run("teardown.sh", "--yes")
    assert (again.code, again.changed) == (0, [])
