"""Readings of the switch that one page alone needs: made while somebody looks at it, in threads of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from dnsteer.console.desk import Picture
from dnsteer.console.offload_content import KEY as OFFLOAD
from dnsteer.console.offload_reading import OffloadWatch
from dnsteer.console.path_query import KEY as PATH
from dnsteer.console.path_reading import PathReader
from dnsteer.console.prediction import Predict
from dnsteer.deploy.target_switch import TargetSwitch


class OnDemand:
    """Reads for pages that are looked at. *changed* is called on the event loop when there is something new."""

    def __init__(self, switch: TargetSwitch, changed: Callable[[], None], predict: Predict | None = None) -> None:
        self._offload = OffloadWatch(switch, changed, predict)
        self._paths = PathReader(switch)
        self._path_thread = ThreadPoolExecutor(1, "console-path")

    @staticmethod
    def reads(key: str) -> bool:
        """Whether the page *key* needs a reading of its own, which may be newer than the picture."""
        return key == OFFLOAD or key.startswith(f"{PATH}?")

    async def read(self, key: str, picture: Picture, watched: Sequence[str]) -> object:
        """What the page *key* needs beside the picture; None for nothing. *watched* are all pages that are looked at."""
        side = picture.side
        if side is None:
            return None
        if key.startswith(f"{PATH}?"):
            loop = asyncio.get_running_loop()
            followed = [each for each in watched if each.startswith(f"{PATH}?")]
            return await loop.run_in_executor(self._path_thread, partial(self._paths.read, key, side, followed))
        return await self._offload.look(side) if key == OFFLOAD else None

    def close(self) -> None:
        """End the threads, once they are done with what they read."""
        self._offload.close()
        self._path_thread.shutdown(wait=False, cancel_futures=True)
