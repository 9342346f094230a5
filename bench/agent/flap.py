# SPDX-License-Identifier: Apache-2.0
"""The agent with 1,000 backends, of which 100 come and go at random, under load. Needs root (the lab). Prints JSON.

One process answers for all of them, each at an address of its own behind one router; a backend is gone while it does not
answer there. Clients of the 900 others must not lose a query.

python -m bench.agent.flap [--seconds 600] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.agent.figures import spread
from bench.agent.usage import Usage, dropped_of
from bench.change.inside import Helper
from bench.change.ports import slot_of, source_ports
from bench.change.priority import SERVING, niceness_counts, prefer_process
from bench.machine import machine
from dnsteer import lab
from dnsteer.checks.load import check_document
from dnsteer.lab import names, network, openvswitch, state
from dnsteer.lab.command import LabProgram, Line, netns_exec, program_environment
from dnsteer.lab.command import run as run_program
from dnsteer.lab.errors import LabExistsError
from dnsteer.lab.state import LabState
from dnsteer.lab.topology import plan_network
from dnsteer.lab.zone import HOSTS
from dnsteer.plan.pool_slots import slots_of
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document

POOLS, EACH, FLAPPING, SLOTS = 50, 20, 100, 64
QPS = 2000
IN, OUT = (10.0, 60.0), (3.0, 30.0)
"""Seconds for which a backend that flaps answers, and does not."""
_STEP = 0.1
_CHANGE = " slots of pool "
_LATER = 3.0
"""Seconds without answers after which the agent must have noticed: two intervals, jitter and the time-out."""


def name(pool: int, number: int) -> str:
    return f"b{pool}-{number}"


def address(pool: int, number: int) -> str:
    index = pool * EACH + number
    return f"10.64.{1 + index // 250}.{1 + index % 250}"


def spec() -> Loaded:
    """A VIP and a pool of EACH backends, POOLS times."""
    pools = vips = ""
    for pool in range(POOLS):
        backends = "".join(
            f"      - {{name: {name(pool, n)}, ipv4: {address(pool, n)}, mac: '02:00:00:00:02:01'}}\n"
            for n in range(EACH)
        )
        health = f"{{query: {{name: {names.ZONE}, type: SOA}}}}"
        pools += f"  pool{pool}:\n    slots: {SLOTS}\n    health: {health}\n    backends:\n{backends}"
        vips += (
            f"  vip{pool}: {{addresses: [{vip(pool)}], services: [{{protocol: udp, port: 53}}], pool: pool{pool}, "
            "forwarding: nat}\n"
        )
    text = f"""apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.64.0.1]
  uplinks:
    p0: {{next_hop: 02:00:00:00:00:fe}}
  probe: {{addresses: [10.64.0.9/20]}}
pools:
{pools}vips:
{vips}"""
    return check_document(parse_document("flap.yaml", text))


def vip(pool: int) -> str:
    return f"198.51.100.{1 + pool}"


def built(loaded: Loaded) -> LabState:
    """The lab's network and switch, without name servers."""
    if lab.status() is not None:
        raise LabExistsError("a lab is up already, and there is one at a time; `dnsteer lab down` removes it")
    topology = plan_network(loaded.spec, most_servers=POOLS * EACH)
    with state.locked():
        state.save(state.describe(topology, "building"))
        network.build(topology, say)
        openvswitch.start(say)
        up = state.describe(topology, "up")
        state.save(up)
    return up


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def dropped_by_switch() -> int:
    """Frames that came while the switch's thread was at something else, or waited for a core, for too long."""
    return dropped_of(run_program(netns_exec(names.SWITCH_NAMESPACE, ["ss", "-0", "-a", "-m"])))


