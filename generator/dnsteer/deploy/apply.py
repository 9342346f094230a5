"""Bring a running switch to what a spec says: the bridge through OVSDB, flows and groups in one bundle.

In this order: ports are added, the bundle makes the tables anew in one step, and only then ports are removed and the
record is written. So at any moment the tables are the old or the new ones, whole, and every port that they name is there.
Where the extension serves VIPs, its program is changed around the bundle: see handover.
What fails or is interrupted before the bundle is undone; from the bundle on, a request to end waits until all is done. What
a kill -9 leaves is mended by the next apply, since each starts from what the switch has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from dnsteer.deploy.send import Applied, Sending
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.min_fragment import wanted
from dnsteer.plan.plan import Plan
from dnsteer.render.flows import groups_of, lines_of
from dnsteer.slots.maintenance import Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.fragment_limit import Smallest, Tracker
from dnsteer.switch.openflow import OpenFlow, Tables
from dnsteer.switch.restart_fence import has_fence, makes_fence
from dnsteer.switch.settings import WAITS, Level, Seen, deviations, put_right
from dnsteer.switch.signals import put_off
from dnsteer.switch.state import STILL_BEGUN
from dnsteer.switch.table_changes import Changes, changes, lost, way_back
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded
from dnsteer.tables.order import PIPELINE

if TYPE_CHECKING:
    from dnsteer.extension.handover import Handover

_EXTENSION = PIPELINE.tables["extension"].number
_SHORT = 5.0
"""Seconds for an extension that is not needed: a switch that waits for its flows must not wait for it."""


@dataclass(frozen=True)
class Reach:
    """The extension: its control socket, where that is known, and whether an apply may do without it."""

    path: Callable[[], str]
    needed: bool = True


class Journal(Protocol):
    """Writes down what is about to happen to a bridge, and that it happened."""

    @property
    def stale(self) -> bool:
        """Whether the record says something else than what is wanted."""

    def begin(self) -> None:
        """The change is about to happen. The bridge is there."""

    def commit(self) -> None:
        """It happened."""

    def take_back(self) -> None:
        """It did not happen."""


@dataclass(frozen=True)
class Prepared:
    """What an apply would do: the differences in OVSDB, in the tables and in the extension, from what is there.

    *warnings* are of settings that are not dnsteer's. *fragment* is the tracker's smallest one, where it matters and there
    is a bridge.
    """

    before: db.Bridge | None
    differ: list[br.Difference]
    tables: Tables
    todo: Changes
    program: Handover | None = None
    warnings: Sequence[str] = ()
    fragment: Smallest | None = None

    @property
    def settings(self) -> list[str]:
        """What would be done beside tables and program, in words."""
        found = self.fragment
        return [*(d.todo for d in self.differ), *([found.todo] if found is not None and found.differs else [])]

    @property
    def loads(self) -> bool:
        """Whether the extension gets another program."""
        return self.program is not None and self.program.loads

    @property
    def changed(self) -> bool:
        """Whether anything would be done."""
        return bool(self.settings) or bool(self.todo) or self.loads


class Apply:
    """Make the bridge at *base* and *client* what a spec and an overlay say.

    *grace* is how long, in seconds, answers of backends that leave may still take. What it raises, SwitchError or its kinds,
    says what became of the switch.
    """

    def __init__(
        self,
        loaded: Loaded,
        overlay: Overlay,
        base: db.Database,
        client: OpenFlow,
        journal: Journal,
        progress: Callable[[str], None] = lambda _: None,
        grace: float = 0,
        reach: Reach = Reach(lambda: ""),
    ) -> None:
        self.loaded = loaded
        self.overlay = overlay
        self.base = base
        self.client = client
        self.journal = journal
        self.progress = progress
        self.grace = grace
        self.reach = reach
        self.want: WantedBridge = wanted_bridge(loaded.spec)
        self.sending = Sending(self, client, progress, grace, needed=reach.needed)

    @cached_property
    def plan(self) -> Plan:
        """The plan of the spec and the overlay."""
        return build_plan(self.loaded, self.overlay)

    @cached_property
    def lines(self) -> dict[str, None]:
        """Its flows, as the switch prints them."""
        return dict.fromkeys(lines_of(self.plan))  # a dict, since it keeps the order

    def prepare(self, *, adopt: bool = False, meanwhile: Callable[[], object] = lambda: None) -> Prepared:
        """See what there is and what must change. Changes nothing. *meanwhile* is done while the switch prints its flows."""
        before = self.base.bridge(self.want.name)
        br.refuse_foreign(self.base, self.want, before, adopt)
        tables = self._tables_before(before, meanwhile)
        todo = changes(self.lines, groups_of(self.plan), tables)
        program = self._handover(todo)
        differ = br.differences(self.loaded.spec, self.want, before)
        warnings: list[str] = []
        if before is not None:
            seen = self._seen(before, tables)
            differ += br.settings(seen)
            found = deviations(seen, Level.NAMED, Level.WARNED)
            warnings = [f"{d.about}: {d.detail}" for d in found if d.kind != WAITS]  # which who deploys warns of
        size = self._smallest
        fragment = self._tracker.look(size) if size is not None and before is not None else None
        return Prepared(before, differ, tables, todo, program, warnings, fragment)

    def _seen(self, have: db.Bridge, tables: Tables) -> Seen:
        return Seen(self.loaded.spec, self.plan, self.want, have, self.base.config(), tables)

    @property
    def _smallest(self) -> int | None:
        return wanted(self.plan, self.want.datapath_type)

    @property
    def _tracker(self) -> Tracker:
        return Tracker(self.base.remote, self.base.timeout)

    def _handover(self, todo: Changes) -> Handover | None:
        """What becomes of the extension's program, where there is an extension or was one."""
        extension = self.plan.extension
        path = ""
        if extension is not None or any(f.table == _EXTENSION and f.priority for f in todo.remove):
            path = self.reach.path()
        if not path:
            return None
        from dnsteer.extension.client import Program
        from dnsteer.extension.handover import look  # here, since most switches do without

        needed = self.reach.needed and extension is not None and bool(extension.services)
        patience = self.base.timeout if needed else min(self.base.timeout, _SHORT)
        try:
            return look(self.plan, Program(path, patience), needed=needed)
        except UnavailableError as err:
            raise UnavailableError(f"{err}; nothing was changed") from None

    def carry_out(self, what: Prepared) -> Applied:
        """Do what was prepared."""
        try:
            if what.before is not None and (what.changed or self.journal.stale):
                self._begin()
            return self._carry_out(what)
        except BaseException as err:
            said = self._take_back() if not self.sending.sent and what.before is not None else ""
            if isinstance(err, KeyboardInterrupt) and not str(err):
                failed = err.__context__ if isinstance(err.__context__, SwitchError) else None
                end = "by then the change was made" if self.sending.sent else "nothing was changed"
                raise KeyboardInterrupt("; ".join(filter(None, [str(failed or end), said]))) from None
            if said and isinstance(err, SwitchError):
                raise reworded(err, f"{err}; {said}") from None
            raise

    def _begin(self) -> None:
        try:
            with put_off():  # else nobody would know whether it was written
                self.journal.begin()
        except SwitchError as err:
            raise reworded(err, f"{err}; nothing was changed") from None

    def _take_back(self) -> str:
        """Forget the change that was begun and not made. What could not be, in words: the next verb does it then."""
        try:
            with put_off():
                self.journal.take_back()
        except SwitchError as err:
            return STILL_BEGUN.format(err)
        return ""

    def _carry_out(self, what: Prepared) -> Applied:
        before, todo = what.before, what.todo
        with ExitStack() as end:
            away = what.program.away if what.program is not None else None
            done = Applied(what.settings, todo, loaded=what.loads, away=away)
            if any(d.first for d in what.differ):
                self.progress(f"bridge {self.want.name}: {'; '.join(what.settings)}")
                with self._undoing(before, what.tables):
                    br.set_up(self.base, self.want, before)
                    now = self._ready()
                    self.sending.fenced = has_fence(now)
                    gone = tuple(line for line in lost(what.tables, now) if not makes_fence(line))
                    done.flows = replace(changes(self.lines, groups_of(self.plan), now), restore=gone)
                    asked = end.enter_context(put_off())
                    if before is None:
                        self.journal.begin()
                    self._let_fragments_pass(what, done)
                    self.sending.send(done, now, what.program, asked)
                    tables = now
            else:
                self.sending.fenced = has_fence(what.tables)
                self.base.wait_for_ports(self.want.name, [p.name for p in self.want.ports])
                asked = end.enter_context(put_off())
                self._let_fragments_pass(what, done)
                self.sending.send(done, what.tables, what.program, asked)
                tables = what.tables
            return self._finish(done, tables)

    def _let_fragments_pass(self, what: Prepared, done: Applied) -> None:
        """Have the connection tracker take fragments as small as it can; that it cannot be told is only noted.

        Before the bundle, so that no answer is lost. It stays where that fails: nothing needs larger ones.
        """
        size, found = self._smallest, what.fragment
        if size is None:
            return
        if found is None or found.differs or what.differ:  # a bridge that was made anew may have a new datapath
            found = self._tracker.put_right(size)
        done.warnings += [found.warning] if found.warning else []

    def _tables_before(self, before: db.Bridge | None, meanwhile: Callable[[], object]) -> Tables:
        """The tables, where there are any that can be read."""
        if before is None or br.lacks_protocol(before):
            self.client.end_dump()
            return Tables()
        other = br.other_datapath(self.want, before)
        if other:
            self.client.end_dump()  # which may have failed for that
        try:
            self.client.wait(0 if other else self.base.timeout)
        except UnavailableError:
            if other:
                return Tables()
            raise

        def expected() -> dict[str, None]:
            meanwhile()
            return self.lines

        tables = self.client.dump(expected)
        if before.fail_mode != br.FAIL_MODE:
            # The flow by which the switch forwards everything in this mode; it goes with the mode.
            own = tables.other.get((0, 0, ""))
            if own is not None and own.actions == "NORMAL":
                del tables.other[own.key]
        return tables

    def _ready(self) -> Tables:
        self.base.wait_for_switch()
        self.base.wait_for_ports(self.want.name, [p.name for p in self.want.ports])
        self.client.wait(self.base.timeout)
        return self.client.dump(lambda: self.lines)

    @contextmanager
    def _undoing(self, before: db.Bridge | None, tables: Tables) -> Iterator[None]:
        """Undo what was done in OVSDB when the block fails, so that an apply does all or nothing."""
        try:
            yield
        except BaseException as err:
            if self.sending.sent:  # the new tables are there, or may be, and they need the ports
                raise
            end = "nothing was changed" if before else f"bridge {self.want.name} was removed again"
            try:
                with put_off():
                    self._undo(before, tables, follow=not isinstance(err, UnavailableError))
            except SwitchError as why:
                end = f"the bridge could not be put back as it was ({why}); mend the cause and apply again"
            if isinstance(err, KeyboardInterrupt):
                raise KeyboardInterrupt(end) from None
            if isinstance(err, SwitchError):
                said = str(err).removesuffix("; nothing was changed")
                raise reworded(err, f"{said}; {end}") from None
            raise

    def _undo(self, before: db.Bridge | None, tables: Tables, *, follow: bool) -> None:
        br.put_back(self.base, self.want, before)
        if before is not None and br.disturbs_tables(self.want, before):
            self.base.wait_for_switch()
            self.base.wait_for_ports(before.name, [n for n, p in before.ports.items() if (p.ofport or 0) > 0])
            self.client.wait(self.base.timeout)
            lines = way_back(tables, self.client.dump())
            if lines:
                self.client.bundle(lines)
        elif follow:
            self.base.wait_for_switch()

    def _finish(self, done: Applied, tables: Tables) -> Applied:
        """What comes after the bundle, so that a port which was kept from forwarding meets the new tables; the record."""
        have = self.base.bridge(self.want.name)
        if have is None:
            raise SwitchError(f"bridge {self.want.name} was removed meanwhile")
        done.recorded = self.journal.stale
        if not done.changed:
            return done
        try:
            settings = put_right(self._seen(have, tables), self.base, self.client.ofctl)
            settings = br.finish(self.base, self.want, have) or settings
            self.journal.commit()
        except SwitchError as err:
            raise reworded(err, f"the tables are the new ones, but {err}; apply again to finish") from None
        if settings or done.settings:
            self.base.wait_for_switch()  # else the server's next news would find nobody, which it logs as an error
        return done
