# SPDX-License-Identifier: Apache-2.0
"""A switch's OVSDB, through ovsdbapp: the bridge, its ports and settings. The record is in session.py."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ClassVar

from ovsdbapp import exceptions
from ovsdbapp.backend.ovs_idl import connection, idlutils
from ovsdbapp.schema.open_vswitch import impl_idl

from dnsteer.plan.lag_settings import OF_KEY
from dnsteer.spec.errors import some_of
from dnsteer.switch.bridge_rows import Bridge, FlowTable, Interface, Lag
from dnsteer.switch.control_socket import database_name
from dnsteer.switch.lags import read_lag
from dnsteer.switch.rpc import Rpc, hang_up, parse_remote
from dnsteer.switch.settings import SETTINGS, Place
from dnsteer.switch.state import CAPTURE_KEY, OWNER_KEY
from dnsteer.switch.tools import SwitchError, UnavailableError, UnwrittenError

_REFERRED = {
    "Mirror": ["name", "external_ids"],
    "NetFlow": ["targets"],
    "sFlow": ["targets"],
    "IPFIX": ["targets"],
    "Controller": ["target"],
    "QoS": ["type", "other_config", "queues"],
    "Queue": ["other_config"],
}
"""Tables of OVSDB whose rows are named by a column."""
# What is read of the database. The rest stays there: statistics of a thousand ports arrive every few seconds.
_COLUMNS = {
    "Open_vSwitch": ["bridges", "cur_cfg", "next_cfg", "other_config"],
    "Bridge": ["name", "ports", "datapath_type", "fail_mode", "protocols", "flow_tables", "external_ids"],
    "Port": ["name", "interfaces", "external_ids", "bond_mode", "lacp", "other_config", "trunks"],
    "Interface": [
        *("name", "type", "options", "ofport", "error", "ifindex"),
        *("link_state", "lacp_current", "mac", "mac_in_use", "mtu_request"),
    ],
    "Flow_Table": ["name"],
    **_REFERRED,
}
OnChange = Callable[[str, frozenset[str]], None]
"""Takes the table of a row that has changed, and its columns that did; none for a row that is new or gone."""
_NO_MAC = "00:00:00:00:00:00"
_CLOSE = 0.5
_LOOK = 0.005


def _ignore(_table: str, _columns: frozenset[str]) -> None:
    """Nothing is to be done about changes."""


# ovsdbapp logs what it raises as well; without a handler Python would print that on standard error.
logging.getLogger("ovsdbapp").addHandler(logging.NullHandler())


class _Transaction(impl_idl.OvsVsctlTransaction):  # type: ignore[misc]
    """Asks ovs-vswitchd to follow, as ovs-vsctl does, without waiting: the library would only log failures."""

    def do_post_commit(self, txn: Any) -> None:
        """Nothing: Database.wait_for_switch waits."""


class _Api(impl_idl.OvsdbIdl):  # type: ignore[misc]
    """ovsdbapp's commands, on a connection of its own.

    ovsdbapp keeps one connection per class. A second database in a process would get the connection of the first: to
    the wrong server, and after a second of reconnecting.
    """

    # Without the index over names of flow tables: the ovs library fails to give a name to a table that has none then.
    lookup_table: ClassVar = {k: v for k, v in impl_idl.OvsdbIdl.lookup_table.items() if k != "Flow_Table"}

    @property
    def ovsdb_connection(self) -> Any:
        return self._own_connection

    @ovsdb_connection.setter
    def ovsdb_connection(self, value: Any) -> None:
        self._own_connection = value

    def create_transaction(self, check_error: bool = False, log_errors: bool = True, **_: Any) -> Any:
        """A transaction that does not wait for ovs-vswitchd."""
        return _Transaction(self, self.ovsdb_connection, check_error=check_error, log_errors=log_errors)


class _Idl(connection.OvsdbIdl):  # type: ignore[misc]
    """The ovs library's replica of the database, with an orderly end of its connection."""

    def __init__(self, remote: str, helper: Any, on_change: OnChange) -> None:
        super().__init__(remote, helper)
        self._on_change = on_change

    def cooperative_yield(self) -> None:
        """Nothing, where the library lets other threads in after each row of the database's contents."""

    def notify(self, event: Any, row: Any, updates: Any = None) -> None:
        """Called by the library when a row has changed; *updates* has the old values of the columns that did."""
        super().notify(event, row, updates)
        self._on_change(row._table.name, frozenset(updates._data if updates is not None else ()))

    def close(self) -> None:
        """End the connection."""
        rpc = self._session.rpc
        if rpc is not None and rpc.name.startswith(("unix:", "tcp:")):
            hang_up(rpc.stream.socket)
        super().close()


