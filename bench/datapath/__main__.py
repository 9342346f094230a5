# SPDX-License-Identifier: Apache-2.0
"""How fast a real OVS-DPDK forwards by the rendered pipelines, on one core and without a network card. Prints JSON.

Packets come in by DPDK's net_pcap, over and over, and leave by net_null, so what is measured is the switch. In each round
every case is measured once, so that a machine that gets slower or faster does so for all; figures are medians with
the least and the most. Needs root, two cores, and Debian's openvswitch-switch-dpdk or another build (--vswitchd).

python -m bench.datapath [--rounds 5] [--parts matrix,steps,fresh] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.datapath.campaign import Campaign, Pace
from bench.datapath.dpdk import PROGRAM, DpdkSwitch, huge_pages
from bench.datapath.rig import Rig
from bench.datapath.summary import targets
from bench.machine import machine

PARTS = ("matrix", "steps", "fresh")


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def about(switch: DpdkSwitch, rig: Rig, core: int, huge: bool) -> dict[str, Any]:
    """The machine and the switch."""
    governor = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")
    flags = Path("/proc/cpuinfo").read_text()
    return {
        **machine(),
        **switch.versions(),
        "governor": governor.read_text().strip() if governor.exists() else "not told",
        "virtual": "hypervisor" in flags,
        "avx512_of_cpu": "avx512f" in flags,
        "avx512_of_build": rig.has_vector(),
        "tsc_ghz": rig.hertz / 1e9,
        "forwarding_core": core,
        "huge_pages": huge,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when packets were lost or the switch complained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--clients", default="1,1000,10000", help="numbers of clients (default: %(default)s)")
    parser.add_argument("--families", default="4,6", help="IP versions (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one measurement (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=0.5, help="time before it (default: %(default)s)")
    parser.add_argument("--fresh", type=int, default=2_000_000, metavar="PACKETS", help="of part fresh")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the forwarding thread's")
    parser.add_argument("--hurry", action="store_true", help="forwarding thread in real time: for a machine in use")
    parser.add_argument("--vswitchd", type=Path, default=PROGRAM, help="another build of OVS-DPDK")
    parser.add_argument("--seed", type=int, default=53)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON to FILE as well")
    options = parser.parse_args()
    others = os.sched_getaffinity(0) - {options.core}
    if os.geteuid() != 0 or not others:
        sys.exit("bench.datapath needs root and a second core")
    os.sched_setaffinity(0, others)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # in order: huge pages are given back
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="dnsteer-") as folder,
        huge_pages() as huge,
        DpdkSwitch(options.core, huge=huge, binary=options.vswitchd) as switch,
    ):
        rig = Rig(switch)
        if options.hurry:
            rig.hurry()
        report: dict[str, Any] = {"machine": about(switch, rig, options.core, huge), "seed": options.seed}
        pace = Pace(options.rounds, options.seconds, options.warm)
        campaign = Campaign(rig, Path(folder), pace, options.seed, say)
        families = [int(f) for f in options.families.split(",")]
        clients = [int(n) for n in options.clients.split(",")]
        for part in options.parts.split(","):
            if part == "matrix":
                report[part] = campaign.matrix(families, clients)
                report["targets"] = targets(report[part])
            elif part == "steps":
                report[part] = campaign.steps(families, max(clients))
            elif part == "fresh":
                report[part] = campaign.fresh(families[0], options.fresh)
            else:
                sys.exit(f"unknown part {part!r}; expected some of {', '.join(PARTS)}")
        report["problems"] = [*campaign.problems, *switch.complaints()]
    report["seconds"] = round(time.monotonic() - start, 1)
    text = json.dumps(report, indent=2) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
