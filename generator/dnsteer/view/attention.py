# SPDX-License-Identifier: Apache-2.0
"""Items of attention, most urgent first, each with the commands that show or fix it.

They are most warnings of `dnsteer status`, and what only the agent knows.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from dnsteer.deploy.movement import Assignment, LastBackend, pools_without_backends
from dnsteer.slots.maintenance import OF_THE_AGENT, Maintenance
from dnsteer.spec.errors import counted
from dnsteer.status.pools import backups_in_use, backups_of, overdue, overdue_denials
from dnsteer.status.switch_observer import TABLES_DIFFER
from dnsteer.switch.state import NOT_FORWARDING
from dnsteer.view.agent_attention import (
    all_backends_fail,
    announcement_items,
    failing_backends,
    question_command,
    trouble_items,
    vips_of,
)
from dnsteer.view.attention_item import AttentionItem, AttentionLevel, Command, dnsteer_command, sentence
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot
from dnsteer.view.wording import moment

MAX_BACKENDS = 20
"""Unhealthy backends that are listed one by one."""
_NAMED = 8
"""VIPs that are named."""
_MOST_DENIALS = 8
"""Denials by hand that are listed one by one."""
_PATIENCE = 5.0
"""Seconds that a change may take before it counts as cut off."""


@dataclass(frozen=True)
class Reachability:
    """Whether the last reading of counters got what it asked for, and whether the tables carry the record's number.

    None where there was no reading, or no tables to ask. *answered* is when the switch answered last.
    """

    up: bool | None = None
    as_recorded: bool | None = None
    extension: bool | None = None
    answered: datetime | None = None


def attention(
    snapshot: SwitchSnapshot, reachability: Reachability, now: datetime, options: str = ""
) -> list[AttentionItem]:
    """All items. *options* are added to each command of dnsteer, such as `--bridge br-dns`."""
    found = [*_switch(snapshot, reachability, now, options)]
    if snapshot.applied is not None:
        found += [*_pools(snapshot, snapshot.applied, options), *failing_backends(snapshot, snapshot.applied, options)]
        found += [
            *_maintenance(snapshot.applied, now, options),
            *_denials(snapshot.applied, now, options),
            *announcement_items(snapshot.agent, snapshot.applied.known.spec, options),
        ]
    found += trouble_items(snapshot.agent)
    order = ("critical", "warning", "note")
    return sorted(found, key=lambda item: order.index(item.level))


def _fix_command(verb: str, options: str, *more: str) -> tuple[Command, ...]:
    return (Command("To fix it", dnsteer_command(verb, options, *more)),)


def _switch(
    snapshot: SwitchSnapshot, reachability: Reachability, now: datetime, options: str
) -> Iterator[AttentionItem]:
    start = Command("If it is stopped", "systemctl start openvswitch-switch")
    if snapshot.trouble:
        since = f" Since {moment(snapshot.troubled)} UTC." if snapshot.troubled else ""
        text = f"{snapshot.trouble.rstrip('.?')}.{since} The switch stays as it is; backends that fail stay in service."
        yield AttentionItem(
            "critical",
            "The agent cannot work on the switch",
            text,
            (Command("To see what is wrong", dnsteer_command("status", options)), start),
            stale=True,
        )
    elif reachability.up is False:
        last = (
            f"the last answer, of {moment(reachability.answered)} UTC" if reachability.answered else "the last answer"
        )
        text = f"It did not answer when its counters were read; rates are those of {last}."
        yield AttentionItem(
            "critical",
            "The switch does not answer",
            text,
            (Command("To see what is wrong", dnsteer_command("status", options)), start),
            stale=True,
        )
    if snapshot.is_standby:
        text = f"Another agent works on bridge {snapshot.bridge}. This one shows nothing until it takes over."
        yield AttentionItem("note", "This agent is on standby", text)
        return
    if reachability.extension is False:
        text = "VIPs that it serves have no answers until it is back; the switch drops their queries."
        yield AttentionItem(
            "critical",
            "The extension does not answer",
            text,
            (
                Command("To see what is wrong", dnsteer_command("status", options)),
                Command("If it is stopped", "systemctl start dnsteer-ext"),
            ),
        )
    record = snapshot.record
    pending = snapshot.pending is not None and (now - snapshot.pending).total_seconds() > _PATIENCE
    if record is not None and record.waits:
        yield AttentionItem(
            "critical",
            "The switch does not forward",
            NOT_FORWARDING,
            _fix_command("restore", options),
            said=NOT_FORWARDING,
            differs=True,
        )
    if pending and snapshot.pending is not None:
        text = (
            f"A change of bridge {snapshot.bridge} is pending since {moment(snapshot.pending)} UTC; "
            "the next command that changes the switch completes or undoes it."
        )
        yield AttentionItem(
            "critical", "A change was interrupted", text, _fix_command("reconcile", options), differs=True
        )
    elif reachability.as_recorded is False and record is not None:
        yield AttentionItem(
            "critical",
            "The flow tables are not as applied",
            "The switch has other flow tables than those of the applied state.",
            _fix_command("restore", options),
            said=TABLES_DIFFER,
            differs=True,
        )
    drift = snapshot.drift
    if not drift.repaired and drift.flows + drift.settings:
        flows = counted(drift.flows, "flow or group", "flows and groups")
        text = (
            f"{flows} and {counted(drift.settings, 'setting', 'settings')} "
            "differ from what was applied. They are not repaired by the agent, since the spec has repair: report."
        )
        yield AttentionItem(
            "critical", "The switch is not as applied", text, _fix_command("restore", options), differs=True
        )
    if drift.foreign:
        bridge = shlex.quote(snapshot.bridge)
        show = f"ovs-ofctl -O OpenFlow15 --names dump-flows {bridge}"
        yield AttentionItem(
            "note",
            f"{counted(drift.foreign, 'flow', 'flows')} on the bridge that are not dnsteer's",
            "They are left as they are.",
            (Command("To see them", show),),
        )


def _pools(snapshot: SwitchSnapshot, applied: StateSnapshot, options: str) -> Iterator[AttentionItem]:
    pools = Assignment(applied.known.state.members, applied.overlay)
    for members, text in zip(pools.without_backends(), pools_without_backends(pools), strict=True):
        entries = [entry for entry in applied.overlay.of(members.pool) if entry.kind in ("drain", "down")]
        verb = _end(entries[-1], options) if entries else ()
        lost = members.on_all_down == "drop" or all_backends_fail(applied, members)
        vips = vips_of(applied.known.spec, members.pool, members.service) if lost else ()
        title = f"{sentence(members.title)} has no backend"
        yield AttentionItem("critical", title, sentence(text), verb, members.pool, vips=vips, said=text)
    for last in pools.with_one_backend(backups_of(applied.known.spec)):
        members, level = last.members, _level(last)
        title = f"{sentence(members.title)}: one backend is left in service"
        vips = vips_of(applied.known.spec, members.pool, members.service)
        more = f" and {len(vips) - _NAMED} more" if len(vips) > _NAMED else ""
        of = f" It serves {', '.join(vips[:_NAMED])}{more}." if vips else ""
        yield AttentionItem(level, title, f"{sentence(last.text)}.{of}", pool=members.pool, said=last.text)
    unhealthy = [entry for entry in applied.overlay if entry.kind == "health"]
    for entry in unhealthy[:MAX_BACKENDS]:
        yield _unhealthy(applied, entry, options)
    if len(unhealthy) > MAX_BACKENDS:
        text = "They are named on the pages of their pools."
        yield AttentionItem("warning", f"{len(unhealthy) - MAX_BACKENDS} more backends are unhealthy", text)
    in_use = {entry.pool: entry.decision for entry in reversed(applied.overlay.entries) if entry.kind == "backup"}
    pools_in_use = dict.fromkeys(entry.pool for entry in applied.overlay if entry.kind == "backup")
    for pool, text in zip(pools_in_use, backups_in_use(applied.overlay), strict=True):
        yield AttentionItem(
            "warning",
            f"Pool {pool} is served by its backup",
            sentence(text),
            pool=pool,
            decision=in_use[pool],
            said=text,
        )


def _level(last: LastBackend) -> AttentionLevel:
    """The level of a pool with one backend in service: planned maintenance pages nobody."""
    return "note" if last.planned else "warning"


def _unhealthy(applied: StateSnapshot, entry: Maintenance, options: str) -> AttentionItem:
    about = f" ({entry.service})" if entry.service else ""
    if entry.returns:
        title, text = (
            f"{entry.name}{about} is returning to service",
            f"Healthy again since {moment(entry.returns)} UTC. Its slots return over {entry.over:g} s.",
        )
        return AttentionItem(
            "note", title, text, pool=entry.pool, decision=entry.decision, listed=True, backend=entry.backend
        )
    keep = Command("To keep it out while it is repaired", dnsteer_command("drain", options, entry.name))
    text = (
        f"{entry.note}. Out of service since {moment(entry.since)} UTC; the agent brings it back once its checks pass."
    )
    looks = question_command(applied, entry.pool, entry.backend, entry.note.partition(" ")[0])
    title, commands = f"{entry.name} is unhealthy{about}", (*looks, keep)
    return AttentionItem(
        "warning", title, text, commands, entry.pool, entry.decision, listed=True, backend=entry.backend
    )


def _maintenance(applied: StateSnapshot, now: datetime, options: str) -> Iterator[AttentionItem]:
    late = [entry for entry in applied.overlay if entry.expired(now)]
    for entry, text in zip(late, overdue(applied.overlay, now), strict=True):
        title, mend = f"{entry.name}: maintenance is overdue", _fix_command("reconcile", options)
        yield AttentionItem(
            "warning", title, sentence(text), mend, entry.pool, entry.decision, said=text, backend=entry.backend
        )
    for entry in applied.overlay:
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
        title, mend = f"{entry.name} is {state}", _end(entry, options)
        yield AttentionItem("note", title, text, mend, entry.pool, entry.decision, listed=True, backend=entry.backend)


def _denials(applied: StateSnapshot, now: datetime, options: str) -> Iterator[AttentionItem]:
    """What is denied by hand: of many the first few, and how many more there are."""
    denials = applied.overlay.denials
    late = [denial for denial in denials if denial.expired(now)]
    for denial, text in zip(late, overdue_denials(applied.overlay, now), strict=True):
        title, mend = f"{denial.name}: its denial is overdue", _fix_command("reconcile", options)
        yield AttentionItem("warning", title, sentence(text), mend, decision=denial.decision, said=text)
    other = [denial for denial in denials if denial not in late]
    for denial in other[:_MOST_DENIALS]:
        until = f", until {moment(denial.until)} UTC" if denial.until else ""
        note = f": {denial.note}" if denial.note else ""
        text = f"By {denial.by} since {moment(denial.since)} UTC{until}{note}"
        mend = (Command("To end it", dnsteer_command("undeny", options, *denial.words)),)
        title = f"{denial.name} is denied by hand"
        yield AttentionItem("note", title, text, mend, decision=denial.decision, listed=True)
    if (more := len(other) - _MOST_DENIALS) > 0:
        title = f"{counted(more, 'more prefix is', 'more prefixes are')} denied by hand"
        shows = (Command("To see all", dnsteer_command("status", options, "-v")),)
        yield AttentionItem("note", title, "switch.access.deny_file of the spec can have them.", shows, listed=True)


def _end(entry: Maintenance, options: str) -> tuple[Command, ...]:
    """The command that ends maintenance by people."""
    if entry.weight is not None:
        return (Command("To end it", dnsteer_command("weight", options, entry.name, "--undo")),)
    return (Command("To end it", dnsteer_command("up" if entry.kind == "down" else "undrain", options, entry.name)),)
