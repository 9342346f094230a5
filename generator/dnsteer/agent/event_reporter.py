# SPDX-License-Identifier: Apache-2.0
"""What the agent says of its work, each line an event with fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dnsteer.agent.probes.targets import slots_name
from dnsteer.deploy.overlay_change import OverlayChange
from dnsteer.events.event import EventLevel, EventName, EventSink
from dnsteer.metrics.observer import (
    AgentObserver,
    AppliedBridge,
    Check,
    CheckTurn,
    KeptChange,
    ListChange,
    PanicChange,
    SwitchInspection,
)
from dnsteer.slots.maintenance import FoundNeighbor, Maintenance, Overlay, is_decided, same_entry
from dnsteer.status.agent_knowledge import WARNS

_NAMED = 3
"""Flows of others that are named one by one, and entries of lists of each kind."""


class EventReporter(AgentObserver):
    """Says what the agent does, and what does not work once as long as it does not. *say* takes the events."""

    def __init__(self, say: EventSink) -> None:
        self._say = say
        self._bridge = ""
        self._known: set[str] = set()
        """Warnings and flows of others that were named."""
        self._standby = False
        self._trouble: dict[str, str] = {}
        """What does not work, by what it is about."""

    def say(self, text: str, event: EventName = "progress", level: EventLevel = "info", /, **fields: object) -> None:
        """See AgentObserver."""
        self._say(text, event, level, bridge=self._bridge, **fields)

    def claim_changed(self, name: str, *, held: bool, switch: str = "") -> None:
        """See AgentObserver."""
        self._bridge = name
        if held:
            self.end_trouble("the claim", f"this agent now works on bridge {name}")
        else:
            self.report_trouble("the claim", f"another agent works on bridge {name}; standing by", "info")

    def adopted(self, known: AppliedBridge, checks: Sequence[Check], failing: Sequence[CheckTurn] = ()) -> None:
        """See AgentObserver."""
        pools, number = len({pool for pool, _, _ in checks}), known.state.number
        self.say(
            f"bridge {known.bridge}: state {number}, pools with health checks: {pools}, targets: {len(checks)}",
            "adopted",
            state=number,
            pools=pools,
            targets=len(checks),
        )

    def turned(self, turn: CheckTurn) -> None:
        """See AgentObserver."""
        (pool, backend, kind), services = turn.check, [*filter(None, turn.services)]
        about = f" ({', '.join(services)})" if services else ""
        to, why, reason = ("healthy", "", "") if turn.healthy else ("unhealthy", turn.why, f": {turn.why}")
        level: EventLevel = "info" if turn.healthy else "warning"
        text = f"{pool}/{backend} is {to}{about}{reason}"
        if kind.endswith(WARNS):
            text = f"{pool}/{backend} {'passes' if turn.healthy else 'fails'} a check that only warns{about}{reason}"
        self.say(
            text,
            "check",
            level,
            pool=pool,
            backend=backend,
            to=to,
            reason=why,
            service=services,
            check=kind,
            duration_s=round(turn.took, 6),
            decision=turn.decision,
        )

    def panicked(
        self, pool: str, services: tuple[str, ...], decision: str = "", change: PanicChange | None = None
    ) -> None:
        """See AgentObserver."""
        if change is None:
            return
        name = slots_name(pool, change.service)
        if not change.begins:
            text = f"pool {name}: the panic is over"
            self.say(text, "panic_over", pool=pool, service=change.service, decision=decision)
            return
        stay = ", ".join(change.stay)
        text = f"PANIC: pool {name}: no backend in service passes its checks ({', '.join(change.backends)}); "
        text += f"these stay in service: {stay}" if stay else "none was in service before"
        if change.idle:
            text += f"; these pass, but people have them out: {', '.join(change.idle)}"
        self.say(
            text,
            "panic",
            "error",
            pool=pool,
            service=change.service,
            backends=[*change.backends],
            stay=[*change.stay],
            idle=[*change.idle],
            decision=decision,
        )

    def kept(self, pool: str, backends: Collection[str], decision: str = "", change: KeptChange | None = None) -> None:
        """See AgentObserver."""
        if change is None:
            return
        about, least, kept = f"pool {slots_name(pool, change.service)}", change.keep_at_least, change.backends
        text = f"{about}: enough backends pass their checks again (keep_at_least: {least})"
        if kept:
            text = f"{about}: too few pass their checks, so these stay in service (keep_at_least: {least}): "
            text += ", ".join(kept)
        self.say(
            text,
            "too_few" if kept else "enough",
            "error" if kept else "info",
            pool=pool,
            service=change.service,
            backends=[*kept],
            decision=decision,
        )

    def overlay_changed(self, change: OverlayChange, decision: str, seconds: float) -> None:
        """See AgentObserver."""
        decided = list(_decided(change.before, change.after))
        for entry, action, words in decided:
            reason = entry.note if action in ("out", "backup_in", "balance", "spill") else ""
            text = f"decision {decision}: {entry.name}{entry.about_service} {words}{f': {reason}' if reason else ''}"
            self.say(
                text,
                "decision",
                decision=decision,
                pool=entry.pool,
                backend=entry.backend,
                service=entry.service,
                kind=entry.kind,
                action=action,
                reason=reason,
                over_s=entry.over or None,
            )
        for denial in change.before.denials:
            if denial.key not in change.after.denied:
                text = f"decision {decision}: {denial.title} ends: its time has passed"
                self.say(text, "decision", decision=decision, kind="deny", action="ended", prefix=denial.prefix)
        if change.moves or change.repaired or len(change.before.entries) != len(change.after.entries):
            moves = {move.text(): move for move in change.moves}
            for line in change.words():
                move = moves.get(line)
                about = {"pool": move.pool, "moved": move.moved} if move is not None else {}
                self.say(line, "moved", decision=decision, **about)
        if decided:
            moved = sum(move.moved for move in change.moves)
            text = f"decision {decision}: on the switch after {seconds:.3f} s"
            self.say(text, "effect", decision=decision, duration_s=round(seconds, 6), moved=moved)

    def neighbor_moved(self, title: str, found: FoundNeighbor, decision: str) -> None:
        """See AgentObserver."""
        text = f"{title} moved from {found.before} to {found.mac}" if found.before else f"{title} is at {found.mac}"
        level: EventLevel = "warning" if found.before else "info"
        self.say(
            f"decision {decision}: {text}",
            "neighbor",
            level,
            decision=decision,
            address=found.address,
            mac=found.mac,
            before=found.before,
        )

    def drain_ended(self, pool: str, backend: str) -> None:
        """See AgentObserver."""
        text = f"backend {backend} of pool {pool}: drained, no connections left"
        self.say(text, "drain_ended", pool=pool, backend=backend)

    def inspected(self, found: SwitchInspection, *, repaired: bool, seconds: float, decision: str = "") -> None:
        """See AgentObserver."""
        super().inspected(found, repaired=repaired, seconds=seconds, decision=decision)
        for words in found.words:
            if repaired:
                self.say(f"repaired: {words}", "repaired", "warning", decision=decision, difference=words)
            else:
                self.say(f"not as applied: {words}", "differs", "warning", difference=words)
        known, self._known = self._known, {*found.warnings, *found.foreign}
        for warning in found.warnings:
            if warning not in known:
                self.say(f"warning: {warning}", "setting", "warning", setting=warning)
        new = [line for line in found.foreign if line not in known]
        for line in new[:_NAMED]:
            self.say(f"a flow that is not dnsteer's is left as it is: {line}", "foreign_flows", flow=line)
        if len(new) > _NAMED:
            more = len(new) - _NAMED
            self.say(f"and {more} more flows that are not dnsteer's", "foreign_flows", flows=more)

    def lists_changed(self, changes: Sequence[ListChange], state: int, decision: str, seconds: float) -> None:
        """See AgentObserver."""
        for change in changes:
            first = [*(f"+{x}" for x in change.added[:_NAMED]), *(f"-{x}" for x in change.removed[:_NAMED])]
            self.say(
                f"{change.text}; applied as state {state} after {seconds:.3f} s",
                "list_changed",
                file=change.name,
                added=len(change.added),
                removed=len(change.removed),
                first=first,
                entries=change.entries,
                state=state,
                duration_s=round(seconds, 6),
                decision=decision,
            )

    def role(self, *, standby: bool) -> None:
        """See AgentObserver."""
        if standby != self._standby:
            self._standby = standby
            role = "standby" if standby else "active"
            self.say(f"this switch is {'on standby' if standby else 'active'} now", "role", role=role)

    def failed(self, why: str) -> None:
        """See AgentObserver."""
        self.report_trouble("the switch", f"the switch stays as it is: {why}", "error")

    def report_trouble(self, what: str, said: str, level: EventLevel = "warning") -> None:
        """See AgentObserver."""
        if self._trouble.get(what) != said:
            self._trouble[what] = said
            self.say(said, "trouble", level, about=what.removeprefix("the "), reason=said)

    def end_trouble(self, what: str, said: str) -> None:
        """See AgentObserver."""
        if self._trouble.pop(what, ""):
            self.say(said, "trouble_over", about=what.removeprefix("the "))

    def forget_troubles(self, *begins: str) -> None:
        """See AgentObserver."""
        for what in [what for what in self._trouble if what.startswith(begins)]:
            del self._trouble[what]


def _decided(before: Overlay, after: Overlay) -> Iterator[tuple[Maintenance, str, str]]:
    """Yield the entries that were decided about, each with what was, as a word and in words; no steps of earlier ones."""
    for entry in after:
        was = same_entry(before, entry)
        if not is_decided(was, entry):
            continue
        if entry.returns:
            over = f" over {entry.over:g} s" if entry.over else ""
            yield entry, *(("back", f"comes back{over}") if entry.kind == "health" else ("backup_out", f"leaves{over}"))
        elif entry.kind == "backup":
            yield entry, "backup_in", f"joins as a backup at weight {entry.weight}"
        elif entry.kind == "health":
            yield entry, "out", "goes out of service"
        elif entry.slots:
            number = len(entry.slots)
            yield entry, entry.kind, f"has {number} slot{'s' if number > 1 else ''} of others"
    for entry in before:
        if same_entry(after, entry) is None and not entry.returns:
            ended = {
                "health": ("back", "comes back"),
                "backup": ("backup_out", "leaves"),
                "balance": ("balance", "has no slots of others any more"),
                "spill": ("spill", "has no slots any more"),
            }
            yield entry, *ended.get(entry.kind, ("ended", f"no longer {entry.state}: its time has passed"))
