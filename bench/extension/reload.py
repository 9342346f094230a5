# SPDX-License-Identifier: Apache-2.0
"""Changes of the extension's program under load: whole applies, and single loads on its control socket."""

from __future__ import annotations

import copy
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.change.load import SteadyLoad
from bench.extension.running import apply, control, example, lab_of
from dnsteer.checks.load import load_spec
from dnsteer.plan.build import build_plan
from dnsteer.render.program import program_of
from dnsteer.spec import derived

QPS = 20_000


def run(folder: Path, reloads: int, updates: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """*reloads* applies of other weights and *updates* loads that change a slot or a backend in place, all under load."""
    spec = example("ipip")
    loaded = load_spec(spec)
    slots = derived.slot_count(loaded.spec, loaded.spec.pools["authoritative"])
    behind = {str(a): slots for a in loaded.spec.vips["dns"].addresses}
    dice = random.Random(seed)
    out: dict[str, Any] = {"seed": seed}
    with lab_of(spec, say) as state:
        say(f"{reloads} applies under load")
        load = SteadyLoad(state, behind, qps=QPS, tcp_qps=0)
        with load:
            times = []
            for number in range(reloads):
                file = folder / "changed.yaml"
                # Each apply moves slots between the servers, all of which are allowed at all times.
                file.write_text(
                    spec.read_text().replace("weight: 3", f"weight: {1 + dice.randrange(8) + number % 2 * 8}")
                )
                times.append(apply(file))
            out["applies"] = {**_times(times), **_loss(load)}
        apply(spec)
        say(f"{updates} updates in place under load")
        load = SteadyLoad(state, behind, qps=QPS, tcp_qps=0)
        with load:
            out["updates"] = {**_updates(loaded, updates, dice), **_loss(load)}
    return out


def _updates(loaded: Any, count: int, dice: random.Random) -> dict[str, Any]:
    """Loads that change one slot, or the tunnel of one backend: to another server, which answers for the VIP as well."""
    extension = build_plan(loaded).extension
    assert extension is not None
    program = program_of(extension)
    names = [b["name"] for b in program["backends"] if ":" not in b["address"]]
    ends = {b["name"]: {k: b[k] for k in ("mac", "address")} for b in program["backends"]}
    slots: list[float] = []
    backends: list[float] = []
    with control() as ask:
        for number in range(count):
            changed = copy.deepcopy(program)
            if number % 2:
                vip = dice.choice(changed["vips"])
                place = dice.randrange(len(vip["slots"]))
                vip["slots"][place] = dice.choice([n for n in names if n != vip["slots"][place]])
            else:
                one, other = dice.sample(names, 2)
                for backend in changed["backends"]:  # they change places: an address is of one backend
                    backend.update(
                        ends[other if backend["name"] == one else one if backend["name"] == other else backend["name"]]
                    )
            begin = time.monotonic()
            ask({"command": "load", "program": changed})
            (slots if number % 2 else backends).append(time.monotonic() - begin)
            program_time = time.monotonic()
            ask({"command": "load", "program": program})
            (slots if number % 2 else backends).append(time.monotonic() - program_time)
    return {"slot": _times(slots), "backend": _times(backends)}


def _times(seconds: list[float]) -> dict[str, Any]:
    return {
        "count": len(seconds),
        "median_ms": round(statistics.median(seconds) * 1000, 2),
        "worst_ms": round(max(seconds) * 1000, 2),
    }


def _loss(load: SteadyLoad) -> dict[str, Any]:
    result = load.stop()
    return {
        "queries": result.udp.sent,
        "qps": round(result.udp.qps, 1),
        "lost": result.udp.lost,
        "errors": result.udp.errors,
    }
