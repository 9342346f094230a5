# SPDX-License-Identifier: Apache-2.0
"""All items of a machine, in the order in which bring-up goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from dnsteer.bringup.files import UNIT
from dnsteer.bringup.inspection.extension_service import inspect_extension
from dnsteer.bringup.inspection.hardware import inspect_hardware
from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.inspection.memory import inspect_memory
from dnsteer.bringup.inspection.openvswitch import inspect_openvswitch
from dnsteer.bringup.setup import Setup
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch.control_socket import default_remote

_UNITS = "/etc/systemd/system"
_RESTORING = (f"{_UNITS}/dnsteer-restore.service", f"{_UNITS}/ovs-vswitchd.service.d/dnsteer.conf")

_INSTALL = {"wants": "WantedBy", "requires": "RequiredBy"}
"""Keys of a unit's section Install, by the folders in which enabling it makes links."""


def inspect(machine: Machine, setup: Setup, remote: str) -> list[Item]:
    """Inspect the machine. *remote* is its OVSDB."""
    return [
        *inspect_memory(machine, setup, _is_vswitchd_running(machine, remote)),
        *inspect_hardware(machine, setup),
        *_devices(machine, setup),
        *_bluefield(machine, setup),
        *inspect_openvswitch(machine, setup, remote),
        *inspect_extension(machine, setup),
        *_units(machine),
    ]


def _is_vswitchd_running(machine: Machine, remote: str) -> bool:
    """Whether ovs-vswitchd runs, by the file with its process beside the database's socket."""
    local = remote if remote.startswith("unix:") else default_remote()
    folder = str(PurePosixPath(local.removeprefix("unix:")).parent)
    process = machine.number(f"{folder}/ovs-vswitchd.pid")
    return process is not None and machine.exists(f"/proc/{process}")


def _devices(machine: Machine, setup: Setup) -> Iterator[Item]:
    """Ports that Open vSwitch finds by the name of a network interface."""
    for port in setup.bridge.devices:
        by_name = port.type == "system" or (setup.flavor is Flavor.OVS_DOCA and "dpdk-devargs" not in port.options)
        if not by_name or port.type == "patch" or port.is_tunnel:
            continue
        there = machine.exists(f"/sys/class/net/{port.name}")
        name, found = f"interface {port.name}", machine.text(f"/sys/class/net/{port.name}/operstate") or "there"
        if there:
            yield Item(name, "ok", found)
        else:
            todo = "its name in the spec must be that of a network interface (ip link)"
            yield Item(name, "missing", "there is none", todo)


def _bluefield(machine: Machine, setup: Setup) -> Iterator[Item]:
    """What a BlueField's own configuration would undo at the next boot."""
    if setup.flavor is not Flavor.OVS_DOCA or not machine.exists("/etc/mellanox"):
        return
    wanted = [("mlnx-ovs.conf", "OVS_DOCA", "yes"), ("mlnx-ovs.conf", "CREATE_OVS_BRIDGES", "no")]
    if setup.eswitch.multiport:
        wanted.append(("mlnx-bf.conf", "ENABLE_ESWITCH_MULTIPORT", "yes"))
    for file, key, value in wanted:
        text = machine.text(f"/etc/mellanox/{file}") or ""
        values = re.findall(rf'^\s*{key}=["\']?([^"\'\s]*)', text, re.M)
        name = f"{file}: {key}"
        if values and values[-1].lower() == value:
            yield Item(name, "ok", values[-1])
        else:
            found = values[-1] if values else "not set"
            yield Item(name, "missing", f"{found}; should be {value}", f'/etc/mellanox/{file}: {key}="{value}"')


def _units(machine: Machine) -> Iterator[Item]:
    if not machine.exists("/run/systemd/system"):
        todo = "make sure by other means that bringup.sh and dnsteer restore run at boot"
        yield Item("systemd units", "unknown", "systemd is not running here", todo)
        return
    yield _boot_unit(machine)
    gone = [name for name in _RESTORING if not machine.exists(name)]
    name = "unit for flow-restore-wait"
    if gone:
        yield Item(
            name,
            "missing",
            f"no {gone[0].removeprefix(_UNITS + '/')}",
            "the runbook install.yml copies it (ovs/systemd)",
        )
    else:
        yield Item(name, "ok", "dnsteer-restore.service")


def _boot_unit(machine: Machine) -> Item:
    """The unit that runs the scripts at boot: there, enabled, and with a script to run."""
    name, text = "unit for bring-up", machine.text(f"{_UNITS}/{UNIT}")
    if not machine.exists(f"{_UNITS}/{UNIT}"):
        todo = f"copy it to {_UNITS} and enable it, or use the runbook bringup.yml"
        return Item(name, "missing", f"no {UNIT}", todo)
    if text is None:
        return Item(name, "unknown", f"{UNIT} cannot be read", "run this as root")
    wanting = [f"{unit}.{kind}" for kind in _INSTALL for unit in _values_of(text, _INSTALL[kind])]
    if not any(machine.has_link(f"{_UNITS}/{folder}/{UNIT}") for folder in wanting):
        return Item(name, "missing", f"{UNIT} is not enabled", f"systemctl enable {UNIT}")
    script = next(iter(_values_of(text, "ExecStart")), "").lstrip("-@:+!")
    if not machine.is_executable(script):
        found = "cannot be executed" if machine.exists(script) else "is not there"
        todo = f"dnsteer bringup SPEC -o {PurePosixPath(script).parent}"
        return Item(name, "missing", f"{script or 'ExecStart'}, which {UNIT} runs, {found}", todo)
    return Item(name, "ok", f"{UNIT}, enabled")


def _values_of(text: str, key: str) -> list[str]:
    """The words that a unit's file gives a key, in all its lines."""
    return [word for value in re.findall(rf"^{key}=(.*)$", text, re.M) for word in value.split()]
