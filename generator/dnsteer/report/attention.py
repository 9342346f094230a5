"""What needs attention of a switch as it was read: the items of the console's list that are known without an agent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dnsteer.console.attention import AttentionItem, Command, Level, Reached, attention, dnsteer, sentence
from dnsteer.console.seen import Seen, Side
from dnsteer.deploy.movement import Assignment, pools_without_backends
from dnsteer.metrics.recorder import Known
from dnsteer.report.gather import ReportFacts
from dnsteer.status.pools import backups_in_use, overdue
from dnsteer.status.report import TABLES_DIFFER, Status
from dnsteer.switch.state import NOT_FORWARDING

_ORDER: tuple[Level, ...] = ("critical", "warning", "note")
_START = Command("If it is stopped", "systemctl start openvswitch-switch")


def items(facts: ReportFacts, options: str = "") -> list[AttentionItem]:
    """All of them, most urgent first. *options* are added to commands, such as `--bridge br-dns`."""
    status = facts.status
    if status is None:
        why = facts.unread[0][1] if facts.unread else ""
        return [AttentionItem("critical", "The switch's database cannot be reached", why, (_START,))]
    side = _side(status, facts.time)
    found = [*_own(status, options), *attention(_seen(status, side, facts.time), _reached(status), facts.time, options)]
    told = _told(status, side, facts.time)
    found += [_warning(text) for text in status.warnings if text not in told]
    return sorted(found, key=lambda item: _ORDER.index(item.level))


def _own(status: Status, options: str) -> Iterator[AttentionItem]:
    """What the console's list has in other words, as an agent says it."""
    if status.unreachable:
        yield AttentionItem("critical", "The switch does not answer", sentence(status.unreachable),
                   (_START, Command("If it was started anew", dnsteer("restore", options))))  # fmt: skip
    for error in status.errors:
        yield AttentionItem("critical", "Something cannot be read or checked", sentence(error))
    if status.interrupted:
        mend = Command("To fix it", dnsteer("reconcile", options))
        yield AttentionItem("critical", "A change was interrupted", sentence(status.interrupted), (mend,))
    if status.drift_count:
        number = f"{status.drift_count:,} difference{'s' if status.drift_count > 1 else ''}"
        text = f"{number} between the switch and what was applied; they are listed below."
        mend = Command("To fix it", dnsteer("restore", options))
        yield AttentionItem("critical", "The switch is not as applied", text, (mend,))
    extension = status.extension
    if extension is not None and not extension.ok:
        title = "The extension cannot be reached" if extension.away else "The extension is degraded"
        yield AttentionItem(
            "critical", title, sentence(f"{extension.text()}. {' '.join(map(sentence, extension.warnings))}")
        )


def _warning(text: str) -> AttentionItem:
    """A warning of `dnsteer status`: what it is about, and what is said of it."""
    about, colon, said = text.partition(": ")
    return (
        AttentionItem("warning", sentence(about), sentence(said))
        if colon
        else AttentionItem("warning", "Warning", sentence(text))
    )


def _side(status: Status, time: datetime) -> Side | None:
    reading, loaded = status.reading, status.loaded
    if reading.state is None or reading.overlay is None or loaded is None:
        return None
    return Side(Known(reading.record.bridge, reading.state, loaded.spec), reading.overlay, time)


def _seen(status: Status, side: Side | None, time: datetime) -> Seen:
    record = status.reading.record
    return Seen(time, record.bridge, now=side, record=record)


def _reached(status: Status) -> Reached:
    settled = status.tables_match is not None and not status.reading.cut_off
    return Reached(None, status.tables_match == "recorded" if settled else None)


def _told(status: Status, side: Side | None, time: datetime) -> set[str]:
    """Warnings of `dnsteer status` that are items by themselves."""
    told = {NOT_FORWARDING, TABLES_DIFFER, *(status.extension.warnings if status.extension is not None else ())}
    if side is not None:
        told.update(pools_without_backends(Assignment(side.known.state.members, side.overlay)))
        told.update(backups_in_use(side.overlay))
        told.update(overdue(side.overlay, time))
    return told
