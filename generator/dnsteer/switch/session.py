# SPDX-License-Identifier: Apache-2.0
"""The record of a switch in its OVSDB: the last states with their specs, the overlay, a pending change, and the lock.

What is small stands in the bridge's external_ids. The specs stand in rows of Flow_Table that belong to the bridge, for
OpenFlow tables that have no flows: they come and go with the bridge, are written with it in one transaction, and do not
fill the screen of `ovs-vsctl list bridge`. All is read and written by plain JSON-RPC, since the quick verbs have no time
for a copy of the database.

A change is written down before it happens (`begin`) and confirmed afterwards (`commit`), both to the disk itself. The
tables carry a number that tells which of the two they are, so that a change that was cut off is ended or taken back by the
next one. A write that is refused changes nothing of the record: a change that was begun stays so until one can be written.

A record in a format that this version does not know is never written, but for the switch's role, a key of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from dnsteer import __version__
from dnsteer.slots.maintenance import Overlay
from dnsteer.slots.membership import Membership
from dnsteer.switch.control_socket import database_name
from dnsteer.switch.rpc import Rpc, parse_remote
from dnsteer.switch.state import (
    DIGEST_KEY,
    EXTENSION_KEY,
    FORMAT_KEY,
    NAME_KEY,
    OWNER_KEY,
    PENDING_KEY,
    RECORD_FORMAT,
    REMOVED,
    ROLE_KEY,
    STATE_KEY,
    TIME_KEY,
    VERSION_KEY,
    AppliedState,
    BridgeRecord,
    BusyError,
    DamagedError,
    Pending,
    RecordFormatError,
    is_number,
    overlay_ids,
)
from dnsteer.switch.tools import SwitchError, UnwrittenError

KEPT = 10
"""States that are kept, with the one that is applied."""
_FIRST, _RING = 240, KEPT + 2
"""OpenFlow tables whose rows hold the states. One more than is kept is being written. Each state has the
place after that of the one before; but lists that are read again and again have one place."""
_DB = "Open_vSwitch"
_SYSTEM_ID = "system-id"
"""external_ids key of the table Open_vSwitch: what Open vSwitch itself calls the machine."""
_DURABLY = {"op": "commit", "durable": True}
"""Ends a transaction that is on the disk before it is answered, so that a disk that is full refuses it, and not later."""
_LOOK = 0.02


class NoBridgeError(SwitchError):
    """No bridge of this switch has a spec of dnsteer; the message says so."""


class Session:
    """A connection to the OVSDB of a switch. *timeout* is how long an answer may take, in seconds.

    Raises UnavailableError, PermissionError, or SwitchError with the server's reason.
    """

    def __init__(self, remote: str, timeout: float = 10) -> None:
        try:
            self.remote = parse_remote(remote)
        except ValueError as err:
            raise SwitchError(f"--db: {err}") from None
        self.timeout = timeout
        self._rpc = Rpc(self.remote, database_name(remote), timeout)
        self._lock = ""

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and with it the lock."""
        self._rpc.close()

    def bridges(self) -> list[str]:
        """Names of the bridges that carry dnsteer's mark."""
        where = [["external_ids", "includes", ["map", [[OWNER_KEY, "bridge"]]]]]
        (rows,) = self._transact({"op": "select", "table": "Bridge", "where": where, "columns": ["name"]})
        return sorted(row["name"] for row in rows["rows"])

    def record_of(self, named: str | None) -> BridgeRecord:
        """The record of the bridge of that name, or of the only one that is dnsteer's. Raises SwitchError."""
        if named is None:
            found = self.bridges()
            if len(found) != 1:
                what = f"several bridges are dnsteer's: {', '.join(found)}" if found else "no bridge here is dnsteer's"
                raise (SwitchError if found else NoBridgeError)(
                    f"{what}; {'name one with --bridge' if found else 'apply a spec first'}"
                )
            named = found[0]
        record = self.record(named)
        if record is None or OWNER_KEY not in record.ids:
            what = "is not dnsteer's" if record else "does not exist"
            raise NoBridgeError(f"bridge {named} {what}; apply a spec first")
        return record

    def record(self, bridge: str) -> BridgeRecord | None:
        """The bridge's record; None when there is no bridge of that name."""
        columns = ["_uuid", "_version", "external_ids", "flow_tables"]
        found, system = self._transact(
            {"op": "select", "table": "Bridge", "where": [["name", "==", bridge]], "columns": columns},
            {
                "op": "select",
                "table": "Open_vSwitch",
                "where": [],
                "columns": ["_uuid", "external_ids", "other_config"],
            },
        )
        if not found["rows"]:
            return None
        row, top = found["rows"][0], system["rows"][0]
        return BridgeRecord(
            uuid=row["_uuid"][1],
            version=row["_version"][1],
            bridge=bridge,
            ids=dict(row["external_ids"][1]),
            flow_tables={number: ref[1] for number, ref in row["flow_tables"][1]},
            system=top["_uuid"][1],
            name=dict(top["external_ids"][1]).get(NAME_KEY, ""),
            waits=dict(top["other_config"][1]).get("flow-restore-wait") == "true",
            system_id=dict(top["external_ids"][1]).get(_SYSTEM_ID, ""),
        )

    def switch(self) -> tuple[str, str]:
        """Return the UUID of the switch's database row and its name, each empty if there is none."""
        columns = ["_uuid", "external_ids"]
        (system,) = self._transact({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns})
        if not system["rows"]:
            return "", ""
        row = system["rows"][0]
        return row["_uuid"][1], dict(row["external_ids"][1]).get(NAME_KEY, "")

    def waits(self) -> bool:
        """Whether ovs-vswitchd waits for its flows before it forwards (flow-restore-wait)."""
        columns = ["other_config"]
        (system,) = self._transact({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns})
        return bool(system["rows"]) and dict(system["rows"][0]["other_config"][1]).get("flow-restore-wait") == "true"

    def states(self, record: BridgeRecord) -> list[AppliedState | DamagedError]:
        """The recorded states, newest first, at most KEPT. One that is damaged is returned as its error."""
        rows = {n: ref for n, ref in record.flow_tables.items() if _FIRST <= n < _FIRST + _RING}
        replies = self._transact(*(_select_row(ref) for ref in rows.values())) if rows else []
        out: list[tuple[int, AppliedState | DamagedError]] = []
        for number, reply in zip(rows, replies, strict=True):
            ids = _ids_of(reply)
            text = ids.get(STATE_KEY, "")
            try:
                state = AppliedState.from_ids(
                    ids, f"state {text or '?'} in the record (Flow_Table {rows[number]} in OVSDB)"
                )
            except DamagedError as err:
                err.number = int(text) if is_number(text) else 0
                out.append((err.number, err))
            else:
                out.append((state.number, state))
        newest = record.number
        return [state for n, state in sorted(out, key=lambda item: -item[0]) if n <= newest][:KEPT]

    def state(self, record: BridgeRecord, number: int) -> AppliedState:
        """One recorded state. Raises SwitchError when there is none of that number, DamagedError when it is damaged."""
        newest = record.number + (PENDING_KEY in record.ids)  # else what was cut off would look like a state
        ref = self.row_of(record, number) if number <= newest else ""
        if ref:
            (reply,) = self._transact(_select_row(ref))
            return AppliedState.from_ids(_ids_of(reply), f"state {number} in the record (Flow_Table {ref} in OVSDB)")
        if not record.number:
            raise SwitchError(f"nothing was applied to bridge {record.bridge} by dnsteer; apply a spec")
        if number == record.number:
            raise DamagedError(
                f"state {number}, which is applied, is not in the record of bridge {record.bridge}: its flow_tables "
                "in OVSDB were changed by hand; apply the spec to record a new state"
            )
        raise SwitchError(f"there is no state {number} in the record of bridge {record.bridge}; see: dnsteer history")

    def row_of(self, record: BridgeRecord, number: int) -> str:
        """Return the UUID of the row that has a state; empty if there is none."""
        return record.flow_tables.get(self._place_of(record, number), "")

    def _place_of(self, record: BridgeRecord, number: int) -> int:
        """The place of a state in the ring, 0 if it has none."""
        places = [n for n in record.flow_tables if _FIRST <= n < _FIRST + _RING]
        has = ["external_ids", "includes", map_of({STATE_KEY: str(number)})]
        replies = self._transact(*(_select_row(record.flow_tables[n], has, columns=["_uuid"]) for n in places))
        return next((n for n, reply in zip(places, replies, strict=True) if reply["rows"]), 0)

    def _next_place(self, record: BridgeRecord) -> int:
        """The place of a new state: the one after that of the state that is applied."""
        return _after(self._place_of(record, record.number) or _FIRST + record.number % _RING)

    def pools(self, record: BridgeRecord | None) -> tuple[Membership, ...]:
        """Return the pools as last applied; none if there is no state or it cannot be read."""
        try:
            return self.state(record, record.number).members if record is not None and record.number else ()
        except RecordFormatError:
            raise
        except DamagedError:
            return ()

    def lock(self, bridge: str) -> None:
        """Take the exclusive lock of the bridge, until this connection ends. Raises SwitchError when another one has it.

        It is a lock of the server's, so that it holds between machines, and goes when its holder is killed.
        """
        name = lock_name("", bridge)
        deadline = time.monotonic() + self.timeout
        # Not waiting in the server's queue, which would tell by a message of its own: asking again is simpler.
        while not self._rpc.call("lock", [name], self.timeout)["locked"]:
            self._rpc.call("unlock", [name], self.timeout)
            if time.monotonic() > deadline:
                raise BusyError(f"another dnsteer is changing bridge {bridge}; try again when it has finished")
            time.sleep(_LOOK)
        self._lock = name

    def claim(self, bridge: str) -> bool:
        """Take the lock that the agent of a bridge has, until this connection ends, if it is free. Return whether it was."""
        name = lock_name("agent_", bridge)
        if self._rpc.call("lock", [name], self.timeout)["locked"]:
            return True
        self._rpc.call("unlock", [name], self.timeout)
        return False

    def is_claimed(self, bridge: str) -> bool:
        """Whether an agent has the claim of a bridge. For the moment of asking nobody else can take it."""
        free = self.claim(bridge)
        if free:
            self._rpc.call("unlock", [lock_name("agent_", bridge)], self.timeout)
        return not free

    def unlock(self) -> None:
        """Release the lock."""
        self._rpc.call("unlock", [self._lock], self.timeout)
        self._lock = ""

    def begin(self, record: BridgeRecord, state: AppliedState, overlay: Overlay, role: str = "") -> Pending:
        """Record a pending change, and the *role* of a switch that gets its first one. A *state* with number 0 is new, and
        gets the next number."""
        ops: list[dict[str, Any]] = []
        if not state.number:
            state = replace(state, number=self._next(record))
            place = self._next_place(record)
            row = {"external_ids": map_of(state.to_ids())}
            ops = [
                {"op": "insert", "table": "Flow_Table", "row": row, "uuid-name": "state"},
                mutation(
                    "Bridge",
                    record.uuid,
                    ["flow_tables", "delete", ["set", [place]]],
                    ["flow_tables", "insert", ["map", [[place, ["named-uuid", "state"]]]]],
                ),
            ]
        pending = Pending(state.number, state.digest, overlay)
        ids = {PENDING_KEY: pending.to_json(), **({ROLE_KEY: role} if role else {})}
        self._write(record, *ops, set_ids(record.uuid, ids), _DURABLY)
        return pending

    def commit(
        self,
        record: BridgeRecord,
        pending: Pending,
        state: AppliedState | None = None,
        *,
        name: str = "",
        more_to_do: bool = False,
    ) -> None:
        """Record a change as done. *state* is given if the state changes, *name* if the switch has one.

        With *more_to_do* the tables are changed, but something else is not yet: the change stays pending.
        """
        ids = overlay_ids(pending.overlay)
        if state is not None:
            ids |= {
                STATE_KEY: str(pending.number),
                DIGEST_KEY: state.digest,
                VERSION_KEY: state.version,
                TIME_KEY: state.time,
                EXTENSION_KEY: "yes" if state.extended else "",
            }
        ops = [set_ids(record.uuid, {**ids, PENDING_KEY: pending.to_json() if more_to_do else ""})]
        if state is not None and pending.number != record.number:
            ops.append(self._put_in_place(record, pending.number, state))
        if name and name != record.name:
            named = (
                ["external_ids", "delete", ["set", [NAME_KEY]]],
                ["external_ids", "insert", map_of({NAME_KEY: name})],
            )
            ops.append(mutation("Open_vSwitch", record.system, *named))
        self._write(record, *ops, _DURABLY)

    def take_back(self, record: BridgeRecord) -> None:
        """Drop the pending change of *record*, and the new state that it would have led to."""
        pending, ops = record.pending, []
        if pending is not None and pending.number > record.number:
            ops.append(mutation("Bridge", record.uuid, ["flow_tables", "delete", ["set", [self._next_place(record)]]]))
        first = STATE_KEY not in record.ids  # so that the bridge may be no longer dnsteer's
        gone = {PENDING_KEY: "", **({FORMAT_KEY: ""} if first else {})}
        self._write(record, *ops, set_ids(record.uuid, gone))

    def put_overlay(self, record: BridgeRecord, overlay: Overlay) -> None:
        """Record an overlay that the tables have already. A pending change ends with it. Raises UnwrittenError."""
        self._write(record, set_ids(record.uuid, {**overlay_ids(overlay), PENDING_KEY: ""}), _DURABLY)

    def set_restore_wait(self, wait: bool) -> None:
        """Set or clear flow-restore-wait: whether a starting ovs-vswitchd waits for its flows before it forwards."""
        key = "flow-restore-wait"
        changes: list[list[Any]] = [["other_config", "delete", ["set", [key]]]]
        if wait:
            changes.append(["other_config", "insert", map_of({key: "true"})])
        self._transact({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": changes})

    def _put_in_place(self, record: BridgeRecord, number: int, state: AppliedState) -> dict[str, Any]:
        """The operation that gives the new state *number* its place, and drops what is not kept any more.

        Lists that are read again take the place of those that were read before: else they would push out what people did.
        """
        place = self._next_place(record)
        if state.rereads in (0, record.number):
            stale = [_after(place), _after(_after(place))]
            return mutation("Bridge", record.uuid, ["flow_tables", "delete", ["set", stale]])
        now = self.record(record.bridge) or record  # with the row of the new state
        own = self._place_of(now, record.number)
        moved = [own or place, ["uuid", self.row_of(now, number)]]
        return mutation(
            "Bridge",
            record.uuid,
            ["flow_tables", "delete", ["set", [own, place]]],
            ["flow_tables", "insert", ["map", [moved]]],
        )

    def _next(self, record: BridgeRecord) -> int:
        pending = record.pending
        newest = record.number or self._newest(record)
        return max(newest, pending.number if pending else 0) + 1

    def _newest(self, record: BridgeRecord) -> int:
        """Return the highest number of a recorded state, for a bridge that has lost its current one."""
        rows = [ref for n, ref in record.flow_tables.items() if _FIRST <= n < _FIRST + _RING]
        replies = self._transact(*(_select_row(ref) for ref in rows)) if rows else []
        found = 0
        for reply in replies:
            try:
                number = AppliedState.from_ids(_ids_of(reply), "").number
            except DamagedError as err:
                number = err.number
            found = max(found, number)
        return found

    def _write(self, record: BridgeRecord, *operations: dict[str, Any], any_format: bool = False) -> None:
        """Run a transaction that changes the bridge's row, and says in which format.

        With *any_format* it is for a key that is not of the format. Raises also RecordFormatError, and SwitchError when
        there is no such row.
        """
        if not any_format:
            record.refuse_other_format()
            if FORMAT_KEY not in record.ids:
                operations = (set_ids(record.uuid, {FORMAT_KEY: f"{RECORD_FORMAT} {__version__}"}), *operations)
        if any(result.get("count") == 0 for result in self._transact(*operations)):
            raise SwitchError(REMOVED.format(record.bridge))

    def _transact(self, *operations: dict[str, Any]) -> list[Any]:
        """Run one transaction, which fails if the lock that was taken is lost.

        Raises UnwrittenError with the server's reason, or UnavailableError.
        """
        guard = [{"op": "assert", "lock": self._lock}] if self._lock else []
        results = self._rpc.call("transact", [_DB, *guard, *operations], self.timeout)
        for result in results:
            if isinstance(result, dict) and result.get("error"):
                why = ": ".join(str(result[k]) for k in ("error", "details", "io-error") if result.get(k))
                raise UnwrittenError(f"{database_name(self.remote)} refused a change: {why}")
        return list(results[len(guard) : len(guard) + len(operations)])


def lock_name(kind: str, bridge: str) -> str:
    """The name of a lock of a bridge's."""
    return f"dnsteer_{kind}{bridge.encode().hex()}"  # only letters, digits and _ are allowed


def _after(place: int) -> int:
    """The place after one in the ring."""
    return _FIRST + (place - _FIRST + 1) % _RING


def map_of(ids: Mapping[str, str]) -> list[Any]:
    """A map as OVSDB takes it."""
    return ["map", [[k, v] for k, v in ids.items()]]


def _select_row(ref: str, *where: list[Any], columns: Sequence[str] = ("external_ids",)) -> dict[str, Any]:
    clauses = [["_uuid", "==", ["uuid", ref]], *where]
    return {"op": "select", "table": "Flow_Table", "where": clauses, "columns": list(columns)}


def _ids_of(reply: dict[str, Any]) -> dict[str, str]:
    return dict(reply["rows"][0]["external_ids"][1]) if reply["rows"] else {}


def mutation(table: str, uuid: str, *mutations: list[Any]) -> dict[str, Any]:
    """An operation that changes one row."""
    return {"op": "mutate", "table": table, "where": [["_uuid", "==", ["uuid", uuid]]], "mutations": list(mutations)}


def set_ids(uuid: str, ids: Mapping[str, str]) -> dict[str, Any]:
    """Set external_ids of the bridge; an empty value takes its key away."""
    kept = {k: v for k, v in ids.items() if v}
    return mutation(
        "Bridge", uuid, ["external_ids", "delete", ["set", list(ids)]], ["external_ids", "insert", map_of(kept)]
    )
