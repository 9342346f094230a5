# SPDX-License-Identifier: Apache-2.0
"""The verb `top`: the switch at a glance, live, in a terminal that is left as it was."""

from __future__ import annotations

import json as json_module
import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Json, out, print_json, status_exit_code
from dnsteer.cli.running_switch import Bridge, Interval, on_switch
from dnsteer.deploy.target_switch import TargetSwitch

if TYPE_CHECKING:
    from dnsteer.cli.top_frame import Sort, TopFrame

    ReadFrame = Callable[[], TopFrame | str]
    """Waits for the next frame; or says why there is none."""

_FIRST_INTERVAL = 1.0
"""Seconds over which the first rates are measured: the screen has no rates until then."""
_SORTS = ("rate", "name", "state", "difference")
_SIZE_CHECK = 0.3
"""Seconds within which another size of the terminal is noticed."""
ORDERS: Mapping[str, Sort] = {"r": "rate", "n": "name", "s": "state", "d": "difference"}
"""The keys that choose an order."""
_STEPS = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_TOP_KEYS, _END_KEYS = ("g", "\x1b[H", "\x1bOH", "\x1b[1~"), ("G", "\x1b[F", "\x1bOF", "\x1b[4~")
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])?|[^\x1b]", re.DOTALL)
"""A key as a terminal sends it: a sequence that begins with an escape, the escape key alone, or a character."""
_ENTER, _ESCAPE, _BACK = ("\r", "\n"), "\x1b", ("\x7f", "\b")


def _sort(text: str) -> str:
    if text not in _SORTS:
        raise typer.BadParameter(f"found {text!r}; expected one of {', '.join(_SORTS)}")
    return text


SortBy = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="ORDER",
        callback=_sort,
        help="rate: the busiest first; name; state: backends that are not up first; difference: those whose packets differ "
        "most from their slots. Also by the keys r, n, s and d.",
    ),
]
Matching = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Only VIPs and backends with this in their name, their pool's, an address or a state, or with one "
        "of several texts, separated by commas. Also by the key /.",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Print one frame and end, as where the output is no terminal.")]


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("top")(on_switch(top))


def top(
    switch: TargetSwitch,
    bridge: Bridge = None,
    interval: Interval = "2s",  # type: ignore[assignment]
    sort: SortBy = "rate",
    matching: Matching = "",
    once: Once = False,
    json: Json = False,
) -> None:
    """Watch a switch: what needs attention, queries by VIP, packets by backend against slots and weights, and the datapath.

    It reads the record and the counters, and asks the agent, if there is one. It does not look for drift: `status` does. `q`
    ends it, `/` filters, and the arrow and page keys scroll. Exit codes of --once are those of status; 130: ended by Ctrl-C;
    69: the switch cannot be reached at the start.
    """
    from dnsteer.cli.top_frame import DatapathSampler, make_frame
    from dnsteer.status.switch_observer import SwitchObserver

    order: Sort = sort  # type: ignore[assignment]
    observer, datapath = SwitchObserver(switch, bridge, check=False, rates=False, lists=False), DatapathSampler(switch)
    first = make_frame(observer.observe(), datapath, bridge)  # without rates, which need a second observation
    observer.rates, observer.interval = True, min(interval, _FIRST_INTERVAL)

    def read_frame() -> TopFrame | str:
        found = observer.observe_again()
        observer.interval = interval
        return found if isinstance(found, str) else make_frame(found, datapath, bridge)

    if once or not (json or out.has_screen):
        observer.interval = interval
        frame = make_frame(observer.observe(), datapath, bridge)
        print_json(frame.as_json(order, matching)) if json else _print(frame, order, matching)
        raise typer.Exit(status_exit_code(frame.status, frame.items))
    if json:
        while True:
            found = read_frame()
            value = {"ok": False, "error": found} if isinstance(found, str) else found.as_json(order, matching)
            sys.stdout.write(json_module.dumps(value) + "\n")
            sys.stdout.flush()
    _show_frames(first, read_frame, order, interval, matching)


def _print(frame: TopFrame, sort: Sort, matching: str) -> None:
    """Print a frame: in a terminal as large as that, else as wide as a file may be, with all VIPs and backends."""
    from dnsteer.cli.top_view import Size, top_view

    lines = os.environ.get("LINES", "")
    height = out.rich.height if out.rich.is_terminal else int(lines) if lines.isdecimal() else 0
    out.rich.print(top_view(frame, Size(out.rich.width, height), sort, matching=matching), soft_wrap=False)


