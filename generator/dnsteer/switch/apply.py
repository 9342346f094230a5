"""Bring a running switch to what a spec says: the bridge through OVSDB, flows and groups in one bundle.

In this order: ports are added, the bundle makes the tables anew in one step, and only then ports are removed and the
record is written. So at any moment the tables are the old or the new ones, whole, and every port that they name is there.
What fails or is interrupted before the bundle is undone; from the bundle on, a request to end waits until all is done. What
a kill -9 leaves is mended by the next apply, since each starts from what the switch has.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from dnsteer.plan.absence import Overlay
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan
from dnsteer.plan.subject import Subject
from dnsteer.render.flows import groups_of, lines_of
from dnsteer.spec.load import Loaded
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.fence import has_fence, makes_fence, send
from dnsteer.switch.interrupts import put_off
from dnsteer.switch.openflow import (
    Changes,
    OpenFlow,
    RejectedError,
    Tables,
    UnconfirmedError,
    changes,
    lost,
    way_back,
)
from dnsteer.switch.tools import SwitchError, UnavailableError

_COOKIE = re.compile(r"cookie[=:](0x[0-9a-f]+)")
_GROUP = re.compile(r"group_id=(\d+)")
_LOOK = 0.05
_EITHER = "the tables are the old or the new ones, whole; apply again, or see with verify"


@dataclass
class Applied:
    """What an apply did."""

    settings: list[str]
    flows: Changes
    recorded: bool = False

    @property
    def changed(self) -> bool:
        """Whether anything of the switch changed."""
        return bool(self.settings) or bool(self.flows) or self.recorded


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
    """What an apply would do: the differences in OVSDB and in the tables, from what is there."""

    before: db.Bridge | None
    differ: list[br.Difference]
    tables: Tables
    todo: Changes

    @property
    def settings(self) -> list[str]:
        """What would be done in OVSDB, in words."""
        return [d.todo for d in self.differ]


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
    ) -> None:
        self.loaded = loaded
        self.overlay = overlay
        self.base = base
        self.client = client
        self.journal = journal
        self.progress = progress
        self.grace = grace
        self.want: WantedBridge = wanted_bridge(loaded.spec)
        self.sent = False  # whether the bundle is under way or done
        self.fenced = False  # whether the switch has the fence

    @cached_property
    def plan(self) -> Plan:
        """The plan of the spec and the overlay."""
        return build_plan(self.loaded, self.overlay)

    @cached_property
    def _lines(self) -> dict[str, None]:
        return dict.fromkeys(lines_of(self.plan))  # a dict, since it keeps the order

    def prepare(self, *, adopt: bool = False, meanwhile: Callable[[], object] = lambda: None) -> Prepared:
        """See what there is and what must change. Changes nothing. *meanwhile* is done while the switch prints its flows."""
        before = self.base.bridge(self.want.name)
        br.refuse_foreign(self.base, self.want, before, adopt)
        tables = self._tables_before(before, meanwhile)
        todo = changes(self._lines, groups_of(self.plan), tables)
        return Prepared(before, br.differences(self.loaded.spec, self.want, before), tables, todo)

    def carry_out(self, what: Prepared) -> Applied:
        """Do what was prepared."""
        try:
            if what.before is not None and (what.differ or what.todo or self.journal.stale):
                with put_off():  # else nobody would know whether it was written
                    self.journal.begin()
            return self._carry_out(what)
        except BaseException as err:
            if not self.sent and what.before is not None:
                with put_off(), suppress(SwitchError):  # left as it is, the next verb does it
                    self.journal.take_back()
            if isinstance(err, KeyboardInterrupt) and not str(err):
                failed = err.__context__ if isinstance(err.__context__, SwitchError) else None
                end = "by then the change was made" if self.sent else "nothing was changed"
                raise KeyboardInterrupt(str(failed or end)) from None
            raise

    def _carry_out(self, what: Prepared) -> Applied:
        before, todo = what.before, what.todo
        with ExitStack() as end:
            if any(d.first for d in what.differ):
                self.progress(f"bridge {self.want.name}: {'; '.join(what.settings)}")
                with self._undoing(before, what.tables):
                    br.set_up(self.base, self.want, before)
                    now = self._ready()
                    self.fenced = has_fence(now)
                    gone = tuple(line for line in lost(what.tables, now) if not makes_fence(line))
                    todo = replace(changes(self._lines, groups_of(self.plan), now), restore=gone)
                    asked = end.enter_context(put_off())
                    if before is None:
                        self.journal.begin()
                    self._send(todo, asked)
            else:
                self.fenced = has_fence(what.tables)
                self.base.wait_for_ports(self.want.name, [p.name for p in self.want.ports])
                asked = end.enter_context(put_off())
                self._send(todo, asked)
            return self._finish(Applied(what.settings, todo))

    def _tables_before(self, before: db.Bridge | None, meanwhile: Callable[[], object]) -> Tables:
        """The tables, where there are any that can be read."""
        if before is None or br.lacks_protocol(before):
            return Tables()
        other = br.other_datapath(self.want, before)
        try:
            self.client.wait(0 if other else self.base.timeout)
        except UnavailableError:
            if other:
                return Tables()
            raise

        def expected() -> dict[str, None]:
            meanwhile()
            return self._lines

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
        return self.client.dump(lambda: self._lines)

    def _send(self, todo: Changes, asked: list[int]) -> None:
        """Send the bundle, and what must wait in a second one: soon, when we are *asked* to end."""
        now, later = todo.in_two() if self.grace else (todo, Changes((), (), (), (), (), ()))
        if now:
            self.progress(f"sending {len(now)} changes of flows and groups in one bundle")
            self._send_bundle(now)
        if later:
            self.progress(
                f"waiting {self.grace:g} s for answers under way; then the {len(later)} flows of their way back go"
            )
            until = time.monotonic() + self.grace
            while not asked and time.monotonic() < until:
                time.sleep(_LOOK)
            self._send_bundle(later)

    def _send_bundle(self, todo: Changes) -> None:
        earlier, self.sent = self.sent, True
        try:
            send(self.client, todo.bundle(), fenced=self.fenced)
            self.fenced = True
        except RejectedError as err:
            self.sent = earlier
            subject = self._subject(err.what)
            about = f" for {subject.title} ({self.loaded.file}:{subject.line})" if subject else ""
            raise SwitchError(f"the switch refused the changes{about}: {err.reason}: {err.what}") from None
        except UnconfirmedError as err:
            raise UnconfirmedError(f"{err}; {_EITHER}") from None
        except SwitchError:  # before anything was sent
            self.sent = earlier
            raise

    def _subject(self, text: str) -> Subject | None:
        """The object of the spec behind a flow or group that was refused."""
        cookie, group = _COOKIE.search(text), _GROUP.search(text)
        if cookie:
            return self.plan.subject(int(cookie[1], 16))
        return next((row.subject for row in self.plan.groups if group and row.group == int(group[1])), None)

    @contextmanager
    def _undoing(self, before: db.Bridge | None, tables: Tables) -> Iterator[None]:
        """Undo what was done in OVSDB when the block fails, so that an apply does all or nothing."""
        try:
            yield
        except BaseException as err:
            if self.sent:  # the new tables are there, or may be, and they need the ports
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
                kind = UnavailableError if isinstance(err, UnavailableError) else SwitchError
                raise kind(f"{err}; {end}") from None
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

    def _finish(self, done: Applied) -> Applied:
        have = self.base.bridge(self.want.name)
        if have is None:
            raise SwitchError(f"bridge {self.want.name} was removed meanwhile")
        done.recorded = self.journal.stale
        if not done.changed:
            return done
        try:
            settings = br.finish(self.base, self.want, have)
            self.journal.commit()
        except SwitchError as err:
            raise type(err)(f"the tables are the new ones, but {err}; apply again to finish") from None
        if settings or done.settings:
            self.base.wait_for_switch()  # else the server's next news would find nobody, which it logs as an error
        return done
