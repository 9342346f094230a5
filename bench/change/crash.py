# SPDX-License-Identifier: Apache-2.0
"""Kill dnsteer, ovs-vswitchd and ovsdb-server at random moments of an apply: is the switch one of the two states then?"""

from __future__ import annotations

import copy
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from bench.change.clients import Clients, wrong
from bench.change.load import SteadyLoad
from bench.change.ports import slot_of
from bench.change.priority import prefer
from bench.change.world import SLOTS, World, slots_behind, whole
from dnsteer.lab import names, openvswitch, status
from dnsteer.lab.state import LabState
from dnsteer.switch.private_switch import PrivateSwitch
from dnsteer.switch.tools import run as run_tool

TIMEOUT = "30"
"""For commands after a crash: ovs-vswitchd looks for its database every 8 s at worst."""


def dnsteer(*words: str) -> subprocess.Popen[str]:
    """The command, begun."""
    argv = [sys.executable, "-m", "dnsteer", *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and output."""
    said, _ = process.communicate()
    return process.returncode, said


def must(*words: str) -> str:
    """Run the command. Raises SystemExit when it fails."""
    code, said = finish(dnsteer(*words))
    if code:
        raise SystemExit(f"dnsteer {' '.join(words)}: exit status {code}\n{said}")
    return said


def two_states() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two specs that differ in everything but the permanent VIPs: weights, backends of both kinds, guests, pools' order."""
    old, new = whole(), copy.deepcopy(whole())
    for pool in new["pools"].values():
        del pool["backends"][-1]
        pool["backends"][0]["weight"] = 4
    del new["vips"]["guest2"]
    del old["vips"]["guest3"]
    return old, new


def look(database: str, bridge: str = "br-dns") -> tuple[str, ...]:
    """All that makes a state: flows, groups, ports and what is recorded, without what tells one run from another."""
    socket = f"{database.rpartition('/')[0]}/{bridge}.mgmt"
    parts = [
        "\n".join(
            sorted(run_tool(["ovs-ofctl", "-O", "OpenFlow15", "--no-stats", "--names", dump, socket]).splitlines())
        )
        for dump in ("dump-flows", "dump-groups")
    ]
    ports = run_tool(["ovs-vsctl", f"--db={database}", "list-ports", bridge])
    ids = run_tool(["ovs-vsctl", f"--db={database}", "get", "Bridge", bridge, "external_ids"])
    kept = re.findall(r"(dnsteer-(?:spec|overlay|pending))=([^,}]+)", ids)
    return (*parts, ports, repr(sorted(kept)))


def kill_dnsteer(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill -9 of dnsteer on a private switch; the two states have different ports as well."""
    chance = random.Random(seed)
    old, new = two_states()
    new["switch"]["ports"] = {"vf0": {}}
    new["pools"]["two"]["backends"][0]["port"] = "vf0"
    files = _write(folder, old, new)
    found: Counter[str] = Counter()
    with PrivateSwitch() as switch:
        db = ("--db", switch.database)
        states, lasts = _both(files, db, switch.database)
        at = 0
        for _ in range(kills):
            process = dnsteer("apply", str(files[1 - at]), "--yes", "--grace", "0.2", *db)
            time.sleep(chance.uniform(0, lasts * 1.05))
            process.kill()
            code, _ = finish(process)
            left = "pending" if "pending" in look(switch.database)[-1] else "clean"
            must("restore", *db)
            now = look(switch.database)
            if now not in states:
                found["between"] += 1
                must("apply", str(files[at]), "--yes", *db)
                continue
            which = "old" if states.index(now) == at else "new"
            at = states.index(now)
            found[f"{which}, {'had ended' if code == 0 else f'killed, record {left}'}"] += 1
    return {"kills": kills, "between": found.pop("between", 0), "found": dict(found)}


def kill_daemon(lab: LabState, folder: Path, daemon: str, kills: int, seed: int, qps: int) -> dict[str, Any]:
    """Kill -9 of a daemon of the lab's switch under load; it is started again at once, as systemd would, and restored."""
    prefer(lab)
    chance = random.Random(seed)
    files = _write(folder, *two_states())
    database = names.db_target()
    db = ("--db", database, "--timeout", TIMEOUT)
    start: Callable[[], None] = openvswitch.start_switch if daemon == "ovs-vswitchd" else openvswitch.start_database
    found: Counter[str] = Counter()
    away: list[float] = []
    at = 0
    with (
        Clients(lab, whole()["vips"]["dns"]["addresses"][0], SLOTS["one"]) as clients,
        SteadyLoad(lab, slots_behind(), qps=qps, tcp_qps=0) as load,
    ):
        time.sleep(2)
        states, lasts = _both(files, db, database)  # an apply takes longer under load
        for _ in range(kills):
            process = dnsteer("apply", str(files[1 - at]), "--yes", "--grace", "0.2", *db)
            time.sleep(chance.uniform(0, lasts * 1.05))
            openvswitch.crash(daemon)
            crashed = time.monotonic()
            start()
            prefer(status() or lab)
            code, _ = finish(process)
            must("restore", *db)
            away.append(time.monotonic() - crashed)
            now = look(database)
            if now not in states:
                found["between"] += 1
                must("apply", str(files[at]), "--yes", *db)
                continue
            found[f"{'old' if states.index(now) == at else 'new'}, apply ended with {code}"] += 1
            at = states.index(now)
            world = World(random.Random(0), value=two_states()[at])
            table = world.owners(world.spec(), "one")
            expected = {port: table[slot_of(port, SLOTS["one"])] for port in clients.ports}
            found["clients answered wrongly"] += len(wrong(clients.ask().backends, expected))
            time.sleep(1)
        steady = load.stop()
    return {
        "daemon": daemon,
        "kills": kills,
        "between": found.pop("between", 0),
        "clients_answered_wrongly": found.pop("clients answered wrongly", 0),
        "found": dict(found),
        "load": asdict(steady.udp),
        "lost": steady.lost,
        "seconds_from_crash_to_restored": {
            "median": round(sorted(away)[len(away) // 2], 3),
            "worst": round(max(away), 3),
        },
    }


def _write(folder: Path, *values: dict[str, Any]) -> tuple[Path, ...]:
    files = tuple(folder / f"state{i}.yaml" for i in range(len(values)))
    for file, value in zip(files, values, strict=True):
        file.write_text(yaml.safe_dump(value, sort_keys=False))
    return files


def _both(files: tuple[Path, ...], db: tuple[str, ...], database: str) -> tuple[list[tuple[str, ...]], float]:
    """How the switch looks in each of the two states, and how long an apply takes; it has the first one afterwards."""
    states = []
    lasts = 0.0
    for file in (*files, files[0]):
        started = time.monotonic()
        must("apply", str(file), "--yes", "--grace", "0.2", *db)
        lasts = time.monotonic() - started
        states.append(look(database))
    if states[0] != states[2] or states[0] == states[1]:
        raise SystemExit("the two states cannot be told apart, or the way back does not lead back")
    return states[:2], lasts
