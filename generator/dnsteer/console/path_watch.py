"""Paths are traced in a thread of their own, so that a switch that answers late holds no page up but that path's."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from dnsteer.console.pace import briefly
from dnsteer.console.path_query import BadQueryError, query_of
from dnsteer.console.path_reading import PathReader, PathReading
from dnsteer.deploy.times import now
from dnsteer.view.snapshot import Side

_KEPT = 64
_MAX_UNDER_WAY = 64


class PathWatch:
    """Reads while `look` is called. *changed* is called on the event loop when there is a new reading."""

    def __init__(self, reader: PathReader, changed: Callable[[], None]) -> None:
        self._reader, self._changed = reader, changed
        self._thread = ThreadPoolExecutor(1, "console-path")
        self._last: OrderedDict[str, PathReading] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[PathReading]] = {}

    async def look(self, key: str, side: Side, followed: Collection[str], *, wait: bool) -> PathReading | None:
        """The last reading of a path, None for none yet; a newer one begins when it is due.

        *wait*: somebody asks for this page, so wait a little for what is under way.
        """
        try:
            query_of(key, side.known.spec)
        except BadQueryError as err:
            return PathReading(now(), bad=err)  # without the switch
        if key not in self._under_way and len(self._under_way) < _MAX_UNDER_WAY:
            self._begin(key, side, followed)
        if wait and key in self._under_way:
            await briefly(self._under_way[key])
        return self._last.get(key)

    def _begin(self, key: str, side: Side, followed: Collection[str]) -> None:
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._thread, self._reader.read, key, side, list(followed))
        self._under_way[key] = reading

        def done(_: object) -> None:
            del self._under_way[key]
            if reading.cancelled():
                return
            found = reading.result()
            if self._last.get(key) is not found:  # it was due
                self._last[key] = found
                self._changed()
            self._last.move_to_end(key)
            while len(self._last) > _KEPT:
                self._last.popitem(last=False)

        reading.add_done_callback(done)

    def close(self) -> None:
        """End the thread, once it is done with what it reads."""
        self._thread.shutdown(wait=False, cancel_futures=True)