class Database:
    """A connection to one ovsdb-server, to be closed or used as a context manager.

    Whatever waits for the server or the switch does so for at most *timeout* seconds and then raises UnavailableError.
    *on_change* is called by another thread for each row that changes; statistics and the like are not read.
    """

    def __init__(self, remote: str, timeout: float = 10, on_change: OnChange = _ignore) -> None:
        try:
            self.remote = parse_remote(remote)
        except ValueError as err:
            raise SwitchError(f"--db: {err}") from None
        self.timeout = timeout
        helper = idlutils.create_schema_helper(self._schema())
        if self.remote.startswith("ssl:"):
            from dnsteer.switch import tls

            tls.set_up_ovs_library(database_name(self.remote))
        own: dict[str, list[str]] = {place.value: columns_of(place) for place in Place}
        known = helper.schema_json["tables"]
        read = {}  # the part of the schema that is read; the library needs 1.5 ms to parse the rest
        for table, columns in _COLUMNS.items():
            wanted = dict.fromkeys([*columns, *own.get(table, [])])
            found = {column: known[table]["columns"][column] for column in wanted if column in known[table]["columns"]}
            indexes = [index for index in known[table].get("indexes", []) if found.keys() >= set(index)]
            read[table] = {**known[table], "columns": found, "indexes": indexes}
            helper.register_columns(table, list(found))
        helper.schema_json["tables"] = read
        idl = _Idl(self.remote, helper, on_change)
        self._connection = connection.Connection(idl=idl, timeout=timeout)
        try:
            self.api: Any = _Api(self._connection)
        except exceptions.OvsdbAppException:
            idl.close()
            raise UnavailableError(f"{database_name(remote)} does not answer within {timeout:g} s") from None
        if not self.api.tables["Open_vSwitch"].rows:
            self.close()
            raise UnavailableError(
                f"{database_name(remote)} is empty: start ovs-vswitchd on it, or: ovs-vsctl --no-wait init"
            )

    def _schema(self) -> Any:
        rpc = Rpc(self.remote, database_name(self.remote), self.timeout)
        try:
            return rpc.call("get_schema", ["Open_vSwitch"], self.timeout)
        finally:
            rpc.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, without waiting for a server that hangs."""
        # Not its stop(), which waits for ever when a change that was given up stands in the queue.
        self._connection.is_running = False
        with suppress(queue.Full):
            self._connection.txns.put(None, block=False)  # wakes the thread
            self._connection.thread.join(_CLOSE)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Yield the tables while updates are held back."""
        lock = self._connection.lock
        if not lock.acquire(timeout=self.timeout):
            raise UnavailableError(f"{database_name(self.remote)} does not answer within {self.timeout:g} s")
        try:
            yield self.api.tables
        finally:
            lock.release()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Run ovsdbapp commands in one transaction. Raises UnwrittenError with the server's reason."""
        try:
            with self.api.transaction(check_error=True, log_errors=False) as txn:
                yield txn
        except exceptions.TimeoutException:
            raise UnavailableError(
                f"{database_name(self.remote)} did not confirm a change within {self.timeout:g} s: either all of it was "
                "written or nothing"
            ) from None
        except (exceptions.OvsdbAppException, RuntimeError) as err:
            raise UnwrittenError(f"{database_name(self.remote)} refused a change: {err}") from err

    def bridge(self, name: str) -> Bridge | None:
        """Return the bridge of that name, or None."""
        with self._reading() as tables:
            row = next((r for r in tables["Bridge"].rows.values() if r.name == name), None)
            return None if row is None else _bridge(row, _lags(tables, name))

    def lags(self, bridge: str) -> dict[str, Lag]:
        """The bonds by LACP that dnsteer has made beside a bridge, by uplink; also where that is gone."""
        with self._reading() as tables:
            return _lags(tables, bridge)

    def config(self) -> dict[str, str]:
        """The settings of the whole switch (other_config)."""
        with self._reading() as tables:
            return dict(next(iter(tables["Open_vSwitch"].rows.values())).other_config)

    def holder(self, name: str) -> str | None:
        """Return the bridge that has a port or interface of that name."""
        with self._reading() as tables:
            for row in tables["Bridge"].rows.values():
                for port in row.ports:
                    if port.name == name or any(i.name == name for i in port.interfaces):
                        return str(row.name)
        return None

    def wait_for_switch(self) -> None:
        """Wait until ovs-vswitchd has applied all changes so far. Raises UnavailableError."""
        deadline = time.monotonic() + self.timeout
        with self._reading():
            wanted = self.api._ovs.next_cfg
        while True:
            with self._reading():
                if self.api._ovs.cur_cfg >= wanted:
                    return
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"ovs-vswitchd did not confirm a change of OVSDB within {self.timeout:g} s; is it running? With "
                    "a full disk it cannot confirm it there (--timeout waits longer)"
                )
            time.sleep(_LOOK)

    def wait_for_ports(self, bridge: str, names: list[str]) -> None:
        """Wait until the switch has opened the ports. Raises SwitchError with its reason if it cannot."""
        deadline = time.monotonic() + self.timeout
        while True:
            have = self.bridge(bridge)
            ports = have.devices if have else {}
            waiting = [n for n in names if n not in ports or ports[n].ofport is None]
            failed = [ports[n] for n in names if n in ports and (ports[n].ofport or 0) < 0]
            if failed:
                said = "; ".join(f"{p.name}: {p.error or 'no reason given'}" for p in failed)
                raise SwitchError(
                    f"the switch cannot open a port: {said} (the rest would work without that port in the spec)"
                )
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the switch did not open {some_of(waiting)} within {self.timeout:g} s; is ovs-vswitchd running? "
                    f"With a full disk it cannot confirm in OVSDB that it did (--timeout waits longer)"
                )
            time.sleep(_LOOK)


