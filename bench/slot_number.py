# SPDX-License-Identifier: Apache-2.0
"""What the number of slots costs a switch: hardware rules, upcalls at the start, revalidation. Prints JSON.

For each number, VIPs of both families with DNS over UDP and TCP get one query for each slot, on a private switch that starts
with no megaflows: each makes one, which is one hardware rule. Then the switch revalidates them all, several times.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time

from bench.machine import machine
from bench.specs import many_vips
from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.senders import Senders
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError

NUMBERS = (64, 128, 256, 512, 1024)
ROUNDS = 5
_DURATION = re.compile(r"dump duration\s*: (\d+)ms")
_CHUNK = 5000


def spec_of(vips: int, slots: int) -> Loaded:
    """*vips* VIPs over one pool of eight backends."""
    text = many_vips(vips, pools=1, backends=8).replace("[dns, dot, doq, doh]", "[dns]")
    return check_document(parse_document("bench", text.replace("    backends:", f"    slots: {slots}\n    backends:")))


def queries(loaded: Loaded) -> list[Frame]:
    """One query for each slot of each service."""
    reference = Reference(loaded.spec)
    limit = max(len(service.slots) for service in reference.services.values())
    assert Senders(loaded.spec, reference, limit).coverage.queries == limit * len(reference.services)
    return [Frame(v.port, v.data) for v in vectors(loaded.spec, reference, limit) if v.kind == "query"]


def measure(vips: int, slots: int) -> dict[str, object]:
    """Figures of one spec. Seconds are those of the whole; an upcall's time includes that of its packet."""
    loaded = spec_of(vips, slots)
    frames = queries(loaded)
    with Harness(build_plan(loaded)) as harness:
        start = time.monotonic()
        left = sum(len(harness.send(frames[at : at + _CHUNK])) for at in range(0, len(frames), _CHUNK))
        first = time.monotonic() - start
        held = len(harness.megaflows())
        start = time.monotonic()
        for at in range(0, len(frames), _CHUNK):
            harness.send(frames[at : at + _CHUNK])
        again = time.monotonic() - start
        harness.switch.vsctl("set", "Open_vSwitch", ".", "other_config:max-revalidator=500")
        for word in ("pause", "resume"):  # it sleeps for as long as it was told before
            harness.switch.appctl(f"revalidator/{word}")
        dumps = []
        for _ in range(ROUNDS):
            harness.switch.appctl("revalidator/wait")
            found = _DURATION.search(harness.switch.appctl("upcall/show"))
            if found is None:
                raise SwitchError("upcall/show names no dump duration")
            dumps.append(int(found[1]))
    return {
        "vips": vips,
        "slots": slots,
        "rules": held,
        "forwarded": left,
        "us_per_upcall": round((first - again) / len(frames) * 1e6, 1),
        "seconds_of_upcalls": round(first - again, 3),
        "revalidation_ms": {"median": statistics.median(dumps), "runs": dumps},
        "ok": left == len(frames) == held,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a slot did not make a megaflow of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vips", type=int, nargs="+", default=[4, 50])
    options = parser.parse_args()
    rows = [measure(vips, slots) for vips in options.vips for slots in NUMBERS]
    json.dump({"machine": machine(), "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
