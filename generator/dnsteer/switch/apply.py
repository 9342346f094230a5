"""Bring a running switch to what a spec says: the bridge through OVSDB, flows and groups in one bundle.

In this order: ports are added, the bundle makes the tables anew in one step, and only then ports are removed and the
record is written. So at any moment the tables are the old or the new ones, whole, and every port that they name is there.
What fails or is interrupted before the bundle is undone; what a kill -9 leaves is mended by the next apply, since each
starts from what the switch has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from dnsteer import __version__
from dnsteer.plan.bridge import WantedBridge, wanted_bridge
from dnsteer.plan.build import build_plan
from dnsteer.plan.objects import Plan, Subject
from dnsteer.render.flows import flows_of, groups_of
from dnsteer.spec.load import Loaded, digest
from dnsteer.switch import bridge as br
from dnsteer.switch import database as db
from dnsteer.switch.interrupts import put_off
from dnsteer.switch.openflow import (
    Changes,
    OpenFlow,
    RejectedError,
    Tables,
    UnconfirmedError,
    changes,
    lost,
    refuse_blocked,
    way_back,
)
from dnsteer.switch.tools import SwitchError, UnavailableError

_COOKIE = re.compile(r"cookie[=:](0x[0-9a-f]+)")
_GROUP = re.compile(r"group_id=(\d+)")
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


def openflow_target(remote: str, bridge: str, override: str | None = None) -> str:
    """Where the bridge's OpenFlow management socket is: beside the OVSDB socket, or as told."""
    if override:
        return override
    kind, _, where = remote.partition(":")
    if kind != "unix":
        raise SwitchError(f"for a database at {remote}, say where the bridge's OpenFlow is: --openflow tcp:HOST:PORT")
    return f"unix:{Path(where).absolute().parent / f'{bridge}.mgmt'}"


def apply(
    loaded: Loaded,
    remote: str,
    *,
    openflow: str | None = None,
    adopt: bool = False,
    timeout: float = 10,
    progress: Callable[[str], None] = lambda _: None,
) -> Applied:
    """Make the switch at *remote* what the spec says. Raises SwitchError, which says what became of the switch."""
    plan = build_plan(loaded)
    with db.Database(remote, timeout) as base:
        client = OpenFlow(openflow_target(remote, plan.bridge, openflow), timeout=timeout)
        return _Apply(loaded, plan, base, client, progress).run(adopt)


class _Apply:
    def __init__(
        self, loaded: Loaded, plan: Plan, base: db.Database, client: OpenFlow, progress: Callable[[str], None]
    ) -> None:
        self.loaded = loaded
        self.plan = plan
        self.base = base
        self.client = client
        self.progress = progress
        self.want: WantedBridge = wanted_bridge(loaded.spec)
        self.sent = False  # whether the bundle is under way or done

    def run(self, adopt: bool) -> Applied:
        flows, groups = flows_of(self.plan), groups_of(self.plan)
        self.base.lock(self.want.name)  # two at once would each send what the other's tables need
        before = self.base.bridge(self.want.name)
        br.refuse_foreign(self.base, self.want, before, adopt)
        differ = br.differences(self.loaded.spec, self.want, before)
        tables = self._tables_before(before)
        refuse_blocked(flows, tables)

        if any(d.first for d in differ):
            self.progress(f"bridge {self.want.name}: {'; '.join(d.todo for d in differ)}")
            with self._undoing(before, tables):
                br.set_up(self.base, self.want, before)
                now = self._ready()
                todo = replace(changes(flows, groups, now), restore=lost(tables, now))
                self._send(todo)
        else:
            self.base.wait_for_ports(self.want.name, [p.name for p in self.want.ports])
            todo = changes(flows, groups, tables)
            self._send(todo)
        try:
            return self._finish(Applied([d.todo for d in differ], todo))
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the tables are the new ones; apply again to finish") from None

    def _tables_before(self, before: db.Bridge | None) -> Tables:
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
        tables = self.client.dump()
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
        return self.client.dump()

    def _send(self, todo: Changes) -> None:
        if not todo:
            return
        self.progress(f"sending {len(todo)} changes of flows and groups in one bundle")
        try:
            self.sent = True
            self.client.bundle(todo.bundle())
        except RejectedError as err:
            self.sent = False
            subject = self._subject(err.what)
            about = f" for {subject.title} ({self.loaded.file}:{subject.line})" if subject else ""
            raise SwitchError(f"the switch refused the changes{about}: {err.reason}: {err.what}") from None
        except UnconfirmedError as err:
            raise UnconfirmedError(f"{err}; {_EITHER}") from None
        except UnavailableError:
            self.sent = False
            raise

    def _subject(self, text: str) -> Subject | None:
        """The object of the spec behind a flow or group that was refused."""
        cookie, group = _COOKIE.search(text), _GROUP.search(text)
        if cookie:
            return self.plan.subjects.get(int(cookie[1], 16))
        return next((row.subject for row in self.plan.groups if group and row.group == int(group[1])), None)

    @contextmanager
    def _undoing(self, before: db.Bridge | None, tables: Tables) -> Iterator[None]:
        """Undo what was done in OVSDB when the block fails, so that an apply does all or nothing."""
        try:
            yield
        except BaseException as err:
            if self.sent:  # the new tables are there, or may be, and they need the ports
                if isinstance(err, KeyboardInterrupt):
                    raise KeyboardInterrupt(_EITHER) from None
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
        record = self._record(have, done)
        done.recorded = bool(record)
        if done.changed:
            try:
                with put_off():  # short, and without it there is a drift
                    br.finish(self.base, self.want, have, record)
            except SwitchError as err:
                raise type(err)(f"the tables are the new ones, but {err}; apply again to finish") from None
            self.base.wait_for_switch()  # else the server's next news would find nobody, which it logs as an error
        return done

    def _record(self, have: db.Bridge, done: Applied) -> dict[str, str]:
        """What to note in the bridge; empty when it is noted already and nothing changed."""
        spec_digest, old = digest(self.loaded.spec), have.external_ids
        same = old.get(db.DIGEST_KEY) == spec_digest and old.get(db.VERSION_KEY) == __version__
        if same and not done.changed:
            return {}
        return {
            db.DIGEST_KEY: spec_digest,
            db.VERSION_KEY: __version__,
            db.TIME_KEY: datetime.now(timezone.utc).isoformat(timespec="seconds"),
            db.NAME_KEY: self.loaded.spec.switch.name or self.want.name,
        }
