# SPDX-License-Identifier: Apache-2.0
"""The NIC: its physical functions, their eSwitch, scalable functions, and the way to memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.setup import Setup
from dnsteer.card.scalable_functions import CardFunction
from dnsteer.spec.model.spec import Flavor, Hardware

_SCRIPT = "run 20-eswitch.sh"
_NVIDIA = "0x15b3"
DEVICES = {"0xa2d6": Hardware.BLUEFIELD_2, "0xa2dc": Hardware.BLUEFIELD_3}
"""PCI device numbers of the physical functions of BlueFields (pci.ids)."""


def inspect_hardware(machine: Machine, setup: Setup) -> Iterator[Item]:
    """The items of the NIC; none where the spec needs nothing of it."""
    if not setup.eswitch.needed:
        return
    functions: dict[str, str] = {}
    for uplink, address in setup.eswitch.functions.items():
        found = address or machine.target(f"/sys/class/net/{uplink}/device") or ""
        if not found:
            todo = f"name its PCI address: switch: {{bringup: {{pci: {{{uplink}: 0000:03:00.0}}}}}}"
            yield Item(f"uplink {uplink}", "missing", "there is no network interface of this name", todo)
            continue
        functions.setdefault(found, uplink)
    for address, uplink in functions.items():
        yield from _function(machine, setup, address, uplink)
        if setup.eswitch.multiport and len(functions) > 1 and machine.exists(f"/sys/bus/pci/devices/{address}"):
            yield _multiport(machine, address)
    yield from _scalable(machine, setup, functions)
    if setup.flavor is Flavor.OVS_KERNEL:
        yield from _offload(machine, setup)


def _function(machine: Machine, setup: Setup, address: str, uplink: str) -> Iterator[Item]:
    name, folder = f"function {address}", f"/sys/bus/pci/devices/{address}"
    if not machine.exists(folder):
        yield Item(name, "missing", f"there is none (uplink {uplink})", "look at: devlink dev show; lspci -d 15b3:")
        return
    yield _device(machine, setup, name, folder)
    yield _iommu(machine, setup, name, folder)
    yield _eswitch(machine, address, uplink)


def _device(machine: Machine, setup: Setup, name: str, folder: str) -> Item:
    vendor, device = machine.text(f"{folder}/vendor"), machine.text(f"{folder}/device")
    driver = machine.target(f"{folder}/driver") or "none"
    kind = DEVICES.get(device or "") if vendor == _NVIDIA else None
    what = kind.value if kind else f"vendor {vendor}, device {device}"
    if vendor != _NVIDIA:
        return Item(
            name,
            "missing",
            f"{what}, driver {driver}",
            "only NVIDIA's NICs have this eSwitch: is the PCI address right?",
        )
    if driver != "mlx5_core":
        return Item(
            name, "missing", f"{what}, driver {driver}", "bind it to mlx5_core: DPDK and DOCA share it with that"
        )
    wanted = setup.switch.hardware
    if wanted is not None and kind is not None and kind is not wanted:
        return Item(name, "missing", f"{what}, but the spec says {wanted.value}", "correct switch.hardware")
    return Item(name, "ok", f"{what}, driver {driver}")


def _iommu(machine: Machine, setup: Setup, name: str, folder: str) -> Item:
    name = f"{name}, IOMMU"
    if setup.flavor is Flavor.OVS_KERNEL:
        return Item(name, "ok", "as the kernel has it")
    if not machine.exists(f"{folder}/iommu_group"):
        return Item(name, "ok", "no IOMMU")
    kind = machine.text(f"{folder}/iommu_group/type")
    if kind == "identity":
        return Item(name, "ok", "passed through")
    if kind is None:
        return Item(name, "unknown", f"{folder}/iommu_group/type cannot be read")
    todo = "on the kernel's command line: iommu.passthrough=1 (Arm), iommu=pt (x86); NVIDIA's DPF sets it"
    return Item(name, "missing", f"the IOMMU translates every memory access ({kind})", todo)


def _eswitch(machine: Machine, address: str, uplink: str) -> Item:
    name = f"function {address}, eSwitch"
    mode = _value(machine, ["dev", "eswitch", "show", f"pci/{address}"], "dev", "mode")
    if (
        mode is None
    ):  # devlink tells the mode to root only; the driver gives ports a switch's number in switchdev mode alone
        number = machine.text(f"/sys/class/net/{uplink}/phys_switch_id")
        if not machine.exists(f"/sys/class/net/{uplink}"):
            return Item(
                name, "unknown", f"devlink does not show it, and there is no network interface {uplink}", "run as root"
            )
        if number is None and machine.exists(f"/sys/class/net/{uplink}/phys_switch_id"):
            return Item(name, "missing", f"{uplink} is not a port of an eSwitch: it is not in switchdev mode", _SCRIPT)
        mode = "switchdev" if number else None
    if mode is None:
        return Item(name, "unknown", "devlink does not show it", "run as root, with iproute2 installed")
    return Item(name, "ok", mode) if mode == "switchdev" else Item(name, "missing", f"mode {mode}", _SCRIPT)


def _multiport(machine: Machine, address: str) -> Item:
    name = f"function {address}, multiport"
    result = machine.run(["devlink", "dev", "param", "show", f"pci/{address}", "name", "esw_multiport"])
    found = re.search(r"cmode runtime value (\S+)", result.out)
    if result.code is None:
        return Item(name, "unknown", result.err, "install iproute2")
    if not result.ok or found is None:
        todo = "Linux 6.3 or NVIDIA's driver, and a ConnectX-6 Dx, BlueField-2 or newer"
        return Item(name, "missing", "the driver has no parameter esw_multiport", todo)
    if found[1] in ("true", "1"):
        return Item(name, "ok", "on")
    todo = f"{_SCRIPT}; if the driver refuses: mlxconfig -d {address} set LAG_RESOURCE_ALLOCATION=1, then a power cycle"
    return Item(name, "missing", "off", todo)


def _scalable(machine: Machine, setup: Setup, functions: dict[str, str]) -> Iterator[Item]:
    if not setup.eswitch.scalable:
        return
    if machine.exists("/sys/bus/auxiliary/drivers/mlx5_core.sf"):
        yield Item("scalable functions", "ok", "the driver has them")
    else:
        todo = "a kernel with MLX5_SF, and firmware settings: mlxconfig -d ADDRESS set PER_PF_NUM_SF=1 PF_TOTAL_SF=236"
        yield Item("scalable functions", "missing", "the driver has none", todo)
    result = machine.run(["devlink", "-j", "port", "show"])
    ports = _json(result.out).get("port") if result.ok else None
    addresses = {uplink: address for address, uplink in functions.items()}
    for wanted in setup.eswitch.scalable:
        name = f"scalable function {wanted.number} of {wanted.uplink}"
        if not isinstance(ports, dict):
            yield Item(
                name, "unknown", result.err or "devlink does not show it", "run as root, with iproute2 installed"
            )
            continue
        at = f"pci/{addresses.get(wanted.uplink, '')}/"
        there = [key for key, port in ports.items() if key.startswith(at) and port.get("sfnum") == wanted.number]
        yield Item(name, "ok", there[0]) if there else Item(name, "missing", "there is none", "run 25-functions.sh")
        if there:
            yield from inspect_function(machine, setup, wanted, ports[there[0]])


def _offload(machine: Machine, setup: Setup) -> Iterator[Item]:
    for port in (port for port in setup.bridge.devices if port.type != "patch"):
        result = machine.run(["ethtool", "-k", port.name])
        found = re.search(r"^hw-tc-offload: (\S+)", result.out, re.M)
        name = f"port {port.name}, hw-tc-offload"
        if not result.ok or found is None:
            yield Item(name, "unknown", result.err or "ethtool does not show it", "install ethtool; is the port there?")
        else:
            yield Item(name, "ok", "on") if found[1] == "on" else Item(name, "missing", found[1], _SCRIPT)


def _value(machine: Machine, args: list[str], what: str, key: str) -> str | None:
    result = machine.run(["devlink", "-j", *args])
    objects = _json(result.out).get(what) if result.ok else None
    for value in (objects or {}).values():
        if isinstance(value, dict) and isinstance(value.get(key), str):
            return str(value[key])
    return None


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_DEVICES = "/sys/bus/auxiliary/devices"
_FUNCTIONS_SCRIPT = "run 25-functions.sh"


def inspect_function(machine: Machine, setup: Setup, wanted: CardFunction, shown: Mapping[str, Any]) -> Iterator[Item]:
    """The items of a function that is there; *shown* is what devlink says of its port."""
    if not wanted.role:
        return
    name = f"scalable function {wanted.number} of {wanted.uplink}"
    trust = shown.get("function", {}).get("trust") if isinstance(shown.get("function"), Mapping) else None
    if trust == "off":
        todo = "with it inactive: mlxdevm port function set PORT trust on"
        yield Item(f"{name}, trust", "missing", "off: it may not program the hardware", todo)
    if wanted.port:
        netdev = shown.get("netdev")
        right = netdev == wanted.port
        todo = "" if right else _FUNCTIONS_SCRIPT
        found = f"{netdev}" if right else f"{netdev or 'none'}; should be {wanted.port}"
        yield Item(f"{name}, representor", "ok" if right else "missing", found, todo)
    yield from _function_device(machine, setup, wanted, name)


def _function_device(machine: Machine, setup: Setup, wanted: CardFunction, name: str) -> Iterator[Item]:
    """The function itself, by the name that the extension opens."""
    if not machine.exists(_DEVICES):
        yield Item(f"{name}, device", "unknown", f"{_DEVICES} cannot be read")
        return
    for device in machine.names(_DEVICES):
        folder = f"{_DEVICES}/{device}"
        names = {*machine.names(f"{folder}/net"), *machine.names(f"{folder}/infiniband")}
        if wanted.device in names:
            yield Item(f"{name}, device", "ok", f"{wanted.device} ({device})")
            yield from _mtu(machine, setup, name, folder)
            return
    yield Item(f"{name}, device", "missing", f"none is called {wanted.device}", _FUNCTIONS_SCRIPT)


def _mtu(machine: Machine, setup: Setup, name: str, folder: str) -> Iterator[Item]:
    for netdev in machine.names(f"{folder}/net") if setup.part.mtu is not None else ():
        mtu = machine.number(f"{folder}/net/{netdev}/mtu")
        if mtu is None or setup.part.mtu is None:
            continue
        found = f"{mtu}" if mtu >= setup.part.mtu else f"{mtu}; should be {setup.part.mtu}"
        yield Item(
            f"{name}, MTU",
            "ok" if mtu >= setup.part.mtu else "missing",
            found,
            "" if mtu >= setup.part.mtu else _FUNCTIONS_SCRIPT,
        )
