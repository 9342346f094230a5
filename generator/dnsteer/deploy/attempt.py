"""A change that is under way: how far it has come, and what is undone when it fails before its bundle is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dnsteer.deploy.journal import take_back
from dnsteer.switch.signals import defer_signals
from dnsteer.switch.tools import SwitchError, UnavailableError, reworded

if TYPE_CHECKING:
    from dnsteer.deploy.journal import Begun
    from dnsteer.switch.session import Session


class Attempt:
    """A change of *bridge*; *is_new*: it creates that.

    *begun* is its journal entry, *restore_ports* what undoes its change of the bridge and ports: it is told whether to wait
    until the switch has followed, and may raise SwitchError. *sent*: the bundle is under way or done, so that nothing can be
    taken back; who sends it says so.
    """

    def __init__(self, session: Session, bridge: str, *, is_new: bool) -> None:
        self._session, self._bridge, self._is_new = session, bridge, is_new
        self._deferred = ExitStack()
        self.begun: Begun | None = None
        self.restore_ports: Callable[[bool], None] | None = None
        self.sent = False

    def defer_signals(self) -> list[int]:
        """From here on, requests to end are obeyed when a failure is undone, or all is done. Returns those that come."""
        return self._deferred.enter_context(defer_signals())

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
            end = "the change was already made" if self.sent else "nothing was changed"
            raise KeyboardInterrupt(str(failed) if isinstance(failed, SwitchError) else end) from None

    def _undo(self, err: BaseException) -> None:
        """Undo the last step first, and raise the error with what came of that, where there is something to say."""
        if self.sent:  # the new tables are there, or may be, and they need the ports
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
