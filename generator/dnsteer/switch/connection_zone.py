# SPDX-License-Identifier: Apache-2.0
"""The zone of the connection tracker that keeps connections: its time-outs in OVSDB, and how many entries it may have.

The limit is ovs-vswitchd's alone, which forgets it with the datapath; time-outs are in OVSDB and stay. A connection of which
one direction is seen stays in the state of its first packet, so that the time-outs of that state are the idle time. One of
which both are seen is established, or closed by one side (`tcp_fin_wait`).

The former is so only while the tracker checks no sequence numbers: without those of the answers it takes what a client sends
for beyond the window, and such packets do not begin the time-out anew (measured with Open vSwitch 3.1.0: a connection in use
was forgotten when the time-out after its first two packets was over). The switch is one for all zones of the datapath.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dnsteer.plan.tracked_zone import OWNER, ZoneSettings
from dnsteer.spec.model.part import show_duration
from dnsteer.switch.control_socket import database_name
from dnsteer.switch.datapaths import USERSPACE, actual_name
from dnsteer.switch.rpc import Rpc
from dnsteer.switch.tools import NotPermittedError, SwitchError, UnavailableError
from dnsteer.switch.unixctl import Unixctl, control_socket

_LIMIT = re.compile(r"zone=(\d+),limit=(\d+)")
_PATIENCE = 5.0


@dataclass(frozen=True)
class FoundZone:
    """What a switch has: the limit of entries (0: none) and the time-outs of the *wanted* zone, and zones that are *left*.

    *limit* is None where it cannot be read, for the reason *why*. *checks*: the tracker checks sequence numbers.
    """

    wanted: ZoneSettings | None
    limit: int | None = None
    timeouts: dict[str, int] = field(default_factory=dict)
    left: tuple[int, ...] = ()
    why: str = ""
    checks: bool = False

    @property
    def _wrong(self) -> Iterator[str]:
        want = self.wanted
        if want is not None:
            if self.limit not in (None, want.connections):
                yield (
                    f"limit {self.limit:,} -> {want.connections:,} connections"
                    if self.limit
                    else (f"limit none -> {want.connections:,} connections")
                )
            if self.timeouts != want.timeouts:
                yield f"idle time -> {show_duration(want.idle)}"
            if self.checks:
                yield "checks of sequence numbers -> off"

    @property
    def differs(self) -> bool:
        """Whether something is to be set or removed."""
        return bool(self.left) or any(self._wrong)

    @property
    def todo(self) -> str:
        """What must change, in words."""
        zone = self.wanted.zone if self.wanted is not None else 0
        parts = [f"zone {zone} of the connection tracker: {', '.join(self._wrong)}"] if any(self._wrong) else []
        parts += [f"zone {number} of the connection tracker: time-outs and limit are removed" for number in self.left]
        return "; ".join(parts)

    @property
    def warning(self) -> str:
        """The warning that it cannot be read or set, and what to do; empty if it can."""
        if not self.why or self.wanted is None:
            return ""
        want = self.wanted
        return (
            f"zone {want.zone} of the connection tracker should have at most {want.connections:,} connections, and an idle "
            f"time of {show_duration(want.idle)}; it is not known whether it has ({self.why}); run on the switch itself: "
            "dnsteer restore"
        )


class ConnectionZone:
    """The tracker of the ovs-vswitchd that uses the OVSDB at *remote*, as far as it is for one bridge.

    *kind* is the bridge's datapath type. Each answer may take *timeout* seconds, that of ovs-vswitchd at most 5.
    """

    def __init__(self, remote: str, timeout: float, bridge: str, kind: str) -> None:
        self._remote, self._timeout = remote, timeout
        self._bridge, self._kind = bridge, kind or "system"

    def compare(self, wanted: ZoneSettings | None) -> FoundZone:
        """Return what there is beside what is *wanted*; None: no zone at all. Raises nothing."""
        try:
            zones = self._zones()
        except SwitchError as err:
            return FoundZone(wanted, why=str(err))
        number = wanted.zone if wanted is not None else 0
        left = tuple(n for n, (owner, _) in zones.items() if owner == self._bridge and n != number)
        if wanted is None:
            return FoundZone(None, left=left)
        timeouts = zones[number][1] if number in zones else {}
        try:
            return FoundZone(wanted, self._limit(number), timeouts, left, checks=self._checks())
        except SwitchError as err:
            return FoundZone(wanted, None, timeouts, left, str(err))

    def ensure(self, wanted: ZoneSettings | None) -> FoundZone:
        """Set what differs. Returns what was there, with *why* if it could not be set. Raises nothing."""
        was = self.compare(wanted)
        if not was.differs:
            return was
        try:
            if was.left or (wanted is not None and was.timeouts != wanted.timeouts):
                self._write(wanted, was.left)
            for number in was.left:
                self._appctl("dpctl/ct-del-limits", f"zone={number}")
            if was.checks or (wanted is None and was.left):
                self._appctl("dpctl/ct-disable-tcp-seq-chk" if was.checks else "dpctl/ct-enable-tcp-seq-chk")
            if wanted is not None and was.limit not in (None, wanted.connections):
                self._appctl("dpctl/ct-set-limits", f"zone={wanted.zone},limit={wanted.connections}")
        except SwitchError as err:
            return FoundZone(wanted, was.limit, was.timeouts, was.left, str(err), was.checks)
        return was

    def _limit(self, zone: int) -> int:
        found = dict(_LIMIT.findall(self._appctl("dpctl/ct-get-limits", f"zone={zone}")))
        if str(zone) not in found:
            raise SwitchError(f"dpctl/ct-get-limits does not report zone {zone}")
        return int(found[str(zone)])

    def _checks(self) -> bool:
        return "enabled" in self._appctl("dpctl/ct-get-tcp-seq-chk")

    def _appctl(self, command: str, *arguments: str) -> str:
        if not self._remote.startswith("unix:"):
            raise UnavailableError(f"ovs-vswitchd's control socket cannot be reached through {self._remote}")
        expected = "netdev@ovs-netdev" if self._kind in USERSPACE else f"{self._kind}@ovs-{self._kind}"
        try:
            with Unixctl(control_socket(self._remote), min(self._timeout, _PATIENCE)) as control:
                return control.run(command, actual_name(control, expected), *arguments)
        except PermissionError as err:
            raise NotPermittedError(f"{err.filename}: {err.strerror}; run as root or as the owner") from None

    def _transact(self, *operations: dict[str, Any]) -> list[Any]:
        rpc = Rpc(self._remote, database_name(self._remote), self._timeout)
        try:
            found: list[Any] = rpc.call("transact", ["Open_vSwitch", *operations], self._timeout)
        finally:
            rpc.close()
        for result in found:
            if result and "error" in result:
                raise SwitchError(f"{database_name(self._remote)} refused a change: {result.get('details', result)}")
        return found

    def _read(self) -> tuple[str, str, dict[int, str], Callable[[str], tuple[str, dict[str, int]]]]:
        """The rows of the switch and of the datapath (empty: none), its zones with their rows, and what a row has."""
        tables = {
            "Open_vSwitch": ["_uuid", "datapaths"],
            "Datapath": ["_uuid", "ct_zones"],
            "CT_Zone": ["_uuid", "timeout_policy", "external_ids"],
            "CT_Timeout_Policy": ["_uuid", "timeouts"],
        }
        replies = self._transact(
            *({"op": "select", "table": table, "where": [], "columns": names} for table, names in tables.items())
        )
        rows = {t: {r["_uuid"][1]: r for r in reply["rows"]} for t, reply in zip(tables, replies, strict=True)}
        (system, top), *_ = rows["Open_vSwitch"].items()
        datapath = {kind: ref[1] for kind, ref in top["datapaths"][1]}.get(self._kind, "")
        zones = {n: ref[1] for n, ref in rows["Datapath"][datapath]["ct_zones"][1]} if datapath else {}

        def contents(uuid: str) -> tuple[str, dict[str, int]]:
            row = rows["CT_Zone"][uuid]
            policy = row["timeout_policy"]  # one reference, or a set of none
            timeouts = dict(rows["CT_Timeout_Policy"][policy[1]]["timeouts"][1]) if policy[0] == "uuid" else {}
            return dict(row["external_ids"][1]).get(OWNER, ""), timeouts

        return system, datapath, zones, contents

    def _zones(self) -> dict[int, tuple[str, dict[str, int]]]:
        """The zones of the datapath: the bridge that each is for, empty for those of others, and its time-outs."""
        _, _, zones, contents = self._read()
        return {number: contents(uuid) for number, uuid in zones.items()}

    def _write(self, wanted: ZoneSettings | None, left: tuple[int, ...]) -> None:
        """Write the time-outs of the *wanted* zone and remove those of the zones that are *left*, in one transaction."""
        system, datapath, _, _ = self._read()
        operations: list[dict[str, Any]] = []
        zones: list[Any] = ["map", []]
        if wanted is not None:
            timeouts = ["map", [[name, seconds] for name, seconds in wanted.timeouts.items()]]
            owner = ["map", [[OWNER, self._bridge]]]
            zone = {"timeout_policy": ["named-uuid", "policy"], "external_ids": owner}
            operations += [
                {"op": "insert", "table": "CT_Timeout_Policy", "row": {"timeouts": timeouts}, "uuid-name": "policy"},
                {"op": "insert", "table": "CT_Zone", "row": zone, "uuid-name": "zone"},
            ]
            zones = ["map", [[wanted.zone, ["named-uuid", "zone"]]]]
        if datapath:
            gone = [*left, *([wanted.zone] if wanted is not None else [])]
            changes = [["ct_zones", "delete", ["set", gone]], ["ct_zones", "insert", zones]]
            operations.append(_mutate("Datapath", datapath, changes))
        else:
            row = {"datapath_version": "0", "ct_zones": zones}
            operations.append({"op": "insert", "table": "Datapath", "row": row, "uuid-name": "datapath"})
            there = ["map", [[self._kind, ["named-uuid", "datapath"]]]]
            operations.append(_mutate("Open_vSwitch", system, [["datapaths", "insert", there]]))
        self._transact(*operations, _mutate("Open_vSwitch", system, [["next_cfg", "+=", 1]]))


def _mutate(table: str, uuid: str, mutations: list[Any]) -> dict[str, Any]:
    return {"op": "mutate", "table": table, "where": [["_uuid", "==", ["uuid", uuid]]], "mutations": mutations}
