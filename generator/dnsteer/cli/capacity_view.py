# SPDX-License-Identifier: Apache-2.0
"""Capacity for people: the totals, in detail each kind of path by frame size and the VIPs, and what it all rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dnsteer.capacity.bounds import LOADED, WORDS, added_bytes
from dnsteer.capacity.capacity_report import CapacityReport, PathGroup
from dnsteer.capacity.estimate import Estimate, worst_kind
from dnsteer.capacity.service_rates import LimitedRate, VipRates
from dnsteer.cli.tables import Cell, TableColumn, table_of
from dnsteer.offload.packet_path import PacketPath
from dnsteer.spec.errors import escape

_MAX_NAMES = 3
"""VIPs that are named where more have paths alike."""
_WAYS = {"query": "queries", "answer": "answers"}
_OFFLOADED = {
    "yes": "offloaded",
    "no": "not offloaded: on the Arm cores",
    "partial": "classified in hardware, forwarded by the Arm cores",
    "unknown": "offload not known: shown for the Arm cores",
}
_NARROW = 110
"""Columns below which a range stands under its figure."""
_RATES = ("UDP queries/s", "new TCP conn./s")
_BASIS_LEAST = 18
"""Columns of what limits a rate, at least."""
_MAX_POOLS = 20
"""Pools that are shown without -v."""
_ALL = "(all)"  # no pool has such a name
_Row = tuple[str, VipRates | None, list[PathGroup]]
"""Its name, its rates and the paths behind them."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BASIS = "limited by; basis"
_FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6", None: "both"}


