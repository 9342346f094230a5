"""What needs attention, most urgent first, each with the commands that show or fix it.

These are most warnings of `dnsteer status`, and what only the agent knows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dnsteer.console.numbers import moment
from dnsteer.console.seen import Seen, Side
from dnsteer.deploy.movement import Assignment, pools_without_backends
from dnsteer.slots.maintenance import OF_THE_AGENT, Maintenance
from dnsteer.spec.checked_services import own_port
from dnsteer.spec.derived import address_of
from dnsteer.spec.effective_query import effective_query
from dnsteer.spec.model.families import FAMILIES
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.query import RANDOM_LABEL
from dnsteer.spec.model.spec import Backend, Pool
from dnsteer.status.pools import backups_in_use, overdue
from dnsteer.status.report import TABLES_DIFFER
from dnsteer.switch.state import NOT_FORWARDING

MAX_BACKENDS = 20
"""Unhealthy backends that are listed one by one."""
_NAMED = 8
_PATIENCE = 5.0
"""Seconds that a change may take before it counts as cut off."""

Level = Literal["critical", "warning", "note"]
"""critical: queries are lost or may be. warning: less is in service than should be. note: what people did on purpose."""


@dataclass(frozen=True)
class Command:
    """A command line, and what it is for: `To fix it`."""

    purpose: str
    line: str


@dataclass(frozen=True)
class AttentionItem:
    """Something that needs attention. *pool* is the name of the pool that it is about, *decision* the id of the decision
    behind it; empty for none.
    """

    level: Level
    title: str
    detail: str = ""
    commands: tuple[Command, ...] = ()
    pool: str = ""
    decision: str = ""


@dataclass(frozen=True)
class Reached:
    """Whether the last reading of counters got what it asked for, and whether the tables carry the record's number.

    None where there was no reading, or no tables to ask.
    """

    up: bool | None = None
    as_recorded: bool | None = None
    extension: bool | None = None


def attention(seen: Seen, reached: Reached, now: datetime, options: str = "") -> list[AttentionItem]:
    """All items. *options* are added to each command of dnsteer, such as `--bridge br-dns`."""
    found = [*_switch(seen, reached, now, options)]
    if seen.now is not None:
        found += [*_pools(seen, seen.now, options), *_maintenance(seen.now, now, options)]
    order = ("critical", "warning", "note")
    return sorted(found, key=lambda item: order.index(item.level))


def dnsteer(verb: str, options: str, *more: str) -> str:
    """A command of dnsteer."""
    return " ".join(filter(None, ["dnsteer", verb, *map(shlex.quote, more), options]))


def _mend(verb: str, options: str, *more: str) -> tuple[Command, ...]:
    return (Command("To fix it", dnsteer(verb, options, *more)),)


def _switch(seen: Seen, reached: Reached, now: datetime, options: str) -> Iterator[AttentionItem]:
    start = Command("If it is stopped", "systemctl start openvswitch-switch")
    if seen.trouble:
        since = f" Since {moment(seen.troubled)} UTC." if seen.troubled else ""
        text = f"{seen.trouble}.{since} The switch stays as it is; backends that fail stay in service."
        yield AttentionItem("critical", "The agent cannot work on the switch", text,
                   (Command("To see what is wrong", dnsteer("status", options)), start))  # fmt: skip
    elif reached.up is False:
        text = "It did not answer when its counters were read; rates are those of the last answer."
        yield AttentionItem("critical", "The switch does not answer", text,
                   (Command("To see what is wrong", dnsteer("status", options)), start))  # fmt: skip
    if seen.stands_by:
        text = f"Another agent works on bridge {seen.bridge}. This one shows nothing until it takes over."
        yield AttentionItem("note", "This agent stands by", text)
        return
    if reached.extension is False:
        text = "VIPs that it serves have no answers until it is back; the switch drops their queries."
        yield AttentionItem("critical", "The extension does not answer", text,
                   (Command("To see what is wrong", dnsteer("status", options)),
                    Command("If it is stopped", "systemctl start dnsteer-ext")))  # fmt: skip
    record = seen.record
    pending = seen.pending is not None and (now - seen.pending).total_seconds() > _PATIENCE
    if record is not None and record.waits:
        yield AttentionItem("critical", "The switch does not forward", NOT_FORWARDING, _mend("restore", options))
    if pending and seen.pending is not None:
        text = (
            f"A change of bridge {seen.bridge} is pending since {moment(seen.pending)} UTC; "
            "the next command that changes the switch settles it."
        )
        yield AttentionItem("critical", "A change was interrupted", text, _mend("reconcile", options))
    elif reached.as_recorded is False and record is not None:
        yield AttentionItem(
            "critical",
            "The tables differ from the record",
            f"{sentence(TABLES_DIFFER)}",
            _mend("restore", options),
        )
    drift = seen.drift
    if not drift.repaired and drift.flows + drift.settings:
        text = (
            f"{_many(drift.flows, 'flow or group', 'flows and groups')} and {_many(drift.settings, 'setting', 'settings')} "
            "differ from what was applied, and the spec has repair: report."
        )
        yield AttentionItem("critical", "The switch is not as applied", text, _mend("restore", options))
    if drift.foreign:
        bridge = shlex.quote(seen.bridge)
        show = f"ovs-ofctl -O OpenFlow15 --names dump-flows {bridge}"
        yield AttentionItem("note", f"{_many(drift.foreign, 'flow', 'flows')} of others on the bridge",
                   "Left as they are.", (Command("To see them", show),))  # fmt: skip


def _pools(seen: Seen, side: Side, options: str) -> Iterator[AttentionItem]:
    pools = Assignment(side.known.state.members, side.overlay)
    for members, text in zip(pools.without_backends(), pools_without_backends(pools), strict=True):
        entries = [entry for entry in side.overlay.of(members.pool) if entry.kind in ("drain", "down")]
        verb = _end(entries[-1], options) if entries else ()
        yield AttentionItem("critical", f"{sentence(members.title)} has no backend", sentence(text), verb, members.pool)
    for pool in sorted(seen.panics):
        names = [name for at, name in seen.failing if at == pool]
        why = [f"{name}: {next(iter(seen.failing[pool, name].values()))}" for name in names[:_NAMED]]
        more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = f"No backend in service passes its checks, so none of them is taken out. {'; '.join(why)}{more}"
        looks = _ask(side, pool, names[0]) if names else ()
        yield AttentionItem("critical", f"Pool {pool}: panic", text, looks, pool, seen.decisions.get(pool, ""))
    unhealthy = [entry for entry in side.overlay if entry.kind == "health"]
    for entry in unhealthy[:MAX_BACKENDS]:
        yield _unhealthy(side, entry, options)
    if len(unhealthy) > MAX_BACKENDS:
        text = "They are named on the pages of their pools."
        yield AttentionItem("warning", f"{len(unhealthy) - MAX_BACKENDS} more backends are unhealthy", text)
    in_use = {entry.pool: entry.decision for entry in reversed(side.overlay.entries) if entry.kind == "backup"}
    pools_in_use = dict.fromkeys(entry.pool for entry in side.overlay if entry.kind == "backup")
    for pool, text in zip(pools_in_use, backups_in_use(side.overlay), strict=True):
        yield AttentionItem(
            "warning", f"Pool {pool}: its backup serves", sentence(text), pool=pool, decision=in_use[pool]
        )


def _unhealthy(side: Side, entry: Maintenance, options: str) -> AttentionItem:
    about = f" ({entry.service})" if entry.service else ""
    if entry.returns:
        title, text = (
            f"{entry.name}{about} comes back",
            f"Healthy again since {moment(entry.returns)} UTC; over {entry.over:g} s.",
        )
        return AttentionItem("note", title, text, pool=entry.pool, decision=entry.decision)
    keep = Command("To keep it out while it is repaired", dnsteer("drain", options, entry.name))
    text = f"{entry.note}. Out of service since {moment(entry.since)} UTC; the agent brings it back by itself."
    looks = _ask(side, entry.pool, entry.backend)
    return AttentionItem(
        "warning", f"{entry.name} is unhealthy{about}", text, (*looks, keep), entry.pool, entry.decision
    )


def _maintenance(side: Side, now: datetime, options: str) -> Iterator[AttentionItem]:
    late = [entry for entry in side.overlay if entry.expired(now)]
    for entry, text in zip(late, overdue(side.overlay, now), strict=True):
        title, mend = f"{entry.name}: maintenance is overdue", _mend("reconcile", options)
        yield AttentionItem("warning", title, sentence(text), mend, entry.pool, entry.decision)
    for entry in side.overlay:
        if entry.kind in OF_THE_AGENT or entry in late:
            continue
        until = f", until {moment(entry.until)} UTC" if entry.until else ""
        note = f": {entry.note}" if entry.note else ""
        text = f"By {entry.by} since {moment(entry.since)} UTC{until}{note}"
        state = (
            entry.state
            if entry.weight is not None or entry.gone >= 1000
            else "returning"
            if entry.returns
            else "draining"
        )
        yield AttentionItem("note", f"{entry.name} is {state}", text, _end(entry, options), entry.pool, entry.decision)


def _end(entry: Maintenance, options: str) -> tuple[Command, ...]:
    """How maintenance by people is ended."""
    if entry.weight is not None:
        return (Command("To end it", dnsteer("weight", options, entry.name, "--undo")),)
    return (Command("To end it", dnsteer("up" if entry.kind == "down" else "undrain", options, entry.name)),)


def _ask(side: Side, pool: str, name: str) -> tuple[Command, ...]:
    """How to ask a backend as its first check does."""
    spec = side.known.spec
    found = spec.pools.get(pool)
    backend = next((b for b in found.backends if b.name == name), None) if found is not None else None
    if found is None or backend is None or not found.health:
        return ()
    check = found.health[0]
    return (Command("To ask it", _question(found, check, backend, pool, own_port(spec, pool, check, backend))),)


_FLAGS = {CheckKind.TCP: ["+tcp"], CheckKind.TLS: ["+tls"], CheckKind.HTTPS: ["+https"], CheckKind.QUIC: ["+quic"]}


def _question(found: Pool, check: HealthCheck, backend: Backend, pool: str, port: int) -> str:
    address = next((str(a) for a in (address_of(backend, family) for family in FAMILIES) if a is not None), "")
    if check.check is CheckKind.COMMAND:
        values = {"address": address, "port": str(port), "pool": pool, "backend": backend.name}
        words = list(check.command)
        for name, value in values.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return shlex.join(words)
    query = effective_query(found, check)
    flags = [
        *_FLAGS.get(check.check, []),
        *([] if query.recursion else ["+norec"]),
        *(["+cdflag"] if query.cd else []),
        *(["+dnssec"] if query.do else []),
        *([f"+bufsize={query.edns_size}"] if query.edns_size else []),
        *(["-c", query.rdclass] if query.rdclass != "IN" else []),
    ]
    name = query.name.replace(RANDOM_LABEL, "any-label.", 1) if query.name.startswith(RANDOM_LABEL) else query.name
    return shlex.join(["kdig", f"@{address}", "-p", str(port), *flags, name, query.type])


def _many(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


def sentence(text: str) -> str:
    """A text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def count(items: Sequence[AttentionItem]) -> dict[str, int]:
    """How many there are of each level."""
    return {level: sum(item.level == level for item in items) for level in ("critical", "warning", "note")}
