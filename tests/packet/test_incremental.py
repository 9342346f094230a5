# SPDX-License-Identifier: Apache-2.0
"""Incremental is full: random specs and overlays one after the other give what the last of them gives on an empty switch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.overlay_change import OverlayChange, change_overlay
from dnsteer.deploy.overlay_edits import advance, bring_back, take_out
from dnsteer.deploy.run import DeployResult, Options
from dnsteer.deploy.run import deploy as patient_deploy
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.deploy.times import now, stamp
from dnsteer.slots.maintenance import DRAINED, NO_OVERLAY, Maintenance, Overlay
from dnsteer.spec.derived import slot_count
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.restart_fence import FENCE
from tests.packet import command
from tests.packet.apply_spec import differences
from tests.packet.switches import BRIDGE, LARGE, SLOT_TABLE, SMALL, STATE_TABLE, Switch, spec_of
from tests.strategies import specs

# Without shrinking, which would take minutes.
SOME = settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
pytestmark = pytest.mark.usefixtures("addresses_of_dummies")
NOW = now()
State = tuple[object, ...]


@st.composite
def overlays(draw: st.DrawFn, spec: Loaded) -> Overlay:
    """A random overlay of a spec's backends: some down, some drained, some on their way."""
    names = [(p, b.name) for p, pool in spec.spec.pools.items() for b in pool.backends]
    out = NO_OVERLAY
    balanced = [(pool, backend) for pool, backend in names if spec.spec.pools[pool].balance]
    for pool, backend in draw(st.lists(st.sampled_from(balanced), max_size=2)) if balanced else ():
        given = draw(st.sets(st.integers(0, slot_count(spec.spec, spec.spec.pools[pool]) - 1), min_size=1, max_size=6))
        out = out.put(Maintenance(pool, backend, "balance", stamp(NOW), "agent@host", slots=tuple(sorted(given))))
    for pool, backend in draw(st.lists(st.sampled_from(names), max_size=5)):
        kind = draw(st.sampled_from(["drain", "down"]))
        gone = draw(st.sampled_from([0, 300, 700, DRAINED])) if kind == "drain" else DRAINED
        until = draw(st.sampled_from(["", stamp(NOW + timedelta(hours=5))]))
        out = out.put(
            Maintenance(pool, backend, kind, stamp(NOW), "op@host", "a note", until, 60 if gone < DRAINED else 0, gone)
        )
    return out


def target(switch: Switch) -> TargetSwitch:
    return TargetSwitch(switch.database)


def deploy(spec: Loaded, switch: TargetSwitch) -> DeployResult:
    """Without waiting for answers that are under way: there are none."""
    return patient_deploy(FileSource(spec), switch, Options(grace=0))


def state(switch: Switch) -> State:
    """Flows and groups as ovs-ofctl prints them, ports, and the names of tables."""
    names = set(switch.vsctl("--columns=name", "--bare", "list", "Flow_Table").split())
    settings_ = switch.vsctl("--columns=name,datapath_type,fail_mode,protocols", "list", "Bridge")
    return (*switch.tables(), switch.ports(), settings_, names)


def set_overlay(switch: Switch, overlay: Overlay) -> OverlayChange:
    """The overlay, whatever there was, by the way of the quick verbs."""
    return change_overlay(target(switch), None, lambda *_: overlay)


def spec_overlay(overlay: Overlay, spec: Loaded, before: Loaded) -> Overlay:
    """What of an overlay is about backends that a spec has, and about slots that are the same as *before*."""
    names = {(p, b.name) for p, pool in spec.spec.pools.items() for b in pool.backends}

    def other_slots(pool: str) -> bool:
        was, now = before.spec.pools[pool], spec.spec.pools[pool]
        used = {vip.pool for vip in before.spec.vips.values()}
        same = (was.slots, was.selection) == (now.slots, now.selection) or pool not in used
        return now.balance is None or not same

    gone = [a for a in overlay if (a.pool, a.backend) not in names or (a.kind == "balance" and other_slots(a.pool))]
    return overlay.without(gone)


def recorded(switch: Switch) -> Overlay:
    text = switch.vsctl("--if-exists", "get", "Bridge", BRIDGE, "external_ids:dnsteer-overlay").strip()
    return Overlay.from_json(re.sub(r"\\(.)", r"\1", text[1:-1])) if text else NO_OVERLAY


def fresh(switch: Switch, spec: Loaded, overlay: Overlay = NO_OVERLAY) -> State:
    """The state of a bridge whose tables were empty when the spec with the overlay was applied."""
    command.fresh(switch)
    deploy(spec, target(switch))
    if overlay:
        quoted = overlay.to_json().replace("\\", "\\\\").replace('"', '\\"')
        switch.vsctl("set", "Bridge", BRIDGE, f'external_ids:dnsteer-overlay="{quoted}"')
        switch.ofctl("del-flows")
        switch.ofctl("del-groups")
        deploy(spec, target(switch))
        assert recorded(switch) == overlay
    return state(switch)


