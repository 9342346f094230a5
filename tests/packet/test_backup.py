# SPDX-License-Identifier: Apache-2.0
"""A pool's backup on a real switch: it stands by without slots, joins when too few serve, and leaves again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dnsteer.agent.effect import Effect, decide_and_change
from dnsteer.agent.followed_state import read_followed_state
from dnsteer.agent.health_decision import PoolHealth
from dnsteer.checks.load import load_spec
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.proof.check import prove
from dnsteer.slots import owners
from dnsteer.switch.session import Session
from tests.packet.command import FARM, fresh, nothing_changes, on, run, spec_file
from tests.packet.maintenance_specs import overlay, slots
from tests.packet.switches import Switch

HEALTH = "    health: {check: dns}\n    slow_start: 2s\n    backup: {pool: spare, below: 2}\n"
SP2 = "mac: '02:00:00:00:02:02'"
BACKED = FARM.replace("    slots: 32\n", f"    slots: 32\n{HEALTH}", 1).replace(SP2, f"{SP2}, weight: 3")
ALL = dict.fromkeys(("ns1", "ns2", "ns3"), "no answer")


@pytest.fixture
def backed(shared: Switch, tmp_path: Path) -> Iterator[Switch]:
    """The module's switch with a pool that has a backup."""
    fresh(shared)
    done = on(shared)("apply", spec_file(tmp_path, BACKED), "--yes")
    assert done.code == 0, done.err
    yield shared


def decide(switch: Switch, ill: Mapping[str, str]) -> Effect:
    """What the agent does when these are unhealthy."""
    target = TargetSwitch(switch.database)
    with Session(target.remote, target.timeout) as session:
        followed = read_followed_state(session, session.record_of(None))
    effect = decide_and_change(
        target, followed.bridge, followed.number, list(followed.rules.values()), {"farm": PoolHealth(ill)}
    )
    assert not effect.outdated
    return effect


def held(switch: Switch) -> Counter[str]:
    """How many of the pool's slots each backend has, by the flows that the switch has."""
    found: Counter[str] = Counter()
    for slot in range(32):
        traced = switch.appctl(
            "ofproto/trace",
            "br-dns",
            "in_port=p0,udp,dl_src=02:00:00:00:00:fe,dl_dst=02:00:00:00:00:53,nw_src=198.51.100.7,nw_dst=192.0.2.53,"
            f"nw_ttl=64,udp_src={1024 + 2 * slot},udp_dst=53",
        )
        found[traced.rpartition("->eth_dst")[0].rpartition("set_field:")[2]] += 1
    return found


S1, S2 = "02:00:00:00:02:01", "02:00:00:00:02:02"


def test_a_backup_stands_by_joins_and_leaves(backed: Switch, tmp_path: Path) -> None:
    base, standing_by = backed.tables(), held(backed)
    assert not {S1, S2} & set(standing_by)
    with nothing_changes(backed):
        change = decide(backed, {}).change
        assert change is not None and not change.changed
    decide(backed, {"ns1": "no answer", "ns2": "SERVFAIL"})
    now = held(backed)
    assert set(now) == {"02:00:00:00:01:03", S1, S2}
    assert now[S2] > 2 * now[S1]
    assert [(a["backend"], a["weight"]) for a in overlay(backed) if a["kind"] == "backup"] == [("sp1", 1), ("sp2", 3)]
    said = " ".join(on(backed)("status", "--no-rates").out.split())
    assert "warning: pool farm: its backup is in use since" in said
    assert "(1 of 3 backends in service): sp1, sp2" in said
    assert on(backed)("verify", tmp_path / "spec.yaml").code == 0
    decide(backed, ALL)
    assert set(held(backed)) == {S1, S2}
    seen, deadline = [], time.monotonic() + 60
    while overlay(backed) and time.monotonic() < deadline:
        decide(backed, {})
        found = held(backed)
        seen.append(found[S1] + found[S2])
        time.sleep(0.25)
    assert backed.tables() == base
    assert seen == sorted(seen, reverse=True) and seen[-1] == 0 and len(set(seen)) > 3


def test_operator_entries_count_and_the_timer_keeps_the_backup(backed: Switch) -> None:
    assert on(backed)("drain", "farm/ns1", "--yes").code == 0
    assert on(backed)("down", "farm/ns3", "--yes").code == 0
    decide(backed, {})
    assert {S1, S2} < set(held(backed))
    joined = slots(backed)
    with nothing_changes(backed):
        assert on(backed)("reconcile", "--json").json["changed"] is False
    done = on(backed)("weight", "farm/sp1", "2", "--yes")
    assert done.code == 0
    decide(backed, {})
    assert [a["kind"] for a in overlay(backed) if a["backend"] == "sp1"] == ["weight"]
    assert on(backed)("weight", "farm/sp1", "--undo", "--yes").code == 0
    decide(backed, {})
    assert slots(backed) == joined


def test_a_spec_without_the_backup_removes_it_from_service(backed: Switch, tmp_path: Path) -> None:
    decide(backed, ALL)
    file = spec_file(tmp_path, BACKED.replace("    backup: {pool: spare, below: 2}\n", ""))
    planned = on(backed)("plan", file)
    assert "backup 1 of farm/sp1 ends: the backend is no longer in the spec" in planned.out
    assert "pool farm: backup {pool: spare, below: 2} -> unset" in planned.out
    assert on(backed)("apply", file, "--yes").code == 0
    assert {a["kind"] for a in overlay(backed)} == {"health"}
    assert on(backed)("verify", file).code == 0


def test_the_proof_includes_the_backup_in_use(tmp_path: Path) -> None:
    done = run("check", spec_file(tmp_path, BACKED))
    assert (done.code, "again with all backups in use" in done.out) == (0, True)


def test_the_proof_sees_a_backup_that_would_get_no_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = owners.reweighted
    monkeypatch.setattr(owners, "reweighted", lambda weights, slots, _given, *more: original(weights, slots, [], *more))
    report = prove(load_spec(spec_file(tmp_path, BACKED)))
    assert not report.ok and any("sp" in line for f in report.failures for line in (f.problem, *f.detail))


def test_the_digest_covers_the_backup(backed: Switch, tmp_path: Path) -> None:
    """The short form means the same as a mapping, and another backend of the backup is a change of this pool too."""
    with nothing_changes(backed):
        text = BACKED.replace("{pool: spare, below: 2}", "{below: 2, pool: spare}")
        assert on(backed)("apply", spec_file(tmp_path, text), "--json").json["changed"] is False
    file = spec_file(tmp_path, BACKED.replace("    backup: {pool: spare, below: 2}\n", "    backup: spare\n"))
    assert "pool farm: backup.below 2 -> 1" in on(backed)("plan", file).out
