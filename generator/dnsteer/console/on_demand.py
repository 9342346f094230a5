"""Readings of the switch that one page alone needs: made while somebody looks at it, in threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dnsteer.console.defects import DefectError
from dnsteer.console.desk import Picture
from dnsteer.console.offload_content import KEY as OFFLOAD
from dnsteer.console.offload_reading import OffloadWatch
from dnsteer.console.path_query import KEY as PATH
from dnsteer.console.path_reading import PathReader
from dnsteer.console.path_watch import PathWatch
from dnsteer.console.prediction import Predict
from dnsteer.console.vip_content import PREFIX as VIP
from dnsteer.deploy.target_switch import TargetSwitch


class OnDemand:
    """Reads for pages that are looked at. *changed* is called on the event loop when there is something new."""

    def __init__(self, switch: TargetSwitch, changed: Callable[[], None], predict: Predict | None = None) -> None:
        self._offload = OffloadWatch(switch, changed, predict)
        self._paths = PathWatch(PathReader(switch), changed)

    @staticmethod
    def reads(key: str) -> bool:
        """Whether the page *key* needs a reading of its own, which may be newer than the picture."""
        return key == OFFLOAD or key.startswith((f"{PATH}?", VIP))

    async def read(self, key: str, picture: Picture, watched: Sequence[str], *, wait: bool) -> object:
        """What the page *key* needs beside the picture; None for nothing. *watched* are all pages that are looked at.

        *wait*: somebody asks for this page alone, so wait for its own reading, for a moment. Raises DefectError.
        """
        side = picture.side
        if side is None:
            return None
        if key.startswith(f"{PATH}?"):
            followed = [each for each in watched if each.startswith(f"{PATH}?")]
            path = await self._paths.look(key, side, followed, wait=wait)
            if path is not None and path.defect is not None:
                raise DefectError(path.defect)
            return path
        if key != OFFLOAD and not key.startswith(VIP):
            return None
        look = await self._offload.look(side, wait=wait, predict=key == OFFLOAD)
        if key == OFFLOAD and look.view is not None and look.view.defect is not None:
            raise DefectError(look.view.defect)
        return look

    def close(self) -> None:
        """End the threads, once they are done with what they read."""
        self._offload.close()
        self._paths.close()