def _hanging(lines: Iterable[tuple[str, str]]) -> RenderableType:
    """Marks, and texts that are broken beside them and not below."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for mark, text in lines:
        grid.add_row(mark, Text(text))
    return _indented(grid)


def _indented(what: Table) -> Padding:
    return Padding(what, (0, 0, 0, 2), expand=False)


def view(
    report: CapacityReport,
    before: CapacityReport | None = None,
    settings: Sequence[str] = (),
    *,
    width: int = 120,
    paths: bool = True,
    vips: bool = True,
) -> RenderableType:
    """The totals, with *before* what the settings change, in detail the *paths* and *vips*, and what it rests on.

    *width* is the terminal's, in columns.
    """
    notes = _BasisNotes(report)
    parts: list[RenderableType] = [_head(report), *_beyond(report)]
    if before is not None:
        parts += [Text(""), _changed_totals(before, report, settings, width, vips=False, all_pools=vips)]
        if vips:
            parts += [Text(""), _changed_totals(before, report, settings, width, vips=True)]
    parts += [
        Text(""),
        _totals(report, notes, width, all_pools=vips),
        *_latency(_slowest(report), notes, "slowest path: "),
    ]
    if not (paths and vips):
        missing = [*([] if paths else ["packets and bits by frame size"]), "each VIP"]
        parts.append(Text(f"{' and '.join(missing)}: -v"))
    for alike in _alike(report) if paths else ():
        group = alike[0]
        parts += [Text(""), _title(alike), _indented(_frames(group, notes)), *_latency(group, notes, "  ")]
    if vips:
        parts += [Text(""), _each_vip(report, notes, width)]
    lines = [*notes.lines(), *(("-", note) for note in report.notes)]
    parts += [Text(""), Text("what this rests on", style="bold"), _hanging(lines)]
    parts += [Text(""), Text("sources", style="bold"), _hanging(notes.sources())]
    return Group(*parts)


def _slowest(report: CapacityReport) -> PathGroup:
    return max(report.groups, key=lambda group: group.latencies.low.value)


def _alike(report: CapacityReport) -> list[list[PathGroup]]:
    """Paths of all VIPs by what is shown of them: those that look the same are shown once."""
    found: dict[object, list[PathGroup]] = {}
    for group in report.groups:
        key = (group.path.direction, group.path.family, group.services, *_about(group), group.path.offloaded)
        figures = [(name, f.size, f.rate, f.gbps, f.link_share, f.limit) for name, f in group.frames.items()]
        found.setdefault((key, repr(figures), repr(group.latencies)), []).append(group)
    return list(found.values())


def _head(report: CapacityReport) -> Text:
    setup = report.setup
    model = setup.model.published.title
    words = [
        f"{setup.flavor.value} on {model}",
        f"link {setup.link_gbps:g} Gb/s",
    ]
    if setup.entries:
        words.append(f"{setup.entries:,} hardware rules, {'counted' if setup.counters else 'not counted'}")
    if any(group.path.offloaded != "yes" for group in report.groups):
        words.append(f"{setup.arm_cores} Arm core{'s' if setup.arm_cores != 1 else ''} for the rest")
    return Text(f"{escape(report.loaded.file)}: {', '.join(words)}", style="bold")


def _beyond(report: CapacityReport) -> Iterator[RenderableType]:
    """The limits that the spec passes: before any figure, since with these none can be reached."""
    if report.beyond:
        yield Text("BEYOND LIMITS: not all of this spec fits, so the figures below cannot be reached", style="bold red")
        yield _hanging(("!", text) for text in report.beyond)


def _title(alike: Sequence[PathGroup]) -> Text:
    group = alike[0]
    path = group.path
    names = [each.path.vip for each in alike]
    if len(names) > _MAX_NAMES:
        names = [*names[:_MAX_NAMES], f"{len(names) - _MAX_NAMES} more VIPs"]
    heading = f"{', '.join(names)} {_WAYS[path.direction]} {_FAMILIES[path.family]} {' '.join(group.services)}"
    text = Text(heading, style="bold")
    each = "each " if len(alike) > 1 else ""
    text.append(f"  {each}{', '.join(_about(group))}; ", style="not bold")
    offloaded = _OFFLOADED[path.offloaded] + (
        " as far as Open vSwitch goes" if path.hops and path.offloaded == "yes" else ""
    )
    return text.append(offloaded, style="not bold" if path.offloaded == "yes" else "not bold yellow")


def _about(group: PathGroup) -> list[str]:
    """What there is to say of a path but for whose it is."""
    path = group.path
    words = [
        f"{path.mode}, {path.selection}",
        f"{group.rules:,} rule{'s' if group.rules != 1 else ''}",
        f"{path.passes} pass{'es' if path.passes != 1 else ''}",
        f"depth {path.depth}",
        f"{path.rewrites} field{'s' if path.rewrites != 1 else ''} rewritten",
    ]
    if path.hops:
        rewrites = sum(hop.rewrites for hop in path.hops)
        words[2:] = [
            f"{len(path.hops)} passes of the eSwitch, by way of the extension",
            f"depth {' + '.join(str(hop.tables) for hop in path.hops)}",
            f"{rewrites} field{'s' if rewrites != 1 else ''} rewritten",
        ]
    if more := added_bytes(path):
        words.append(f"{more:g} bytes longer on the backends' side")
    if path.conntrack:
        words.append("tracked")
    return words


def _frames(group: PathGroup, notes: _BasisNotes) -> Table:
    table = _columns(("frame", _BASIS), "frame", "bytes", "Mpps", "range", "Gb/s", "link", _BASIS)
    for name, found in group.frames.items():
        rate = found.rate
        table.add_row(
            name if not name.isdecimal() else "",
            f"{found.size:.0f}",
            _figure_text(rate.value, rate),
            _range_text(rate),
            _figure_text(found.gbps.value, rate),
            f"{100 * found.link_share:.0f} %",
            f"{WORDS[found.limit]}; {notes.mark(rate)}",
        )
    return table


def _latency(group: PathGroup, notes: _BasisNotes, head: str) -> Iterator[Text]:
    low, loaded = group.latencies.low, group.latencies.loaded
    shown = [f"{e.value:.1f}" + (f" ({_range_text(e)})" if _range_text(e) != "-" else "") for e in (low, loaded)]
    text = (
        f"{head}latency in us, hosts included: {shown[0]} at low load, {shown[1]} at {100 * LOADED:.0f} % of the rate"
    )
    yield Text(f"{text}; {notes.mark(loaded)}")


def _totals(report: CapacityReport, notes: _BasisNotes, width: int, *, all_pools: bool = True) -> RenderableType:
    """All pools together, and each as if the card were for it alone: the first, unless *all_pools*. *width* is the
    terminal's, in columns."""
    heads = [TableColumn("pool"), TableColumn("VIPs", right=True, leaves=2), TableColumn("rules", right=True, leaves=1)]
    pools = report.pools if all_pools else report.pools[:_MAX_POOLS]
    rows = [((t.pool or _ALL, f"{t.vips:,}", f"{t.rules:,}"), t.rates) for t in (report.total, *pools)]
    about = ": VIPs in equal parts, each pool as if the card were for it alone"
    title = Text("totals", style="bold").append(about, style="not bold")
    table = _fill(heads, rows, notes, width)
    left = len(report.pools) - len(pools)
    return Group(title, table, Text(f"and {left:,} more pools: -v")) if left else Group(title, table)


def _each_vip(report: CapacityReport, notes: _BasisNotes, width: int) -> RenderableType:
    """Each VIP in each family, as if the card were for it alone."""
    heads = [TableColumn("VIP"), TableColumn("family")]
    return _fill(heads, [((v.vip, _FAMILIES[v.family]), v) for v in report.vips], notes, width)


