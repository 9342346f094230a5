"""Capacity for people: each kind of path by frame size, the VIPs, and below them what it all rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dnsteer.offload.capacity.bounds import LOADED, WORDS
from dnsteer.offload.capacity.estimate import Estimate, worst_kind
from dnsteer.offload.capacity.passes import longer
from dnsteer.offload.capacity.report import Report, Way
from dnsteer.offload.capacity.services import Rate, VipRates
from dnsteer.offload.path import Path
from dnsteer.spec.errors import escape

_MOST_WAYS = 16
_MOST_VIPS = 40
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6", None: "both"}
_WAYS = {"query": "queries", "answer": "answers"}
_OFFLOADED = {
    "yes": "offloaded",
    "no": "not offloaded: on the Arm cores",
    "partial": "classified in hardware, forwarded by the Arm cores",
    "unknown": "offload not known: shown for the Arm cores",
}


class _Notes:
    """Numbers for measurements and letters for reasons, as they come up."""

    def __init__(self, report: Report) -> None:
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


def _hanging(lines: Iterable[tuple[str, str]]) -> RenderableType:
    """Marks, and texts that are broken beside them and not below."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for mark, text in lines:
        table.add_row(mark, Text(text))
    return _indented(table)


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2), expand=False)


def view(report: Report, before: Report | None = None, settings: Sequence[str] = ()) -> RenderableType:
    """All of it; with *before*, first what the settings change."""
    notes = _Notes(report)
    parts: list[RenderableType] = [_head(report)]
    if before is not None:
        parts += [Text(""), _changes(before, report, settings)]
    for way in report.ways[:_MOST_WAYS]:
        parts += [Text(""), _title(way), _indented(_frames(way, notes)), *_latency(way, notes)]
    if len(report.ways) > _MOST_WAYS:
        parts.append(Text(f"\n{len(report.ways) - _MOST_WAYS} more kinds of paths: --json"))
    parts += [Text(""), _vips(report, notes)]
    if len(report.vips) > _MOST_VIPS:
        parts.append(Text(f"{len(report.vips) - _MOST_VIPS} more: --json"))
    lines = [*notes.lines(), *(("-", note) for note in report.notes)]
    parts += [Text(""), Text("what this rests on", style="bold"), _hanging(lines)]
    parts += [Text(""), Text("sources", style="bold"), _hanging(notes.sources())]
    return Group(*parts)


def _head(report: Report) -> Text:
    setup = report.setup
    model = setup.model.published.title
    words = [
        f"{setup.flavor.value} on {model}",
        f"link {setup.link_gbps:g} Gb/s",
    ]
    if setup.entries:
        words.append(f"{setup.entries:,} hardware rules, {'counted' if setup.counters else 'not counted'}")
    if any(way.path.offloaded != "yes" for way in report.ways):
        words.append(f"{setup.arm_cores} Arm core{'s' if setup.arm_cores != 1 else ''} for the rest")
    return Text(f"{escape(report.loaded.file)}: {', '.join(words)}", style="bold")


