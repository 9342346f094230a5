# SPDX-License-Identifier: Apache-2.0
"""Facts of OVSDB about a switch and one bridge, in the layout of `ovs-vsctl show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.switch.control_socket import database_name
from dnsteer.switch.rpc import Rpc, parse_remote
from dnsteer.switch.tools import SwitchError

_DB = "Open_vSwitch"
_STATISTICS = (
    "rx_packets",
    "rx_bytes",
    "rx_dropped",
    "rx_errors",
    "rx_missed_errors",
    "tx_packets",
    "tx_bytes",
    "tx_dropped",
    "tx_errors",
)
_OF_INTERFACE = ("type", "admin_state", "link_state", "link_speed", "mac_in_use", "mtu")
_OF_BRIDGE = ("datapath_type", "datapath_version", "fail_mode", "protocols", "stp_enable", "rstp_enable")
_OF_SWITCH = ("ovs_version", "db_version", "dpdk_version", "doca_version", "system_type", "system_version")
_PORTS = 256
"""Ports that are named one by one."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SwitchFacts:
    """The version of Open vSwitch, empty if the database does not say it, and all facts as lines of text."""

    version: str
    text: str


def read_facts(remote: str, bridge: str, timeout: float) -> SwitchFacts:
    """Read them. Raises SwitchError or UnavailableError."""
    rpc = Rpc(parse_remote(remote), database_name(remote), timeout)
    try:
        return _Reader(rpc, timeout).facts(bridge)
    finally:
        rpc.close()


class _Reader:
    def __init__(self, rpc: Rpc, timeout: float) -> None:
        self._rpc, self._timeout = rpc, timeout

    def facts(self, bridge: str) -> SwitchFacts:
        switches, bridges = self._tables("Open_vSwitch", "Bridge")
        if not switches:
            raise SwitchError("the database is empty: start ovs-vswitchd on it")
        top = switches[0]
        lines = ["Open_vSwitch", *_values(top, _OF_SWITCH), *_map(top, "other_config")]
        for row in self._rows("Manager", top.get("manager_options")):
            lines.append(f"    Manager {row['target']}{_connected(row)}")
        for row in bridges:
            if row["name"] == bridge:
                lines += ["    " + line for line in self._bridge(row)]
        others = sorted(f"{row['name']} ({len(_set(row['ports']))} ports)" for row in bridges if row["name"] != bridge)
        if others:
            lines.append(f"    other bridges: {', '.join(others)}")
        return SwitchFacts(next(map(str, _set(top.get("ovs_version", []))), ""), "\n".join(lines))

    def _bridge(self, row: Row) -> Iterator[str]:
        yield f"Bridge {row['name']}"
        yield from _values(row, _OF_BRIDGE)
        yield from _map(row, "other_config")
        for column, table in (("controller", "Controller"), ("mirrors", "Mirror")):
            for found in self._rows(table, row.get(column)):
                yield f"    {table} {found.get('target') or found.get('name')}{_connected(found)}"
        ports = sorted(self._rows("Port", row["ports"]), key=lambda port: str(port["name"]))
        for port in ports[:_PORTS]:
            yield f"    Port {port['name']}"
            more = [
                f"{name} {_text(port[name])}" for name in ("tag", "trunks", "qos", "vlan_mode") if _set(port.get(name))
            ]
            if more:
                yield f"        {', '.join(more)}"
            for interface in self._rows("Interface", port["interfaces"]):
                yield from ("        " + line for line in _interface(interface, str(port["name"])))
        if len(ports) > _PORTS:
            yield f"    and {len(ports) - _PORTS} more ports"

    def _tables(self, *tables: str) -> list[list[Row]]:
        asked = [{"op": "select", "table": table, "where": []} for table in tables]
        return [answer["rows"] for answer in self._rpc.call("transact", [_DB, *asked], self._timeout)]

    def _rows(self, table: str, references: Any) -> list[Row]:
        """The rows that a column refers to. All columns: naming one that a version does not have is an error."""
        ids = [ref for ref in _set(references) if isinstance(ref, list) and ref[0] == "uuid"]
        asked = [{"op": "select", "table": table, "where": [["_uuid", "==", ref]]} for ref in ids]
        answers = self._rpc.call("transact", [_DB, *asked], self._timeout) if asked else []
        return [row for answer in answers for row in answer.get("rows", [])]


def _interface(row: Row, port: str) -> Iterator[str]:
    number = next(iter(_set(row.get("ofport"))), None)
    facts = [f"{name} {_text(row[name])}" for name in _OF_INTERFACE if _set(row.get(name)) and row[name] != ""]
    named = "" if row["name"] == port else f"{row['name']}: "
    yield f"{named}ofport {'none' if number is None else number}, {', '.join(facts)}"
    yield from _map(row, "options", indent="")
    if _set(row.get("error")):
        yield f"error: {_text(row['error'])}"
    counted = dict(_pairs(row.get("statistics")))
    some = [f"{name} {counted[name]:,}" for name in _STATISTICS if counted.get(name)]
    if some:
        yield f"statistics: {', '.join(some)}"


def _values(row: Row, columns: Iterable[str]) -> Iterator[str]:
    """The columns that there are and that are set."""
    return (f"    {name}: {_text(row[name])}" for name in columns if name in row and _text(row[name]))


def _map(row: Row, column: str, indent: str = "    ") -> Iterator[str]:
    pairs = sorted(_pairs(row.get(column)))
    if pairs:
        yield f"{indent}{column}: {', '.join(f'{key}={value}' for key, value in pairs)}"


def _connected(row: Row) -> str:
    return {True: " (connected)", False: " (not connected)"}.get(row.get("is_connected"), "")  # type: ignore[arg-type]


def _pairs(value: Any) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value[1]] if isinstance(value, list) and value[0] == "map" else []


def _set(value: Any) -> list[Any]:
    """The values of a column: OVSDB has a set of one as the value itself."""
    if value is None:
        return []
    return list(value[1]) if isinstance(value, list) and value[0] == "set" else [value]


def _text(value: Any) -> str:
    return ", ".join(
        str(each[1]) if isinstance(each, list) else str(each).lower() if isinstance(each, bool) else str(each)
        for each in _set(value)
    )
