# SPDX-License-Identifier: Apache-2.0
"""kill -9 of dnsteer at random moments of each kind of change: after the next verb the switch is one of the two states.

DNSTEER_KILLS says how often each is killed; 14 when it is not set.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import bring_back, take_out
from dnsteer.deploy.restore import restore
from dnsteer.deploy.rollback import StateSource
from dnsteer.deploy.run import Options, deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.slots.maintenance import NO_OVERLAY, Overlay
from dnsteer.spec.loaded import digest
from dnsteer.status.verify import find_drift
from dnsteer.switch.session import KEPT, Session
from dnsteer.switch.state import AppliedState
from tests.packet.apply_spec import apply
from tests.packet.switches import LARGE, SMALL, STATE_TABLE, Switch, spec_of

KILLS = int(os.environ.get("DNSTEER_KILLS", "14"))
FORK = multiprocessing.get_context("fork")
GRACE = 0.2
# Two specs that differ in ports, VIPs and pools, and a third state for rolling back.
SPECS = [spec_of(LARGE), spec_of(SMALL)]
DRAINED = "direct/c"


@dataclass(frozen=True)
class Held:
    """All that the switch is: what it does, and what is recorded of it."""

    bridges: list[str]
    ports: set[str]
    tables: tuple[set[str], set[str]]
    overlay: Overlay
    history: list[AppliedState]
    current: int
    name: str

    @property
    def spec(self) -> str:
        """Digest of the spec that is applied."""
        return self.history[0].digest


def held(switch: Switch) -> Held:
    """What the switch is now. Nothing may be under way."""
    with Session(switch.database) as session:
        record = session.record_of(None)
        states = session.states(record)
    assert record.pending is None
    assert record.digest == states[0].digest if isinstance(states[0], AppliedState) else False
    tables = switch.tables()
    marked = [line for line in tables[0] if f"{STATE_TABLE}," in line]
    assert [int(m.split(",")[0].removeprefix("cookie="), 16) & 0xFFFFFFFFFF for m in marked] == [record.marker]
    found = [s for s in states if isinstance(s, AppliedState)]
    assert [s.number for s in found[:1]] == [record.number]
    return Held(switch.bridges(), switch.ports(), tables, record.overlay, found, record.number, record.name)


def verb(switch: Switch, kind: str, now: Held) -> Callable[[], object]:
    """A change away from what there is now."""
    remote = TargetSwitch(switch.database)
    options = Options(grace=GRACE, adopt=True, rename=True)
    if kind == "apply":
        other = next(s for s in SPECS if digest(s.spec) != now.spec)
        return lambda: deploy(FileSource(other), remote, options)
    if kind == "drain":
        edit = bring_back(DRAINED, "drain") if now.overlay else take_out(DRAINED, "drain")
        return lambda: change_overlay(remote, None, edit)
    other_state = next(state.number for state in now.history if state.digest != now.spec)
    return lambda: deploy(StateSource(number=other_state), remote, options)


def killed_after(seconds: float, work: Callable[[], object]) -> bool:
    """Do it in a process of its own and kill that; whether it had not finished yet."""
    child = FORK.Process(target=work)
    child.start()
    child.join(seconds)
    early = child.is_alive()
    child.kill()
    child.join()
    assert early or child.exitcode == 0
    return early


def assert_one_of_two(kind: str, before: Held, wanted: Held, now: Held) -> bool:
    """Whether it is the new state; it must be that or the old one, and exactly so."""
    assert (now.bridges, now.name) == (before.bridges, before.name)
    if now.current == before.current and now.overlay == before.overlay:
        assert now == before
        return False
    assert (now.ports, now.tables) == (wanted.ports, wanted.tables)
    if kind == "drain":
        assert [(a.name, a.kind, a.gone) for a in now.overlay] == [(a.name, a.kind, a.gone) for a in wanted.overlay]
        assert (now.history, now.current) == (before.history, before.current)
    else:
        assert (now.current, now.overlay) == (before.current + 1, before.overlay)
        assert (now.spec, now.history[1:]) == (wanted.spec, before.history[: KEPT - 1])
    return True


@pytest.mark.parametrize("kind", ["apply", "drain", "rollback"])
def test_a_change_that_is_killed_is_made_or_not(kind: str, switch: Switch) -> None:
    switch.expected = ["Connection reset by peer", "Broken pipe"]  # of the one that was killed
    apply(SPECS[1], switch.database)
    apply(SPECS[0], switch.database)
    seen, lasted = [held(switch)], []
    for _ in range(2):  # there and back: what the two states are, and how long it takes
        work = verb(switch, kind, seen[-1])
        start = time.monotonic()
        work()
        lasted.append(time.monotonic() - start)
        seen.append(held(switch))
    assert (seen[2].ports, seen[2].tables, seen[2].overlay) == (seen[0].ports, seen[0].tables, NO_OVERLAY)
    assert seen[1].tables != seen[0].tables
    now, draw, within, early, made, begun = seen[2], random.Random(f"{kind} {KILLS}"), min(lasted), 0, 0, 0
    for i in range(4 * KILLS):
        if i >= KILLS and early >= KILLS / 4 and begun >= KILLS / 20 and 0 < made < i:
            break  # else, on a machine that is busy, the moments were none yet
        wanted = next(s for s in seen if s.tables != now.tables)
        killed = killed_after(draw.uniform(0, 1) * within, verb(switch, kind, now))
        within *= 1.1 if killed else 0.9  # others use the machine too: as long as makes half of the kills early
        early += killed
        with Session(switch.database) as session:
            begun += session.record_of(None).pending is not None
        (done,) = restore(TargetSwitch(switch.database), None)
        after = held(switch)
        made += assert_one_of_two(kind, now, wanted, after)
        assert done.state == after.current, i
        spec = next(s for s in SPECS if digest(s.spec) == after.spec)
        assert find_drift(spec, switch.database) == [], i
        now = after
    assert early >= KILLS / 4
    assert begun >= KILLS / 20
    assert 0 < made < i
