"""A change of the extension's program together with the tables, in an order in which no packet is lost.

A packet of an extended VIP meets the tables, then the program, then the tables again, and what is changed in between must
not meet what is gone already, or not there yet. So, around the one bundle that makes the tables the new ones:

1. early: flows by which packets of the new program find their way, where the tables do not have them yet. Nothing uses them.
2. the program serves both: all of the new VIPs, and those of the old that the new one does not have.
3. the bundle: now the tables send what the new spec says, and still take back what the old one sent.
4. after the time that packets and answers may be under way, the new program alone; then the old ways back go.

Until the bundle all of it can be taken back. What a kill leaves is mended by the next verb, which does the same again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from dnsteer.extension import program_diff
from dnsteer.extension.client import Program, RefusedError
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.render.program import program_of
from dnsteer.render.templates import port_name, register_value
from dnsteer.switch.openflow import Tables, is_ours
from dnsteer.switch.table_changes import Changes, refuse_blocked
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie
from dnsteer.tables.ingress import ANSWER, PortRow
from dnsteer.tables.order import PIPELINE

SETTLE = 0.5
"""Seconds until flows that were added early are in the datapath too: it looks at all of its own about that often."""
_TABLE = PIPELINE.tables["extension"].number
_INGRESS = PIPELINE.tables["ingress"].number
_EGRESS = PIPELINE.tables["egress"].number
_BACK = frozenset(PIPELINE.tables[name].number for name in ("return", "fragment"))
_ANSWER = f"{PIPELINE.registers['path'].field}={register_value(ANSWER)},"
_LEADS_BACK = tuple(f"goto_table:{n}" for n in (PIPELINE.tables["return"].number, _TABLE))
_PASSING = cookie(Category.EXTENSION, 3)
"""Cookie of exits that are there only while the program changes. Those of the plan have 1, or an even number."""
_BEFORE_OTHERS, _AFTER_OTHERS = 110, 90  # the plan's exits have priority 100
_EXIT = re.compile(r'in_port=("[^"]*"|[^,]+)(?:,dl_dst=([0-9a-f:]+))?\Z')
_PORT = re.compile(r'\bin_port=("[^"]*"|[^,]+)')


@dataclass(frozen=True)
class _Exit:
    """What comes back by port *came_by* for *mac*, or for all when that is empty, does *action*."""

    priority: int
    came_by: str
    mac: str
    action: str


@dataclass(frozen=True)
class FlowStages:
    """Flows to add *early*, what must change *now*, in the one bundle, and what *later*."""

    early: tuple[Flow, ...]
    now: Changes
    later: Changes

    def lines_to_take_back(self) -> list[str]:
        """Lines of a bundle that take back what was added early."""
        return [f"flow delete_strict {f.spec()}" for f in self.early]


@dataclass(frozen=True)
class Handover:
    """The program that runs, the one that is wanted, and the one that serves both. *faults* are what is wrong with it.

    *away* is why the running one is not known; nothing of it is changed then.
    """

    program: Program
    wanted: program_diff.Value
    running: program_diff.Value
    between: program_diff.Both
    loads: bool
    faults: tuple[str, ...] = ()
    away: SwitchError | PermissionError | None = None

    @property
    def keeps(self) -> bool:
        """Whether the old program does something that the new one does not."""
        return self.loads and not program_diff.same(self.between.program, self.wanted)

    @property
    def differences(self) -> list[program_diff.ProgramDifference]:
        """What the running program has otherwise than it should."""
        return [] if self.away else list(program_diff.program_differences(self.running, self.wanted))

    def begin(self) -> None:
        """Let it serve both. Raises RefusedError, LostError or UnavailableError."""
        self._load(self.between.program)

    def finish(self) -> None:
        """Let it serve the new alone."""
        self._load(self.wanted)

    def load_old_again(self) -> str:
        """Let it serve the old again. What could not be, in words."""
        try:
            self.program.load(self.running)
        except (SwitchError, PermissionError) as err:
            return f"the previous program could not be loaded again ({err}); fix the cause and apply again"
        return ""

    def _load(self, program: program_diff.Value) -> None:
        try:
            self.program.load(program)
        except RefusedError as err:
            raise RefusedError(self.program.name, f"{err.reason}{_hint(err.reason)}") from None

    def stages(self, plan: Plan, lines: Iterable[str], tables: Tables, todo: Changes) -> FlowStages:
        """How the tables follow. *lines* are all flows of the plan, *todo* is what turns *tables* into them."""
        was = list(_exits(f for f in _flows(tables) if f.table == _TABLE))
        become = list(_exits(parse_flow(line) for line in lines if f"table={_TABLE}," in line))
        macs, new = _macs(self.running), _macs(self.wanted)
        now, later = todo.split_for_grace()
        early = list[Flow]()
        if was and self.loads:
            egress = port_name(plan.extension.egress.name) if plan.extension else ""
            found = ((m, _find(was, egress, m), _find(become, egress, m)) for m in sorted(new))
            early = [_passing(egress, m, a) for m, b, a in found if a and a != b and (not b or m not in macs)]
        passing = {f.key for f in early}
        if was and self.loads:
            early += [f for f in todo.add if _is_way_back(plan, f, {e.came_by for e in was})]
        stay = list(_staying(was, become, macs - new)) if self.keeps else []
        refuse_blocked([f for f in early if f.key in passing] + stay, tables)
        keys = {f.key for f in stay}
        gone = tuple(f for f in now.remove if f.key not in keys) + tuple(f for f in early if f.key in passing)
        now = replace(now, add=(*now.add, *stay), remove=gone)
        return FlowStages(tuple(early), now, replace(later, remove=(*later.remove, *stay)))


def _flows(tables: Tables) -> Iterator[Flow]:
    yield from (parse_flow(line) for line in tables.same if f"table={_TABLE}," in line)
    yield from (f for f in tables.flows.values() if is_ours(f))


def _exits(flows: Iterable[Flow]) -> Iterator[_Exit]:
    for f in flows:
        m = _EXIT.match(f.match)
        if m and f.priority:
            yield _Exit(f.priority, m[1], m[2] or "", f.actions)


def _find(exits: Iterable[_Exit], came_by: str, mac: str) -> str:
    """What is done with a frame; empty: nothing."""
    fits = [e for e in exits if e.came_by == came_by and e.mac in ("", mac)]
    return max(fits, key=lambda e: e.priority).action if fits else ""


def _passing(came_by: str, mac: str, action: str) -> Flow:
    match, priority = (f",dl_dst={mac}", _BEFORE_OTHERS) if mac else ("", _AFTER_OTHERS)
    return Flow(_TABLE, priority, f"in_port={came_by}{match}", _PASSING, action)


def _staying(was: list[_Exit], become: list[_Exit], macs: set[str]) -> Iterator[Flow]:
    """Exits for what the old program still gives back: by address where the new ones would lead elsewhere, or to all."""
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
    """Whether a new flow leads answers back, or what the program gives back, and takes nothing from the old tables.

    *came_by* are ports that have exits already: beside these no others are put in, since either might be taken.
    """
    if flow.table == _EGRESS:
        return flow.match.startswith(_ANSWER)
    if flow.table in _BACK or flow.cookie >> OBJECT_BITS & 0xFF == Category.GATEWAY:
        return True
    if flow.table == _TABLE:
        return all(e.came_by not in came_by for e in _exits([flow]))
    if flow.table != _INGRESS:
        return False
    m = _PORT.search(flow.match)
    uplinks = {port_name(p.name) for p in plan.rows.of(PortRow) if p.uplink}
    return flow.actions.endswith(_LEADS_BACK) or (m is not None and m[1] not in uplinks)


def _macs(program: program_diff.Value) -> set[str]:
    return {b["mac"].lower() for b in program["backends"]}


def _hint(reason: str) -> str:
    """What to do about a refusal, where it can be told."""
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


def plan_handover(plan: Plan, program: Program, *, needed: bool) -> Handover:
    """See what runs and what must be loaded. Unless it is *needed*, a program that cannot be asked is only noted.

    Raises UnavailableError, PermissionError or SwitchError.
    """
    extension = plan.extension
    wanted = program_of(extension) if extension else None
    try:
        status = program.status()
        running = program_diff.readable(program.dump(), program.name)
    except (SwitchError, PermissionError) as err:
        if needed:
            raise
        nothing = program_diff.Both(wanted or {}, ())
        return Handover(program, wanted or {}, {}, nothing, False, away=err)
    wanted = wanted or program_diff.idle(running)
    unserved = {program_diff.key_of(vars(s)) for s in extension.services if not s.slots} if extension else set()
    between = program_diff.both(running, wanted, unserved)
    loads = not program_diff.same(running, wanted) or status.get("consistent") is False
    return Handover(program, wanted, running, between, loads, tuple(faults_of(program, status)))


def faults_of(program: Program, status: program_diff.Value) -> Iterator[str]:
    """What the program says is wrong with it."""
    gone = [p.get("name") for p in status.get("ports", []) if not p.get("present", True)]
    if gone:
        ports = ", ".join(map(str, gone))
        yield f"{program.name}: port {ports} is gone, so its VIPs are not served; run systemctl restart dnsteer-ext"
    elif status.get("state") != "running":
        state = status.get("state")
        yield f"{program.name} is {state}: hardware does not match its program; loading the program again corrects it"
