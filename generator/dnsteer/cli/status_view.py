# SPDX-License-Identifier: Apache-2.0
"""A switch's status for people: lines about the switch and what is out, then tables of pools and VIPs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dnsteer.cli.output import passed, utc
from dnsteer.cli.tables import Cell, TableColumn, table_of
from dnsteer.deploy.bounded_lists import FEW, MANY, kind_of
from dnsteer.deploy.times import now
from dnsteer.slots.denial import Denial
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.spec.errors import counted, escape, shorten
from dnsteer.spec.model.vlan import UNTAGGED
from dnsteer.status.kept_connections import KeptConnections
from dnsteer.status.limits import LimitView
from dnsteer.status.lists import ListView
from dnsteer.status.pools import BackendView, PoolView
from dnsteer.status.rates import Rate
from dnsteer.status.switch_status import Status
from dnsteer.status.vips import VipView
from dnsteer.switch.state import STATE_KEY, VERSION_KEY, is_number
from dnsteer.view.attention_item import AttentionItem, AttentionLevel
from dnsteer.view.status_attention import needs_attention, unreachable_text

_COLORS: Mapping[str, str] = {
    "up": "green",
    "draining": "yellow",
    "drained": "yellow",
    "down": "red",
    "unhealthy": "red",
    "returning": "yellow",
    "unknown": "red",
}
"""Of the states of backends."""
_TABLES_MATCH = {
    "recorded": "as recorded",
    "pending": "those of a pending change",
    "other": "different from the record",
    None: "not known",
}
LEVEL_STYLES: Mapping[AttentionLevel, str] = {"critical": "bold red", "warning": "yellow", "note": "cyan"}
_SHORT = 12
_T = TypeVar("_T")
_Shown = Callable[[PoolView], list[BackendView]]
_Row = tuple[Cell, ...]
_LARGE, _ROWS = 80, 20
"""Rows of tables from which a switch is large, and as many of each table as are shown of it."""
_MAX_VIPS = 8
"""VIPs that the verdict names."""
_NEIGHBORS = 8
"""Neighbours whose MAC addresses are shown."""
_NOTE = 30
"""Columns that a note needs at least, where a decision stands beside it."""


def view(status: Status, width: int, items: Sequence[AttentionItem] = (), *, bounded: bool = False) -> RenderableType:
    """All of it, in *width* columns, with the *items* that need attention; *bounded*: of a large switch what matters."""
    lines = Text("\n").join([*_head(status), *_findings(status, items, bounded)])
    hidden = 0
    pools, vips, out = status.pools, status.vips, list(status.reading.overlay or ())
    parts: list[RenderableType] = [lines]
    for title, entries in _sorts(out):
        few = _most_urgent(entries) if bounded else entries
        parts.append(_maintenance(_title(title, len(few), len(entries)), few, width))
        hidden += len(entries) - len(few)
    denials = list(status.reading.overlay.denials if status.reading.overlay else ())
    if denials:
        several = denials[:_ROWS] if bounded else denials
        parts.append(_denials(_title("denied by hand", len(several), len(denials)), several, width))
    shown = _all_of
    if bounded and sum(1 + len(p.backends) for p in pools) + sum(len(v.addresses) for v in vips) > _LARGE:
        shown = _not_up
        pools = _first(pools, _urgency, lambda p: 1 + len(shown(p)))
        vips = _first(vips, lambda v: -(v.rate.packets or 0), lambda v: len(v.addresses))
    parts += [_pools(pools, len(status.pools), shown, width, status.connections), _vips(vips, len(status.vips), width)]
    parts += [table for table in (_lists(status.lists, width), _limits(status.limits, width)) if table is not None]
    if hidden or shown is _not_up:
        parts.append(_left_out(status, pools, vips, shown, hidden))
    parts.append(_verdict(status, items))
    return Group(*[p for part in parts for p in (part, "")][:-1])


def _left_out(
    status: Status, pools: Sequence[PoolView], vips: Sequence[VipView], shown: _Shown, maintenance: int
) -> Text:
    """What a bounded status does not show, and how it is shown. *maintenance* is how many entries of that."""
    up = sum(len(p.backends) for p in status.pools) - sum(len(shown(p)) for p in pools)
    counts = (
        (maintenance, "entry of maintenance", "entries of maintenance"),
        (len(status.pools) - len(pools), "pool", ""),
        (up, "backend", ""),
        (len(status.vips) - len(vips), "VIP", ""),
    )
    left = ", ".join(counted(n, one, several) for n, one, several in counts if n)
    return Text(f"not shown: {left}; all: dnsteer status -v; one: dnsteer status POOL or VIP", style="dim")


def _all_of(pool: PoolView) -> list[BackendView]:
    return list(pool.backends)


def _not_up(pool: PoolView) -> list[BackendView]:
    return [b for b in pool.backends if b.state != "up" or b.failing]


def _urgency(pool: PoolView) -> tuple[bool, float]:
    """Pools with somebody out first, then the busiest."""
    return all(b.state == "up" and not b.failing for b in pool.backends), -(pool.rate.packets or 0)


def _first(items: list[_T], order: Callable[[_T], Any], lines: Callable[[_T], int]) -> list[_T]:
    """All of *items*, or of more than _ROWS lines, the first in that order that fit."""
    out, left = list[_T](), _ROWS
    for item in sorted(items, key=order):
        left -= lines(item)
        if left < 0:
            return out
        out.append(item)
    return items


def _head(status: Status) -> Iterator[Text]:
    record, state = status.reading.record, status.reading.state
    yield _line("bridge", record.bridge + (f" of switch {escape(record.name)}" if record.name else ""))
    if state is not None:
        when = f"{utc(state.time)} UTC ({ago(state.time)})"
        yield _line("state", f"{state.number}, {escape(state.file)}, digest {state.digest[:_SHORT]}")
        yield _line("applied", f"{when} by {escape(state.by)} with dnsteer {escape(state.version)}")
        if state.note:
            yield _line("note", escape(state.note))
    elif is_number(number := record.ids.get(STATE_KEY, "")):
        version = shorten(escape(record.ids.get(VERSION_KEY, "") or "?"))
        yield _line("state", f"{number}, applied with dnsteer {version}; it cannot be read here", "bold red")
    if status.unreachable:
        yield _line("tables", f"cannot be reached: {escape(status.unreachable)}", "bold red")
    else:
        yield _line(
            "tables", _TABLES_MATCH[status.tables_match], "" if status.tables_match == "recorded" else "bold red"
        )
    neighbors = (status.reading.overlay.neighbors if status.reading.overlay is not None else None) or ()
    for found in neighbors[:_NEIGHBORS]:
        before = f", before at {found.before}" if found.before else ""
        yield _line("MAC", f"{found.address} is at {found.mac} since {utc(found.since)} UTC{before}")
    if len(neighbors) > _NEIGHBORS:
        yield _line("MAC", f"and {len(neighbors) - _NEIGHBORS} more: dnsteer status --json")
    for bond in status.bonds:
        yield _line("bond", bond.text, "" if bond.active and not bond.down else "bold red")
    if status.errors_passed is not None and (status.errors_passed.one or status.errors_passed.each):
        yield _line("ICMP", f"errors passed: {status.errors_passed.text}")
    if (kept := status.connections) is not None:
        yield _line("open TCP", f"{kept.text}; counted {kept.age(now()):.0f} s ago")
    if status.extension is not None:
        yield _line("program", escape(status.extension.text()), "" if status.extension.ok else "bold red")


def _line(name: str, value: str, style: str = "") -> Text:
    return Text.assemble((f"{name:9}", "bold"), (value, style))


def _most_urgent(entries: Sequence[Maintenance]) -> Sequence[Maintenance]:
    """As many entries of maintenance as are shown of a large switch: those overdue, then those by the agent, first."""
    if len(entries) <= _ROWS:
        return entries
    moment = now()
    return sorted(entries, key=lambda a: (not a.expired(moment), a.kind != "health"))[:_ROWS]


def _few_of_a_kind(items: Sequence[AttentionItem]) -> list[AttentionItem]:
    """The items that are shown of a large switch: of many of a kind the first few."""
    kinds = dict[tuple[str, str], list[AttentionItem]]()
    for item in items:
        kinds.setdefault((item.level, kind_of(item.line)), []).append(item)
    few = {id(item) for same in kinds.values() for item in (same[:FEW] if len(same) > MANY else same)}
    return [item for item in items if id(item) in few][:_ROWS]


def _findings(status: Status, items: Sequence[AttentionItem], bounded: bool) -> Iterator[Text]:
    """What needs attention, but for maintenance, which the tables show; then differences. *bounded*: a few of a kind."""
    words = {**dict.fromkeys(status.errors, "error"), status.interrupted: "interrupted"}
    told = [i for i in items if i.said != unreachable_text(status) and not i.listed]
    few = _few_of_a_kind(told) if bounded else told
    for item in few:
        text = "\n".join(map(escape, item.line.splitlines()))
        word = words.get(item.said, item.level) if item.said else item.level
        yield Text(f"{word}: {text}", style=LEVEL_STYLES[item.level])
    if len(few) < len(told):
        yield Text(f"and {len(told) - len(few)} more: dnsteer status -v", style="bold")
    if status.drift:
        file = status.reading.state.file if status.reading.state else ""
        for d in status.drift:
            yield Text(escape(f"drift: {d.text(file)}"), style="yellow")
        more = (status.drift_count or 0) - len(status.drift)
        if more:
            yield Text(f"drift: and {more} more: dnsteer verify", style="yellow")


def _sorts(entries: Sequence[Maintenance]) -> list[tuple[str, list[Maintenance]]]:
    """The entries of those who are out, of given weights and of given slots, each with the title of the table."""
    sorts = {
        "out": [a for a in entries if a.takes_out],
        "given weight": [a for a in entries if a.weight is not None],
        "given slots": [a for a in entries if a.slots],
    }
    return [(title, found) for title, found in sorts.items() if found]


def _maintenance(title: str, out: Sequence[Maintenance], width: int) -> Table:
    rows, moment = list[_Row](), now()
    for a in out:
        until = Text(utc(a.until) if a.until else "")
        if a.expired(moment):
            until.append(" overdue", style="bold red")
        rows.append((a.name, _command(a), utc(a.since), until, Text(escape(a.by)), Text(escape(a.note)), a.decision))
    columns = [
        TableColumn(title),
        TableColumn("by command"),
        TableColumn("since (UTC)", leaves=4),
        TableColumn("until (UTC)", leaves=3),
        TableColumn("by", leaves=2),
        TableColumn("note", narrows=_NOTE),
    ]
    if any(a.decision for a in out):  # where there is no room it is for --json
        columns.append(TableColumn("decision", leaves=1))
    return table_of(columns, [row[: len(columns)] for row in rows], width)


def _denials(title: str, denials: Sequence[Denial], width: int) -> Table:
    rows, moment = list[_Row](), now()
    for denial in denials:
        until = Text(f"{utc(denial.until)}, {left(denial.until, moment)}" if denial.until else "")
        if denial.expired(moment):
            until = Text(utc(denial.until)).append(" overdue", style="bold red")
        rows.append((denial.name, utc(denial.since), until, Text(escape(denial.by)), Text(escape(denial.note))))
    columns = [
        TableColumn(title),
        TableColumn("since (UTC)", leaves=2),
        TableColumn("until (UTC)"),
        TableColumn("by", leaves=1),
        TableColumn("note", narrows=_NOTE),
    ]
    return table_of(columns, rows, width)


def left(until: str, moment: datetime) -> str:
    """How long a time that a record has is still away: `59 min left`."""
    return f"{passed(moment.isoformat(), datetime.fromisoformat(until))} left"


def _command(a: Maintenance) -> str:
    if a.slots:
        return f"{a.kind} {len(a.slots)}"
    if a.weight is None:
        kind = f"{a.kind} ({a.service})" if a.service else a.kind
        return f"{kind} --over {a.over:g}s" if a.over and not a.returns else kind
    command = f"{a.kind} {a.weight}" + (f" --over {a.over:g}s" if a.over else "")
    if a.returns:
        return f"{command}, {(DRAINED - a.gone) / DRAINED:.0%} back"
    return command + (f", {a.gone / DRAINED:.0%}" if a.gone < DRAINED else "")


def _pools(
    pools: Sequence[PoolView], of: int, shown: _Shown, width: int, connections: KeptConnections | None = None
) -> Table:
    rows, tagged = list[_Row](), any(b.vlan is not None for pool in pools for b in pool.backends)
    for pool in pools:
        name = Text(pool.title.removeprefix("pool "), style="bold")
        blank = [""] * (tagged + (connections is not None))
        rows.append((name, "", pool.selection, Text(str(pool.slots), style="bold"), "", *blank, *_rate(pool.rate)))
        for b in shown(pool):
            held = "-" if b.slots is None else str(b.slots)
            weight = str(b.weight) if b.given is None else f"{b.given.weight} (spec {b.weight})"
            kept = [] if connections is None else [_kept(b, connections)]
            vlan = [] if not tagged else ["" if b.vlan is None else str(b.vlan or UNTAGGED)]
            rows.append((f"  {b.name}", weight, _state(b), held, str(b.own), *vlan, *kept, *_rate(b.rate)))
    title = _title("pool, backend" if shown is _all_of else "pool, backends not up", len(pools), of)
    columns = [
        TableColumn(title),
        TableColumn("weight", right=True, leaves=3),
        TableColumn("state"),
        TableColumn("slots", right=True, leaves=4),
        TableColumn("own", right=True, leaves=1),
        *([TableColumn("VLAN", right=True, leaves=1)] if tagged else []),
        *([] if connections is None else [TableColumn("open", right=True)]),
        TableColumn("packets/s", right=True),
        TableColumn("queries/s", right=True, leaves=2),
    ]
    return table_of(columns, rows, width)


def _kept(b: BackendView, connections: KeptConnections) -> str:
    """Its open connections that are kept."""
    return f"{b.connections:,}" if b.connections is not None else "" if connections.is_counted else "?"


def _state(b: BackendView) -> Text:
    text = shown_state(b)
    return text.append(" overdue", style="bold red") if b.overdue else text


def shown_state(b: BackendView) -> Text:
    """The state of a backend, in its color, with its progress."""
    word: str = b.state
    if b.state == "draining":
        word = f"draining {b.drained:.0%}"
    elif b.state == "returning":
        word = f"returning {1 - b.drained:.0%}"
    elif b.state == "down" and b.in_spec:
        word = "down in the spec"
    if b.fails_in_service:
        return Text(f"{word}, fails", style="bold red")
    return Text(word, style=_COLORS[b.state])


def _vips(vips: Sequence[VipView], of: int, width: int) -> Table:
    rows = list[_Row]()
    for vip in vips:
        first, *more = vip.addresses
        rows.append((vip.name, first.address, _services(vip), vip.pool, vip.forwarding, *_rate(first.rate)))
        rows += [("", a.address, "", "", "", *_rate(a.rate)) for a in more]
    columns = [
        TableColumn(_title("VIP", len(vips), of)),
        TableColumn("address"),
        TableColumn("services", leaves=2),
        TableColumn("pool", leaves=4),
        TableColumn("mode", leaves=1),
        TableColumn("packets/s", right=True, leaves=3),
        TableColumn("queries/s", right=True),
    ]
    return table_of(columns, rows, width)


def _lists(lists: Sequence[ListView], width: int) -> Table | None:
    rows = list[_Row]()
    for one in lists:
        rows.append((Text(one.title, style="bold"), one.counts, _number(one.denied), ""))
        for file in one.files:
            state = Text(file.now or "", style="yellow" if file.now not in (None, "as applied") else "")
            about = Text(f"sha256 {file.sha256[:_SHORT]}{', ' if file.now else ''}").append_text(state)
            rows.append((f"  {escape(file.name)}", f"{file.key} {_number(file.entries)}", "", about))
        rows += [(f"  {entry.text}", "", _number(entry.packets), escape(entry.where)) for entry in one.most]
    columns = [
        TableColumn("access list"),
        TableColumn("entries", leaves=2),
        TableColumn("packets denied", right=True),
        TableColumn("", leaves=1),
    ]
    return table_of(columns, rows, width) if rows else None


def _limits(limits: Sequence[LimitView], width: int) -> Table | None:
    rows = [(one.title, one.kind, one.shown_rate, one.per, _number(one.dropped)) for one in limits[:_ROWS]]
    columns = [
        TableColumn(_title("limit of VIP", len(rows), len(limits))),
        TableColumn("of", leaves=2),
        TableColumn("packets/s", right=True),
        TableColumn("per", leaves=1),
        TableColumn("packets dropped", right=True),
    ]
    return table_of(columns, rows, width) if rows else None


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _title(what: str, shown: int, of: int) -> str:
    return what if shown >= of else f"{what} ({shown} of {of})"


def _services(vip: VipView) -> str:
    """Its ports, each with its protocols: 53/udp+tcp."""
    ports: dict[int, list[str]] = {}
    for s in vip.services:
        ports.setdefault(s.port, []).append(s.protocol)
    return " ".join(f"{port}/{'+'.join(dict.fromkeys(protocols))}" for port, protocols in ports.items())


def _rate(rate: Rate) -> tuple[str, str]:
    return shown_rate(rate.packets), shown_rate(rate.queries)


def shown_rate(value: float | None) -> str:
    """A rate for people; `-` where it is not known."""
    if value is None:
        return "-"
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def _verdict(status: Status, items: Sequence[AttentionItem]) -> Text:
    bridge = status.reading.record.bridge
    if status.unreachable:
        return Text(f"{bridge}: cannot be reached", style="bold red")
    wrong = [
        (bool(status.errors), "errors"),
        (bool(status.drift_count), f"{status.drift_count} difference{'s' if status.drift_count != 1 else ''}"),
        (status.extension is not None and not status.extension.ok, _extension_is(status)),
        (status.reading.cut_off, "a change is pending"),
        (
            status.tables_match not in (None, "recorded") and not status.reading.cut_off,
            "the tables differ from the record",
        ),
        (status.reading.record.waits, "flow-restore-wait is set"),
    ]
    said = [text for is_so, text in wrong if is_so]
    how = ", ".join(said) or ("as recorded" if status.drift is not None else "not checked for drift")
    fine = not (status.errors or status.different)
    vips = list(dict.fromkeys(vip for item in items if item.vips for vip in item.vips))
    if vips:
        more = f" and {len(vips) - _MAX_VIPS} more" if len(vips) > _MAX_VIPS else ""
        how += f"; {'a VIP does' if len(vips) == 1 else 'VIPs do'} not serve: {', '.join(vips[:_MAX_VIPS])}{more}"
        return Text(f"{bridge}: {how}", style="bold red")
    if needs_attention(status, items):
        return Text(f"{bridge}: {how}; something needs attention", style="bold yellow" if fine else "bold red")
    return Text(f"{bridge}: {how}", style="" if fine else "bold red")


def _extension_is(status: Status) -> str:
    away = status.extension is not None and status.extension.away
    return "the extension cannot be reached" if away else "the extension is degraded"


def ago(time: str) -> str:
    """How long ago a recorded time is."""
    return f"{passed(time, now())} ago"