class Flapping:
    """The backends that flap: when each last changed, and when the next change is due."""

    def __init__(self, dice: random.Random, backends: Sequence[tuple[int, int]], now: float) -> None:
        self._dice = dice
        self.gone: dict[tuple[int, int], float] = {}
        """Those that do not answer now, and since when."""
        self.spells: list[tuple[str, float, float]] = []
        """Every time that one did not answer: pool and name, from when to when."""
        self._due = {backend: now + dice.uniform(0, IN[1]) for backend in backends}

    def step(self, now: float) -> bool:
        """Let come and go who is due; whether anything changed."""
        due = [backend for backend, time in self._due.items() if time <= now]
        for backend in due:
            since = self.gone.pop(backend, None)
            if since is None:
                self.gone[backend] = now
            else:
                self.spells.append((full_name(backend), since, now))
            self._due[backend] = now + self._dice.uniform(*(OUT if since is None else IN))
        return bool(due)


def full_name(backend: tuple[int, int]) -> str:
    """The backend as the agent calls it."""
    return f"pool{backend[0]}/{name(*backend)}"


def run(loaded: Loaded, file: Path, seconds: float, dice: random.Random) -> dict[str, Any]:
    """Measure in a lab of its own."""
    every = [(pool, number) for pool in range(POOLS) for number in range(EACH)]
    chosen = dice.sample(every, FLAPPING)
    with niceness_counts(), ExitStack() as stack:
        stack.callback(lab.down)
        up = built(loaded)
        apply = [sys.executable, "-m", "dnsteer", "apply", str(file), "--db", up.db]
        started = time.monotonic()
        subprocess.run(apply, check=True, stdout=subprocess.DEVNULL, env=program_environment())
        applied = time.monotonic() - started
        prefer_process(int(openvswitch.PIDFILES["ovs-vswitchd"].read_text()), SERVING)
        responder = stack.enter_context(Helper(up, "bench.agent.responder", namespace=up.servers[0].namespace))
        responder.call("open", timeout=10, server="", rcode=0, delay=0.0, wait=1.0)
        agent = stack.enter_context(
            LabProgram(names.SWITCH_NAMESPACE, [sys.executable, "-m", "dnsteer", "agent", "--db", up.db])
        )
        agent.wait_for_line(lambda text: "targets" in text, 30.0)
        usage = Usage(agent.pid)
        stream = stack.enter_context(Helper(up, "bench.agent.stream"))
        flows = [(pool, port) for port in source_ports(SLOTS, SLOTS) for pool in range(POOLS)]
        asked = [f"h{n}.{names.ZONE}" for n in range(HOSTS)]
        stream.call(
            "start",
            timeout=30,
            flows=[(vip(pool), 53, port) for pool, port in flows],
            local=up.client().addresses[0],
            names=asked,
            rate=QPS,
            each=False,
        )
        say(f"{len(every)} backends, {FLAPPING} of them come and go for {seconds:g} s")
        dropped_before = dropped_by_switch()
        begin = time.monotonic()
        flapping = Flapping(dice, chosen, begin)
        while time.monotonic() < begin + seconds:
            if flapping.step(time.monotonic()):
                responder.call("mute", timeout=10, addresses=[address(*backend) for backend in flapping.gone])
            usage.sample()
            time.sleep(_STEP)
        end = time.monotonic()
        figures = usage.figures()
        dropped = dropped_by_switch() - dropped_before
        counts = stream.call("stop", timeout=60)["counts"]
        lines = list(agent.lines)
    spells = [*flapping.spells, *((full_name(b), since, end) for b, since in flapping.gone.items())]
    owners = {pool: slots_of(loaded.spec, loaded.spec.pools[f"pool{pool}"], "ipv4") for pool in range(POOLS)}
    of = [f"pool{pool}/{owners[pool][slot_of(port, SLOTS)]}" for pool, port in flows]
    flappers = {full_name(backend) for backend in chosen}
    return {
        "backends": len(every),
        "flapping": FLAPPING,
        "seconds": seconds,
        "applied_s": round(applied, 2),
        **clients(of, counts, flappers, begin, [t for t, text in lines if _CHANGE in text]),
        "dropped_by_full_sockets_of_the_switch": dropped,
        "flapping_gone_share": round(sum(until - since for _, since, until in spells) / FLAPPING / seconds, 3),
        **transitions(lines, flappers, spells),
        "agent": figures,
    }


