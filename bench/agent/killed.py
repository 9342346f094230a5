# SPDX-License-Identifier: Apache-2.0
"""Kill -9 of the agent at random moments, under load, while health and people change the overlay. Needs root (the lab).

Health is a file for each backend here (a check by command), so that a backend becomes unhealthy without losing a query: what
is lost then is lost by the agent. After each kill the tables must be those of the record before or after a change, and a new
agent must bring the overlay to what health and people want. Prints JSON; exit status 1 when a query was lost.

python -m bench.agent.killed [--kills 100] [--qps 20000] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from bench.change.load import SteadyLoad
from bench.change.priority import niceness_counts, prefer
from bench.machine import machine
from dnsteer import lab
from dnsteer.checks.load import load_spec
from dnsteer.lab import names
from dnsteer.lab.command import netns_exec, program_environment
from dnsteer.lab.state import LabState
from dnsteer.switch.session import Session
from dnsteer.switch.tools import run as run_tool
from dnsteer.tables.order import PIPELINE

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
POOL = "authoritative"
_LONGEST = 1.5
"""Seconds after the start of a round in which the agent is killed: a whole change and some."""
_PATIENCE = 20.0


def spec(folder: Path) -> str:
    """The quickstart with a check that asks for a file."""
    value = yaml.safe_load(QUICKSTART.read_text())
    pool = value["pools"][POOL]
    pool["health"] = {
        "check": "command",
        "command": ["test", "-e", f"{folder}/{{backend}}"],
        "interval": "200ms",
        "timeout": "150ms",
        "rise": 1,
        "fall": 1,
    }
    pool["panic"], pool["hold_max"], pool["slow_start"] = "100%", "0s", "0s"
    return str(yaml.safe_dump(value, sort_keys=False))


def begin_agent(state: LabState, log: Path) -> subprocess.Popen[bytes]:
    """An agent in the switch's namespace."""
    argv = netns_exec(names.SWITCH_NAMESPACE, [sys.executable, "-m", "dnsteer", "agent", "--db", state.db])
    with log.open("ab") as file:
        return subprocess.Popen(argv, stdout=file, stderr=file, env=program_environment())


def out_of(state: LabState) -> set[tuple[str, str]]:
    """Kind and backend of the recorded maintenance; a pending change counts if the tables have it."""
    with Session(state.db) as session:
        record = session.record_of(None)
        pending = record.pending
        found = record.overlay
        if pending is not None:
            found = pending.overlay if _marker(state) == pending.marker else record.overlay
        return {(entry.kind, entry.backend) for entry in found}


def _marker(state: LabState) -> int:
    """The number in the tables that tells which overlay they are of."""
    socket = f"{state.db.rpartition('/')[0]}/br-dns.mgmt"
    said = run_tool(
        ["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", socket, f"table={PIPELINE.holding('state').number}"]
    )
    found = re.search(r"cookie=0x([0-9a-f]+)", said)
    return int(found[1], 16) & (1 << 40) - 1 if found else -1


def between(state: LabState) -> bool:
    """Whether the tables are neither those of the record nor those of a pending change."""
    with Session(state.db) as session:
        record = session.record_of(None)
    return _marker(state) not in (record.marker, record.pending.marker if record.pending else record.marker)


def settled(state: LabState, spec_file: Path, wanted: set[tuple[str, str]]) -> float:
    """Wait until the overlay is what is wanted and the tables are as recorded; how long it took."""
    start = time.monotonic()
    while out_of(state) != wanted:
        if time.monotonic() - start > _PATIENCE:
            raise SystemExit(f"the overlay is {out_of(state)}, and {wanted} is wanted")
        time.sleep(0.02)
    took = time.monotonic() - start
    verify = [sys.executable, "-m", "dnsteer", "verify", str(spec_file), "--db", state.db]
    done = subprocess.run(verify, capture_output=True, text=True, env=program_environment(), check=False)
    if done.returncode:
        raise SystemExit(f"the switch differs from the record: {done.stdout}{done.stderr}")
    return took


def campaign(
    state: LabState, folder: Path, spec_file: Path, kills: int, qps: int, chance: random.Random
) -> dict[str, Any]:
    """Kill the agent so many times."""
    backends = [b.name for b in load_spec(spec_file).spec.pools[POOL].backends]
    log = folder / "agent.log"
    found: Counter[str] = Counter()
    times: list[float] = []
    drained: set[str] = set()
    people: list[subprocess.Popen[bytes]] = []
    vips = [str(a) for vip in load_spec(spec_file).spec.vips.values() for a in vip.addresses]
    with SteadyLoad(state, dict.fromkeys(vips, 64), qps=qps, tcp_qps=0) as load:
        time.sleep(2)
        agent = begin_agent(state, log)
        try:
            time.sleep(2)
            for _ in range(kills):
                unhealthy = set(chance.sample(backends, chance.randint(0, 2)))
                for name in backends:
                    (folder / name).unlink(missing_ok=True) if name in unhealthy else (folder / name).touch()
                if chance.random() < 0.5:
                    name = chance.choice(backends)
                    verb = "undrain" if name in drained else "drain"
                    argv = [sys.executable, "-m", "dnsteer", verb, f"{POOL}/{name}", "--yes", "--db", state.db]
                    people.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                    drained ^= {name}
                time.sleep(chance.uniform(0, _LONGEST))
                agent.send_signal(signal.SIGKILL)
                agent.wait()
                for person in people:
                    person.wait()
                people.clear()
                found["tables of neither state"] += between(state)
                drained = {
                    name for kind, name in out_of(state) if kind == "drain"
                }  # a verb may have died with the agent
                agent = begin_agent(state, log)
                wanted = {("health", name) for name in unhealthy} | {("drain", name) for name in drained}
                times.append(settled(state, spec_file, wanted))
                found["record pending at the kill"] += "pending change" in log.read_text()
                log.write_text("")
        finally:
            agent.kill()
            agent.wait()
        steady = load.stop()
    times.sort()
    return {
        "kills": kills,
        "found": dict(found),
        "load": asdict(steady.udp),
        "lost": steady.lost,
        "seconds_from_start_to_right_overlay": {
            "median": round(times[len(times) // 2], 3),
            "worst": round(times[-1], 3),
        },
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--qps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as name, niceness_counts():
        folder = Path(name)
        file = folder / "spec.yaml"
        file.write_text(spec(folder))
        loaded = load_spec(file)
        for backend in loaded.spec.pools[POOL].backends:
            (folder / backend.name).touch()
        lab.up(loaded.spec, progress=lambda text: print(text, file=sys.stderr, flush=True))
        try:
            state = lab.status()
            assert state is not None
            apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", state.db]
            subprocess.run(apply, check=True, stdout=sys.stderr, env=program_environment())
            prefer(state)
            chance = random.Random(options.seed)
            result = campaign(state, folder, file, options.kills, options.qps, chance)
        finally:
            lab.down()
    json.dump({"machine": machine(), "seed": options.seed, **result}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 1 if result["lost"] or result["found"]["tables of neither state"] else 0


if __name__ == "__main__":
    sys.exit(main())
