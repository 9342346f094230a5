# SPDX-License-Identifier: Apache-2.0
"""`drain`, `undrain`, `down`, `up` and `reconcile`: what they move, record and refuse, and when they ask."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from dnsteer.cli.output import Exit
from tests.packet.command import FARM, fresh, nothing_changes, on, spec_file
from tests.packet.maintenance_specs import in_terminal, make_overdue, overlay, slots, states
from tests.packet.switches import ROOT, SLOT_TABLE, Switch

DROP = FARM.replace("  spare:\n", "  spare:\n    on_all_down: drop\n")


@pytest.mark.parametrize(("out", "back"), [("drain", "undrain"), ("down", "up")])
def test_a_drain_moves_only_its_own_slots_and_undrain_restores_them(applied: Switch, out: str, back: str) -> None:
    base = applied.tables()
    done = on(applied)(out, "farm/ns1", "--json")
    assert (done.code, done.json["ok"], done.json["changed"]) == (0, True, True)
    assert (
        len(slots(applied) - {f for f in base[0] if SLOT_TABLE in f})
        == sum(m["moved"] for m in done.json["moves"])
        == 8
    )
    (found,) = overlay(applied)
    assert (found["pool"], found["backend"], found["kind"]) == ("farm", "ns1", out)
    assert "@" in found["by"]
    assert states(applied)["ns1"] == ("drained" if out == "drain" else "down")
    with nothing_changes(applied):
        again = on(applied)(out, "farm/ns1", "--json")
        other = on(applied)("up" if out == "drain" else "undrain", "farm/ns1", "--json")
    assert (again.code, again.json["changed"]) == (other.code, other.json["changed"]) == (0, False)
    done = on(applied)(back, "farm/ns1", "--json")
    assert (done.code, done.json["changed"]) == (0, True)
    assert applied.tables() == base
    assert overlay(applied) == []
    with nothing_changes(applied):
        again = on(applied)(back, "farm/ns1", "--json")
    assert (again.code, again.json["changed"]) == (0, False)


def test_json_of_a_drain_is_as_promised(applied: Switch) -> None:
    value = on(applied)("drain", "farm/ns1", "--json").json
    assert (value["pool"], value["backend"], value["moved"], value["slots"]) == ("farm", "ns1", 8, 32)


def test_json_of_a_gradual_drain_is_one_object(applied: Switch) -> None:
    done = on(applied)("drain", "farm/ns1", "--over", "1s", "--json")
    assert done.code == 0
    assert done.json["ok"] is True


def test_drained_and_down_is_in_when_both_are_over(applied: Switch) -> None:
    base = applied.tables()
    on(applied)("drain", "farm/ns1")
    drained = slots(applied)
    assert on(applied)("down", "farm/ns1").code == 0
    assert slots(applied) == drained
    assert on(applied)("undrain", "farm/ns1").code == 0
    assert slots(applied) == drained
    assert on(applied)("up", "farm/ns1").code == 0
    assert applied.tables() == base


def test_a_gradual_drain_leaves_step_by_step(applied: Switch, tmp_path: Path) -> None:
    start = time.monotonic()
    done = on(applied)("drain", "farm/ns1", "--over", "2s")
    assert done.code == 0
    assert 1.9 < time.monotonic() - start < 10
    gradual = slots(applied)
    shares = [float(x) for x in re.findall(r"([\d.]+) % drained", done.err)]
    assert shares == sorted(shares)
    assert len(shares) >= 3
    assert shares[-1] == 100
    fresh(applied)
    assert on(applied)("apply", spec_file(tmp_path)).code == 0
    assert on(applied)("drain", "farm/ns1").code == 0
    assert slots(applied) == gradual


def test_an_abandoned_gradual_drain_continues(applied: Switch) -> None:
    argv = [sys.executable, "-m", "dnsteer", "drain", "farm/ns1", "--over", "3s", "--db", applied.database]
    child = subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT / "generator")}, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr
    child.stderr.readline()
    child.kill()
    child.wait()
    child.stderr.close()
    applied.expected += ["Broken pipe", "Connection reset"]
    assert overlay(applied)[0].get("gone", 1000) < 1000
    assert states(applied)["ns1"] == "draining"
    deadline = time.monotonic() + 20
    while overlay(applied)[0].get("gone", 1000) < 1000:
        assert on(applied)("reconcile").code == 0
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert states(applied)["ns1"] == "drained"
    assert on(applied)("reconcile", "--json").json["changed"] is False


# For a time


def test_a_drain_for_a_time_keeps_its_note(applied: Switch) -> None:
    before = datetime.now(timezone.utc)
    assert on(applied)("drain", "farm/ns1", "--for", "2h", "--note", 'new "kernel", \\ é [x]').code == 0
    (found,) = overlay(applied)
    assert found["note"] == 'new "kernel", \\ é [x]'
    lasts = datetime.fromisoformat(found["until"]) - before
    assert timedelta(hours=2) - timedelta(seconds=2) < lasts < timedelta(hours=2, minutes=1)
    shown = on(applied)("status", "--json", "--interval", "0.5s").json
    (ns1,) = [b for p in shown["pools"] for b in p["backends"] if b["name"] == "ns1"]
    assert (ns1["note"], ns1["until"], ns1["by"]) == (found["note"], found["until"], found["by"])
    with nothing_changes(applied):
        assert on(applied)("reconcile", "--json").json["changed"] is False


@pytest.mark.parametrize("verb", ["reconcile", "drain", "apply", "rollback"])
def test_expired_maintenance_ends_with_the_next_change(applied: Switch, tmp_path: Path, verb: str) -> None:
    heavier = spec_file(tmp_path, old="weight: 2", new="weight: 3")
    assert on(applied)("apply", heavier).code == 0
    base = slots(applied)
    assert on(applied)("down", "farm/ns3", "--for", "1h").code == 0
    make_overdue(applied)
    args = {"reconcile": (), "drain": ("spare/sp1", "--yes"), "apply": (heavier,), "rollback": ("--yes",)}[verb]
    done = on(applied)(verb, *args, "--json")
    assert (done.code, done.json["changed"]) == (0, True)
    assert "ns3" not in [a["backend"] for a in overlay(applied)]
    farm = {f for f in slots(applied) if f in base}
    if verb in ("reconcile", "apply"):
        assert slots(applied) == base
    else:
        assert len(farm) >= 16
    assert on(applied)("verify", heavier).code == (Exit.DIFFERENT if verb == "rollback" else 0)


def test_an_invalid_duration_is_refused(applied: Switch) -> None:
    with nothing_changes(applied):
        for word in ("", "x", "-1s", "0", "0s", "2y", "1e9d", "nan", "inf", "1h30"):
            assert on(applied)("drain", "farm/ns1", f"--for={word}").code == Exit.USAGE
            assert on(applied)("drain", "farm/ns1", f"--over={word}").code == Exit.USAGE


# Across applies


def test_maintenance_is_kept_across_applies(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("drain", "farm/ns1", "--note", "why", "--for", "1h").code == 0
    before = overlay(applied)
    with nothing_changes(applied):
        assert on(applied)("apply", spec_file(tmp_path), "--json").json["changed"] is False
    done = on(applied)("apply", spec_file(tmp_path, old="weight: 2", new="weight: 3"), "--yes", "--json")
    assert (done.code, done.json["changed"], done.json["ended"]) == (0, True, [])
    assert overlay(applied) == before
    assert states(applied)["ns1"] == "drained"
    assert on(applied)("verify", tmp_path / "spec.yaml").code == 0


def test_maintenance_of_a_removed_backend_ends_and_is_reported(applied: Switch, tmp_path: Path) -> None:
    on(applied)("drain", "farm/ns1")
    on(applied)("down", "farm/ns3", "--yes")
    value = FARM.replace("      - {name: ns1, ipv4: 192.0.2.11, ipv6: '2001:db8::11', mac: '02:00:00:00:01:01'}\n", "")
    assert value != FARM
    file = spec_file(tmp_path, value)
    assert "drain of farm/ns1 ends" in on(applied)("plan", file).out
    done = on(applied)("apply", file, "--yes")
    assert "drain of farm/ns1 ends" in done.out
    assert [a["backend"] for a in overlay(applied)] == ["ns3"]
    assert on(applied)("verify", file).code == 0


# Refused


UNKNOWN = {
    "farm/ns9": ("ns9", "did you mean"),
    "farm/NS1": ("did you mean", "ns1"),
    "frm/ns1": ("frm", "farm/ns1"),
    "spare/ns1": ("spare",),
    "nothing/at-all": ("nothing",),
    "farm": ("POOL/BACKEND",),
    "farm/": ("POOL/BACKEND",),
    "/ns1": ("POOL/BACKEND",),
    "farm/ns1/x": ("POOL/BACKEND",),
    "": ("POOL/BACKEND",),
}


@pytest.mark.parametrize("verb", ["drain", "undrain", "down", "up"])
def test_unknown_names_are_refused(applied: Switch, verb: str) -> None:
    with nothing_changes(applied):
        for name, words in UNKNOWN.items():
            done = on(applied)(verb, name)
            assert (done.code, done.out) == (Exit.ERROR, "")
            assert all(word in done.err for word in words), done.err
            as_json = on(applied)(verb, name, "--json")
            assert (as_json.code, as_json.json["ok"]) == (Exit.ERROR, False)


def test_up_of_a_backend_down_in_the_spec_is_refused(applied: Switch) -> None:
    with nothing_changes(applied):
        done = on(applied)("up", "farm/ns4")
    assert done.code == Exit.ERROR
    assert "state: down" in done.err
    assert states(applied)["ns4"] == "down"


def test_verbs_without_an_applied_spec_are_refused(shared: Switch) -> None:
    fresh(shared)
    done = on(shared)("drain", "farm/ns1")
    assert done.code == Exit.ERROR
    assert "apply a spec first" in done.err


def test_the_bridge_is_named_where_there_are_several(applied: Switch, tmp_path: Path) -> None:
    text = FARM.replace("br-dns", "br-two").replace("    p0:\n    p1:\n", "    q0:\n")
    second = tmp_path / "two.yaml"
    second.write_text(text)
    assert on(applied)("apply", second).code == 0
    try:
        done = on(applied)("drain", "farm/ns1")
        assert done.code == Exit.ERROR
        assert all(word in done.err for word in ("br-dns", "br-two", "--bridge"))
        base = applied.tables("br-two")
        assert on(applied)("drain", "farm/ns1", "--bridge", "br-dns").code == 0
        assert applied.tables("br-two") == base
        done = on(applied)("drain", "farm/ns1", "--bridge", "br-none")
        assert (done.code, "br-none" in done.err) == (Exit.ERROR, True)
    finally:
        applied.vsctl("del-br", "br-two")


# Asking


@pytest.mark.parametrize("choice", ["keep", "drop"])
def test_losing_the_last_backend_needs_confirmation(applied: Switch, tmp_path: Path, choice: str) -> None:
    file = spec_file(tmp_path, DROP if choice == "drop" else FARM)
    assert on(applied)("apply", file, "--yes").code == 0
    assert on(applied)("down", "spare/sp1").code == 0
    one_left = slots(applied)
    with nothing_changes(applied):
        done = on(applied)("down", "spare/sp2")
        as_json = on(applied)("down", "spare/sp2", "--json")
    assert done.code == as_json.code == Exit.ERROR
    assert "--yes" in done.err
    assert f"on_all_down: {choice}" in done.err
    assert as_json.json["ok"] is False
    done = on(applied)("down", "spare/sp2", "--yes")
    assert done.code == 0
    assert "warning" in done.err
    assert "every backend is out of service" in done.err
    assert slots(applied) == (one_left if choice == "keep" else one_left - spare(one_left))
    status = on(applied)("status", "--interval", "0.5s")
    assert "every backend is out of service" in status.out + status.err
    assert on(applied)("verify", file).code == 0
    assert on(applied)("plan", file).code == 0
    assert "every backend is out of service" in on(applied)("apply", file).err
    assert on(applied)("up", "spare/sp2", "--yes").code == 0
    assert slots(applied) == one_left


def test_restoring_the_first_backend_needs_no_confirmation(applied: Switch, tmp_path: Path) -> None:
    assert on(applied)("apply", spec_file(tmp_path, DROP), "--yes").code == 0
    for name in ("sp1", "sp2"):
        assert on(applied)("down", f"spare/{name}", "--yes").code == 0
    assert on(applied)("up", "spare/sp1").code == 0


def spare(flows: set[str]) -> set[str]:
    """The slots of the pool `spare`: it has 16, and the other one 32."""
    pools = {m[1] for f in flows if (m := re.search(r"reg0=(\w+),", f))}
    (pool,) = [p for p in pools if sum(f"reg0={p}," in f for f in flows) <= 16]
    return {f for f in flows if f"reg0={pool}," in f}


def test_moving_more_than_half_needs_confirmation(applied: Switch) -> None:
    assert on(applied)("drain", "farm/ns2").code == 0  # 16 of 32
    on(applied)("undrain", "farm/ns2")
    on(applied)("drain", "farm/ns3")
    with nothing_changes(applied):
        done = on(applied)("drain", "farm/ns2")  # more by now
        gradual = on(applied)("drain", "farm/ns2", "--over", "60s")
    assert (done.code, gradual.code) == (Exit.ERROR, Exit.ERROR)
    assert " % of its clients" in done.err
    assert on(applied)("drain", "farm/ns2", "--yes").code == 0


def test_an_apply_that_moves_more_than_half_asks(applied: Switch, tmp_path: Path) -> None:
    file = spec_file(tmp_path, old="weight: 2", new="weight: 0")
    assert on(applied)("apply", file).code == 0  # just half
    file = spec_file(tmp_path, old="weight: 2", new="weight: 50")
    with nothing_changes(applied):
        done = on(applied)("apply", file)
        as_json = on(applied)("apply", file, "--json")
    assert done.code == Exit.ERROR
    assert "--yes" in done.err
    assert as_json.json["ok"] is False
    assert on(applied)("plan", file, "--json").json["asks"]
    assert on(applied)("apply", file, "--yes").code == 0


@pytest.mark.parametrize(
    ("answer", "goes"), [("y\n", True), ("n\n", False), ("\n", False), ("\x04", False), ("\x03", False)]
)
def test_a_terminal_prompt_decides(applied: Switch, answer: str, goes: bool) -> None:
    on(applied)("down", "spare/sp1")
    before = slots(applied)
    done = in_terminal(applied, answer, "down", "spare/sp2")
    assert "Go on?" in done.out, done.err
    assert "no backend would be left" in done.err
    assert "Traceback" not in done.err
    assert slots(applied) == before
    assert ("sp2" in [a["backend"] for a in overlay(applied)]) is goes
    assert (done.code == 0) is goes


def test_in_a_terminal_yes_does_not_ask(applied: Switch) -> None:
    on(applied)("down", "spare/sp1")
    done = in_terminal(applied, "n\n", "down", "spare/sp2", "--yes")
    assert done.code == 0
    assert "Go on?" not in done.err


def test_a_stuck_switch_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    with Switch() as stuck:
        command = on(stuck)
        assert command("apply", spec_file(tmp_path)).code == 0
        daemon = stuck._processes["ovs-vswitchd"]
        daemon.send_signal(signal.SIGSTOP)
        try:
            for verb in (("down", "farm/ns1"), ("reconcile",)):
                started = time.monotonic()
                done = command(*verb, "--timeout", "1")
                assert done.code == Exit.UNAVAILABLE, done.err
                assert time.monotonic() - started < 30  # not the minute that a long dump may take
        finally:
            daemon.send_signal(signal.SIGCONT)
