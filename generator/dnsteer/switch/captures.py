# SPDX-License-Identifier: Apache-2.0
"""The capture of a bridge in OVSDB: two mirrors with a port each, and who captures what until when.

The process that captures holds a lock of the database server's, which goes when the process does, even by kill -9: whoever
gets that lock knows that nobody reads the mirrors any more, and removes them.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from dnsteer.switch.session import Session, lock_name, map_of, mutation
from dnsteer.switch.state import CAPTURE_KEY, BridgeRecord, BusyError
from dnsteer.switch.tools import SwitchError, UnavailableError

DIRECTIONS = ("in", "out")
"""What a mirror copies: packets as they come in by the ports, or as they go out."""
_OVERDUE = timedelta(seconds=15)
"""Time that a capture has for its end. One that still has the lock then was stopped (SIGSTOP), or hangs."""
_LOOK = 0.01
_OLDEST = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Capture:
    """A capture: what, by whom, the number of its process, and until when (ISO 8601)."""

    what: str
    by: str
    process: int
    until: str

    @property
    def ends(self) -> datetime:
        """When it ends; long ago if that cannot be read."""
        try:
            return datetime.fromisoformat(self.until).astimezone(timezone.utc)
        except ValueError:
            return _OLDEST

    @property
    def overdue(self) -> bool:
        """Whether it should have ended."""
        return datetime.now(timezone.utc) > self.ends + _OVERDUE

    @property
    def text(self) -> str:
        until = "an unknown time" if self.ends == _OLDEST else f"{self.ends:%Y-%m-%d %H:%M:%S} UTC"
        return f"capture of {self.what} by {self.by} (process {self.process}) until {until}"


def capture_of(record: BridgeRecord) -> Capture | None:
    """The capture on a bridge, or None. One whose note was damaged is overdue."""
    text = record.ids.get(CAPTURE_KEY)
    if text is None:
        return None
    try:
        value = json.loads(text)
        return Capture(str(value["what"]), str(value["by"]), int(value["process"]), str(value["until"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return Capture("something", "somebody", 0, "")


def capture_warning(record: BridgeRecord) -> str:
    """What verify and status say of the capture on a bridge; empty if there is none."""
    found = capture_of(record)
    if found is None:
        return ""
    if found.overdue:
        return f"{found.text} is overdue, and its mirrors are still there; dnsteer reconcile removes them"
    return f"{found.text} is under way: packets are mirrored"


def remove_left(remote: str, timeout: float, record: BridgeRecord, *, dry_run: bool = False) -> Capture | None:
    """Remove the mirrors and ports of a capture that ended without doing so. Return the capture if it had left any.

    Raises SwitchError or UnavailableError.
    """
    found = capture_of(record)
    if found is None:
        return None
    with CaptureSession(remote, timeout) as session:
        if not session.hold(record.bridge) and not found.overdue:
            return None
        if dry_run:
            return found
        return found if session.end(record.bridge) else None


def mirror_port(bridge: str, direction: str) -> str:
    """The port that a bridge's mirror of *direction* leads to."""
    return f"cap{zlib.crc32(bridge.encode()):08x}{direction[0]}"


@dataclass(frozen=True)
class OutputPort:
    """A port that a mirror leads to, as the switch has opened it. *ifindex* is 0 where it is no network device."""

    name: str
    ifindex: int


