"""A change that is under way: how far it has come, and what is undone when it fails before its bundle is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dnsteer.deploy.journal import take_back
from dnsteer.switch.openflow import UnconfirmedError
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded

if TYPE_CHECKING:
    from dnsteer.deploy.journal import Begun
    from dnsteer.switch.session import Session


class Attempt:
    """A change of *bridge*; *is_new*: it creates that.

    *begun* is its journal entry, *restore_ports* what undoes its change of the bridge and ports: it is told whether to wait
    until the switch has followed, and may raise SwitchError.
    """

    def __init__(self, session: Session, bridge: str, *, is_new: bool) -> None:
        self._session, self._bridge, self._is_new = session, bridge, is_new
        self._deferred = ExitStack()
        self.begun: Begun | None = None
        self.restore_ports: Callable[[bool], None] | None = None
        self._kept = False

    def defer_signals(self) -> list[int]:
        """From here on, requests to end are obeyed when a failure is undone, or all is done. Returns those that come."""
        return self._deferred.enter_context(defer_signals())

    def keep(self) -> None:
        """From here on nothing is undone: the switch has the new tables, or may have, and they need what was done before."""
        self._kept = True

    @contextmanager
    def sending(self, *, early: bool = False) -> Iterator[None]:
        """In the block a bundle is sent. Nothing is undone afterwards unless the switch has surely not taken it.

        All can be undone after an *early* bundle, whose flows nothing uses yet, if the switch has confirmed it.
        """
        before, self._kept = self._kept, True
        try:
            yield
        except UnconfirmedError:
            raise
        except SwitchError:  # it was refused, or could not be sent
            self._kept = before
            raise
        if early:
            self._kept = before

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Undo what was done when the block fails before the bundle is sent. The error says what became of the switch."""
        try:
            with self._deferred:
                try:
                    yield
                except BaseException as err:
                    self._undo(err)
                    raise
        except KeyboardInterrupt as err:
            if str(err):
                raise
            failed = err.__context__  # what the block raised before a request to end was obeyed
            end = "the change was already made" if self._kept else "nothing was changed"
            raise KeyboardInterrupt(str(failed) if isinstance(failed, SwitchError) else end) from None

    def _undo(self, err: BaseException) -> None:
        """Undo the last step first, and raise the error with what came of that, where there is something to say."""
        if self._kept:
            return
        said, end = str(err), ""
        if self.restore_ports is not None:
            end = f"bridge {self._bridge} was removed again" if self._is_new else "nothing was changed"
            try:
                with defer_signals():
                    self.restore_ports(not isinstance(err, UnavailableError))
            except SwitchError as why:
                end = f"the bridge could not be restored to what it was ({why}); fix the cause and apply again"
            said = said.removesuffix("; nothing was changed")
        left = "" if self._is_new else take_back(self._session, self.begun)
        if isinstance(err, KeyboardInterrupt):
            raise KeyboardInterrupt("; ".join(filter(None, [end or "nothing was changed", left]))) from None
        if isinstance(err, SwitchError) and (end or left):
            raise reworded(err, "; ".join(filter(None, [said, end, left]))) from None
