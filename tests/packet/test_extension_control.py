# SPDX-License-Identifier: Apache-2.0
"""Every verb on a switch with an extension: what it changes in the program, what it says, and what it does without one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from tests.packet.command import all_of, fresh
from tests.packet.extension_beside_switch import (
    DSR,
    EXTENDED,
    HEAVY,
    NO_EXTENSION,
    Extension,
    Run,
    good,
    held,
    program_for,
)
from tests.packet.maintenance_specs import make_overdue
from tests.packet.switches import ROOT, Switch

VARIANTS = [
    EXTENDED,
    HEAVY,
    DSR,
    NO_EXTENSION,
    EXTENDED.replace("    selection: spray\n", "    selection: client\n"),
    EXTENDED.replace("'02:00:00:00:01:03'}", "'02:00:00:00:01:03', port: vf0}"),
    EXTENDED.replace("services: [dns], pool: near", "services: [dns, dot], pool: near, forwarding: ipip"),
    EXTENDED.replace("198.51.100.54", "198.51.100.64").replace("name: f3", "name: f33"),
]
TUNNELED = "VIP tunneled 198.51.100.53 port 53/udp"
EXPECTED = ["Broken pipe", "UNKNOWN_GROUP", "bad JSON-RPC message", "Protocol error"]


def last_load(extension: Extension) -> dict[str, Any]:
    """What the program said of its last load."""
    lines = [json.loads(line) for line in extension.log.read_text().splitlines() if line.startswith("{")]
    return next(line for line in reversed(lines) if line["event"] == "loaded")


def test_the_first_apply_loads_the_program_and_the_second_changes_nothing(
    do: Run, shared: Switch, extension: Extension
) -> None:
    said = good(do("apply", EXTENDED))
    assert "the extension starts serving tunneled 198.51.100.53 53/udp+tcp, sprayed 198.51.100.54 53/udp" in said.out
    wanted = program_for()
    assert extension.program["vips"] == {v["name"]: v for v in wanted["vips"]}
    before, conf, loads = all_of(shared), shared.conf(), extension.loads
    assert "nothing to change" in good(do("apply", EXTENDED)).out
    assert (all_of(shared), shared.conf(), extension.loads) == (before, conf, loads)
    assert do("plan", EXTENDED).code == do("verify", EXTENDED).code == 0


def test_another_weight_changes_only_slots(do: Run, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    before = extension.program
    planned = do("plan", HEAVY, "--json").json
    assert planned["extension"]["changed"] == ["tunneled/198.51.100.53/udp/53", "tunneled/198.51.100.53/tcp/53"]
    assert (planned["extension"]["added"], planned["extension"]["removed"]) == ([], [])
    (move,) = planned["moves"]
    assert move["pool"] == "far" and extension.program == before
    good(do("apply", HEAVY, "--yes"))
    load = last_load(extension)
    assert load["slots_updated"] == 2 * move["moved"]
    assert (load["added"], load["replaced"], load["removed"]) == (0, 0, 0)


@pytest.mark.parametrize("start", [EXTENDED, HEAVY], ids=["base", "heavy"])
def test_vips_leave_the_extension_and_return(start: str, do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", DSR))
    without = held(shared, extension)
    good(do("apply", start, "--yes"))
    within = held(shared, extension)
    said = good(do("apply", DSR, "--yes"))
    assert "the extension stops serving tunneled 198.51.100.53 53/udp+tcp" in said.out
    assert held(shared, extension) == without
    good(do("apply", start, "--yes"))
    assert held(shared, extension) == within
    good(do("apply", NO_EXTENSION, "--yes"))
    assert extension.program["vips"] == {}
    assert extension.ask("status")["state"] == "running"
    assert "ext-in" not in shared.ports()


def test_a_drain_changes_the_program_and_undrain_restores_it(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    for backend in ("far/f1", "sprayed/s2", "near/n1"):
        now = held(shared, extension)
        assert "would change" in good(do("drain", backend, "--dry-run")).out
        assert held(shared, extension) == now
        out = good(do("drain", backend))
        assert ("queries" if backend == "sprayed/s2" else "clients") in out.out
    names = {slot for vip in extension.program["vips"].values() for slot in vip["slots"]}
    assert names == {"far/f2/192.0.2.12", "far/f3/192.0.2.13", "sprayed/s1"}
    loads = extension.loads
    assert "is drained already" in good(do("drain", "far/f1")).out and extension.loads == loads
    assert do("verify", EXTENDED).code == 0
    for backend in ("near/n1", "sprayed/s2", "far/f1"):
        good(do("undrain", backend))
    assert held(shared, extension) == before


def test_a_plain_pool_needs_no_extension(do: Run, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    loads = extension.loads
    good(do("drain", "near/n1"))
    assert extension.loads == loads
    extension.kill()
    good(do("undrain", "near/n1"))


def test_a_drain_over_time(do: Run, extension: Extension, shared: Switch) -> None:
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    good(do("drain", "far/f1", "--over", "1s"))
    assert "far/f1/192.0.2.11" not in extension.program["vips"]["tunneled/198.51.100.53/udp/53"]["slots"]
    good(do("undrain", "far/f1"))
    assert held(shared, extension) == before


def test_a_given_weight_is_as_the_specs(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", HEAVY))
    heavy = extension.program["vips"]
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    assert extension.program["vips"] != heavy
    good(do("weight", "far/f2", "2", "--over", "1s"))
    assert extension.program["vips"] == heavy
    assert do("verify", EXTENDED).code == 0
    good(do("weight", "far/f2", "--undo"))
    assert held(shared, extension) == before


def test_expired_maintenance_ends_in_the_program(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    good(do("down", "far/f2", "--for", "1h"))
    make_overdue(shared)
    assert "down of far/f2 ends" in good(do("reconcile")).out or held(shared, extension) == before
    assert held(shared, extension) == before
    assert good(do("reconcile")).out == ""


def test_a_pool_without_backends_leaves_the_program_and_returns(do: Run, extension: Extension) -> None:
    """What the program does not serve it drops; it comes back with the first backend."""
    spec = EXTENDED.replace("    selection: spray\n", "    selection: spray\n    on_all_down: drop\n")
    good(do("apply", spec))
    before = extension.program
    for backend in ("sprayed/s1", "sprayed/s2"):
        good(do("down", backend, "--yes"))
    assert "sprayed/198.51.100.54/udp/53" not in extension.program["vips"]
    assert do("verify", spec).code == 0
    assert "nothing to change" in good(do("apply", spec)).out
    for backend in ("sprayed/s1", "sprayed/s2"):
        good(do("up", backend))
    assert extension.program == before


def test_rollback_restores_the_program(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    good(do("apply", HEAVY, "--yes"))
    good(do("apply", NO_EXTENSION, "--yes"))
    good(do("rollback", "1", "--yes"))
    assert held(shared, extension) == before
    good(do("rollback", "3", "--yes"))
    assert extension.program["vips"] == {}


def test_incremental_equals_full(do: Run, shared: Switch, extension: Extension) -> None:
    """A walk over specs: each is as if it had been applied to nothing."""
    full: dict[str, tuple[object, ...]] = {}
    for spec in VARIANTS:
        fresh(shared)
        good(do("apply", spec))
        full[spec] = held(shared, extension)
    draw = random.Random(4711)
    for spec in draw.choices(VARIANTS, k=16):
        good(do("apply", spec, "--yes"))
        now = held(shared, extension)
        if spec == NO_EXTENSION:  # what is left then are ports and budgets of whatever came before
            assert now[:3] == full[spec][:3] and extension.program["vips"] == {}
        else:
            assert now == full[spec]
        assert do("verify", spec).code == 0


def test_a_plan_file_holds_for_one_program_only(do: Run, extension: Extension, tmp_path: Path) -> None:
    """It holds only for the program that it was made for."""
    good(do("apply", EXTENDED))
    plan = tmp_path / "plan"
    assert do("plan", HEAVY, "-o", plan).code == Exit.DIFFERENT
    running = extension.ask("dump")["program"]
    changed = {**running, "vips": running["vips"][1:]}
    assert extension.ask("load", program=changed)["ok"]
    refused = do("apply", "--plan", plan, "--yes")
    assert refused.code == Exit.ERROR and "different now: the program of the extension" in refused.err
    assert extension.ask("load", program=running)["ok"]
    good(do("apply", "--plan", plan, "--yes"))
    assert extension.program["vips"] == {v["name"]: v for v in program_for(HEAVY)["vips"]}


def test_a_refused_load_changes_nothing(do: Run, shared: Switch, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    before, program = all_of(shared), extension.program
    other = HEAVY.replace("    ipv4: 192.0.2.2\n", "    ipv4: 192.0.2.2\n    budgets: {slots: 4096}\n")
    refused = do("apply", other, "--yes")
    assert refused.code == Exit.ERROR
    assert "$.budgets: found other ones than at the start" in refused.err and "nothing was changed" in refused.err
    assert "program.json for a restart" in refused.err
    assert (all_of(shared), extension.program) == (before, program)
    assert do("verify", EXTENDED).code == 0


def test_reconcile_restores_a_program_loaded_by_others(do: Run, extension: Extension, shared: Switch) -> None:
    good(do("apply", EXTENDED))
    before = held(shared, extension)
    assert extension.ask("drain", backend="far/f1/192.0.2.11")["ok"]
    drift = do("verify", EXTENDED)
    assert drift.code == Exit.DIFFERENT
    assert f"extension changed: {TUNNELED} (" in drift.out and "should go to far/f1/192.0.2.11" in drift.out
    good(do("reconcile"))
    assert held(shared, extension) == before


def test_verify_names_the_vip(do: Run, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    running = extension.ask("dump")["program"]

    def damaged(change: Callable[[dict[str, Any]], None]) -> str:
        value = json.loads(json.dumps(running))
        change(value)
        assert extension.ask("load", program=value)["ok"]
        done = do("verify", EXTENDED)
        assert done.code == Exit.DIFFERENT
        return done.out

    assert f"extension missing: {TUNNELED} (" in damaged(lambda p: p["vips"].pop(0))
    out = damaged(lambda p: p["vips"][2].update(select="slots"))
    assert (
        "extension changed: VIP sprayed 198.51.100.54 port 53/udp (" in out
        and "select is slots, should be spray" in out
    )
    out = damaged(lambda p: p["backends"][0].update(mac="02:00:00:00:99:99"))
    assert (
        "backend far/f1/192.0.2.11 is 192.0.2.11 at 02:00:00:00:99:99, should be 192.0.2.11 at 02:00:00:00:01:01" in out
    )
    out = damaged(lambda p: p["vips"].append({**p["vips"][0], "name": "other", "port": 99}))
    assert "extension added: VIP other" in out
    out = damaged(lambda p: p["tunnel"].update(ipv4="192.0.2.3"))
    assert "extension changed: extension, tunnel" in out and "ipv4=192.0.2.3" in out
    assert "corrected" in good(do("apply", EXTENDED)).out
    assert do("verify", EXTENDED).code == 0


def test_status_shows_the_program(do: Run, extension: Extension) -> None:
    good(do("apply", EXTENDED))
    found = good(do("status", "--json", "--interval", "0.5s")).json
    assert found["ok"] and found["extension"]["state"] == "running" and found["extension"]["reachable"]
    assert [v["name"] for v in found["extension"]["vips"]] == list(extension.program["vips"])
    rates = {b["name"]: b["packets_per_second"] for p in found["pools"] if p["name"] == "far" for b in p["backends"]}
    assert rates == {"f1": 0, "f2": 0, "f3": 0}
    assert "\nprogram  running, 3 services, 2 loads, socket" in good(do("status", "--no-rates")).out
    assert extension.ask("load", program=program_for(HEAVY))["ok"]
    drifted = do("status", "--no-rates")
    assert drifted.code == Exit.DIFFERENT and f"drift: extension changed: {TUNNELED}" in drifted.out
    extension.kill()
    away = do("status", "--no-rates")
    assert away.code == Exit.DIFFERENT
    assert "program  cannot be reached: the extension at" in away.out
    assert "critical: The extension cannot be reached: the extension at" in away.out
    assert "its VIPs may get no answers" in away.out
    assert away.out.rstrip().endswith("br-dns: the extension cannot be reached")
    found = do("status", "--json", "--interval", "0.5s", "--no-verify").json
    assert not found["ok"] and not found["extension"]["reachable"]


def test_other_hash_fields_need_confirmation(do: Run) -> None:
    """All clients may move, so an operator is asked."""
    hashed = EXTENDED.replace("    selection: spray\n", "    selection: client\n")
    good(do("apply", hashed))
    other = hashed.replace("    selection: client\n", "    selection: client\n    hash_fields: [src_ip, src_port]\n")
    refused = do("apply", other)
    assert refused.code == Exit.ERROR and "pool sprayed IPv4: 100 % of its clients would move" in refused.err
    assert "pool sprayed IPv4: its hash_fields change: all of its clients may move" in do("plan", other).out
    good(do("apply", other, "--yes"))


def test_a_spec_without_extension_loads_no_program(do: Run, shared: Switch, tmp_path: Path) -> None:
    """Plain specs pay nothing for it."""
    spec = tmp_path / "plain.yaml"
    spec.write_text(NO_EXTENSION)
    code = (
        "import sys; from dnsteer.cli import main\n"
        "try: main.run()\n"
        "finally: print([m for m in sys.modules if m.startswith('dnsteer.extension.') or "
        "m == 'dnsteer.status.extension_view'])"
    )
    for words in (["apply", str(spec)], ["drain", "near/n1"], ["reconcile"], ["restore"], ["verify", str(spec)]):
        argv = [sys.executable, "-c", code, *words, "--db", shared.database]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "generator")}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "[]", words
