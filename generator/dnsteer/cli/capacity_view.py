"""Capacity for people: the totals, in detail each kind of path by frame size and the VIPs, and what it all rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dnsteer.capacity.bounds import LOADED, WORDS, added_bytes
from dnsteer.capacity.capacity_report import CapacityReport, PathGroup
from dnsteer.cli.capacity_figures import BASIS, FAMILIES, Notes, columns, figure_text, range_text
from dnsteer.cli.capacity_totals import changed_totals, each_vip, totals
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
    notes = Notes(report)
    parts: list[RenderableType] = [_head(report), *_beyond(report)]
    if before is not None:
        parts += [Text(""), changed_totals(before, report, settings, width, vips=False, all_pools=vips)]
        if vips:
            parts += [Text(""), changed_totals(before, report, settings, width, vips=True)]
    parts += [
        Text(""),
        totals(report, notes, width, all_pools=vips),
        *_latency(_slowest(report), notes, "slowest path: "),
    ]
    if not (paths and vips):
        missing = [*([] if paths else ["packets and bits by frame size"]), "each VIP"]
        parts.append(Text(f"{' and '.join(missing)}: -v"))
    for alike in _alike(report) if paths else ():
        group = alike[0]
        parts += [Text(""), _title(alike), _indented(_frames(group, notes)), *_latency(group, notes, "  ")]
    if vips:
        parts += [Text(""), each_vip(report, notes, width)]
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
    heading = f"{', '.join(names)} {_WAYS[path.direction]} {FAMILIES[path.family]} {' '.join(group.services)}"
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


def _frames(group: PathGroup, notes: Notes) -> Table:
    table = columns(("frame", BASIS), "frame", "bytes", "Mpps", "range", "Gb/s", "link", BASIS)
    for name, found in group.frames.items():
        rate = found.rate
        table.add_row(
            name if not name.isdecimal() else "",
            f"{found.size:.0f}",
            figure_text(rate.value, rate),
            range_text(rate),
            figure_text(found.gbps.value, rate),
            f"{100 * found.link_share:.0f} %",
            f"{WORDS[found.limit]}; {notes.mark(rate)}",
        )
    return table


def _latency(group: PathGroup, notes: Notes, head: str) -> Iterator[Text]:
    low, loaded = group.latencies.low, group.latencies.loaded
    shown = [f"{e.value:.1f}" + (f" ({range_text(e)})" if range_text(e) != "-" else "") for e in (low, loaded)]
    text = (
        f"{head}latency in us, hosts included: {shown[0]} at low load, {shown[1]} at {100 * LOADED:.0f} % of the rate"
    )
    yield Text(f"{text}; {notes.mark(loaded)}")