def _title(way: Way) -> Text:
    path = way.path
    services = " ".join(way.services)
    words = [
        f"{path.mode}, {path.selection}",
        f"{way.rules:,} rule{'s' if way.rules != 1 else ''}",
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
    if more := longer(path):
        words.append(f"{more:g} bytes longer on the backends' side")
    if path.conntrack:
        words.append("tracked")
    text = Text(f"{path.vip} {_WAYS[path.direction]} {_FAMILIES[path.family]} {services}", style="bold")
    text.append(f"  {', '.join(words)}; ", style="not bold")
    offloaded = _OFFLOADED[path.offloaded] + (
        " as far as Open vSwitch goes" if path.hops and path.offloaded == "yes" else ""
    )
    return text.append(offloaded, style="not bold" if path.offloaded == "yes" else "not bold yellow")


def _frames(way: Way, notes: _Notes) -> Table:
    table = _table(
        ("frame", "limited by", "basis"), "frame", "bytes", "Mpps", "range", "Gb/s", "link", "limited by", "basis"
    )
    for name, found in way.frames.items():
        rate = found.rate
        table.add_row(
            name if not name.isdecimal() else "",
            f"{found.size:.0f}",
            _number(rate.value, rate),
            _range(rate),
            _number(found.gbps.value, rate),
            f"{found.link_share:.0%}",
            WORDS[found.limit],
            notes.mark(rate),
        )
    return table


def _latency(way: Way, notes: _Notes) -> Iterator[Text]:
    low, loaded = way.latencies.low, way.latencies.loaded
    shown = [f"{e.value:.1f}" + (f" ({_range(e)})" if _range(e) != "-" else "") for e in (low, loaded)]
    text = f"  latency in us, hosts included: {shown[0]} at low load, {shown[1]} at {LOADED:.0%} of the rate"
    yield Text(f"{text}; {notes.mark(loaded)}")


def _vips(report: Report, notes: _Notes) -> Table:
    table = _table(
        ("VIP", "family", "limited by", "basis"),
        "VIP", "family", "UDP queries/s", "range", "new TCP connections/s", "range", "limited by", "basis",
    )  # fmt: skip
    for vip in [*report.vips[:_MOST_VIPS], report.all]:
        rates = [rate for rate in (vip.queries, vip.connections) if rate is not None]
        limits = " / ".join(dict.fromkeys(WORDS[rate.limit] for rate in rates))
        name = vip.vip or "all in equal parts"
        marks = notes.marks([rate.most for rate in rates])
        table.add_row(name, _FAMILIES[vip.family], *_rate(vip.queries), *_rate(vip.connections), limits, marks)
    return table


def _rate(rate: Rate | None) -> tuple[str, str]:
    if rate is None:
        return "-", ""
    return f"{_number(rate.most.value, rate.most)} M", _range(rate.most)


def _changes(before: Report, after: Report, settings: Sequence[str]) -> RenderableType:
    """What the settings change, VIP by VIP."""
    title = Text("what if " + " ".join(escape(s) for s in settings), style="bold")
    table = _table(
        ("VIP", "family"),
        "VIP",
        "family",
        "UDP queries/s",
        "",
        "new TCP connections/s",
        "",
        "rules",
        "depth",
        "latency us",
    )
    was = {(v.vip, v.family): v for v in [*before.vips, before.all]}
    now = {(v.vip, v.family): v for v in [*after.vips, after.all]}
    known = list(dict.fromkeys([*was, *now]))
    shown = [*known[:_MOST_VIPS], ("", None)] if len(known) > _MOST_VIPS else known
    for key in sorted(shown, key=lambda k: k == ("", None)):
        old, new = was.get(key), now.get(key)
        table.add_row(
            key[0] or "all in equal parts",
            _FAMILIES[key[1]],
            *_change(old, new, lambda v: v.queries),
            *_change(old, new, lambda v: v.connections),
            *(_step(before, after, key, what) for what in ("rules", "depth", "latency")),
        )
    return Group(title, _indented(table))


def _change(old: VipRates | None, new: VipRates | None, pick: Callable[[VipRates], Rate | None]) -> tuple[str, str]:
    a, b = (pick(v) if v is not None else None for v in (old, new))
    shown = [f"{_number(rate.most.value, rate.most)} M" if rate else "none" for rate in (a, b)]
    if a is None or b is None:
        return " -> ".join(shown), ""
    share = b.most.value / a.most.value - 1
    if abs(share) >= 0.0005:
        return " -> ".join(shown), f"{share:+.1%}"
    if _range(a.most) != _range(b.most):  # as where nobody knows whether hardware takes it
        return " -> ".join(shown), _range(b.most)
    return shown[0], "same"


def _step(before: Report, after: Report, key: tuple[str, str | None], what: str) -> str:
    texts = []
    for report in (before, after):
        ways = [w for w in report.ways if key[1] is None or (w.path.vip, w.path.family) == key]
        if not ways:
            texts.append("-")
        elif what == "rules":
            texts.append(f"{sum(w.rules for w in ways):,}")
        elif what == "depth":
            texts.append(str(max(_depth(w.path) for w in ways)))
        else:
            texts.append(f"{max(w.latencies.low.value for w in ways):.1f}")
    return texts[0] if texts[0] == texts[1] else " -> ".join(texts)


def _depth(path: Path) -> int:
    """Tables and pipes that a packet passes in all."""
    return sum(hop.tables for hop in path.hops) or path.depth


def _table(left: Sequence[str], *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=name != "basis")
    return table


def _number(value: float, estimate: Estimate) -> str:
    at_most = "<= " if _is_most(estimate) else ""
    return f"{at_most}{value:.2f}" if value < 10 else f"{at_most}{value:.1f}"


def _is_most(found: Estimate) -> bool:
    """Whether the figure is the most it can be, and nobody knows how much less it is."""
    return found.low == 0 and found.high <= 1.0005 * found.value


def _range(found: Estimate) -> str:
    if _is_most(found):
        return "not known"
    if found.high - found.low < 0.005 * found.value:
        return "-"
    digits = 2 if found.value < 10 else 1
    return f"{found.low:.{digits}f} .. {found.high:.{digits}f}"
