# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch: the program, its database, the settings, the bridge and its ports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from dnsteer.bringup.inspection.machine import Item, Machine
from dnsteer.bringup.setup import Setup
from dnsteer.plan import min_fragment
from dnsteer.spec.model.spec import Flavor
from dnsteer.switch.datapaths import pick_datapath

_SETTINGS, _BRIDGE = "run 30-openvswitch.sh", "run 40-bridge.sh"
_DEBIAN = (
    "install openvswitch-switch-dpdk, then: update-alternatives --set ovs-vswitchd "
    "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
)
Rows = list[dict[str, Any]]


def inspect_openvswitch(machine: Machine, setup: Setup, remote: str) -> Iterator[Item]:
    """The items of Open vSwitch, whose database is at *remote*."""
    columns = ("other_config", "external_ids", "dpdk_initialized", "dpdk_version")
    rows, item = _rows(machine, remote, "Open_vSwitch", *columns)
    yield from _program(machine, setup, rows[0] if rows else {})
    yield item
    if not rows:
        return
    yield from _settings(setup, rows[0])
    yield from _started(machine, setup, rows[0], remote)
    bridges, _ = _rows(machine, remote, "Bridge", "name", "datapath_type", "fail_mode", "external_ids")
    interfaces, _ = _rows(machine, remote, "Interface", "name", "type", "options", "mtu", "ofport", "error")
    yield from _bridge(setup, bridges or [], interfaces or [])
    if setup.min_fragment is not None:
        yield _fragments(machine, setup.min_fragment, remote)


def _program(machine: Machine, setup: Setup, running: Mapping[str, Any]) -> Iterator[Item]:
    """The program as it is installed; what a switch that runs says of its libraries counts as well."""
    result = machine.run(["ovs-vswitchd", "--version"])
    found = re.search(r"^ovs-vswitchd \(.*\) (\S+)", result.out, re.M)
    if not result.ok or found is None:
        yield Item("Open vSwitch", "missing", result.err or "it does not report its version", "install Open vSwitch")
        return
    yield Item("Open vSwitch", "ok", found[1])
    for library, flavors, todo in (
        ("DPDK", (Flavor.OVS_DPDK, Flavor.OVS_DOCA), _DEBIAN),
        ("DOCA", (Flavor.OVS_DOCA,), "install NVIDIA's Open vSwitch (package doca-openvswitch-switch)"),
    ):
        if setup.flavor in flavors:
            built = re.search(rf"^{library} (\S+)", result.out, re.M)
            version = built[1] if built else _running(running) if library == "DPDK" else ""
            name = f"{library} in Open vSwitch"
            yield Item(name, "ok", version) if version else Item(name, "missing", "built without", todo)
    if setup.flavor is Flavor.OVS_KERNEL:
        there = machine.exists("/sys/module/openvswitch")
        yield Item(
            "kernel module",
            "ok" if there else "missing",
            "openvswitch" if there else "openvswitch is not loaded",
            "" if there else "modprobe openvswitch",
        )


def _running(row: Mapping[str, Any]) -> str:
    """Version of the DPDK that a switch runs with; empty where it runs without."""
    version = str(row.get("dpdk_version") or "") if row.get("dpdk_initialized") is True else ""
    return version.removeprefix("DPDK ")


def _rows(machine: Machine, remote: str, table: str, *columns: str) -> tuple[Rows | None, Item]:
    """The rows of a table, or None; and an item that says whether the database could be read."""
    vsctl = ["ovs-vsctl", f"--db={remote}", "--timeout=5", "--no-wait", "--format=json"]
    result = machine.run([*vsctl, f"--columns={','.join(columns)}", "list", table])
    name = "database"
    if result.code is None:
        return None, Item(name, "unknown", result.err, "install Open vSwitch")
    if not result.ok:
        message = result.err.splitlines()[-1] if result.err else f"exit status {result.code}"
        if "ermission denied" in result.err:
            return None, Item(
                name, "unknown", f"{remote}: permission denied", "run as root, or as a member of its group"
            )
        return None, Item(name, "missing", message, "systemctl start ovsdb-server; another database: --db")
    try:
        value = json.loads(result.out)
        rows = [{h: _plain(v) for h, v in zip(value["headings"], row, strict=True)} for row in value["data"]]
    except (ValueError, KeyError, TypeError):
        return None, Item(name, "unknown", "the output of ovs-vsctl could not be parsed")
    return rows, Item(name, "ok", remote)


