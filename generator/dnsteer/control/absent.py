"""Take backends out of a running switch and back in: quickly, by changing only the slots of the pools concerned.

Nothing here loads the spec or looks at other tables: members and weights come from the record. Where the tables are not
what the record says, all of the recorded state is applied instead, which takes longer and mends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dnsteer import __version__
from dnsteer.control import absences, movement
from dnsteer.control.where import Confirm, Progress, Switch, agreed, expire, now, silent
from dnsteer.plan.absence import WHOLE, Overlay, marker
from dnsteer.plan.membership import Membership
from dnsteer.plan.numbers import Category, cookie
from dnsteer.plan.objects import Plan, SlotTable, Subject, group_row
from dnsteer.plan.owners import owners_of
from dnsteer.plan.pipeline import PIPELINE
from dnsteer.render.engine import register_value
from dnsteer.render.flows import flow_lines, groups_of, render_table
from dnsteer.switch.interrupts import put_off
from dnsteer.switch.openflow import OpenFlow, Tables, UnconfirmedError, changes
from dnsteer.switch.record import Record
from dnsteer.switch.state import Standing, State
from dnsteer.switch.tools import SwitchError

Edit = Callable[[Overlay, State, datetime], Overlay]
"""The overlay that is wanted, given the one that there is, the state and the time. May raise SwitchError."""


@dataclass
class Change:
    """What a change of the overlay did, or would do. *slots* has the number of slots of each pool."""

    bridge: str
    before: Overlay
    after: Overlay
    moves: list[movement.Move]
    warnings: list[str] = field(default_factory=list)
    slots: Mapping[str, int] = field(default_factory=dict)
    repaired: bool = False

    @property
    def changed(self) -> bool:
        """Whether the overlay is another one."""
        return self.before != self.after

    def words(self) -> list[str]:
        """What changes, a sentence each. Empty when the overlay is the same."""
        moves = [move.text() for move in self.moves]
        altered = absences.altered(self.before, self.after)
        if moves or not self.changed:
            return moves + altered
        return [*absences.begun_and_ended(self.before, self.after), *altered, "no slot moves"]

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "ok": True, "changed": self.changed, "bridge": self.bridge, "repaired": self.repaired,
            "moved": sum(m.moved for m in self.moves),
            "moves": [m.as_json() for m in self.moves], "words": self.words(), "warnings": self.warnings,
        }  # fmt: skip


def change_overlay(
    switch: Switch,
    bridge: str | None,
    edit: Edit,
    *,
    dry_run: bool = False,
    confirm: Confirm = agreed,
    progress: Progress = silent,
    time: datetime | None = None,
) -> Change:
    """Change the overlay of a switch, and the tables with it, in one bundle. What is over ends with it.

    Raises SwitchError, or UnavailableError when the switch cannot be reached.
    """
    with Record(switch.remote, switch.timeout) as record:
        standing = record.the_bridge(bridge)
        if not dry_run:
            record.lock(standing.bridge)
            standing = record.the_bridge(standing.bridge)  # as it stands now that nobody else changes it
            if standing.pending is not None:
                from dnsteer.control.recorded import settle  # here, since it loads all that quick verbs do without

                standing = settle(switch, record, standing, progress)
        if not standing.number:
            raise SwitchError(f"no spec was applied to bridge {standing.bridge} by this version; apply one first")
        state = record.state(standing, standing.number)
        time = time or now()
        before = standing.overlay
        after = edit(expire(before, time), state, time)
        found = movement.moves(state.members, before, state.members, after)
        slots = {m.pool: m.slots for m in state.members}
        done = Change(standing.bridge, before, after, found, movement.dark_pools(state.members, after), slots)
        if dry_run or not done.changed:
            return done
        goal = Overlay(tuple(replace(a, gone=WHOLE) for a in after))  # a gradual drain is asked about before it begins
        far = movement.moves(state.members, before, state.members, goal)
        ask = movement.reasons_to_ask(far, state.members, before, state.members, goal)
        if ask:
            confirm(ask)
        if not _quickly(switch, record, standing, state, after):
            from dnsteer.control.recorded import apply_state

            progress("the tables are not what the record says: applying all of the recorded state")
            apply_state(switch, record, state, after, progress)
            done.repaired = True
        return done


def _quickly(switch: Switch, record: Record, standing: Standing, state: State, after: Overlay) -> bool:
    """Change the slots of the pools whose absences change. False, and nothing is done, where that is not all."""
    client = switch.client(standing.bridge)
    if state.version != __version__:
        return False
    before = standing.overlay
    touched = [m for m in state.members if before.of(m.pool) != after.of(m.pool)]
    have = _tables_of(client, touched)
    was = _plan(state, before, touched)
    if changes(_lines(was), groups_of(was), have):
        return False
    wanted = _plan(state, after, touched)
    todo = changes(_lines(wanted), groups_of(wanted), have)
    with put_off():  # it is short
        pending = record.begin(standing, state, after)
        try:
            client.bundle(todo.bundle())
        except UnconfirmedError:
            raise  # maybe it is done: the next verb looks
        except SwitchError:
            record.take_back(standing)  # no state was begun
            raise
        try:
            record.commit(standing, pending)
        except SwitchError as err:
            raise type(err)(f"the slots have moved, but {err}; mend that and repeat the command") from None
    return True


def _tables_of(client: OpenFlow, touched: Iterable[Membership]) -> Tables:
    """What the switch has of the pools' slots, and of the flow that carries the marker."""
    tables = client.dump(only=f"table={PIPELINE.tables['state'].number}")
    slot, pool = PIPELINE.tables["slot"], PIPELINE.registers["pool"]
    for members in touched:
        one = client.dump(only=f"table={slot.number},{pool.field}={register_value(members.number)}")
        tables.flows.update(one.flows)
        tables.flags.update(one.flags)
        tables.other.update(one.other)
        if members.selection == "dp-hash":
            number = group_row(members, ()).group
            group = client.group(number)
            if group is not None:
                tables.groups[number] = group
    return tables


def _plan(state: State, overlay: Overlay, touched: Iterable[Membership]) -> Plan:
    """That part of the plan which an overlay changes."""
    pipeline = Subject(cookie(Category.PIPELINE, 0), "pipeline", (), 0)
    plan = Plan("", "", "", pipeline, state.digest, marker(state.digest, overlay))
    for members in touched:
        owners = owners_of(members, overlay.of(members.pool))
        if members.selection != "dp-hash":
            plan.slots.append(SlotTable(members, owners))
        elif owners:
            plan.groups.append(group_row(members, owners))
    return plan


def _lines(plan: Plan) -> dict[str, None]:
    """The flows of a part of a plan: those of its pools, and the one that carries the marker."""
    pool = f"{PIPELINE.registers['pool'].field}="
    slots = flow_lines(render_table(plan, PIPELINE.tables["slot"], notes=False))
    own = [line for line in slots if pool in line]
    return dict.fromkeys([*own, *flow_lines(render_table(plan, PIPELINE.tables["state"]))])
