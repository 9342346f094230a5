# SPDX-License-Identifier: Apache-2.0
"""How long the quick changes take as whole processes on a large switch: one backend down, and one weight changed."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.specs import many_vips
from dnsteer.deploy.overlay_change import change_overlay
from dnsteer.deploy.overlay_edits import bring_back, take_out
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.private_switch import PrivateSwitch

VIPS = 1000


def run(folder: Path, rounds: int) -> dict[str, Any]:
    """The figures, on a private switch with the 1,000-VIP spec: seconds of whole processes."""
    one, two = folder / "one.yaml", folder / "two.yaml"
    text = many_vips(VIPS)
    one.write_text(text)
    two.write_text(re.sub("weight: 2", "weight: 3", text, count=1))
    with PrivateSwitch() as switch:
        db = switch.database
        _dnsteer("apply", str(one), "--db", db)
        target = f"unix:{switch.dir}/br-dns.mgmt"
        flows = len(OpenFlow(target).dump().flows)
        downs, ups = [], []
        for number in range(rounds):
            name = f"pool{number % 100}/ns{number % 16}"
            downs.append(_dnsteer("down", name, "--db", db))
            ups.append(_dnsteer("up", name, "--db", db))
        bundles = _on_the_switch(TargetSwitch(db), rounds)
        weights = [_dnsteer("apply", str(two if n % 2 == 0 else one), "--db", db) for n in range(min(rounds, 10))]
        nothing = [_dnsteer("apply", str(one), "--db", db) for _ in range(3)]
    return {
        "vips": VIPS,
        "flows": flows,
        "one_backend_down": _figures(downs),
        "one_backend_up": _figures(ups),
        "of_it_the_bundle": _figures(bundles),
        "apply_one_weight": _figures(weights),
        "apply_nothing": _figures(nothing),
    }


def _on_the_switch(switch: TargetSwitch, rounds: int) -> list[float]:
    """Seconds that the switch has the bundle of one backend that goes down, with ovs-ofctl's start and end."""
    taken: list[float] = []
    send = OpenFlow.bundle

    def timed(client: OpenFlow, lines: Any) -> None:
        started = time.monotonic()
        send(client, lines)
        taken.append(time.monotonic() - started)

    OpenFlow.bundle = timed  # type: ignore[method-assign, assignment]
    try:
        for number in range(rounds):
            name = f"pool{number % 100}/ns{number % 16}"
            change_overlay(switch, None, take_out(name, "down"))
            change_overlay(switch, None, bring_back(name, "down"))
    finally:
        OpenFlow.bundle = send  # type: ignore[method-assign, assignment]
    return taken[::2]  # every other one is the way back


def _dnsteer(*words: str) -> float:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "dnsteer", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"dnsteer {' '.join(words)}: exit status {done.returncode}\n{done.stderr}")
    return time.monotonic() - started


def _figures(seconds: list[float]) -> dict[str, float]:
    return {
        "runs": len(seconds),
        "median": round(statistics.median(seconds), 4),
        "worst": round(max(seconds), 4),
    }
