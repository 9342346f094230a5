# SPDX-License-Identifier: Apache-2.0
"""Random changes of a switch under load: are queries lost, who answers, who moves, which connections break?

The changes are made by what is behind the verbs, in this process: two cores that also carry the load have no time to start a
Python for each of hundreds of changes. What a change should lead to is computed apart (bench.change.world) and compared with
what the clients see: 2,000 of each VIP ask before and after, and what the name servers received in between is counted.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import yaml

from bench.change.clients import Answers, Clients, wrong
from bench.change.counters import Counters
from bench.change.load import QPS, TCP_QPS, SteadyLoad
from bench.change.ports import slot_of
from bench.change.priority import prefer
from bench.change.tcp import Connections
from bench.change.world import PERMANENT, SLOTS, Step, World, least, slots_behind, whole
from dnsteer.checks.load import check_document
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import advance, bring_back, give_weight, take_out, take_weight_back
from dnsteer.deploy.recorded_spec import load_state
from dnsteer.deploy.rollback import target_of_rollback
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.lab import names
from dnsteer.lab.state import LabState
from dnsteer.slots.maintenance import DRAINED
from dnsteer.slots.maintenance import Kind as Absent
from dnsteer.spec.read import parse_document

_BACK = {"drain": "undrain", "down": "up"}
SETTLE = 0.1
"""Seconds after a command until no packet of before is on its way to a name server any more."""


def carry_out(step: Step) -> int:
    """Do what the step's verb does; the number of the state that the switch has then."""
    switch, words = TargetSwitch(names.db_target()), step.words
    if step.applies is not None:
        if words:
            loaded = load_state(target_of_rollback(switch, None, int(words[1])))
        else:
            text = yaml.safe_dump(step.applies, sort_keys=False)
            loaded = check_document(parse_document("campaign.yaml", text))
        return deploy(FileSource(loaded), switch, Options(rename=True, note=step.kind)).state
    verb, name = words[:2]
    kind: Absent = "drain" if "drain" in verb else "down"
    over = 2.0 if "--over" in words else 0.0
    if verb in ("undrain", "up"):
        edit = bring_back(name, kind)
    elif verb == "weight":
        edit = take_weight_back(name) if "--undo" in words else give_weight(name, int(words[2]), over=over)
    else:
        edit = take_out(name, kind, over=over)
    change = change_overlay(switch, None, edit)
    while any(a.gone < DRAINED for a in change.after):
        time.sleep(0.1)
        change = change_overlay(switch, None, advance)
    return 0


@dataclass
class Kind:
    """What all changes of one kind came to. *moved* counts clients, *least* and *expected* slots, over both pools."""

    count: int = 0
    moved_clients: int = 0
    moved_slots: int = 0
    least_slots: int = 0
    seconds: list[float] = field(default_factory=list)


@dataclass
class Findings:
    """Everything that was counted; what should be 0 says so in its name.

    With `keep: connections` those that end *on purpose* are of backends that are down or were removed, and no other of the
    *kept* may break, whether its slot moved or not.
    """

    wrong_answers: int = 0
    forbidden_datagrams: int = 0
    probe_queries: int = 0
    probe_lost_first: int = 0
    probe_lost: int = 0
    connections_broken_moved: int = 0
    connections_broken_unmoved: int = 0
    connections_ended_on_purpose: int = 0
    connections_broken_kept: int = 0
    connections_kept: int = 0
    beyond_own_share: int = 0
    own_share_left: int = 0
    taken_back_at_once: int = 0
    not_back_as_before: int = 0
    notes: list[str] = field(default_factory=list)


