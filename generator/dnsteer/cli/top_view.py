"""A frame of `top` for people: what needs attention, then the busiest VIPs and backends, as many as there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dnsteer.cli.status_view import LEVEL_STYLES, ago, shown_rate, shown_state
from dnsteer.cli.tables import TableColumn, table_of
from dnsteer.cli.top_frame import Sort, TopFrame
from dnsteer.spec.errors import counted, escape
from dnsteer.status.shares import Share
from dnsteer.status.vips import VipView

_MARKS = {"critical": "!!", "warning": "! ", "note": "- "}
_BESIDE, _LEFT = 150, 76
"""Columns from which the two tables are side by side, and the most of the left one."""
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
    frame: TopFrame, size: Size, sort: Sort, *, away: str = "", foot: str = "", matching: str = "", skip: int = 0
) -> RenderableType:
    """A frame, in the *size* given. *away* is why there is no newer one, *foot* a line at the end. Of the VIPs and backends
    those with *matching* in a name, and where there is not the room for all, from row *skip* on.
    """
    head = [*_head(frame), *_attention(frame, size, away)]
    vips, backends = frame.vips(sort, matching), frame.shares(sort, matching)
    beside = size.width >= _BESIDE
    left, right = len(vips), len(backends)
    if size.height:
        room = max(2, size.height - len(head) - 1 - bool(foot))  # with a line above the tables
        if beside:
            left, right = (_fitting(n, room - 1) for n in (left, right))
        else:
            left, right = _split(left, right, room - 3)  # two headings, a line between
    wide = min(_LEFT, size.width // 2) if beside else size.width
    shown_vips = _vips(vips, _rows(len(vips), left, skip), wide)
    of_backends = _rows(len(backends), right, skip)
    shown_backends = _backends(backends, of_backends, size.width - wide - 2 if beside else size.width)
    body: list[RenderableType] = [shown_vips, "", shown_backends]
    if beside:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_column(width=wide)
        both.add_column(width=size.width - wide - 2)
        both.add_row(shown_vips, shown_backends)
        body = [both]
    parts: list[RenderableType] = [*head, "", *body]
    if foot:
        tall = [1 + shown + (shown < of) for shown, of in ((left, len(vips)), (right, len(backends)))]
        used = len(head) + 1 + (max(tall) if beside else sum(tall) + 1)
        parts += [""] * (size.height - used - 1)
        parts.append(Text(foot, style="dim", no_wrap=True, overflow="crop"))
    return Group(*parts)


def _rows(n: int, shown: int, skip: int) -> range:
    """Which of *n* rows are shown: so many from *skip* on, or the last ones."""
    start = max(0, min(skip, n - shown))
    return range(start, start + shown)


def _fitting(n: int, room: int) -> int:
    """How many of *n* rows are shown in *room* lines: one of them says how many more there are."""
    return n if n <= room else max(0, room - 1)


def _split(vips: int, backends: int, room: int) -> tuple[int, int]:
    """How many rows each table has in *room* lines: half of them, more where the other needs fewer."""
    half = room // 2
    for_vips = min(vips, max(half, room - backends))
    return _fitting(vips, for_vips), _fitting(backends, max(1, room - for_vips))


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
        (shown_rate(rate.queries), "bold"), (" queries/s  ", ""), (shown_rate(rate.packets), "bold"),
        (" packets/s  ", ""), (f"over {seconds:.1f} s" if seconds else "no rates yet", "dim"),
    ]  # fmt: skip
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


def _attention(frame: TopFrame, size: Size, away: str) -> list[Text]:
    lines = []
    if away:
        lines.append(_line([(f"!! unreachable since the last refresh: {escape(away)}", "bold red")]))
    found = frame.items
    most = max(2, size.height // 4) if size.height else len(found)
    shown = _fitting(len(found), most)
    for item in found[:shown]:
        text = escape(" ".join(item.line.split()))
        decision = f"  {item.decision}" if item.decision and len(text) + len(item.decision) + 5 <= size.width else ""
        lines.append(_line([(f"{_MARKS[item.level]} {text}", LEVEL_STYLES[item.level]), (decision, "dim")]))
    if shown < len(found):
        lines.append(_line([(f"   and {len(found) - shown} more: dnsteer status", "")]))
    return lines or [_line([("nothing needs attention", "green")])]


def _vips(vips: Sequence[VipView], shown: range, width: int) -> RenderableType:
    of = vips[shown.start : shown.stop]
    rows = [[_name(v.name), _address(v), _plain(v.pool), *map(_plain, _rates(v))] for v in of]
    columns = [TableColumn("VIP"), TableColumn("address", leaves=2), TableColumn("pool", leaves=1), *_NUMBERS]
    return _table(columns, rows, width, _more(len(vips), shown, "VIPs"))


def _address(vip: VipView) -> Text:
    more = f" +{len(vip.addresses) - 1}" if len(vip.addresses) > 1 else ""
    return _plain(f"{vip.addresses[0].address}{more}")


def _rates(vip: VipView) -> tuple[str, str]:
    return shown_rate(vip.rate.queries), shown_rate(vip.rate.packets)


def _backends(backends: Sequence[Share], shown: range, width: int) -> RenderableType:
    of = backends[shown.start : shown.stop]
    most, rows = max((share.packets or 0 for share in of), default=0), []
    for share in of:
        rows.append([
            _name(share.name), shown_state(share.backend), _plain(shown_rate(share.backend.rate.packets)),
            Text(_percent(share.packets), style="bold yellow" if _is_far(share) else ""), _plain(_percent(share.slots)),
            _plain(_percent(share.weight)), Text(_bar(share.packets or 0, most), style="blue"), _plain(_why(share)),
        ])  # fmt: skip
    shares = [TableColumn(name, right=True, leaves=n) for name, n in (("packets", 5), ("slots", 4), ("weight", 3))]
    bar = [TableColumn("", leaves=1)] if width >= _WIDE else []
    columns = [
        TableColumn("backend"), TableColumn("state"), TableColumn("packets/s", right=True), *shares, *bar,
        TableColumn("why", leaves=2, narrows=_WHY),
    ]  # fmt: skip
    if not bar:
        rows = [[*row[:-2], row[-1]] for row in rows]
    return _table(columns, rows, width, _more(len(backends), shown, "backends"))


def _is_far(share: Share) -> bool:
    return share.away > _FAR and (share.pool.rate.packets or 0) >= _ENOUGH


def _why(share: Share) -> str:
    b = share.backend
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


def _more(n: int, shown: range, what: str) -> str:
    if shown.start:
        return f"{shown.start + 1:,} to {shown.stop:,} of {n:,} {what}"
    return f"and {n - shown.stop:,} more {what}" if n > shown.stop else ""
