# SPDX-License-Identifier: Apache-2.0
"""Change the extension's program together with the tables, in an order that loses no packet.

A packet of an extended VIP passes the tables, then the program, then the tables again. A change during its passage must not
leave it without a flow or entry, either removed too soon or added too late. The steps around the one bundle that switches
the tables:

1. early: add the flows that packets of the new program need and that the tables lack. No packet uses them yet.
2. load a program that serves both: all of the new VIPs, and the old VIPs that the new program does not have.
3. commit the bundle: the tables now send what the new spec says, and still accept what the old program returns.
4. once packets and answers in flight have passed, load the new program alone; then remove the old return flows.

Until the bundle is committed, everything can be undone. After a kill, the next verb repeats the steps and repairs the state.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dnsteer.extension import program_diff
from dnsteer.extension.client import ExtensionClient, ProgramRefusedError
from dnsteer.plan.extension.program import Program
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.render.program import VERSION, program_of
from dnsteer.render.templates import port_name, register_value
from dnsteer.switch.openflow import Tables, is_ours
from dnsteer.switch.table_changes import TableChanges, refuse_blocked
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie
from dnsteer.tables.ingress import ANSWER, PortRow
from dnsteer.tables.order import PIPELINE

SETTLE = 0.5
"""Seconds until flows that were added early take effect in the datapath, whose flows are revalidated about that often."""
_TABLE = PIPELINE.holding("exits").number
_INGRESS = PIPELINE.first.number
_BACK = frozenset(
    t.number for t in PIPELINE.tables.values() if t.traffic and {"answers", "fragments"}.issuperset(t.traffic)
)
"""Tables that nothing passes but answers."""
_ANSWER = f"{PIPELINE.registers['path'].field}={register_value(ANSWER)},"
_LEADS_BACK = tuple(f"goto_table:{n}" for n in (*sorted(_BACK), _TABLE))
_PASSING = cookie(Category.EXTENSION, 3)
"""Cookie of exits that exist only while the program changes. The plan's exits have object number 1 or an even one."""
_BEFORE_OTHERS, _AFTER_OTHERS = 110, 90  # the plan's exits have priority 100
_NOTHING: Program = {"version": VERSION, "ports": {}, "budgets": {}, "backends": [], "vips": []}
"""Stands for a program that could not be read."""
_EXIT = re.compile(r'in_port=("[^"]*"|[^,]+)(?:,dl_dst=([0-9a-f:]+))?\Z')
_PORT = re.compile(r'\bin_port=("[^"]*"|[^,]+)')


@dataclass(frozen=True)
class _Exit:
    """A flow for frames that the extension returns by port *came_by* to *mac* (empty: to any MAC), with its *action*."""

    priority: int
    came_by: str
    mac: str
    action: str


@dataclass(frozen=True)
class FlowStages:
    """Flows to add *early*, before the bundle; changes to make *now*, in the one bundle; and those to make *later*."""

    early: tuple[Flow, ...]
    now: TableChanges
    later: TableChanges

    def lines_to_take_back(self) -> list[str]:
        """Return the bundle lines that delete the early flows."""
        return [f"flow delete_strict {f.spec()}" for f in self.early]


@dataclass(frozen=True)
class Handover:
    """The *running* program, the *wanted* one, and *between*, which serves both. *faults* are problems of the running one.

    *away* is the error that kept the running program from being read; the program is then left unchanged.
    """

    client: ExtensionClient
    wanted: Program
    running: Program
    between: program_diff.CombinedProgram
    loads: bool
    faults: tuple[str, ...] = ()
    away: SwitchError | PermissionError | None = None

    @property
    def keeps(self) -> bool:
        """Whether the old program does something that the new one does not."""
        return self.loads and not program_diff.same(self.between.program, self.wanted)

    @property
    def differences(self) -> list[program_diff.ProgramDifference]:
        """How the running program differs from the wanted one; empty when the running one could not be read."""
        return [] if self.away else list(program_diff.program_differences(self.running, self.wanted))

    def load_both(self) -> None:
        """Load the program that serves both. Raises ProgramRefusedError, ConnectionLostError or UnavailableError."""
        self._load(self.between.program)

    def load_new(self) -> None:
        """Load the new program alone."""
        self._load(self.wanted)

    def roll_back(self) -> str:
        """Load the old program again. Return a message if that failed, else an empty string."""
        try:
            self.client.load(self.running)
        except (SwitchError, PermissionError) as err:
            return f"the previous program could not be loaded again ({err}); fix the cause and apply again"
        return ""

    def _load(self, program: Program) -> None:
        try:
            self.client.load(program)
        except ProgramRefusedError as err:
            raise ProgramRefusedError(self.client.name, f"{err.reason}{_hint(err.reason)}") from None

    def stages(self, plan: Plan, lines: Iterable[str], tables: Tables, todo: TableChanges) -> FlowStages:
        """Split the table changes *todo*, which turn *tables* into the plan's flows *lines*, into stages."""
        was = list(_exits(f for f in _flows(tables) if f.table == _TABLE))
        become = list(_exits(parse_flow(line) for line in lines if f"table={_TABLE}," in line))
        now, later = todo.split_for_grace()
        passing, returning = list[Flow](), list[Flow]()
        if was and self.loads:
            passing = list(self._passing_early(plan, was, become))
            ways = {e.came_by for e in was}
            returning = [f for f in todo.add if _is_way_back(plan, f, ways)]
        stay = list(_staying(was, become, _macs(self.running) - _macs(self.wanted))) if self.keeps else []
        refuse_blocked([*passing, *stay], tables)
        keys = {f.key for f in stay}
        now = replace(now, add=(*now.add, *stay), remove=(*(f for f in now.remove if f.key not in keys), *passing))
        return FlowStages((*passing, *returning), now, replace(later, remove=(*later.remove, *stay)))

    def _passing_early(self, plan: Plan, was: Sequence[_Exit], become: Sequence[_Exit]) -> Iterator[Flow]:
        """Yield exits for frames to MAC addresses of the new program whose action the old exits lack or change."""
        egress = port_name(plan.extension.egress.name) if plan.extension else ""
        known = _macs(self.running)
        for mac in sorted(_macs(self.wanted)):
            before, after = _find(was, egress, mac), _find(become, egress, mac)
            if after and after != before and (not before or mac not in known):
                yield _passing(egress, mac, after)