class _FrameReader:
    """Reads frames in a thread of its own, so that keys are obeyed meanwhile. After each one *ready* can be read."""

    def __init__(self, read_frame: ReadFrame) -> None:
        self._read_frame = read_frame
        self.ready, self._written = os.pipe()
        self.last: TopFrame | str = ""
        self.failed: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self.failed is None:
            try:
                self.last = self._read_frame()
            except BaseException as err:  # noqa: BLE001 - raised by the thread that shows frames
                self.failed = err
            os.write(self._written, b".")


def _show_frames(first: TopFrame, read_frame: ReadFrame, sort: Sort, every: float, matching: str) -> None:
    """Show frames until `q` or Ctrl-C, which raises KeyboardInterrupt. *every* is how often they come, in seconds;
    *matching* the filter to begin with."""
    from rich.live import Live

    from dnsteer.cli.charset_console import screen_console
    from dnsteer.cli.top_view import Size, top_view

    screen, keys = screen_console(), TopKeys(sort, matching)
    frame, unreachable = first, ""
    with _keyboard() as inputs, Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        reader, shown = _FrameReader(read_frame), None
        while True:
            now = frame, unreachable, replace(keys), screen.size
            if now != shown:
                size = Size(screen.width, screen.height)
                view = top_view(
                    frame,
                    size,
                    keys.sort,
                    unreachable=unreachable,
                    footer=keys.footer(every),
                    matching=keys.matching,
                    skip=keys.skip,
                )
                live.update(screen.fitted(view), refresh=True)
                shown = now
            ready = select.select([reader.ready, *inputs], [], [], _SIZE_CHECK)[0]
            if reader.ready in ready:
                os.read(reader.ready, 64)
                if reader.failed is not None:
                    raise reader.failed
                found = reader.last
                unreachable = found if isinstance(found, str) else ""
                frame = frame if isinstance(found, str) else found
            if inputs and inputs[0] in ready:
                data = os.read(inputs[0], 64).decode(errors="replace")
                rows = max(len(frame.vips(keys.sort, keys.matching)), len(frame.shares(keys.sort, keys.matching)))
                if not keys.press(data, page=max(1, screen.height // 3), rows=rows):
                    return


@contextmanager
def _keyboard() -> Iterator[list[int]]:
    """Standard input, key by key and without an echo, as a list; an empty one where it is no terminal."""
    if not sys.stdin.isatty():
        yield []
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    try:
        tty.setcbreak(stdin)
        yield [stdin]
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


@dataclass
class TopKeys:
    """What has been chosen: the order, the first row that is shown, and the filter, which may be being *edited*."""

    sort: Sort
    matching: str = ""
    skip: int = 0
    edited: bool = False
    earlier: str = ""
    """The filter from before it is edited."""

    def press(self, data: str, *, page: int, rows: int) -> bool:
        """Obey keys; whether to go on. *page* is how many rows a page scrolls, *rows* how many the longer table has."""
        for key in _keys_of(data):
            if self.edited:
                self._edit_filter(key)
            elif key in ("q", "Q"):
                return False
            elif key == "/":
                self.edited, self.earlier, self.matching, self.skip = True, self.matching, "", 0
            elif key == _ESCAPE:
                self.matching, self.skip = "", 0
            elif key.lower() in ORDERS:
                self.sort, self.skip = ORDERS[key.lower()], 0
            else:
                self._scroll(key, page, rows)
        return True

    def _edit_filter(self, key: str) -> None:
        self.skip = 0
        if key in _ENTER:
            self.edited = False
        elif key == _ESCAPE:
            self.edited, self.matching = False, self.earlier
        elif key in _BACK:
            self.matching = self.matching[:-1]
        elif key.isprintable():
            self.matching += key

    def _scroll(self, key: str, page: int, rows: int) -> None:
        last = max(0, rows - 1)
        if key in _TOP_KEYS:
            self.skip = 0
        elif key in _END_KEYS:
            self.skip = last
        else:
            moved = self.skip + _STEPS.get(key, 0) + page * _PAGES.get(key, 0)
            self.skip = min(max(0, moved), last)

    def footer(self, every: float) -> str:
        """The line at the end: what is shown, and the keys. *every* is how often frames come, in seconds."""
        if self.edited:
            before = f"{self.earlier!r} again" if self.earlier else "none"
            return f"filter: {self.matching}_   Enter: keep it, Esc: {before}"
        chosen = f"every {every:g} s, by {self.sort}" + (f", with {self.matching!r}" if self.matching else "")
        return f"{chosen}   q quit  / filter  r rate  n name  s state  d difference"


def _keys_of(data: str) -> Iterator[str]:
    yield from _KEY.findall(data)
