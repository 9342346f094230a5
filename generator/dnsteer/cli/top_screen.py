"""The terminal of `top`: frames as they come, keys, and a terminal that is left as it was."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.live import Live

from dnsteer.cli.charset_console import screen_console
from dnsteer.cli.top_frame import Sort, TopFrame
from dnsteer.cli.top_keys import TopKeys
from dnsteer.cli.top_view import Size, top_view

_RESIZED = 0.3
"""Seconds within which another size of the terminal is noticed."""
Look = Callable[[], TopFrame | str]
"""Waits for the next frame; or why there is none."""


class _Frames:
    """Looks again and again in a thread of its own, so that keys are obeyed meanwhile. After each *bell* can be read."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.bell, self._rings = os.pipe()
        self.last: TopFrame | str = ""
        self.failed: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self.failed is None:
            try:
                self.last = self._look()
            except BaseException as err:  # noqa: BLE001 - said by the thread that shows frames
                self.failed = err
            os.write(self._rings, b".")


def show_frames(first: TopFrame, look: Look, sort: Sort, every: float, matching: str = "") -> None:
    """Show frames until `q` or Ctrl-C, which raises KeyboardInterrupt. *every* is how often they come, in seconds;
    *matching* the filter to begin with."""
    screen, chosen = screen_console(), TopKeys(sort, matching)
    frame, away = first, ""
    with _keys() as keys, Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        frames, shown = _Frames(look), None
        while True:
            now = frame, away, replace(chosen), screen.size
            if now != shown:
                size = Size(screen.width, screen.height)
                view = top_view(
                    frame,
                    size,
                    chosen.sort,
                    away=away,
                    foot=chosen.foot(every),
                    matching=chosen.matching,
                    skip=chosen.skip,
                )
                live.update(screen.fitted(view), refresh=True)
                shown = now
            ready = select.select([frames.bell, *keys], [], [], _RESIZED)[0]
            if frames.bell in ready:
                os.read(frames.bell, 64)
                if frames.failed is not None:
                    raise frames.failed
                found = frames.last
                away = found if isinstance(found, str) else ""
                frame = frame if isinstance(found, str) else found
            if keys and keys[0] in ready:
                data = os.read(keys[0], 64).decode(errors="replace")
                rows = max(
                    len(frame.vips(chosen.sort, chosen.matching)), len(frame.shares(chosen.sort, chosen.matching))
                )
                if not chosen.press(data, page=max(1, screen.height // 3), rows=rows):
                    return


@contextmanager
def _keys() -> Iterator[list[int]]:
    """Standard input, key by key and without an echo, as a list; an empty one where it is no terminal."""
    if not sys.stdin.isatty():
        yield []
        return
    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    try:
        tty.setcbreak(here)
        yield [here]
    finally:
        termios.tcsetattr(here, termios.TCSADRAIN, before)
