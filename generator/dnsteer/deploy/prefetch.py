"""Ask a switch for its tables before the spec is checked: on a large one nothing else of an apply takes as long."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

from dnsteer.deploy.target_switch import Switch
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.record import Record
from dnsteer.switch.state import Standing
from dnsteer.switch.tools import SwitchError


class Ahead:
    """The tables of a bridge that are printed ahead; what nobody took ends with the context.

    They are good for as long as no dnsteer changes the bridge: a change is written into the bridge's row before it begins
    and when it is done.
    """

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._record: Record | None = None
        self._failed: SwitchError | OSError | None = None
        self._standing: Standing | None = None
        self._client: OpenFlow | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.end_dump()
        if self._record is not None:
            self._record.close()

    def begin(self, bridge: str) -> None:
        """Begin, where there is something to print. What is in the way comes up when the switch is needed."""
        if not self._switch.remote.startswith("unix:"):
            return  # one that is far and silent would keep what is wrong with the spec from being said
        try:
            self._record = Record(self._switch.remote, self._switch.timeout)
            self._standing = self._record.standing(bridge)
        except (SwitchError, OSError) as err:
            self._failed = err
        with suppress(SwitchError, OSError):
            if self._standing is not None and self._standing.number and self._standing.pending is None:
                client = self._switch.client(bridge)
                client.begin_dump()
                self._client = client

    def record(self) -> Record:
        """A connection to the record, to be closed: the one that is there, or else a new one. Raises what was in the way."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        record, self._record = self._record, None
        return record or Record(self._switch.remote, self._switch.timeout)

    def client(self, standing: Standing | None) -> OpenFlow | None:
        """The bridge's OpenFlow, whose next dump is under way. None where there is none, or not of how the bridge stands."""
        if self._client is None or standing == self._standing:
            return self._client
        self._client.end_dump()
        return None
