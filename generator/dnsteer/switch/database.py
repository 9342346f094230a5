"""A switch's OVSDB, through ovsdbapp: the bridge, its ports, and the record of what was applied."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ovsdbapp.backend.ovs_idl import connection
from ovsdbapp.schema.open_vswitch import impl_idl

from dnsteer.switch.tools import SwitchError, Unavailable

OWNER_KEY = "dnsteer"
"""external_ids key that marks a bridge or port as ours; its value is the kind."""
DIGEST_KEY, VERSION_KEY, TIME_KEY, NAME_KEY = "dnsteer-spec", "dnsteer-version", "dnsteer-applied", "dnsteer-switch"
DEFAULT_DB = "unix:/var/run/openvswitch/db.sock"


@dataclass(frozen=True)
class Interface:
    """An interface as OVSDB has it. *ofport* is None until the switch opened it, -1 when it could not."""

    name: str
    type: str
    options: Mapping[str, str]
    ofport: int | None
    error: str
    ours: bool


@dataclass(frozen=True)
class Bridge:
    """A bridge as OVSDB has it."""

    name: str
    external_ids: Mapping[str, str]
    datapath_type: str
    fail_mode: str
    ports: Mapping[str, Interface]
    table_names: Mapping[int, str]

    @property
    def ours(self) -> bool:
        """Whether dnsteer made it or was told to adopt it."""
        return OWNER_KEY in self.external_ids


class Database:
    """A connection to one ovsdb-server. Raises Unavailable when it cannot be reached in time."""

    def __init__(self, remote: str, timeout: float = 10) -> None:
        self.remote = remote
        self.timeout = timeout
        kind, _, where = remote.partition(":")
        if kind == "unix" and not Path(where).is_socket():
            raise Unavailable(f"no OVSDB socket at {where}; is ovsdb-server running? (--db names another one)")
        try:
            helper = connection.OvsdbIdl.from_server(remote, "Open_vSwitch")
            self._connection = connection.Connection(idl=helper, timeout=timeout)
            self.api: Any = impl_idl.OvsdbIdl(self._connection)
        except Exception as err:  # ovsdbapp raises bare exceptions of several kinds
            raise Unavailable(f"OVSDB at {remote} does not answer within {timeout:g} s ({err})") from err

    def close(self) -> None:
        """End the connection."""
        self._connection.stop(timeout=2)

    def transaction(self) -> Any:
        """A transaction that raises when it fails; a context manager."""
        return self.api.transaction(check_error=True)

    def ovs_version(self) -> str:
        """Version of the running switch, as OVSDB records it; empty when no ovs-vswitchd ever ran on it."""
        value = self.api.db_get("Open_vSwitch", ".", "ovs_version").execute(check_error=True)
        return str(value) if value else ""

    def bridge(self, name: str) -> Bridge | None:
        """The bridge of that name."""
        tables = self.api.idl.tables
        row = next((r for r in tables["Bridge"].rows.values() if r.name == name), None)
        if row is None:
            return None
        ports = {
            iface.name: Interface(
                iface.name,
                iface.type,
                dict(iface.options),
                iface.ofport[0] if iface.ofport else None,
                iface.error[0] if iface.error else "",
                OWNER_KEY in port.external_ids,
            )
            for port in row.ports
            for iface in port.interfaces
        }
        return Bridge(
            row.name,
            dict(row.external_ids),
            row.datapath_type,
            row.fail_mode[0] if row.fail_mode else "",
            ports,
            {number: t.name[0] for number, t in row.flow_tables.items() if t.name},
        )

    def owner_of_port(self, port: str) -> str | None:
        """The bridge that has a port of that name."""
        for row in self.api.idl.tables["Bridge"].rows.values():
            if any(p.name == port for p in row.ports):
                return str(row.name)
        return None

    def wait_for_ports(self, bridge: str, names: list[str]) -> None:
        """Wait until the switch opened the ports. Raises SwitchError with its reason when it could not."""
        deadline = time.monotonic() + self.timeout
        while True:
            have = self.bridge(bridge)
            ports = have.ports if have else {}
            waiting = [n for n in names if n not in ports or ports[n].ofport is None]
            failed = [ports[n] for n in names if n in ports and (ports[n].ofport or 0) < 0]
            if failed:
                said = "; ".join(f"{p.name}: {p.error or 'could not be opened'}" for p in failed)
                raise SwitchError(f"the switch cannot use a port of the spec: {said}")
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the switch did not open {', '.join(waiting)} within {self.timeout:g} s; is ovs-vswitchd running?"
                )
            time.sleep(0.01)