def _flows(tables: Tables) -> Iterator[Flow]:
    yield from (parse_flow(line) for line in tables.same if f"table={_TABLE}," in line)
    yield from (f for f in tables.flows.values() if is_ours(f))


def _exits(flows: Iterable[Flow]) -> Iterator[_Exit]:
    for f in flows:
        m = _EXIT.match(f.match)
        if m and f.priority:
            yield _Exit(f.priority, m[1], m[2] or "", f.actions)


def _find(exits: Iterable[_Exit], came_by: str, mac: str) -> str:
    """Return the action of the exit with the highest priority that matches a frame; empty when none matches."""
    fits = [e for e in exits if e.came_by == came_by and e.mac in ("", mac)]
    return max(fits, key=lambda e: e.priority).action if fits else ""


def _passing(came_by: str, mac: str, action: str) -> Flow:
    match, priority = (f",dl_dst={mac}", _BEFORE_OTHERS) if mac else ("", _AFTER_OTHERS)
    return Flow(_TABLE, priority, f"in_port={came_by}{match}", _PASSING, action)


def _staying(was: list[_Exit], become: list[_Exit], macs: set[str]) -> Iterator[Flow]:
    """Yield exits for frames that the old program still returns.

    On ports without new exits, all old exits stay; on others, those for *macs* whose action the new exits would change.
    """
    used = {e.came_by for e in become}
    for came_by in dict.fromkeys(e.came_by for e in was):
        if came_by not in used:
            yield from (_passing(came_by, e.mac, e.action) for e in was if e.came_by == came_by)
            continue
        for mac in sorted(macs):
            action = _find(was, came_by, mac)
            if action and action != _find(become, came_by, mac):
                yield _passing(came_by, mac, action)


def _is_way_back(plan: Plan, flow: Flow, came_by: Collection[str]) -> bool:
    """Whether a new flow returns answers, or frames from the program, and takes no packets from flows of the old tables.

    *came_by* are ports that already have exits: no others are added there, since a frame might match either.
    """
    if flow.match.startswith(_ANSWER) or flow.table in _BACK or flow.cookie >> OBJECT_BITS & 0xFF == Category.GATEWAY:
        return True
    if flow.table == _TABLE:
        return all(e.came_by not in came_by for e in _exits([flow]))
    if flow.table != _INGRESS:
        return False
    m = _PORT.search(flow.match)
    uplinks = {port_name(p.name) for p in plan.rows.of(PortRow) if p.uplink}
    return flow.actions.endswith(_LEADS_BACK) or (m is not None and m[1] not in uplinks)


def _macs(program: Program) -> set[str]:
    return {b["mac"].lower() for b in program["backends"]}


def _hint(reason: str) -> str:
    """Return what to do about a refusal, to append to its message; empty when the *reason* is not a known one."""
    if "need a restart" in reason or "needs a restart" in reason or "a restart opens it" in reason:
        return (
            "; dnsteer render SPEC writes program.json for a restart (docs/operations.md, The extension refused a load)"
        )
    if "budgets" in reason or "out of " in reason:
        return (
            "; during the change it holds the old and the new VIPs: raise switch.extension.budgets, or apply in two steps, "
            "first a spec that only removes VIPs"
        )
    return ""


def plan_handover(plan: Plan, client: ExtensionClient, *, needed: bool) -> Handover:
    """Read the running program and work out what must be loaded.

    If the program cannot be read, raise UnavailableError, PermissionError or SwitchError when it is *needed*; otherwise
    return a Handover with that error in *away*.
    """
    extension = plan.extension
    wanted = program_of(extension) if extension else None
    try:
        status = client.status()
        running = program_diff.readable(client.dump(), client.name)
    except (SwitchError, PermissionError) as err:
        if needed:
            raise
        wanted = wanted or _NOTHING
        return Handover(client, wanted, _NOTHING, program_diff.CombinedProgram(wanted, ()), False, away=err)
    wanted = wanted or program_diff.idle(running)
    services = extension.services if extension else ()
    unserved = {program_diff.service_key(s.address, s.protocol, s.port) for s in services if not s.slots}
    between = program_diff.combine(running, wanted, unserved)
    loads = not program_diff.same(running, wanted) or status.get("consistent") is False
    return Handover(client, wanted, running, between, loads, tuple(faults_of(client, status)))


def faults_of(client: ExtensionClient, status: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each problem that the program's *status* reports."""
    gone = [p.get("name") for p in status.get("ports", []) if not p.get("present", True)]
    if gone:
        ports = ", ".join(map(str, gone))
        yield f"{client.name}: port {ports} is gone, so its VIPs are not served; run systemctl restart dnsteer-ext"
    elif status.get("state") != "running":
        state = status.get("state")
        yield f"{client.name} is {state}: hardware does not match its program; loading the program again corrects it"