@contextmanager
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The bundles that are sent in the block, but for the fence that each begins with."""
    bundles: list[list[str]] = []
    original = OpenFlow.bundle

    def bundle(self: OpenFlow, lines: list[str]) -> None:
        assert f"group_id={FENCE}," in lines[0]
        bundles.append(list(lines[1:]))
        original(self, lines)

    with monkeypatch.context() as patch:
        patch.setattr(OpenFlow, "bundle", bundle)
        yield bundles


def by_key(tables: tuple[set[str], set[str]]) -> dict[str, str]:
    """What is at each place of the tables: of a flow its match, of a group its number."""
    out = {}
    for line in tables[0]:
        cookie, _, rest = line.partition(", ")
        place, _, actions = rest.partition(" actions=")
        out[place] = f"{cookie} {actions}"
    for line in tables[1]:
        place, _, rest = line.partition(",")
        out[place] = rest
    assert len(out) == len(tables[0]) + len(tables[1])
    return out


def differ(one: tuple[set[str], set[str]], other: tuple[set[str], set[str]]) -> int:
    """In how many places two dumps differ."""
    a, b = by_key(one), by_key(other)
    return sum(a.get(place) != b.get(place) for place in a.keys() | b.keys())


@SOME
@given(st.data())
def test_a_spec_after_another_with_overlays_is_as_on_an_empty_switch(shared: Switch, data: st.DataObject) -> None:
    one, other = data.draw(specs(extension=False)), data.draw(specs(extension=False))
    first, second = data.draw(overlays(one)), data.draw(overlays(one))
    kept = spec_overlay(second, other, one)
    expected = fresh(shared, other, kept)
    fresh(shared, one)
    set_overlay(shared, first)
    set_overlay(shared, second)
    before = shared.tables()
    with pytest.MonkeyPatch().context() as patch, sent(patch) as bundles:
        deploy(other, target(shared))
    assert recorded(shared) == kept
    assert state(shared) == expected
    assert len(bundles) <= 1
    assert sum(map(len, bundles)) == differ(before, shared.tables())
    assert not any("bucket" in line.split()[1] for lines in bundles for line in lines)
    assert differences(other, shared) == []
    conf = shared.conf()
    assert not deploy(other, target(shared)).result.changed
    assert shared.conf() == conf
    assert state(shared) == expected


@SOME
@given(st.data())
def test_quick_verbs_are_full_applies(shared: Switch, data: st.DataObject) -> None:
    """Each overlay in turn: one bundle with the differences, and the tables of a full apply with that overlay."""
    spec = data.draw(specs(extension=False))
    chain = [data.draw(overlays(spec)) for _ in range(3)]
    expected = [fresh(shared, spec, overlay)[:2] for overlay in chain]
    base = fresh(shared, spec)
    for overlay, tables in zip(chain, expected, strict=True):
        before = shared.tables()
        with pytest.MonkeyPatch().context() as patch, sent(patch) as bundles:
            done = set_overlay(shared, overlay)
        assert not done.repaired
        assert shared.tables() == tables
        assert sum(map(len, bundles)) == differ(before, shared.tables())
        assert not deploy(spec, target(shared)).result.changed
    assert differences(spec, shared) == []
    set_overlay(shared, NO_OVERLAY)
    assert state(shared) == base


@SOME
@given(specs(extension=False), specs(extension=False))
def test_another_spec_and_back_restores_the_tables(shared: Switch, one: Loaded, other: Loaded) -> None:
    start = fresh(shared, one)
    deploy(other, target(shared))
    deploy(one, target(shared))
    assert state(shared) == start


VERBS: list[tuple[str, Callable[[Switch], object]]] = [
    ("drain", lambda s: change_overlay(target(s), None, take_out("hashed/a", "drain"))),
    ("down", lambda s: change_overlay(target(s), None, take_out("direct/c", "down", lasts=3600, note="x"))),
    ("gradual", lambda s: change_overlay(target(s), None, take_out("direct/a", "drain", over=60))),
    ("reconcile", lambda s: change_overlay(target(s), None, advance, time=now() + timedelta(seconds=30))),
    ("undrain", lambda s: change_overlay(target(s), None, bring_back("hashed/a", "drain"))),
    ("over", lambda s: change_overlay(target(s), None, advance, time=now() + timedelta(hours=2))),
]


def test_every_verb_makes_the_tables_of_its_overlay(shared: Switch) -> None:
    spec = spec_of(LARGE)
    shared.vsctl("--if-exists", "del-br", BRIDGE)
    deploy(spec, target(shared))
    seen, held = [], []
    for name, verb in VERBS:
        verb(shared)
        seen.append(recorded(shared))
        held.append((name, shared.tables()))
    assert [len(o.entries) for o in seen] == [1, 2, 3, 3, 2, 1]
    assert 0 < next(a.gone for a in seen[3] if a.backend == "a" and a.pool == "direct") < DRAINED
    for overlay, (name, tables) in zip(seen, held, strict=True):
        assert fresh(shared, spec, overlay)[:2] == tables, name


@pytest.mark.parametrize("selection", ["source-port", "dp-hash"])
@pytest.mark.parametrize("choice", ["keep", "drop"])
def test_an_emptied_pool_returns_with_its_slots(shared: Switch, selection: str, choice: str) -> None:
    head, _, tail = LARGE.partition("  direct:\n    slots: 32\n")
    text = f"{head}  direct:\n    slots: 32\n    selection: {selection}\n    on_all_down: {choice}\n{tail}"
    spec = spec_of(text)
    base = fresh(shared, spec)
    everybody = NO_OVERLAY
    for name in "ac":
        everybody = everybody.put(Maintenance("direct", name, "down", stamp(NOW), "op@host"))
    all_down = fresh(shared, spec, everybody)
    last = Overlay(everybody.entries[:1])
    one_left = fresh(shared, spec, last)
    assert (without_state(all_down) == without_state(one_left)) is (choice == "keep")
    fresh(shared, spec)
    set_overlay(shared, last)
    done = set_overlay(shared, everybody)
    assert len(done.warnings) == 1
    assert state(shared) == all_down
    assert not deploy(spec, target(shared)).result.changed
    set_overlay(shared, last)
    assert state(shared) == one_left
    set_overlay(shared, NO_OVERLAY)
    assert state(shared) == base


def without_state(found: State) -> State:
    """Without the flow that says which overlay the tables are of."""
    flows = found[0]
    assert isinstance(flows, set)
    return ({f for f in flows if STATE_TABLE not in f}, *found[1:])


def test_a_quick_verb_on_drifted_tables_mends_them(shared: Switch) -> None:
    spec = spec_of(LARGE)
    down = Overlay((Maintenance("direct", "a", "down", stamp(NOW), "op@host"),))
    expected = fresh(shared, spec, down)
    for spoil in (("del-flows", SLOT_TABLE), ("del-flows", STATE_TABLE), ("del-flows",), ("del-groups",)):
        fresh(shared, spec)
        shared.ofctl(*spoil)
        done = set_overlay(shared, down)
        if spoil != ("del-groups",):  # those are of another pool, which a quick verb leaves alone
            assert done.repaired
            assert state(shared) == expected, spoil
    deploy(spec, target(shared))
    assert state(shared) == expected


def test_the_deployment_says_what_it_sent(shared: Switch) -> None:
    spec = spec_of(LARGE)
    fresh(shared, spec)
    before = shared.tables()
    heavier = spec_of(LARGE.replace("'02:00:00:00:03:03', port: vf2", "'02:00:00:00:03:03', port: vf2, weight: 3"))
    done: DeployResult = deploy(heavier, target(shared))
    assert len(done.result.flows) == differ(before, shared.tables())
    moved = differ(without_marker(before), without_marker(shared.tables()))
    assert [m.moved for m in done.summary.moves] == [moved] == [8]


def without_marker(tables: tuple[set[str], set[str]]) -> tuple[set[str], set[str]]:
    return {f for f in tables[0] if STATE_TABLE not in f}, tables[1]


def test_the_same_maintenance_put_again_is_the_same_overlay(shared: Switch) -> None:
    spec = spec_of(LARGE)
    fresh(shared, spec)
    first = change_overlay(target(shared), None, take_out("direct/a", "down"))
    conf = shared.conf()
    again = change_overlay(target(shared), None, take_out("direct/a", "down"))
    assert not again.changed
    assert shared.conf() == conf
    assert [replace(a, since="") for a in again.after] == [replace(a, since="") for a in first.after]


def test_answers_under_way_keep_their_way_back_for_a_while(shared: Switch) -> None:
    """With time for answers there is a second bundle, and it takes nothing but ways back away."""
    fresh(shared, spec_of(LARGE))
    expected = fresh(shared, spec_of(SMALL))
    fresh(shared, spec_of(LARGE))
    before = shared.tables()
    with pytest.MonkeyPatch().context() as patch, sent(patch) as bundles:
        patient_deploy(FileSource(spec_of(SMALL)), target(shared), Options(grace=0.2))
    assert state(shared) == expected
    assert sum(map(len, bundles)) == differ(before, shared.tables())
    assert len(bundles) == 2
    assert all(line.startswith("flow delete_strict ") for line in bundles[1])