def _lags(tables: Any, bridge: str) -> dict[str, Lag]:
    found = [row for row in tables["Bridge"].rows.values() if row.external_ids.get(OF_KEY) == bridge]
    return {lag.lag.name: lag for lag in (read_lag(row, _interfaces(row)) for row in found)}


def _interfaces(row: Any) -> dict[str, Interface]:
    return {
        iface.name: Interface(
            iface.name,
            port.name,
            iface.type,
            dict(iface.options),
            iface.ofport[0] if iface.ofport else None,
            iface.error[0] if iface.error else "",
            OWNER_KEY in port.external_ids,
            iface.ifindex == [0] and iface.link_state == ["down"] and iface.mac_in_use in ([], [_NO_MAC]),
            {**read_row(port, Place.PORT), **read_row(iface, Place.INTERFACE)},
            iface.mac[0] if iface.mac else "",
            iface.mtu_request[0] if iface.mtu_request else None,
            CAPTURE_KEY in port.external_ids,
        )
        for port in row.ports
        for iface in port.interfaces
    }


def _bridge(row: Any, lags: Mapping[str, Lag]) -> Bridge:
    return Bridge(
        row.name,
        dict(row.external_ids),
        row.datapath_type,
        row.fail_mode[0] if row.fail_mode else "",
        tuple(row.protocols),
        _interfaces(row),
        {
            number: FlowTable(t.uuid, t.name[0] if t.name else "", read_row(t, Place.TABLE))
            for number, t in row.flow_tables.items()
        },
        read_row(row, Place.BRIDGE),
        lags,
    )


_NAMED = ("name", "target", "targets", "type")  # the first of these columns stands for a row that is referred to


def columns_of(place: Place) -> list[str]:
    """The columns of a table of OVSDB that the list needs."""
    found = [s for s in SETTINGS if s.place is place and " " not in s.name]
    names = [s.name.partition(":")[0] for s in found] + [s.burst for s in found if s.burst]
    return list(dict.fromkeys(names))


def read_row(row: Any, place: Place) -> dict[str, str]:
    """The settings of a row of OVSDB as text; empty: not set. What the database has no column for is left out."""
    out: dict[str, str] = {}
    for setting in SETTINGS:
        column, _, key = setting.name.partition(":")
        if setting.place is place and hasattr(row, column):
            value = getattr(row, column)
            out[setting.name] = _text(value.get(key, "") if key else value)
            burst = _text(getattr(row, setting.burst, 0)) if setting.burst else "0"
            if out[setting.name] != setting.default and burst != "0":
                out[setting.name] += f" burst {burst}"
    return out


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(each) for each in value if CAPTURE_KEY not in getattr(each, "external_ids", ()))
    if isinstance(value, (str, int)):
        return str(value)
    named = next((_text(getattr(value, name)) for name in _NAMED if hasattr(value, name)), "set")
    return named + (_rates(value) if hasattr(value, "queues") else "")


def _rates(qos: Any) -> str:
    """The rates of a row of QoS, and of the queue that all packets go to which are put into no other."""
    queue = qos.queues.get(0)
    places = [("", qos.other_config), (" queue 0", queue.other_config if queue is not None else {})]
    return "".join(f"{where} {key} {own[key]}" for where, own in places for key in ("max-rate", "cir") if key in own)