class Campaign:
    """Changes one after another in a lab that was built from `whole()`, while a load runs."""

    def __init__(self, lab: LabState, seed: int, stack: ExitStack, keep: bool = False) -> None:
        self.keep = keep
        self.world = World(random.Random(seed), whole(keep=keep))
        self.findings = Findings()
        self.kinds: dict[str, Kind] = defaultdict(Kind)
        first = Step("first", applies=whole(keep=keep))
        self.world.done(first, carry_out(first))
        self.then: Step | None = None
        self.earlier: Mapping[str, tuple[str, ...]] = {}
        self.addresses = {name: vip["addresses"] for name, vip in whole()["vips"].items() if name in PERMANENT}
        self.clients = {
            # one by IPv4 and one by IPv6: both from the same source ports
            name: stack.enter_context(Clients(lab, found[number], SLOTS[PERMANENT[name]]))
            for number, (name, found) in enumerate(self.addresses.items())
        }
        self.connections = stack.enter_context(Connections(lab, self.addresses["dns"][0], SLOTS["one"]))
        self.counters = Counters(lab)
        self.last = {name: clients.ask() for name, clients in self.clients.items()}
        self.counted = self.counters.read()
        self.held: dict[int, str | None] = dict(self.connections.check().backends)

    def change(self) -> None:
        """One random change, and all that can be seen of it."""
        world = self.world
        spec = world.spec()
        owners = {pool: world.owners(spec, pool) for pool in SLOTS}
        self._forbidden(owners)
        step, self.then = self.then or world.step(), None
        started = time.monotonic()
        world.done(step, carry_out(step))
        took = time.monotonic() - started
        time.sleep(SETTLE)
        self.counted = self.counters.read()
        spec = world.spec()
        becomes = {pool: world.owners(spec, pool) for pool in SLOTS}
        kind = self.kinds[step.kind]
        kind.count += 1
        kind.seconds.append(took)
        for name, pool in PERMANENT.items():
            self._ask(name, becomes[pool], owners[pool], kind)
        self._connections(becomes["one"])
        self._own_share(step, owners, becomes)

    def _forbidden(self, owners: Mapping[str, tuple[str, ...]]) -> None:
        """Since the last change nothing may have come to a server that no slot names."""
        allowed = {name for table in owners.values() for name in table}
        received = self.counters.since(self.counted)
        found = {name: r.udp for name, r in received.items() if name not in allowed and r.udp}
        if found:
            self.findings.forbidden_datagrams += sum(found.values())
            self.findings.notes.append(f"not allowed, but received datagrams: {found}")

    def _ask(self, name: str, table: tuple[str, ...], before: tuple[str, ...], kind: Kind) -> None:
        answers: Answers = self.clients[name].ask()
        slots = len(table)
        bad = wrong(answers.backends, {port: table[slot_of(port, slots)] for port in self.clients[name].ports})
        if bad:
            self.findings.wrong_answers += len(bad)
            self.findings.notes.append(f"{name}: {len(bad)} clients are answered wrongly, such as {min(bad.items())}")
        self.findings.probe_queries += answers.sent
        self.findings.probe_lost_first += len(answers.first_try_lost)
        self.findings.probe_lost += len(answers.unanswered)
        kind.moved_clients += len(answers.moved_since(self.last[name]))
        kind.moved_slots += sum(a != b for a, b in zip(before, table, strict=True))
        kind.least_slots += least(before, table)
        self.last[name] = answers

    def _connections(self, table: tuple[str, ...]) -> None:
        """A connection may break when another backend than its own has its slot now."""
        checked = self.connections.check()
        if self.keep:
            serve = self.world.keep_theirs("one")
            broken = {port: why for port, why in checked.dead.items() if self.held.get(port) in serve}
            self.findings.connections_broken_kept += len(broken)
            self.findings.connections_ended_on_purpose += len(checked.dead) - len(broken)
            self.findings.notes += [f"kept connection from port {min(broken.items())} broke"] if broken else []
        for port, reason in checked.dead.items() if not self.keep else ():
            if self.held.get(port) == table[slot_of(port, len(table))]:
                self.findings.connections_broken_unmoved += 1
                self.findings.notes.append(f"connection from port {port} broke: {reason}")
            else:
                self.findings.connections_broken_moved += 1
        self.findings.connections_kept += len(checked.backends)
        self.connections.reopen(checked.dead)
        reopened = {port: table[slot_of(port, len(table))] for port in checked.dead}
        self.held = {**checked.backends, **reopened}

    def _own_share(
        self, step: Step, before: Mapping[str, tuple[str, ...]], after: Mapping[str, tuple[str, ...]]
    ) -> None:
        """A drain or down moves its backend's slots alone; when it is taken back at once, all is as it was."""
        if step.applies is not None:
            return
        verb, name = step.words[:2]
        pool, backend = name.split("/")
        was, now = before[pool], after[pool]
        if verb in ("drain", "down"):
            self.findings.beyond_own_share += sum(a != b and a != backend for a, b in zip(was, now, strict=True))
            self.findings.own_share_left += now.count(backend)
            if self.world.random.random() < 0.5:
                self.then, self.earlier = Step(_BACK[verb], (_BACK[verb], name)), before
        elif self.earlier:
            self.findings.taken_back_at_once += 1
            self.findings.not_back_as_before += sum(a != b for a, b in zip(self.earlier[pool], now, strict=True))
            self.earlier = {}


def run(
    lab: LabState,
    *,
    changes: int,
    seed: int,
    qps: int = QPS,
    keep: bool = False,
    progress: Callable[[str], None] = print,
) -> dict[str, Any]:
    """So many random changes under load; the figures. *keep*: with `keep: connections` for both VIPs."""
    prefer(lab)
    with ExitStack() as stack:
        campaign = Campaign(lab, seed, stack, keep)
        load = stack.enter_context(SteadyLoad(lab, slots_behind(), qps=qps, tcp_qps=TCP_QPS))
        load.prefer()
        time.sleep(2)
        for number in range(changes):
            campaign.change()
            if not (number + 1) % 20:
                progress(f"{number + 1} changes; {campaign.findings.notes[-1:] or 'nothing amiss'}")
        steady = load.stop()
    found = asdict(campaign.findings)
    return {
        "changes": changes,
        "keep": keep,
        "seed": seed,
        "load": {"udp": asdict(steady.udp), "tcp": asdict(steady.tcp)},
        "queries_lost": steady.udp.lost,
        "tcp_queries_cut_off_with_their_connection": steady.tcp.lost,
        "findings": {**found, "notes": found["notes"][:20]},
        "kinds": {name: _shown(kind) for name, kind in sorted(campaign.kinds.items())},
        "backends": dict(Counter(campaign.last["dns"].backends.values())),
    }


def _shown(kind: Kind) -> dict[str, Any]:
    seconds = sorted(kind.seconds)
    return {
        "count": kind.count,
        "clients_moved": kind.moved_clients,
        "slots_moved": kind.moved_slots,
        "slots_least": kind.least_slots,
        "beyond_least_percent_of_slots": round(
            100 * (kind.moved_slots - kind.least_slots) / (kind.count * sum(SLOTS.values())), 2
        ),
        "seconds_median": round(seconds[len(seconds) // 2], 3),
        "seconds_worst": round(seconds[-1], 3),
    }
