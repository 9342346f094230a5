"""What the agent says of its work, each line an event with fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dnsteer.agent.decide import Decision, PoolRules
from dnsteer.agent.probes.targets import slots_name
from dnsteer.agent.repair import Look
from dnsteer.agent.world import World
from dnsteer.deploy.overlay_change import OverlayChange
from dnsteer.deploy.times import now
from dnsteer.events.event import Level, Name, Say
from dnsteer.metrics.recorder import Recorder
from dnsteer.slots.decisions import is_decided, same_entry
from dnsteer.slots.maintenance import Maintenance, Overlay
from dnsteer.status.agent_knowledge import WARNS, Trouble

_NAMED = 3
"""Flows of others that are named one by one."""
_KNOWN_OTHERWISE = ("the switch", "the claim")
"""What does not work and is told to the recorder by calls of its own: `failed`, `bridge_is`."""


class Reporter:
    """Says what the agent does, and what does not work once as long as it does not. *say* takes the events.

    *recorder* is told of what does not work, too.
    """

    def __init__(self, say: Say, recorder: Recorder | None = None) -> None:
        self._say, self._recorder = say, recorder or Recorder()
        self.bridge = ""
        self._known: set[str] = set()
        """Warnings and flows of others that were named."""
        self._trouble: dict[str, str] = {}
        """What does not work, by what it is about."""

    def say(self, text: str, event: Name = "progress", level: Level = "info", /, **fields: object) -> None:
        """Say anything else."""
        self._say(text, event, level, bridge=self.bridge, **fields)

    def adopted(self, world: World) -> None:
        """Another state is followed."""
        pools, targets = len({target.pool for target in world.targets}), len(world.targets)
        self.say(
            f"bridge {world.bridge}: state {world.number}, pools with health checks: {pools}, targets: {targets}",
            "adopted", state=world.number, pools=pools, targets=targets,
        )  # fmt: skip

    def not_adopted(self, number: int, kept: Mapping[str, PoolRules], why: str) -> None:
        """State *number* cannot be followed; the pools of the rules that are *kept* are checked as before."""
        names = ", ".join(dict.fromkeys(rules.pool for rules in kept.values()))
        goes_on = f"the checks of the state before go on for {names}" if names else "no pool is the same as before"
        text = (
            f"state {number} cannot be followed, and is tried again: {why}; {goes_on}, and all others stay as they are"
        )
        self.fails("the state", text, "error")

    def adopted_in_part(self, number: int, pools: Sequence[str], why: str) -> None:
        """The first state that is followed, *number*, has checks of these *pools* that cannot be asked, and why."""
        text = f"state {number} is followed without checks of {', '.join(pools)} that cannot be asked, and are tried again: "
        self.fails("the state", f"{text}{why}", "error")

    def unrecorded(self, why: str, unsaved: str) -> None:
        """What the agent has decided is in the flows alone, and why the record does not have it; empty: it has."""
        if not why:
            self.works("the record", "the record has all that was decided")
            return
        left = f"; nor can it be kept for the next agent: {unsaved}" if unsaved else ""
        text = f"backends go out and come back without the record, which follows once it can be written: {why}{left}"
        self.fails("the record", text, "error")

    def turned(self, pool: str, backend: str, why: str, **fields: Any) -> None:
        """A check of a backend has turned; *why* is empty for one that is healthy again."""
        services = fields.get("service")
        about = f" ({', '.join(services)})" if services else ""
        to, reason = ("unhealthy", f": {why}") if why else ("healthy", "")
        level: Level = "warning" if why else "info"
        text = f"{pool}/{backend} is {to}{about}{reason}"
        if str(fields.get("check", "")).endswith(WARNS):
            text = f"{pool}/{backend} {'fails' if why else 'passes'} a check that only warns{about}{reason}"
        self.say(text, "check", level, pool=pool, backend=backend, to=to, reason=why, **fields)

    def panic(self, rules: PoolRules, decided: Decision, backends: list[str], decision: str) -> None:
        """No backend of a pool, or of one of its services, passes: nobody more goes out. *backends* are unhealthy."""
        name, stay = slots_name(rules.pool, rules.service), ", ".join(decided.spared)
        text = f"PANIC: pool {name}: no backend in service passes its checks ({', '.join(backends)}); "
        text += f"these stay in service: {stay}" if stay else "none was in service before"
        if decided.idle:
            text += f"; these pass, but people have them out: {', '.join(decided.idle)}"
        self.say(
            text, "panic", "error", pool=rules.pool, service=rules.service, backends=backends, stay=[*decided.spared],
            idle=[*decided.idle], decision=decision,
        )  # fmt: skip

    def too_few(self, rules: PoolRules, kept: Sequence[str], decision: str) -> None:
        """The backends that stay in service only for *keep_at_least* are others than before; none: that is over."""
        about = f"pool {slots_name(rules.pool, rules.service)}"
        text = f"{about}: enough backends pass their checks again (keep_at_least: {rules.keep_at_least})"
        if kept:
            text = (
                f"{about}: too few pass their checks, so these stay in service (keep_at_least: {rules.keep_at_least}): "
            )
            text += ", ".join(kept)
        self.say(
            text, "too_few" if kept else "enough", "error" if kept else "info", pool=rules.pool, service=rules.service,
            backends=[*kept], decision=decision,
        )  # fmt: skip

    def panic_over(self, rules: PoolRules, decision: str) -> None:
        """The panic of a pool is over."""
        text = f"pool {slots_name(rules.pool, rules.service)}: the panic is over"
        self.say(text, "panic_over", pool=rules.pool, service=rules.service, decision=decision)

    def change(self, change: OverlayChange, decision: str, seconds: float) -> None:
        """The overlay was changed by a decision; until flows and record have it took so many *seconds*."""
        decided = list(_decided(change.before, change.after))
        for entry, action, words in decided:
            reason = entry.note if action in ("out", "backup_in", "balance", "spill") else ""
            text = f"decision {decision}: {entry.name}{entry.about_service} {words}{f': {reason}' if reason else ''}"
            self.say(
                text, "decision", decision=decision, pool=entry.pool, backend=entry.backend, service=entry.service,
                kind=entry.kind, action=action, reason=reason, over_s=entry.over or None,
            )  # fmt: skip
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

    def look(self, found: Look, *, repair: bool, decision: str) -> None:
        """What a look at the switch has found."""
        if found.other_version:
            text = f"dnsteer {found.other_version} made the tables; apply the spec to have them watched"
            self.fails("the version", text)
        else:
            self.works("the version", "the tables are watched")
        for words in found.words:
            if repair:
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

    def monitor_fails(self, why: str) -> None:
        """The monitor of flows does not work, and why; empty: it works again."""
        if why:
            text = f"changes of flows are noticed late, since ovs-ofctl monitor fails: {why}"
            self.fails("the monitor", text)
        else:
            self.works("the monitor", "changes of flows are noticed at once again")

    def fails(self, what: str, said: str, level: Level = "warning") -> None:
        """Something does not work."""
        if self._trouble.get(what) != said:
            self._trouble[what] = said
            about = what.removeprefix("the ")
            self.say(said, "trouble", level, about=about, reason=said)
            if level != "info" and what not in _KNOWN_OTHERWISE:
                self._recorder.troubled(Trouble(about, said, now(), level))

    def forget(self, *begins: str) -> None:
        """What begins so is no longer anybody's business: it does not fail any more, and nothing is said."""
        for what in [what for what in self._trouble if what.startswith(begins)]:
            del self._trouble[what]
            self._recorder.relieved(what.removeprefix("the "))

    def works(self, what: str, said: str) -> None:
        """It works: said if it did not."""
        if self._trouble.pop(what, ""):
            self.say(said, "trouble_over", about=what.removeprefix("the "))
            self._recorder.relieved(what.removeprefix("the "))


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
                "health": ("back", "comes back"), "backup": ("backup_out", "leaves"),
                "balance": ("balance", "has no slots of others any more"), "spill": ("spill", "has no slots any more"),
            }  # fmt: skip
            yield entry, *ended.get(entry.kind, ("ended", f"no longer {entry.state}: its time has passed"))
