# SPDX-License-Identifier: Apache-2.0
"""Masks of the example specs: how many traffic can make, computed, and how many an attack on the real switch makes.

The attack sends what the tables just miss, from all ports, for a time. A second one sends to every port of one VIP, as
somebody far away can. Prints JSON; exit status 1 when masks are more than computed or than the budget.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from tests.mask_attack import ObservedMasks, attack

from bench.machine import machine
from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.plan.build import build_plan
from dnsteer.proof.dns_frames import query_frame
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.switch.masks import show_mask

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def measure(file: Path, seconds: float, seed: int) -> dict[str, object]:
    """The bound of a spec, and what an attack makes."""
    loaded = load_spec(file)
    plan = build_plan(loaded)
    start = time.perf_counter()
    bound = mask_bound(plan)
    took = time.perf_counter() - start
    found = attack(plan, seconds, seed)
    with_trees = attack(plan, seconds / 4, seed + 1, ipv6_prefix_trees=True)
    strays = [show_mask(mask) for mask in (*found.masks, *with_trees.masks) if not bound.allows(mask)]
    return {
        "spec": file.name,
        "bound": bound.total,
        "bound_by_ethertype": bound.by_kind,
        "bound_seconds": round(took, 2),
        "budget": loaded.spec.lint.masks,
        "attack_seconds": seconds,
        "seed": seed,
        "packets": found.packets,
        "megaflows": found.megaflows,
        "masks": len(found.masks),
        "subtables_of_a_port": found.subtables,
        "masks_with_ipv6_prefix_trees": len(with_trees.masks),
        "megaflows_by_mask": {show_mask(m): n for m, n in sorted(found.masks.items(), key=lambda item: -item[1])},
        "not_computed": strays,
        "one_vip": _every_port(loaded, seed),
        "ok": not strays and found.subtables <= bound.total <= loaded.spec.lint.masks,
    }


def _every_port(loaded: Loaded, seed: int) -> dict[str, int]:
    """What queries to all ports of one VIP make, by UDP and TCP, from random addresses and ports."""
    draw = random.Random(seed)
    uplink = next(iter(loaded.spec.switch.uplinks))
    vip = next(a for v in loaded.spec.vips.values() for a in v.addresses if a.version == 4)

    def frames() -> Iterator[Frame]:
        for port in range(1, 65536):
            for protocol in Protocol:
                client = ip_address(0xC6120000 + draw.getrandbits(17))
                data = query_frame(loaded, client, draw.randrange(1024, 65536), vip, port, protocol, uplink)
                yield Frame(uplink, data)

    observed = ObservedMasks()
    with Harness(build_plan(loaded)) as harness:
        harness.switch.appctl("upcall/set-flow-limit", "1000000")
        harness.send(frames())
        flows = observed.add(harness.switch.dump("dpctl/dump-flows", "-m").splitlines())
    return {"packets": 2 * 65535, "megaflows": flows, "masks": len(observed.flows)}


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*", type=Path, default=sorted(EXAMPLES.glob("*.yaml")))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=53)
    options = parser.parse_args()
    rows = [measure(file, options.seconds, options.seed) for file in options.specs]
    json.dump({"machine": machine(), "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
