# SPDX-License-Identifier: Apache-2.0
"""The look at a machine, against a synthetic BlueField: files and answers of programs made by hand, recorded on none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dnsteer.bringup.files import UNIT
from dnsteer.bringup.inspection.items import inspect
from dnsteer.bringup.inspection.machine import Machine, RunResult, run_program
from dnsteer.bringup.inspection.memory import cores_in
from tests.unit.bluefield import ASKED, NO_MULTIPORT, P0, P1, REMOTE, BlueField, ovsdb_map
from tests.unit.bringup_cases import DOCA, DPDK, KERNEL, NETDEV, setup


@pytest.fixture
def bluefield(tmp_path: Path) -> BlueField:
    return BlueField(tmp_path)


def test_a_complete_machine_has_no_finding(bluefield: BlueField) -> None:
    found = bluefield.look()
    assert bluefield.wrong() == {}
    assert len(found) > 25
    assert found[f"function {P0}"].found == "bluefield-3, driver mlx5_core"
    assert found["DOCA in Open vSwitch"].found == "3.2.1"


def test_an_empty_machine_lacks_everything(tmp_path: Path) -> None:
    items = inspect(
        Machine(tmp_path, lambda argv: RunResult(None, err=f"{argv[0]} is not installed")), setup(DOCA), REMOTE
    )
    assert "ok" not in {i.state for i in items}
    assert all(i.todo for i in items if i.state == "missing")


def test_the_check_writes_nothing(bluefield: BlueField) -> None:
    before = sorted((p, p.lstat().st_mtime_ns) for p in bluefield.root.rglob("*"))
    asked: list[str] = []
    inspect(
        Machine(bluefield.root, lambda argv: asked.append(" ".join(argv)) or bluefield.run(argv)), setup(DOCA), REMOTE
    )
    assert sorted((p, p.lstat().st_mtime_ns) for p in bluefield.root.rglob("*")) == before
    reads = (" show", " list ", "--version", " -k ", "-get-status", "/dump-dps")
    assert asked and all(any(word in a for word in reads) for a in asked)


def one(bluefield: BlueField, name: str, state: str, found: str, todo: str, *changes: tuple[str, str]) -> None:
    wrong = bluefield.wrong(*changes)
    assert list(wrong) == [name]
    assert wrong[name].state == state
    assert found in wrong[name].found
    assert todo in wrong[name].todo


def test_the_tracker_of_a_datapath_that_doca_names_itself_is_asked(bluefield: BlueField) -> None:
    asked = []
    run = bluefield.run

    def run_doca(argv: Sequence[str]) -> RunResult:
        asked.append(argv)
        return RunResult(0, "doca@ovs-doca\n") if argv[-1] == "dpctl/dump-dps" else run(argv)

    list(inspect(Machine(bluefield.root, run_doca), setup(DOCA), REMOTE))
    (of_tracker,) = [argv for argv in asked if "dpctl/ipf-get-status" in argv]
    assert of_tracker[-1] == "doca@ovs-doca"


def test_a_minimum_fragment_size_that_drops_fragments_is_named(bluefield: BlueField) -> None:
    bluefield.says(ASKED, "min v4 frag size: 1200\nmin v6 frag size: 1280\n")
    one(bluefield, "smallest IPv4 fragment", "missing", "1200 bytes; should be 400", "run 40-bridge.sh")
    bluefield.answers[ASKED] = RunResult(2, err="ovs-vswitchd: datapath not found (Invalid argument)")
    one(bluefield, "smallest IPv4 fragment", "unknown", "datapath not found", "is there a bridge")


def test_too_few_huge_pages_are_named(bluefield: BlueField) -> None:
    bluefield.pages.write_text("512\n")
    one(bluefield, "huge pages, node 0", "missing", "512 of 3072 pages of 2048 kB, 100 free", "run 10-hugepages.sh")


def test_huge_pages_held_by_others_do_not_count_for_a_stopped_switch(bluefield: BlueField) -> None:
    (bluefield.root / "proc/4711/comm").unlink()
    (bluefield.root / "proc/4711").rmdir()
    one(bluefield, "huge pages, node 0", "missing", "3072 of 3072 pages of 2048 kB, 100 free", "run 10-hugepages.sh")
    bluefield.free.write_text("3072\n")
    assert bluefield.wrong() == {}


def test_a_page_size_that_the_machine_lacks_is_named(bluefield: BlueField) -> None:
    wrong = bluefield.wrong(("mtu: 9000", "hugepages: {size: 512M}"))
    assert wrong["huge pages, node 0"].found == "no pages of 524288 kB; sizes here: 2048kB"
    assert wrong["hugetlbfs"].found == "none with pages of 512M"


def test_more_huge_pages_than_memory_are_named(bluefield: BlueField) -> None:
    bluefield.file("proc/meminfo", "MemTotal: 8000000 kB\n")
    one(bluefield, "memory", "missing", "7812 MB, of which 6144 MB", "fewer pages")


def test_missing_cores_are_named(bluefield: BlueField) -> None:
    cores = ("mtu: 9000", "pmd_cores: [4, 40]")
    bluefield.ovsdb(pmd_cpu_mask="0x10000000010")
    assert bluefield.look(("mtu: 9000", "pmd_cores: [4]"))["cores"].found.startswith("4; 4 not isolated")
    assert bluefield.wrong(cores)["cores"].found == "no core 40; there are 0 to 15"
    extension = (
        "  bringup:\n",
        "  extension: {ingress: {port: ext-in}, egress: {port: ext-out}}\n  bringup:\n    extension_core: 16\n",
    )
    assert bluefield.wrong(extension)["cores"].found == "no core 16; there are 0 to 15"


@pytest.mark.parametrize(
    ("text", "cores"),
    [("0-3,5", {0, 1, 2, 3, 5}), ("0", {0}), ("", set()), (None, None), ("0-", None), ("all", None)],
)
def test_core_lists_are_parsed(text: str | None, cores: set[int] | None) -> None:
    assert cores_in(text) == cores


def test_a_function_of_another_vendor_or_generation_is_named(bluefield: BlueField) -> None:
    device = bluefield.root / "sys/devices/pci0000:00" / P0
    (device / "device").write_text("0xa2d6\n")
    one(bluefield, f"function {P0}", "missing", "bluefield-2, but the spec says bluefield-3", "switch.hardware")
    (device / "vendor").write_text("0x8086\n")
    one(bluefield, f"function {P0}", "missing", "vendor 0x8086", "NVIDIA")


def test_a_function_that_is_gone_is_named_once(bluefield: BlueField) -> None:
    (bluefield.root / "sys/bus/pci/devices" / P1).unlink()
    one(bluefield, f"function {P1}", "missing", "there is none (uplink p1)", "lspci")


def test_a_function_bound_to_another_driver_is_named(bluefield: BlueField) -> None:
    link = bluefield.root / "sys/devices/pci0000:00" / P0 / "driver"
    link.unlink()
    link.symlink_to(bluefield.root / "sys/bus/pci/drivers/vfio-pci")
    one(bluefield, f"function {P0}", "missing", "driver vfio-pci", "bind it to mlx5_core")


def test_an_iommu_in_the_wrong_mode_is_named(bluefield: BlueField) -> None:
    bluefield.file("sys/kernel/iommu_groups/7/type", "DMA\n")
    wrong = bluefield.wrong()
    assert set(wrong) == {f"function {P0}, IOMMU", f"function {P1}, IOMMU"}
    assert "iommu.passthrough=1" in wrong[f"function {P0}, IOMMU"].todo


def test_legacy_mode_is_read_by_devlink(bluefield: BlueField) -> None:
    bluefield.says(f"devlink -j dev eswitch show pci/{P0}", json.dumps({"dev": {f"pci/{P0}": {"mode": "legacy"}}}))
    one(bluefield, f"function {P0}, eSwitch", "missing", "mode legacy", "run 20-eswitch.sh")


def test_without_privileges_the_mode_is_read_from_the_interface(bluefield: BlueField) -> None:
    bluefield.answers[f"devlink -j dev eswitch show pci/{P0}"] = RunResult(
        1, err="devlink answers: Operation not permitted"
    )
    bluefield.file("sys/class/net/p0/phys_switch_id", "e8ebd5182222\n")
    assert bluefield.wrong() == {}
    (bluefield.root / "sys/class/net/p0/phys_switch_id").unlink()
    one(bluefield, f"function {P0}, eSwitch", "unknown", "devlink does not show it", "run as root")


def test_multiport_that_is_off_or_unknown_is_named(bluefield: BlueField) -> None:
    command = f"devlink dev param show pci/{P1} name esw_multiport"
    bluefield.says(command, "values:\n cmode runtime value false\n")
    one(bluefield, f"function {P1}, multiport", "missing", "off", "LAG_RESOURCE_ALLOCATION=1")
    bluefield.answers[command] = RunResult(1, err=NO_MULTIPORT)
    one(bluefield, f"function {P1}, multiport", "missing", "no parameter esw_multiport", "Linux 6.3")


def test_a_missing_scalable_function_is_named(bluefield: BlueField) -> None:
    bluefield.says("devlink -j port show", json.dumps({"port": {f"pci/{P0}/32768": {"sfnum": 10}}}))
    one(bluefield, "scalable function 10 of p1", "missing", "there is none", "25-functions.sh")
    bluefield.answers["devlink -j port show"] = RunResult(1, err="no")
    assert {i.state for i in bluefield.wrong().values()} == {"unknown"}


def test_a_missing_interface_is_named(bluefield: BlueField) -> None:
    (bluefield.root / "sys/class/net/pf0vf0/operstate").unlink()
    (bluefield.root / "sys/class/net/pf0vf0").rmdir()
    one(bluefield, "interface pf0vf0", "missing", "there is none", "network interface")


def test_bluefield_settings_that_undo_bringup_are_named(bluefield: BlueField) -> None:
    bluefield.file("etc/mellanox/mlnx-ovs.conf", 'CREATE_OVS_BRIDGES="yes"\n# OVS_DOCA="yes"\n')
    wrong = bluefield.wrong()
    assert {n: i.found for n, i in wrong.items()} == {
        "mlnx-ovs.conf: OVS_DOCA": "not set; should be yes",
        "mlnx-ovs.conf: CREATE_OVS_BRIDGES": "yes; should be no",
    }


def test_an_open_vswitch_without_doca_is_named(bluefield: BlueField) -> None:
    bluefield.says("ovs-vswitchd --version", "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.3\n")
    one(bluefield, "DOCA in Open vSwitch", "missing", "built without", "doca-openvswitch-switch")


def test_differing_ovsdb_settings_are_named(bluefield: BlueField) -> None:
    bluefield.ovsdb(hw_offload_ct_size="0", max_idle="10000")
    wrong = bluefield.wrong()
    assert {n: i.found for n, i in wrong.items()} == {
        "other_config:hw-offload-ct-size": "0; should be 4096",
        "other_config:max-idle": "10000; should be 60000",
    }


def test_a_switch_waiting_for_its_flows_is_named(bluefield: BlueField) -> None:
    bluefield.ovsdb(flow_restore_wait="true")
    one(bluefield, "flow-restore-wait", "missing", "forwards nothing", "dnsteer restore")


@pytest.mark.parametrize(
    ("result", "state", "found"),
    [
        (
            RunResult(1, err="ovs-vsctl: unix:/x: database connection failed (Permission denied)"),
            "unknown",
            "permission denied",
        ),
        (
            RunResult(1, err="ovs-vsctl: unix:/x: database connection failed (No such file or directory)"),
            "missing",
            "No such file",
        ),
        (RunResult(None, err="ovs-vsctl is not installed"), "unknown", "not installed"),
        (RunResult(0, "no JSON"), "unknown", "could not be parsed"),
    ],
)
def test_an_unreadable_database_is_named(bluefield: BlueField, result: RunResult, state: str, found: str) -> None:
    columns = ("other_config", "external_ids", "dpdk_initialized", "dpdk_version")
    bluefield.answers[bluefield.list_command("Open_vSwitch", columns)] = result
    wrong = bluefield.wrong()
    assert list(wrong) == ["database"]
    assert wrong["database"].state == state
    assert found in wrong["database"].found


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"type": ""}, "type system, should be dpdk"),
        ({"options": ovsdb_map({"n_rxq": "2"})}, "other options"),
        ({"mtu": 1500}, "MTU 1500, should be 9000"),
        ({"error": "could not open network device p0 (No such device)"}, "No such device"),
        ({"ofport": ["set", []]}, "is not open"),
        ({"ofport": -1}, "is not open"),
    ],
)
def test_a_differing_port_is_named(bluefield: BlueField, changed: dict[str, object], found: str) -> None:
    bluefield.interfaces(**changed)
    one(bluefield, "port p0", "missing", found, "")


def test_the_port_of_tunnels_is_no_device(tmp_path: Path) -> None:
    text = DOCA.replace("  gateways: [10.53.0.1]\n", "  tunnel: {ipv4: 203.0.113.2, key: 53}\n").replace(
        "nat}", "vxlan}"
    )
    text = text.replace(", port: p1", "").replace(", port: pf0vf0", "").replace("  ports:\n    pf0vf0:\n", "")
    assert not {"port dns-vxlan", "interface dns-vxlan"} & {*BlueField(tmp_path, text).wrong()}


def test_missing_units_are_named(bluefield: BlueField) -> None:
    (bluefield.root / "etc/systemd/system/ovs-vswitchd.service.d/dnsteer.conf").unlink()
    one(bluefield, "unit for flow-restore-wait", "missing", "no ovs-vswitchd.service.d/dnsteer.conf", "install.yml")
    bluefield.unit.unlink()
    assert bluefield.wrong()["unit for bring-up"].found == f"no {UNIT}"


def test_a_disabled_bringup_unit_is_named(bluefield: BlueField) -> None:
    bluefield.enabled.unlink()
    one(bluefield, "unit for bring-up", "missing", f"{UNIT} is not enabled", f"systemctl enable {UNIT}")
    bluefield.unit.write_text(bluefield.unit.read_text().replace("WantedBy=ovs-vswitchd", "RequiredBy=network"))
    link = bluefield.root / f"etc/systemd/system/network.service.requires/{UNIT}"
    link.parent.mkdir()
    link.symlink_to(f"/etc/systemd/system/{UNIT}")
    assert bluefield.wrong() == {}


def test_a_bringup_unit_without_its_script_is_named(bluefield: BlueField) -> None:
    bluefield.script.chmod(0o644)
    script = f"/etc/dnsteer/bringup/bringup.sh, which {UNIT} runs,"
    one(bluefield, "unit for bring-up", "missing", f"{script} cannot be executed", "")
    bluefield.script.unlink()
    one(bluefield, "unit for bring-up", "missing", f"{script} is not there", "-o /etc/dnsteer/bringup")


def test_ovs_kernel_checks_offload_and_module(tmp_path: Path) -> None:
    machine = BlueField(tmp_path, KERNEL)
    machine.says("ethtool -k p0", "Features for p0:\nhw-tc-offload: off\n")
    wrong = machine.wrong()
    assert {n: i.todo for n, i in wrong.items()} == {
        "port p0, hw-tc-offload": "run 20-eswitch.sh",
        "kernel module": "modprobe openvswitch",
    }


def test_software_flavors_ask_for_no_hardware(tmp_path: Path) -> None:
    assert BlueField(tmp_path / "netdev", NETDEV).wrong() == {}
    names = BlueField(tmp_path / "dpdk", DPDK).look()
    assert not any(n.startswith(("function", "scalable", "interface")) for n in names)


def test_programs_that_fail_are_answers_and_no_errors() -> None:
    assert run_program(["no-such-program-here"]).code is None
    assert run_program(["false"]).code == 1
    assert run_program(["echo", "here"]) == RunResult(0, "here\n")
