# SPDX-License-Identifier: Apache-2.0
"""Dump the tables while the spec is checked: on a large switch the dump is the longest part of an apply."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.session import Session
from dnsteer.switch.state import BridgeRecord
from dnsteer.switch.tools import SwitchError


class Prefetch:
    """A dump of a bridge's tables begun before it is needed; an unused one ends with the context.

    They are good for as long as no dnsteer changes the bridge: a change is written into the bridge's row before it begins
    and when it is done.
    """

    def __init__(self, switch: TargetSwitch) -> None:
        self._switch = switch
        self._session: Session | None = None
        self._failed: SwitchError | OSError | None = None
        self._record: BridgeRecord | None = None
        self._client: OpenFlow | None = None

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.end_dump()
        if self._session is not None:
            self._session.close()

    def begin(self, bridge: str) -> None:
        """Begin the dump, if there is a bridge. Errors are raised when the switch is needed."""
        if not self._switch.remote.startswith("unix:"):
            return  # a remote switch that does not answer would delay the errors of the spec
        try:
            self._session = self._switch.session()
            self._record = self._session.record(bridge)
        except (SwitchError, OSError) as err:
            self._failed = err
        with suppress(SwitchError, OSError):
            if self._record is not None and self._record.number and self._record.pending is None:
                client = self._switch.client(bridge)
                client.begin_dump()
                self._client = client

    def session(self) -> Session:
        """Return an open Session, which the caller closes. Raises the error that `begin` met."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        session, self._session = self._session, None
        return session or self._switch.session()

    def client(self, record: BridgeRecord | None) -> OpenFlow | None:
        """Return the OpenFlow whose dump is under way; None if there is none or the record has changed since."""
        if self._client is None or record == self._record:
            return self._client
        self._client.end_dump()
        return None
