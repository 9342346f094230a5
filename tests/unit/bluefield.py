# SPDX-License-Identifier: Apache-2.0
"""A synthetic BlueField: files and answers of programs made by hand, recorded on none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dnsteer.bringup.files import UNIT, bringup_files
from dnsteer.bringup.inspection.items import inspect
from dnsteer.bringup.inspection.machine import Item, Machine, RunResult
from tests.unit.bringup_cases import DOCA, settings, setup

P0, P1 = "0000:03:00.0", "0000:03:00.1"
REMOTE = "unix:/var/run/openvswitch/db.sock"
ASKED = "ovs-appctl --timeout=5 -t /var/run/openvswitch/ovs-vswitchd.4711.ctl dpctl/ipf-get-status netdev@ovs-netdev"
NO_MULTIPORT = "devlink answers: Invalid argument"


class BlueField:
    """A machine on which everything of the spec is as it should be; tests take something away."""

    def __init__(self, root: Path, text: str = DOCA) -> None:
        self.root, self.text = root, text
        self.answers: dict[str, RunResult] = {}
        self.file("proc/meminfo", "MemTotal:       32768000 kB\nMemFree: 1 kB\n")
        self.file("proc/mounts", "none /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n")
        pages = "sys/devices/system/node/node0/hugepages/hugepages-2048kB"
        self.pages = self.file(f"{pages}/nr_hugepages", "3072\n")
        self.free = self.file(f"{pages}/free_hugepages", "100\n")
        self.file("var/run/openvswitch/ovs-vswitchd.pid", "4711\n")
        self.file("proc/4711/comm", "ovs-vswitchd\n")
        self.file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3072\n")
        self.file("sys/devices/system/cpu/online", "0-15\n")
        self.file("sys/devices/system/cpu/isolated", "\n")
        (root / "sys/bus/auxiliary/drivers/mlx5_core.sf").mkdir(parents=True)
        for name, value in (
            ("mlnx-ovs.conf", 'CREATE_OVS_BRIDGES="no"\nOVS_DOCA="yes"\n'),
            ("mlnx-bf.conf", 'ENABLE_ESWITCH_MULTIPORT="yes"\n'),
        ):
            self.file(f"etc/mellanox/{name}", value)
        for number, function in enumerate((P0, P1)):
            device = root / "sys/devices/pci0000:00" / function
            self.file(f"sys/devices/pci0000:00/{function}/vendor", "0x15b3\n")
            self.file(f"sys/devices/pci0000:00/{function}/device", "0xa2dc\n")
            self.file("sys/kernel/iommu_groups/7/type", "identity\n")
            (device / "iommu_group").symlink_to(root / "sys/kernel/iommu_groups/7")
            driver = root / "sys/bus/pci/drivers/mlx5_core"
            driver.mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(driver)
            (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
            (root / f"sys/bus/pci/devices/{function}").symlink_to(device)
            self.file(f"sys/class/net/p{number}/operstate", "up\n")
            (root / f"sys/class/net/p{number}/device").symlink_to(device)
        self.file("sys/class/net/pf0vf0/operstate", "up\n")
        self.file("run/systemd/system/there", "")
        for unit in ("dnsteer-restore.service", "ovs-vswitchd.service.d/dnsteer.conf"):
            self.file(f"etc/systemd/system/{unit}", "")
        self.unit = self.file(f"etc/systemd/system/{UNIT}", bringup_files(setup(text))[UNIT])
        self.enabled = root / f"etc/systemd/system/ovs-vswitchd.service.wants/{UNIT}"
        self.enabled.parent.mkdir()
        self.enabled.symlink_to(f"/etc/systemd/system/{UNIT}")
        self.script = self.file("etc/dnsteer/bringup/bringup.sh", "#!/bin/sh\n")
        self.script.chmod(0o755)
        self.says("ovs-vswitchd --version", "ovs-vswitchd (Open vSwitch) 3.2.1000\nDPDK 24.11.0\nDOCA 3.2.1\n")
        for function in (P0, P1):
            show = json.dumps({"dev": {f"pci/{function}": {"mode": "switchdev", "inline-mode": "none"}}})
            self.says(f"devlink -j dev eswitch show pci/{function}", show)
            values = f"pci/{function}:\n  name esw_multiport\n    values:\n      cmode runtime value true\n"
            self.says(f"devlink dev param show pci/{function} name esw_multiport", values)
        ports = {f"pci/{f}/32768": {"flavour": "pcisf", "sfnum": 10} for f in (P0, P1)}
        self.says("devlink -j port show", json.dumps({"port": ports}))
        self.says(ASKED, "min v4 frag size: 400\nmin v6 frag size: 1280\n")
        self.ovsdb()

    def file(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def says(self, command: str, out: str) -> None:
        self.answers[command] = RunResult(0, out)

    def ovsdb(self, **changed: str) -> None:
        """What the database has: the settings of the spec, or *changed*; then the bridge and its ports."""
        config = {**settings(self.text), **{k.replace("_", "-"): v for k, v in changed.items()}}
        row = {
            "other_config": ovsdb_map(config),
            "external_ids": ovsdb_map({}),
            "dpdk_initialized": True,
            "dpdk_version": "DPDK 24.11.0",
        }
        self.rows("Open_vSwitch", [row])
        self.rows("Open_vSwitch", [{"doca_initialized": True}])
        want = setup(self.text)
        bridge = {
            "name": "br-dns",
            "datapath_type": want.bridge.datapath_type,
            "fail_mode": "secure",
            "external_ids": ovsdb_map({"dnsteer": "bridge"}),
        }
        self.rows("Bridge", [bridge])
        self.interfaces()

    def interfaces(self, **changed: object) -> None:
        ports = setup(self.text).bridge.ports
        rows = [
            {
                "name": p.name,
                "type": p.type,
                "options": ovsdb_map(dict(p.options)),
                "mtu": ["set", []] if p.is_tunnel else 9000,
                "ofport": n,
                "error": ["set", []],
            }
            for n, p in enumerate(ports, 1)
        ]
        rows[0].update(changed)
        self.rows("Interface", rows)

    def rows(self, table: str, rows: list[dict[str, object]]) -> None:
        columns = list(rows[0])
        out = json.dumps({"headings": columns, "data": [[row[c] for c in columns] for row in rows]})
        self.says(self.list_command(table, columns), out)

    def list_command(self, table: str, columns: Sequence[str]) -> str:
        return f"ovs-vsctl --db={REMOTE} --timeout=5 --no-wait --format=json --columns={','.join(columns)} list {table}"

    def run(self, argv: Sequence[str]) -> RunResult:
        return self.answers.get(" ".join(argv), RunResult(None, err=f"{argv[0]} is not installed"))

    def look(self, *changes: tuple[str, str]) -> dict[str, Item]:
        items = inspect(Machine(self.root, self.run), setup(self.text, *changes), REMOTE)
        assert len({i.name for i in items}) == len(items)
        return {i.name: i for i in items}

    def wrong(self, *changes: tuple[str, str]) -> dict[str, Item]:
        return {name: item for name, item in self.look(*changes).items() if item.state != "ok"}


def ovsdb_map(value: dict[str, str]) -> list[object]:
    return ["map", [[k, v] for k, v in value.items()]]