def clients(
    of: Sequence[str], counts: Sequence[Sequence[Any]], flapping: set[str], begin: float, changes: Sequence[float] = ()
) -> dict[str, Any]:
    """What became of the queries, by whether the client's backend flaps. *of* has each flow's, *counts* what was sent.

    *bursts* are when healthy backends' clients lost some (seconds after *begin*), for how long, how many, of how many pools,
    and how far from it the agent said that it had changed the switch (*changes*).
    """
    found: dict[str, dict[str, Any]] = {kind: {"asked": 0, "lost": 0, "errors": 0} for kind in ("healthy", "flapping")}
    lost_at: list[tuple[float, str]] = []
    for backend, (sent, _, errors, _, lost) in zip(of, counts, strict=True):
        into = found["flapping" if backend in flapping else "healthy"]
        into["asked"] += sent
        into["lost"] += len(lost)
        into["errors"] += errors
        if backend not in flapping:
            lost_at += [(time_sent - begin, backend.partition("/")[0]) for time_sent in lost]
    found["healthy"]["bursts"] = bursts(sorted(lost_at))
    for burst in found["healthy"]["bursts"]:
        burst["change_s"] = min((round(t - begin - burst["at_s"], 3) for t in changes), key=abs, default=None)
    return {f"clients_of_{kind}": numbers for kind, numbers in found.items()}


def bursts(lost: Sequence[tuple[float, str]], apart: float = 0.5) -> list[dict[str, Any]]:
    """Losses (time and pool, in order) with less than *apart* seconds between them, together."""
    groups: list[list[tuple[float, str]]] = []
    for each in lost:
        if groups and each[0] - groups[-1][-1][0] < apart:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [
        {
            "at_s": round(g[0][0], 2),
            "for_s": round(g[-1][0] - g[0][0], 3),
            "lost": len(g),
            "pools": len({p for _, p in g}),
        }
        for g in groups
    ]


def transitions(
    lines: Sequence[Line], flapping: set[str], spells: Sequence[tuple[str, float, float]]
) -> dict[str, Any]:
    """What the agent did. *spells* are the times at which backends were really gone."""
    marks: dict[str, list[tuple[float, bool]]] = {}
    changes = 0
    for time_said, text in lines:
        backend, is_, word = text.partition(" is ")
        if is_ and word.startswith(("healthy", "unhealthy")):
            marks.setdefault(backend, []).append((time_said, word == "healthy"))
        elif _CHANGE in text:
            changes += 1
    every = [(backend, healthy) for backend, known in marks.items() for _, healthy in known]
    noticed: list[float] = []
    still_out = missed = 0
    for backend, since, until in spells:
        known = marks.get(backend, [])
        if until - since < _LATER:
            continue
        if not next((healthy for t, healthy in reversed(known) if t <= since), True):
            still_out += 1
        elif found := [t - since for t, healthy in known if since <= t < until and not healthy]:
            noticed.append(found[0])
        else:
            missed += 1
    return {
        "unhealthy": sum(not healthy for _, healthy in every),
        "healthy": sum(healthy for _, healthy in every),
        "changes_of_the_switch": changes,
        "healthy_backends_taken_for_unhealthy": sum(not ok and backend not in flapping for backend, ok in every),
        "times_gone": len(spells),
        "times_gone_for_3_s": len(noticed) + still_out + missed,
        "of_these": {"noticed": len(noticed), "still_out": still_out, "missed": missed},
        "noticed_s": spread(noticed),
    }


def main() -> int:
    """Run the benchmark; exit status 1 when clients of healthy backends lost more than the switch had no time to receive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    loaded = spec()
    with tempfile.TemporaryDirectory(prefix="dnsteer-") as folder:
        file = Path(folder) / "flap.yaml"
        file.write_text(loaded.document.text)
        found = run(loaded, file, options.seconds, random.Random(options.seed))
    json.dump({"machine": machine(), "seed": options.seed, **found}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    unexplained = found["clients_of_healthy"]["lost"] > found["dropped_by_full_sockets_of_the_switch"]
    return 1 if unexplained or found["healthy_backends_taken_for_unhealthy"] else 0


if __name__ == "__main__":
    sys.exit(main())