def _plain(value: Any) -> Any:
    """A value of OVSDB (RFC 7047): maps as mappings, sets as lists, single values as they are."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "map":
        return dict(value[1])
    if isinstance(value, list) and len(value) == 2 and value[0] == "set":
        return [_plain(v) for v in value[1]]
    return value


def _settings(setup: Setup, row: Mapping[str, Any]) -> Iterator[Item]:
    have = row["other_config"]
    for setting in setup.settings:
        now = have.get(setting.key)
        found = "not set" if now is None else f"{now}"
        name = f"other_config:{setting.key}"
        if now == setting.value:
            yield Item(name, "ok", found)
        else:
            yield Item(name, "missing", f"{found}; should be {setting.value}", _SETTINGS)


def _started(machine: Machine, setup: Setup, row: Mapping[str, Any], remote: str) -> Iterator[Item]:
    if "dnsteer-restart" in row["external_ids"]:
        todo = "systemctl restart openvswitch-switch: it interrupts forwarding"
        yield Item("running settings", "missing", "ovs-vswitchd still runs with the earlier settings", todo)
    if setup.flavor in (Flavor.OVS_DPDK, Flavor.OVS_DOCA):
        yield _initialized("DPDK", row.get("dpdk_initialized"))
    if setup.flavor is Flavor.OVS_DOCA:  # the column is NVIDIA's
        rows, _ = _rows(machine, remote, "Open_vSwitch", "doca_initialized")
        yield _initialized("DOCA", rows[0]["doca_initialized"] if rows else None)
    waits = row["other_config"].get("flow-restore-wait") == "true"
    if waits:
        todo = "dnsteer restore, or by hand: ovs-vsctl --no-wait remove Open_vSwitch . other_config flow-restore-wait"
        yield Item("flow-restore-wait", "missing", "the switch waits for its flows and forwards nothing", todo)


def _fragments(machine: Machine, size: int, remote: str) -> Item:
    """The connection tracker's smallest IPv4 fragment, read from the running switch."""
    name, todo = "smallest IPv4 fragment", f"{_BRIDGE}; dnsteer apply and restore do it too"
    kind, _, where = remote.partition(":")
    folder = str(PurePosixPath(where).parent)
    process = machine.number(f"{folder}/ovs-vswitchd.pid") if kind == "unix" else None
    if process is None:
        return Item(name, "unknown", "no running ovs-vswitchd was found next to the database", todo)
    ask = ["ovs-appctl", "--timeout=5", "-t", f"{folder}/ovs-vswitchd.{process}.ctl"]
    datapaths = machine.run([*ask, "dpctl/dump-dps"])
    datapath = pick_datapath(datapaths.out.split(), min_fragment.DATAPATH.partition("@")[0]) or min_fragment.DATAPATH
    result = machine.run([*ask, *min_fragment.reading(datapath)])
    found = re.search(r"min v4 frag size: (\d+)", result.out)
    if not result.ok or found is None:
        message = result.err.splitlines()[-1] if result.err else "the output of ovs-appctl could not be parsed"
        return Item(name, "unknown", message, "is there a bridge, and is this run as root?")
    if int(found[1]) == size:
        return Item(name, "ok", f"{size} bytes")
    return Item(name, "missing", f"{found[1]} bytes; should be {size}", todo)


def _initialized(library: str, value: Any) -> Item:
    name = f"{library} running"
    if value is True:
        return Item(name, "ok", "initialized")
    todo = "restart Open vSwitch; why it did not start is in /var/log/openvswitch/ovs-vswitchd.log"
    if value is None:
        return Item(name, "missing", f"this Open vSwitch knows no {library}", todo)
    return Item(name, "missing", "not initialized", todo)


def _bridge(setup: Setup, bridges: Rows, interfaces: Rows) -> Iterator[Item]:
    want = setup.bridge
    name = f"bridge {want.name}"
    have = next((b for b in bridges if b["name"] == want.name), None)
    if have is None:
        yield Item(name, "missing", "there is none", _BRIDGE)
        return
    wrong = []
    if (have["datapath_type"] or "system") != want.datapath_type:
        wrong.append(f"datapath type {have['datapath_type'] or 'system'}, should be {want.datapath_type}")
    if have["fail_mode"] != "secure":
        wrong.append("fail mode is not secure")
    if have["external_ids"].get("dnsteer") != "bridge":
        wrong.append("not dnsteer's")
    yield Item(name, "missing", "; ".join(wrong), _BRIDGE) if wrong else Item(name, "ok", want.datapath_type)
    by_name = {i["name"]: i for i in interfaces}
    for port in (port for port in want.ports if port.type != "patch"):  # those are apply's
        mtu = None if port.is_tunnel else setup.part.mtu
        yield _port(port.name, port.type, dict(port.options), mtu, by_name.get(port.name))


def _port(port: str, kind: str, options: dict[str, str], mtu: int | None, have: Mapping[str, Any] | None) -> Item:
    name = f"port {port}"
    if have is None:
        return Item(name, "missing", "is on no bridge", _BRIDGE)
    wrong = []
    if (have["type"] or "system") != kind:
        wrong.append(f"type {have['type'] or 'system'}, should be {kind}")
    if have["options"] != options:
        wrong.append("other options")
    if mtu is not None and have["mtu"] != mtu:
        wrong.append(f"MTU {have['mtu'] or 'not known'}, should be {mtu}")
    if wrong:
        return Item(name, "missing", "; ".join(wrong), _BRIDGE)
    if have["error"]:
        return Item(name, "missing", str(have["error"]), "check that its device is present, then run 40-bridge.sh")
    if not isinstance(have["ofport"], int) or have["ofport"] < 0:
        todo = "is ovs-vswitchd running? its log: /var/log/openvswitch/ovs-vswitchd.log"
        return Item(name, "missing", "is not open", todo)
    return Item(name, "ok", f"{kind}, MTU {have['mtu']}" if isinstance(have["mtu"], int) else kind)
