"""The totals of `capacity`: each pool and all of them together, what limits them, and what a setting changes of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dnsteer.capacity.bounds import WORDS
from dnsteer.capacity.capacity_report import CapacityReport, PathGroup
from dnsteer.capacity.service_rates import LimitedRate, VipRates
from dnsteer.cli.capacity_figures import BASIS, FAMILIES, Notes, figure_text, range_text
from dnsteer.cli.tables import Cell, TableColumn, table_of
from dnsteer.offload.packet_path import PacketPath
from dnsteer.spec.errors import escape

_NARROW = 110
"""Columns below which a range stands under its figure."""
_RATES = ("UDP queries/s", "new TCP conn./s")
_BASIS_LEAST = 18
"""Columns of what limits a rate, at least."""
MAX_POOLS = 20
"""Pools that are shown without -v."""
_ALL = "(all)"  # no pool has such a name
_Row = tuple[str, VipRates | None, list[PathGroup]]
"""Its name, its rates and the paths behind them."""


def totals(report: CapacityReport, notes: Notes, width: int, *, all_pools: bool = True) -> RenderableType:
    """All pools together, and each as if the card were for it alone: the first, unless *all_pools*. *width* is the
    terminal's, in columns."""
    heads = [TableColumn("pool"), TableColumn("VIPs", right=True, leaves=2), TableColumn("rules", right=True, leaves=1)]
    pools = report.pools if all_pools else report.pools[:MAX_POOLS]
    rows = [((t.pool or _ALL, f"{t.vips:,}", f"{t.rules:,}"), t.rates) for t in (report.total, *pools)]
    about = ": VIPs in equal parts, each pool as if the card were for it alone"
    title = Text("totals", style="bold").append(about, style="not bold")
    table = _fill(heads, rows, notes, width)
    left = len(report.pools) - len(pools)
    return Group(title, table, Text(f"and {left:,} more pools: -v")) if left else Group(title, table)


def each_vip(report: CapacityReport, notes: Notes, width: int) -> RenderableType:
    """Each VIP in each family, as if the card were for it alone."""
    heads = [TableColumn("VIP"), TableColumn("family")]
    return _fill(heads, [((v.vip, FAMILIES[v.family]), v) for v in report.vips], notes, width)


def _fill(
    heads: Sequence[TableColumn], rows: Iterable[tuple[tuple[str, ...], VipRates]], notes: Notes, width: int
) -> Table:
    """The table of rows: cells, and rates. What a row rests on is said where it is another than the last row's."""
    last, cells_of = "", list[tuple[Cell, ...]]()
    for cells, rates in rows:
        known = [rate for rate in (rates.queries, rates.connections) if rate is not None]
        limits = " / ".join(dict.fromkeys(WORDS[rate.limit] for rate in known))
        marks = notes.marks([rate.most for rate in known])
        basis = f"{limits}; {'as above' if marks == last else marks}"
        figures = (_rate(rates.queries, width), _rate(rates.connections, width))
        bold = "bold" if cells[0] == _ALL else ""
        cells_of.append(tuple(Text(cell, style=bold) for cell in (*cells, *figures, basis)))
        last = marks
    rates_heads = [TableColumn(name, right=True) for name in _RATES]
    return table_of([*heads, *rates_heads, TableColumn(BASIS, narrows=_BASIS_LEAST)], cells_of, width)


def changed_totals(
    before: CapacityReport,
    after: CapacityReport,
    settings: Sequence[str],
    width: int,
    *,
    vips: bool,
    all_pools: bool = True,
) -> RenderableType:
    """What the settings change of the totals, of the first pools unless *all_pools*, or VIP by VIP."""
    title = Text("what if " + " ".join(escape(s) for s in settings), style="bold")
    whose = "VIP" if vips else "pool"
    numbers = [TableColumn(name, right=True) for name in (*_RATES, "rules", "depth", "latency us")]
    cells = list[tuple[str, ...]]()
    was, now = _rows(before, vips), _rows(after, vips)
    keys = list(dict.fromkeys([*was, *now]))
    shown = keys if all_pools or vips else keys[: 1 + MAX_POOLS]  # with that of all together
    for key in shown:
        old, new = was.get(key), now.get(key)
        name = (new or old or ("",))[0]
        cells.append(
            (
                name,
                _change(old, new, lambda v: v.queries, width),
                _change(old, new, lambda v: v.connections, width),
                *(_step(old, new, what, width) for what in (_rules, _depth, _latency)),
            )
        )
    table, left = table_of([TableColumn(whose), *numbers], cells, width), len(keys) - len(shown)
    return Group(title, table, Text(f"and {left:,} more pools: -v")) if left else Group(title, table)


def _rate(rate: LimitedRate | None, width: int) -> str:
    if rate is None:
        return "-"
    shown, among = f"{figure_text(rate.most.value, rate.most)} M", range_text(rate.most)
    return shown if among == "-" else _with_note(shown, among, width)


def _with_note(figure: str, more: str, width: int) -> str:
    return f"{figure}{_break(width)}({more})"


def _rows(report: CapacityReport, vips: bool) -> Mapping[object, _Row]:
    """By what they are about; all together come last."""
    rows: dict[object, _Row] = {}
    if vips:
        for vip in report.vips:
            groups = [w for w in report.groups if (w.path.vip, w.path.family) == (vip.vip, vip.family)]
            rows[vip.vip, vip.family] = (f"{vip.vip} {FAMILIES[vip.family]}", vip, groups)
    else:
        of = {name: vip.pool for name, vip in report.loaded.spec.vips.items()}
        for total in report.pools:
            rows[total.pool] = (total.pool, total.rates, [w for w in report.groups if of[w.path.vip] == total.pool])
    first: dict[object, _Row] = {"": (_ALL, report.all, report.groups)}
    return {**first, **rows}


def _change(old: _Row | None, new: _Row | None, pick: Callable[[VipRates], LimitedRate | None], width: int) -> str:
    a, b = (pick(row[1]) if row is not None and row[1] is not None else None for row in (old, new))
    shown = [f"{figure_text(rate.most.value, rate.most)} M" if rate else "none" for rate in (a, b)]
    if a is None or b is None:
        return _arrow(shown, width)
    share = b.most.value / a.most.value - 1
    if abs(share) >= 0.0005:
        return _with_note(_arrow(shown, width), f"{share:+.1%}", width)
    if range_text(a.most) != range_text(b.most):  # as where nobody knows whether hardware takes it
        return _with_note(_arrow(shown, width, always=True), range_text(b.most), width)
    return _with_note(shown[0], "same", width)


def _step(old: _Row | None, new: _Row | None, what: Callable[[list[PathGroup]], str], width: int) -> str:
    return _arrow([what(row[2]) if row is not None and row[2] else "-" for row in (old, new)], width)


def _arrow(texts: Sequence[str], width: int, always: bool = False) -> str:
    before, after = texts
    return before if before == after and not always else f"{before} ->{_break(width)}{after}"


def _break(width: int) -> str:
    return "\n" if width < _NARROW else " "


def _rules(groups: list[PathGroup]) -> str:
    return f"{sum(w.rules for w in groups):,}"


def _depth(groups: list[PathGroup]) -> str:
    return str(max(_tables(w.path) for w in groups))


def _latency(groups: list[PathGroup]) -> str:
    return f"{max(w.latencies.low.value for w in groups):.1f}"


def _tables(path: PacketPath) -> int:
    """Tables and pipes that a packet passes in all."""
    return sum(hop.tables for hop in path.hops) or path.depth