def _fill(
    heads: Sequence[TableColumn], rows: Iterable[tuple[tuple[str, ...], VipRates]], notes: _BasisNotes, width: int
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
    return table_of([*heads, *rates_heads, TableColumn(_BASIS, narrows=_BASIS_LEAST)], cells_of, width)


def _changed_totals(
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
    shown = keys if all_pools or vips else keys[: 1 + _MAX_POOLS]  # with that of all together
    for key in shown:
        old, new = was.get(key), now.get(key)
        name = (new or old or ("",))[0]
        cells.append(
            (
                name,
                _change(old, new, lambda v: v.queries, width),
                _change(old, new, lambda v: v.connections, width),
                *(_step(old, new, what, width) for what in (_rules, _depth, _total_latency)),
            )
        )
    table, left = table_of([TableColumn(whose), *numbers], cells, width), len(keys) - len(shown)
    return Group(title, table, Text(f"and {left:,} more pools: -v")) if left else Group(title, table)


def _rate(rate: LimitedRate | None, width: int) -> str:
    if rate is None:
        return "-"
    shown, among = f"{_figure_text(rate.most.value, rate.most)} M", _range_text(rate.most)
    return shown if among == "-" else _with_note(shown, among, width)


def _with_note(figure: str, more: str, width: int) -> str:
    return f"{figure}{_break(width)}({more})"


def _rows(report: CapacityReport, vips: bool) -> Mapping[object, _Row]:
    """By what they are about; all together come last."""
    rows: dict[object, _Row] = {}
    if vips:
        for vip in report.vips:
            groups = [w for w in report.groups if (w.path.vip, w.path.family) == (vip.vip, vip.family)]
            rows[vip.vip, vip.family] = (f"{vip.vip} {_FAMILIES[vip.family]}", vip, groups)
    else:
        of = {name: vip.pool for name, vip in report.loaded.spec.vips.items()}
        for total in report.pools:
            rows[total.pool] = (total.pool, total.rates, [w for w in report.groups if of[w.path.vip] == total.pool])
    first: dict[object, _Row] = {"": (_ALL, report.all, report.groups)}
    return {**first, **rows}


def _change(old: _Row | None, new: _Row | None, pick: Callable[[VipRates], LimitedRate | None], width: int) -> str:
    a, b = (pick(row[1]) if row is not None and row[1] is not None else None for row in (old, new))
    shown = [f"{_figure_text(rate.most.value, rate.most)} M" if rate else "none" for rate in (a, b)]
    if a is None or b is None:
        return _arrow(shown, width)
    share = b.most.value / a.most.value - 1
    if abs(share) >= 0.0005:
        return _with_note(_arrow(shown, width), f"{share:+.1%}", width)
    if _range_text(a.most) != _range_text(b.most):  # as where nobody knows whether hardware takes it
        return _with_note(_arrow(shown, width, always=True), _range_text(b.most), width)
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


def _total_latency(groups: list[PathGroup]) -> str:
    return f"{max(w.latencies.low.value for w in groups):.1f}"


def _tables(path: PacketPath) -> int:
    """Tables and pipes that a packet passes in all."""
    return sum(hop.tables for hop in path.hops) or path.depth


class _BasisNotes:
    """Numbers for measurements and letters for reasons, as they come up."""

    def __init__(self, report: CapacityReport) -> None:
        self._report = report
        self._rests: dict[str, int] = {}
        self._because: dict[str, int] = {}

    def mark(self, found: Estimate) -> str:
        """What a figure is and where to read on: `reading 1,2 a`."""
        return self.marks([found])

    def marks(self, found: Sequence[Estimate]) -> str:
        """The same of several figures together."""
        numbers = {self._rests.setdefault(r, len(self._rests) + 1) for e in found for r in e.rests_on}
        letters = {self._because.setdefault(b, len(self._because)) for e in found for b in e.because}
        words = [worst_kind(e.kind for e in found), ",".join(map(str, sorted(numbers)))]
        return " ".join([*words, ",".join(map(_letter, sorted(letters)))]).strip()

    def lines(self) -> Iterator[tuple[str, str]]:
        """What the numbers and letters stand for."""
        for name, number in self._rests.items():
            about, place, _ = self._report.cite(name)
            yield f"{number}", f"{name}: {about} ({place})"
        for reason, n in self._because.items():
            yield _letter(n), reason

    def sources(self) -> Iterator[tuple[str, str]]:
        """The publications."""
        for source in dict.fromkeys(self._report.cite(name)[2] for name in self._rests):
            name, _, title = source.partition(": ")
            yield name, title


def _letter(n: int) -> str:
    return _LETTERS[n] if n < len(_LETTERS) else f"{_LETTERS[n // 26 - 1]}{_LETTERS[n % 26]}"


def _columns(left: Sequence[str], *names: str) -> Table:
    """A table without lines; the columns of *left* are words, which are broken where it is narrow, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for name in names:
        words = name in left
        table.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    return table


def _figure_text(value: float, estimate: Estimate) -> str:
    """A figure; `<=` where it is the most that it can be."""
    at_most = "<= " if _is_most(estimate) else ""
    return f"{at_most}{value:.2f}" if value < 10 else f"{at_most}{value:.1f}"


def _is_most(found: Estimate) -> bool:
    """Whether the figure is an upper bound, and the value below it is unknown."""
    return found.low == 0 and found.high <= 1.0005 * found.value


def _range_text(found: Estimate) -> str:
    """The range of a figure; `-` where there is none."""
    if _is_most(found):
        return "not known"
    if found.high - found.low < 0.005 * found.value:
        return "-"
    digits = 2 if found.value < 10 else 1
    return f"{found.low:.{digits}f} .. {found.high:.{digits}f}"
