# SPDX-License-Identifier: Apache-2.0
"""A frame of `top` for people: what needs attention, then the busiest VIPs and backends, as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dnsteer.cli.status_view import LEVEL_STYLES, ago, shown_rate, shown_state
from dnsteer.cli.tables import TableColumn, shorten_name, table_of
from dnsteer.cli.top_frame import Share, Sort, TopFrame
from dnsteer.spec.errors import counted, escape
from dnsteer.status.pools import BackendView
from dnsteer.status.vips import VipView

_MARKS = {"critical": "!!", "warning": "! ", "note": "- "}
_BESIDE, _LEFT = 150, 76
"""Columns from which the two tables are side by side, and the most of the left one."""
_HEAD = 2
"""Lines above the tables, at least, where both tables are shown: the switch, and what needs attention."""
_BAR, _WIDE = 10, 100
"""Columns of the bars, and of the terminal from which there are bars."""
_WHY = 12
"""Columns of why a backend is out, at least."""
_NUMBERS = (TableColumn("queries/s", right=True), TableColumn("packets/s", right=True, leaves=3))
_FULL, _PARTS = "\u2588", " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
_FAR, _ENOUGH = 0.1, 20.0
"""From this difference between packets and slots on it is marked, in pools with so many packets a second."""


@dataclass(frozen=True)
class Size:
    """Columns, and lines; 0 lines: as many as it takes."""

    width: int
    height: int = 0


def top_view(
    frame: TopFrame,
    size: Size,
    sort: Sort,
    *,
    unreachable: str = "",
    footer: str = "",
    matching: str = "",
    skip: int = 0,
) -> RenderableType:
    """A frame, in the *size* given. *unreachable* is why there is no newer one, *footer* a line at the end. Of the VIPs and
    backends those with *matching* in a name, and where there is not the room for all, from row *skip* on.
    """
    vips, backends = frame.vips(sort, matching), frame.shares(sort, matching)
    beside = size.width >= _BESIDE
    head = [*_head(frame), *_attention(frame, size, unreachable)]
    left, right = _Rows(len(vips), len(vips)), _Rows(len(backends), len(backends))
    with_backends = True
    if size.height:
        room = size.height - bool(footer)
        least = 2 if beside else 5  # a heading and a row of each, and a line between
        if not beside and room - least < _HEAD + 1:
            with_backends, least = False, 2
        head = _head_in(frame, size, unreachable, room - least - 1)
        room -= len(head) + bool(head)
        if beside or not with_backends:
            left, right = _fitting(len(vips), room - 1), _fitting(len(backends), room - 1)
        else:
            left, right = _split(len(vips), len(backends), room - 3)
    wide = min(_LEFT, size.width // 2) if beside else size.width
    shown_vips = _vips(vips, left.skipping(skip), wide, left.says_more, matching)
    shown_backends = _backends(
        backends, right.skipping(skip), size.width - wide - 2 if beside else size.width, right.says_more, matching
    )
    body: list[RenderableType] = [shown_vips, "", shown_backends] if with_backends else [shown_vips]
    tall = left.lines + (1 + right.lines if with_backends else 0)
    if beside:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_column(width=wide)
        both.add_column(width=size.width - wide - 2)
        both.add_row(shown_vips, shown_backends)
        body, tall = [both], max(left.lines, right.lines)
    parts: list[RenderableType] = [*head, *([""] if head else []), *body]
    if footer:
        parts += [""] * (size.height - len(head) - bool(head) - tall - 1)
        parts.append(Text(footer, style="dim", no_wrap=True, overflow="crop"))
    return Group(*parts)


@dataclass(frozen=True)
class _Rows:
    """How many of *n* rows of a table are *shown*; below them it *says more*, where there is a line for that."""

    n: int
    shown: int
    says_more: bool = False

    @property
    def lines(self) -> int:
        """Lines of the table, with its heading, and with one that says that there is nothing."""
        return 1 + max(1, self.shown) + self.says_more

    def skipping(self, skip: int) -> range:
        """The rows that are shown: so many from *skip* on, or the last ones."""
        start = max(0, min(skip, self.n - self.shown))
        return range(start, start + self.shown)


def _fitting(n: int, room: int) -> _Rows:
    """The rows that are shown in *room* lines, at least one; of two lines or more the last says how many more."""
    if n <= room:
        return _Rows(n, n)
    return _Rows(n, max(1, room - 1), room > 1)


def _split(vips: int, backends: int, room: int) -> tuple[_Rows, _Rows]:
    """The rows of each table in *room* lines, two at least: half of them, more where the other needs fewer."""
    half = room // 2
    for_vips = min(max(vips, 1), max(half, room - max(backends, 1)))
    return _fitting(vips, for_vips), _fitting(backends, room - for_vips)


def _head_in(frame: TopFrame, size: Size, unreachable: str, room: int) -> list[Text]:
    """What stands above the tables, in *room* lines: what needs attention stays longer than rates and the datapath."""
    rest, found = _head(frame), _attention(frame, size, unreachable)
    while len(rest) > 1 and len(rest) + len(found) > room:
        rest.pop()
    if len(rest) + len(found) > room:
        found = _attention(frame, size, unreachable, room - len(rest))
    return [*rest, *found][: max(0, room)]


def _head(frame: TopFrame) -> list[Text]:
    status = frame.status
    record, state = status.reading.record, status.reading.state
    first = [(record.bridge, "bold")]
    if record.name:
        first.append((f"  {escape(record.name)}", "bold"))
    if state is not None:
        first.append((f"  state {state.number}, applied {ago(state.time)} by {escape(state.by)}", ""))
    first.append((f"  {frame.time:%H:%M:%S} UTC", "dim"))
    rate, seconds = frame.rate, status.rates.seconds
    second = [
        (shown_rate(rate.queries), "bold"),
        (" queries/s  ", ""),
        (shown_rate(rate.packets), "bold"),
        (" packets/s  ", ""),
        (f"over {seconds:.1f} s" if seconds else "no rates yet", "dim"),
    ]
    return [_line(first), _line(second), _datapath(frame)]


def _line(parts: Sequence[tuple[str, str]]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _datapath(frame: TopFrame) -> Text:
    found = frame.datapath
    if found.why:
        return _line([(f"datapath not readable: {escape(found.why)}", "dim")])
    gauges, rates = found.gauges, found.rates
    words = []
    if "megaflows" in gauges:
        limit = f" of {gauges['megaflows_limit']:,.0f}" if "megaflows_limit" in gauges else ""
        words.append(f"{gauges['megaflows']:,.0f}{limit} megaflow{'s' if limit or gauges['megaflows'] != 1 else ''}")
    if "masks" in gauges:
        words.append(counted(gauges["masks"], "mask"))
    if "upcalls" in rates:
        words.append(f"{shown_rate(rates['upcalls'])} upcalls/s")
        if rates.get("lost"):
            words.append(f"{shown_rate(rates['lost'])} lost/s")
    if gauges.get("megaflows_offloaded"):
        words.append(f"{gauges['megaflows_offloaded']:,.0f} offloaded")
    return _line([("  ".join(words), ""), (f"  {escape(found.not_understood)}" if found.not_understood else "", "dim")])


def _attention(frame: TopFrame, size: Size, unreachable: str, most: int | None = None) -> list[Text]:
    """What needs attention, in *most* lines; by default a quarter of the terminal, without why it is *unreachable*."""
    lines = []
    if unreachable:
        lines.append(_line([(f"!! unreachable since the last refresh: {escape(unreachable)}", "bold red")]))
    found = frame.items
    if most is not None:
        most -= len(lines)
        if most < 1:
            return lines
    else:
        most = max(2, size.height // 4) if size.height else len(found)
    rows = _fitting(len(found), most)
    for item in found[: rows.shown]:
        text = escape(" ".join(item.line.split()))
        decision = f"  {item.decision}" if item.decision and len(text) + len(item.decision) + 5 <= size.width else ""
        lines.append(_line([(f"{_MARKS[item.level]} {text}", LEVEL_STYLES[item.level]), (decision, "dim")]))
    if rows.says_more:
        lines.append(_line([(f"   and {len(found) - rows.shown} more: dnsteer status", "")]))
    return lines or [_line([("nothing needs attention", "green")])]


def _vips(vips: Sequence[VipView], shown: range, width: int, says_more: bool, matching: str) -> RenderableType:
    of = vips[shown.start : shown.stop]
    rows = [[_name(v.name), _address(v), _plain(v.pool), *map(_plain, _rates(v))] for v in of]
    name, pool = TableColumn("VIP", shortens=shorten_name), TableColumn("pool", leaves=1, shortens=shorten_name)
    columns = [name, TableColumn("address", leaves=2), pool, *_NUMBERS]
    return _table(columns, rows, width, _below(len(vips), shown, "VIP", says_more, matching))


def _address(vip: VipView) -> Text:
    more = f" +{len(vip.addresses) - 1}" if len(vip.addresses) > 1 else ""
    return _plain(f"{vip.addresses[0].address}{more}")


def _rates(vip: VipView) -> tuple[str, str]:
    return shown_rate(vip.rate.queries), shown_rate(vip.rate.packets)


def _backends(backends: Sequence[Share], shown: range, width: int, says_more: bool, matching: str) -> RenderableType:
    of = backends[shown.start : shown.stop]
    most, rows = max((share.packets or 0 for share in of), default=0), []
    for share in of:
        rows.append(
            [
                _name(share.name),
                shown_state(share.backend),
                _plain(shown_rate(share.backend.rate.packets)),
                Text(_percent(share.packets), style="bold yellow" if _is_far(share) else ""),
                _plain(_percent(share.slots)),
                _plain(_percent(share.weight)),
                Text(_bar(share.packets or 0, most), style="blue"),
                _plain(_why(share)),
            ]
        )
    shares = [TableColumn(name, right=True, leaves=n) for name, n in (("packets", 5), ("slots", 4), ("weight", 3))]
    bar = [TableColumn("", leaves=1)] if width >= _WIDE else []
    columns = [
        TableColumn("backend", shortens=_short_backend),
        TableColumn("state"),
        TableColumn("packets/s", right=True),
        *shares,
        *bar,
        TableColumn("why", leaves=2, narrows=_WHY),
    ]
    if not bar:
        rows = [[*row[:-2], row[-1]] for row in rows]
    return _table(columns, rows, width, _below(len(backends), shown, "backend", says_more, matching))


def _is_far(share: Share) -> bool:
    return share.difference > _FAR and (share.pool.rate.packets or 0) >= _ENOUGH


def _why(share: Share) -> str:
    b = share.backend
    if b.connections and b.state != "up":
        return ", ".join(filter(None, [f"{b.connections:,} connections left", _why_out(b)]))
    return _why_out(b)


def _why_out(b: BackendView) -> str:
    if b.fails_in_service:
        return ", ".join(dict.fromkeys(check.why for check in b.failing))
    if b.entry is not None:
        by = "" if b.entry.kind == "health" else b.entry.by
        return ": ".join(filter(None, [by, b.entry.note])) + (" (overdue)" if b.overdue else "")
    if b.given is not None:
        return ": ".join(filter(None, [f"weight {b.given.weight} instead of {b.weight}", b.given.note]))
    return ""


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def _bar(part: float, most: float) -> str:
    eighths = round(8 * _BAR * part / most) if most else 0
    return _FULL * (eighths // 8) + _PARTS[eighths % 8].strip()


def _table(columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], width: int, more: str) -> RenderableType:
    table = table_of(columns, rows, width, one_line=True)
    return Group(table, Text(more, style="dim", no_wrap=True)) if more else table


def _name(text: str) -> Text:
    return Text(escape(text), style="bold")


def _plain(text: str) -> Text:
    return Text(escape(text))


def _short_backend(name: str, width: int) -> str:
    """POOL/BACKEND in *width* columns: the pool is cut, in the middle, before the backend is."""
    pool, _, backend = name.partition("/")
    backend = shorten_name(backend, max(1, width - 2))
    return f"{shorten_name(pool, max(1, width - 1 - cell_len(backend)))}/{backend}"


def _below(n: int, shown: range, what: str, says_more: bool, matching: str) -> str:
    """The line below a table: which rows it has, where it *says more*; or that there are none."""
    if not n:
        return f"no {what} matches {escape(matching)!r}" if matching else f"no {what}s"
    if not says_more:
        return ""
    return (
        f"{shown.start + 1:,} to {shown.stop:,} of {n:,} {what}s"
        if shown.start
        else f"and {n - shown.stop:,} more {what}s"
    )
