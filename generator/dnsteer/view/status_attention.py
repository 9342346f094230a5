# SPDX-License-Identifier: Apache-2.0
"""Items of attention from a `Status`, without an agent: those of the console, and whether an agent runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from dnsteer.metrics.observer import AppliedBridge
from dnsteer.status.agent_knowledge import NOTHING_KNOWN, AgentView
from dnsteer.status.switch_status import Status
from dnsteer.view.attention import Reachability, attention
from dnsteer.view.attention_item import AttentionItem, AttentionLevel, Command, dnsteer_command, sentence
from dnsteer.view.snapshot import StateSnapshot, SwitchSnapshot

_ORDER: tuple[AttentionLevel, ...] = ("critical", "warning", "note")
_START = Command("If it is stopped", "systemctl start openvswitch-switch")


def database_away(why: str) -> AttentionItem:
    """The item of a switch whose database cannot be reached, and *why*."""
    return AttentionItem("critical", "The switch's database cannot be reached", why, (_START,))


def status_items(status: Status, time: datetime, options: str = "") -> list[AttentionItem]:
    """All items of a switch with this status at a *time*, most urgent first.

    *options* are added to commands, such as `--bridge br-dns`.
    """
    applied = _applied(status, time)
    found = [*_own(status, options), *attention(_snapshot(status, applied, time), _reachability(status), time, options)]
    told = {item.said for item in found} | set(status.extension.warnings if status.extension is not None else ())
    found += [_warning(status, text) for text in status.warnings if text not in told]
    return sorted(found, key=lambda item: _ORDER.index(item.level))


def needs_attention(status: Status, items: Iterable[AttentionItem]) -> bool:
    """Whether one of the *items* needs attention for another reason than that the switch is not as it was applied.

    Notes are of what people did on purpose, and so may be settings of others.
    """
    return any(item.level != "note" and item.said not in status.of_others and not item.differs for item in items)


_AWAY = "cannot be reached: "
"""What the title says already."""


def unreachable_text(status: Status) -> str:
    """One line that says that the switch cannot be reached, and why."""
    return f"the switch cannot be reached: {status.unreachable}"


def _own(status: Status, options: str) -> Iterator[AttentionItem]:
    """Items that an agent words otherwise, since it knows more."""
    if status.unreachable:
        yield AttentionItem(
            "critical",
            "The switch does not answer",
            sentence(status.unreachable),
            (_START, Command("If it was started anew", dnsteer_command("restore", options))),
            said=unreachable_text(status),
        )
    for error in status.errors:
        yield AttentionItem("critical", "Something cannot be read or checked", sentence(error), said=error)
    if status.interrupted:
        mend = Command("To fix it", dnsteer_command("reconcile", options))
        yield AttentionItem(
            "critical",
            "A change was interrupted",
            sentence(status.interrupted),
            (mend,),
            said=status.interrupted,
            differs=True,
        )
    if status.drift_count:
        number = f"{status.drift_count:,} difference{'s' if status.drift_count > 1 else ''}"
        text = f"{number} between the switch and what was applied; they are listed below."
        left = status.drift_of_others
        commands: tuple[Command, ...] = (Command("To fix it", dnsteer_command("restore", options)),)
        how = "dnsteer restore puts it right"
        if left == status.drift_count:
            commands, how = (), "not dnsteer's, so restore leaves it: what to do is said with each"
        elif left:
            how = f"dnsteer restore puts right what is dnsteer's, and leaves {left:,} of others"
        said = f"{number} between the switch and what was applied; {how}"
        yield AttentionItem("critical", "The switch is not as applied", text, commands, said=said, differs=True)
    extension = status.extension
    if extension is not None and not extension.ok:
        title = "The extension cannot be reached" if extension.away else "The extension is degraded"
        yield AttentionItem(
            "critical",
            title,
            sentence(f"{extension.text().removeprefix(_AWAY)}. {' '.join(map(sentence, extension.warnings))}"),
            differs=True,
        )
    yield from _agent(status.agent, options)


def _agent(agent: AgentView, options: str) -> Iterator[AttentionItem]:
    """Whether there is an agent where one is needed, and whether what it knows can be seen here."""
    look = Command("To see what is wrong", "systemctl status dnsteer-agent")
    if agent.presence == "silent":
        text = (
            f"{sentence(agent.why)}. As long as it hangs, backends that fail stay in service, those that are well again "
            "stay out, and VIPs are neither withdrawn nor announced."
        )
        restart = Command("To start it anew", "systemctl restart dnsteer-agent")
        yield AttentionItem("critical", "The agent does not answer", text, (look, restart))
    if not agent.needed:
        return
    if agent.presence == "absent":
        text = (
            "The spec has health checks, balance or VIPs to announce, and nobody does that: backends that fail stay in "
            "service. What is out stays out."
        )
        start = Command("To start it", "systemctl start dnsteer-agent")
        yield AttentionItem("critical", "No agent acts on the bridge", text, (look, start))
    elif agent.presence == "hidden":
        text = f"{sentence(agent.why)}. Whether backends fail or pools are in panic is not known here."
        yield AttentionItem("warning", "An agent acts, and cannot be asked", text, (look,))
    elif agent.presence == "remote":
        text = "What it knows is shown as its last note in the record has it. Whether it hangs is seen on the switch itself."
        yield AttentionItem("note", "The agent is on another machine", text)
    elif agent.presence == "unknown":
        yield AttentionItem("warning", "Whether an agent acts is not known", sentence(agent.why))


def _warning(status: Status, text: str) -> AttentionItem:
    """A warning of `dnsteer status`: what it is about, and what is said of it."""
    about, colon, said = text.partition(": ")
    level: AttentionLevel = "note" if text in status.on_purpose else "warning"
    title, detail = (about, said) if colon else ("Warning", text)
    return AttentionItem(level, sentence(title), sentence(detail), said=text)


def _applied(status: Status, time: datetime) -> StateSnapshot | None:
    reading, loaded = status.reading, status.loaded
    if reading.state is None or reading.overlay is None or loaded is None:
        return None
    return StateSnapshot(AppliedBridge(reading.record.bridge, reading.state, loaded.spec), reading.overlay, time)


def _snapshot(status: Status, applied: StateSnapshot | None, time: datetime) -> SwitchSnapshot:
    record = status.reading.record
    return SwitchSnapshot(
        time, record.bridge, applied=applied, record=record, agent=status.agent.knowledge or NOTHING_KNOWN
    )


def _reachability(status: Status) -> Reachability:
    settled = status.tables_match is not None and not status.reading.cut_off
    return Reachability(None, status.tables_match == "recorded" if settled else None)
