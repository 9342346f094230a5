# SPDX-License-Identifier: Apache-2.0
"""The step that sends the tables to the switch and the program to the extension, and undoes it when a part fails."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from dnsteer.deploy.journal import Attempt
from dnsteer.deploy.wanted_switch import WantedSwitch
from dnsteer.spec.errors import counted, file_of_part
from dnsteer.switch.meters import MetersLostError, bring_meters, delete_meters, take_back_meters
from dnsteer.switch.openflow import OpenFlow, RejectedError, Tables, UnconfirmedError
from dnsteer.switch.restart_fence import RestartedError, send_bundle
from dnsteer.switch.table_changes import BETWEEN_PASSES, TableChanges
from dnsteer.switch.tools import SwitchError, reworded
from dnsteer.tables.cookies import Subject
from dnsteer.tables.slot import GroupRow

if TYPE_CHECKING:
    from dnsteer.extension.handover import FlowStages, Handover

_COOKIE = re.compile(r"cookie[=:](0x[0-9a-f]+)")
_GROUP = re.compile(r"group_id=(\d+)")
_LOOK = 0.05
_EITHER = "the switch has either all of the old tables or all of the new ones; apply again, or see which with verify"
_NONE = TableChanges((), (), (), (), (), ())


@dataclass
class ApplyResult:
    """What an apply did. *loaded*: the extension's program changed. *away* is the error that kept it from being loaded.
    *state* is the number of the state that the switch has now.

    *warnings* are what is not as it should be, and keeps no query from its backend; *of_others* what others have set or
    loaded that stops or changes traffic.
    """

    settings: list[str]
    flows: TableChanges
    recorded: bool = False
    loaded: bool = False
    away: SwitchError | PermissionError | None = None
    state: int = 0
    warnings: list[str] = field(default_factory=list)
    of_others: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.settings) or bool(self.flows) or self.recorded or self.loaded


@dataclass
class BundleSender:
    """Sends bundles to the switch and programs to the extension. *needs_extension*: a failing extension ends the change.

    *grace* is in seconds; *signals* fills when we are asked to end, and the rest of it is not waited for then.
    """

    client: OpenFlow
    wanted: WantedSwitch
    attempt: Attempt
    fenced: bool
    signals: list[int]
    grace: float
    needs_extension: bool
    progress: Callable[[str], None]

    def change_tables(self, result: ApplyResult, tables: Tables, handover: Handover | None) -> None:
        """Send the bundle, then a second one with what must wait; without waiting after a request to end.

        Meters that the flows use come before, and those that none uses any more go after.
        """
        with self._meters(result.flows, tables):
            self._change_flows(result, tables, handover)

    @contextmanager
    def _meters(self, todo: TableChanges, tables: Tables) -> Iterator[None]:
        """Bring meters for the bundle that is sent in the block, and take them back where it surely was not taken."""
        before, brought = [*tables.meters.values()], (*todo.add_meters, *todo.replace_meters)
        if todo.meters:
            self.progress(f"bringing {counted(len(brought), 'meter')}, removing {len(todo.remove_meters):,}")
        try:
            bring_meters(self.client, todo.add_meters, todo.replace_meters, before)
        except MetersLostError:
            raise RestartedError from None
        except SwitchError as err:
            raise reworded(err, f"{err}; nothing was changed") from None
        try:
            yield
        except SwitchError as err:
            said = (
                ""
                if self.attempt.kept or isinstance(err, RestartedError)
                else take_back_meters(self.client, brought, before)
            )
            if said:
                raise reworded(err, f"{err}; {said}") from None
            raise
        try:
            delete_meters(self.client, todo.remove_meters)
        except SwitchError as err:
            raise reworded(
                err,
                f"the new tables are loaded, but meters that nothing uses any more are still there: {err}; apply again",
            ) from None

    def _change_flows(self, result: ApplyResult, tables: Tables, handover: Handover | None) -> None:
        if handover is not None and handover.loads:
            self._with_program(result, tables, handover)
            return
        now, later = result.flows.split_for_grace() if self.grace else (result.flows, _NONE)
        self._send_now(now)
        self._send_later(later)

    def _with_program(self, result: ApplyResult, tables: Tables, handover: Handover) -> None:
        stages = handover.stages(self.wanted.plan, self.wanted.lines, tables, result.flows)
        self._before_bundle(handover, stages, result)
        try:
            self._send_now(stages.now)
        except UnconfirmedError:
            raise  # the switch has the old tables or the new ones, and the program serves both
        except SwitchError as err:
            self._take_back(stages, err, handover)
        self.attempt.keep()
        if not handover.keeps or result.away is not None:
            self._send_later(stages.later)
            return
        if self.grace:
            self.progress(
                f"waiting {self.grace:g} s for packets in flight; then the extension serves only the new VIPs"
            )
        self._pause(self.grace)
        try:
            handover.load_new()
        except (SwitchError, PermissionError) as err:
            self._continue_or_raise(result, err, "the new tables are loaded, but ", "; apply again to finish")
        if stages.later:
            self._send_bundle(stages.later.bundle())

    def _before_bundle(self, handover: Handover, stages: FlowStages, result: ApplyResult) -> None:
        """Before the bundle: add flows that nothing uses yet, then load the program for old and new VIPs."""
        from dnsteer.extension.client import ConnectionLostError
        from dnsteer.extension.handover import SETTLE

        if stages.early:
            n = len(stages.early)
            self.progress(f"sending {n} flow{'s' if n > 1 else ''} for packets from the new program")
            self._send_bundle([f"flow add {f.line()}" for f in stages.early], early=True)
            self._pause(min(self.grace, SETTLE))
        self.progress("loading the program of the extension")
        for name in handover.between.left_out:
            self.progress(
                f"the extension cannot serve {name} and its new VIPs at once: queries in flight to {name} may be lost"
            )
        try:
            handover.load_both()
        except ConnectionLostError as err:
            if self.needs_extension:
                self.attempt.keep()  # the outcome is unknown; the next verb settles it
            self._continue_or_raise(
                result, err, "", "; the old tables are still loaded, and the extension has the old or the new program"
            )
        except (SwitchError, PermissionError) as err:
            if self.needs_extension:
                self._take_back(stages, err)
            self._continue_or_raise(result, err)

    def _take_back(
        self, stages: FlowStages, err: SwitchError | PermissionError, handover: Handover | None = None
    ) -> NoReturn:
        """Undo the preparations of a bundle that failed. Raises *err*, with what could not be undone."""
        failed = [handover.roll_back()] if handover is not None else []
        if stages.early and not isinstance(err, RestartedError):
            try:
                send_bundle(self.client, stages.lines_to_take_back(), fenced=self.fenced)
            except SwitchError as why:
                failed.append(f"flows that were added early stay until the next apply ({why})")
        said = "; ".join(filter(None, failed))
        if said or handover is None:
            raise _worded(err, "", f"; {said or 'nothing was changed'}") from None
        raise err

    def _continue_or_raise(
        self, result: ApplyResult, err: SwitchError | PermissionError, before: str = "", after: str = ""
    ) -> None:
        """Continue without the extension if it is not needed; else raise *err*."""
        if self.needs_extension:
            raise _worded(err, before, after) from None
        result.away, result.loaded = err, False

    def _send_now(self, todo: TableChanges) -> None:
        if todo:
            if changes := len(todo) - todo.meters:
                self.progress(f"sending {changes:,} changes of flows and groups in one bundle")
            self._send_bundle(todo.bundle())

    def _send_later(self, todo: TableChanges) -> None:
        if todo:
            what = "in the tables' old numbers" if todo.renumbered else "of the return path"
            whose = "answers"
            if any(flow.table in BETWEEN_PASSES for flow in todo.remove):
                what, whose = "of further passes", "packets"
            self.progress(
                f"waiting {self.grace:g} s for {whose} in flight; then the {len(todo):,} flows {what} are removed"
            )
            self._pause(self.grace)
            self._send_bundle(todo.bundle())

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.signals and time.monotonic() < until:
            time.sleep(_LOOK)

    def _send_bundle(self, lines: list[str], *, early: bool = False) -> None:
        """Send a bundle. Its errors name what of the spec was refused, or that the outcome is unknown."""
        try:
            with self.attempt.sending(early=early):
                send_bundle(self.client, lines, fenced=self.fenced)
            self.fenced = True
        except RejectedError as err:
            subject = self._subject(err.what)
            about = f" for {subject.title}" if subject else ""
            if subject and subject.line:
                about += f" ({file_of_part(self.wanted.loaded.file, subject.part)}:{subject.line})"
            raise SwitchError(f"the switch refused the changes{about}: {err.reason}: {err.what}") from None
        except UnconfirmedError as err:
            raise UnconfirmedError(f"{err}; {_EITHER}") from None

    def _subject(self, text: str) -> Subject | None:
        """Return the object of the spec behind a flow or group that was refused."""
        cookie, group = _COOKIE.search(text), _GROUP.search(text)
        if cookie:
            return self.wanted.plan.subject(int(cookie[1], 16))
        return next(
            (row.subject for row in self.wanted.plan.rows.of(GroupRow) if group and row.group == int(group[1])), None
        )


def _worded(err: SwitchError | PermissionError, before: str, after: str) -> SwitchError | PermissionError:
    if isinstance(err, PermissionError):
        return err
    return reworded(err, f"{before}{err}{after}")