class CaptureSession(Session):
    """A connection to OVSDB that makes and removes the mirrors of a capture. Raises what Session does."""

    def __enter__(self) -> CaptureSession:
        return self

    def hold(self, bridge: str) -> bool:
        """Take the lock of captures, until this connection ends, if it is free. Return whether it was."""
        name = lock_name("capture_", bridge)
        if not self._rpc.call("lock", [name], self.timeout)["locked"]:
            self._rpc.call("unlock", [name], self.timeout)
            return False
        self._lock = name
        return True

    def hold_or_refuse(self, bridge: str, patience: float = 1) -> None:
        """Take the lock, and remove what a capture has left. Raises BusyError when another capture is under way."""
        deadline = time.monotonic() + patience  # reconcile and the agent have the lock for a moment
        while not self.hold(bridge):
            found = capture_of(self.record_of(bridge))
            if time.monotonic() > deadline:
                other = f"{found.text} is under way" if found else "another capture begins or ends"
                raise BusyError(f"bridge {bridge}: {other}; there can be one at a time")
            time.sleep(_LOOK)
        if capture_of(self.record_of(bridge)) is not None:
            self.end(bridge)

    def facts(self) -> tuple[Collection[str], Mapping[str, str]]:
        """The types of interfaces that the switch knows, and its other_config."""
        columns = ["iface_types", "other_config"]
        (found,) = self._transact({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns})
        row = found["rows"][0]
        return _set(row["iface_types"]), dict(row["other_config"][1])

    def mirror(
        self,
        record: BridgeRecord,
        capture: Capture,
        ports: Sequence[str],
        kind: str,
        options: Mapping[str, str],
        snaplen: int | None = None,
    ) -> None:
        """Note the capture on the bridge, and mirror what comes in and goes out by *ports*, shortened to *snaplen* bytes.

        The mirrors lead to ports of the interface type *kind*, with *options* by direction. All of it is one transaction:
        Open vSwitch 3.1.0 changes the datapath flows that it has for a new port, but not for a mirror.
        """
        rows = self._ports(record, ports)
        ops: list[dict[str, Any]] = []
        for direction, column in zip(DIRECTIONS, ("select_src_port", "select_dst_port"), strict=True):
            name, interface, port = mirror_port(record.bridge, direction), f"i_{direction}", f"p_{direction}"
            # Internal ports get the smallest MTU of the bridge, which would drop the copies of longer frames.
            row: dict[str, Any] = {"name": name, "type": kind, "mtu_request": 65_000}
            if kind != "internal":
                row = {"name": name, "type": kind, "options": map_of({"stream": options[direction]})}
            ops.append({"op": "insert", "table": "Interface", "row": row, "uuid-name": interface})
            row = {"name": name, "interfaces": ["named-uuid", interface], "external_ids": map_of({CAPTURE_KEY: "port"})}
            ops.append({"op": "insert", "table": "Port", "row": row, "uuid-name": port})
            row = {
                "name": f"dnsteer-capture-{direction}",
                column: ["set", rows],
                "output_port": ["named-uuid", port],
                "external_ids": map_of({CAPTURE_KEY: "mirror"}),
            }
            if snaplen is not None:
                row["snaplen"] = snaplen
            ops.append({"op": "insert", "table": "Mirror", "row": row, "uuid-name": f"m_{direction}"})

        def both(letter: str) -> list[Any]:
            return ["set", [["named-uuid", f"{letter}_{direction}"] for direction in DIRECTIONS]]

        note = map_of({CAPTURE_KEY: json.dumps(asdict(capture))})
        change = [["ports", "insert", both("p")], ["mirrors", "insert", both("m")], ["external_ids", "insert", note]]
        self._change(*ops, mutation("Bridge", record.uuid, *change))

    def _ports(self, record: BridgeRecord, ports: Sequence[str]) -> list[Any]:
        """The rows of ports. Raises SwitchError where there is none."""
        picked = [
            {"op": "select", "table": "Port", "where": [["name", "==", name]], "columns": ["_uuid"]} for name in ports
        ]
        found = dict(zip(ports, (reply["rows"] for reply in self._transact(*picked)), strict=True))
        lost = [name for name, rows in found.items() if not rows]
        if lost:
            raise SwitchError(f"bridge {record.bridge} has no port {', '.join(lost)}; see: dnsteer verify")
        return [rows[0]["_uuid"] for rows in found.values()]

    def wait_for_ports(self, bridge: str) -> list[OutputPort]:
        """Wait until the switch has opened the ports. Raises SwitchError with its reason if it cannot."""
        deadline = time.monotonic() + self.timeout
        while True:
            rows = [self._interface(mirror_port(bridge, direction)) for direction in DIRECTIONS]
            for row in rows:
                if row.get("error"):
                    raise SwitchError(f"the switch cannot open the port {row['name']} of the mirror: {row['error']}")
            if all(row.get("ofport", 0) > 0 for row in rows):
                return [OutputPort(row["name"], row.get("ifindex") or 0) for row in rows]
            if time.monotonic() > deadline:
                raise UnavailableError(f"the switch did not open the ports of the mirror within {self.timeout:g} s")
            time.sleep(_LOOK)

    def _interface(self, name: str) -> dict[str, Any]:
        columns = ["name", "ofport", "error", "ifindex"]
        where = [["name", "==", name]]
        (found,) = self._transact({"op": "select", "table": "Interface", "where": where, "columns": columns})
        row = found["rows"][0] if found["rows"] else {}
        return {
            k: (v[1][0] if v[1] else None) if isinstance(v, list) else v for k, v in row.items() if v != ["set", []]
        }

    def end(self, bridge: str) -> bool:
        """Remove the mirrors and ports of the bridge's capture, and its note. Return whether there were any."""
        marked = [
            {
                "op": "select",
                "table": table,
                "columns": ["_uuid"],
                "where": [["external_ids", "includes", map_of({CAPTURE_KEY: kind})]],
            }
            for table, kind in (("Port", "port"), ("Mirror", "mirror"))
        ]
        columns = ["_uuid", "ports", "mirrors", "external_ids"]
        where = [["name", "==", bridge]]
        found, *rest = self._transact({"op": "select", "table": "Bridge", "where": where, "columns": columns}, *marked)
        if not found["rows"]:
            return False
        row = found["rows"][0]
        ports, mirrors = ([r["_uuid"] for r in reply["rows"]] for reply in rest)
        there = any(p in _set(row["ports"]) for p in ports) or any(m in _set(row["mirrors"]) for m in mirrors)
        if not there and CAPTURE_KEY not in dict(row["external_ids"][1]):
            return False
        self._change(
            mutation(
                "Bridge",
                row["_uuid"][1],
                ["mirrors", "delete", ["set", mirrors]],
                ["ports", "delete", ["set", ports]],
                ["external_ids", "delete", ["set", [CAPTURE_KEY]]],
            )
        )
        return True

    def wait_for_switch(self, timeout: float) -> bool:
        """Wait until the switch has followed all changes. Return whether it has within *timeout* seconds."""
        columns = ["cur_cfg", "next_cfg"]
        deadline, wanted = time.monotonic() + timeout, None
        while True:
            (found,) = self._transact({"op": "select", "table": "Open_vSwitch", "where": [], "columns": columns})
            row = found["rows"][0]
            wanted = row["next_cfg"] if wanted is None else wanted
            if row["cur_cfg"] >= wanted:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)

    def _change(self, *operations: dict[str, Any]) -> None:
        """Change the database, and ask the switch to say when it has followed."""
        asks = {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]}
        if any(result.get("count") == 0 for result in self._transact(*operations, asks)):
            raise SwitchError("the bridge was removed in the meantime")


def _set(value: Any) -> list[Any]:
    """A set of OVSDB's as a list; one of a single element is not written as a set."""
    return list(value[1]) if isinstance(value, list) and value[:1] == ["set"] else [value]
