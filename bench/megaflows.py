# SPDX-License-Identifier: Apache-2.0
"""Megaflows, masks and passes with 5,000 clients of one VIP and one transport, as the switch shows them. Prints JSON."""

from __future__ import annotations

import argparse
import json
import random
import sys
from ipaddress import ip_address

from bench.machine import machine
from bench.specs import one_vip
from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.proof.dns_frames import query_frame
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from dnsteer.switch.megaflows import masks


def measure(selection: str, slots: int, clients: int, family: int, protocol: Protocol) -> dict[str, object]:
    """Send one query of each client, addresses and ports random, and look at the datapath."""
    loaded = check_document(parse_document("one-vip", one_vip(selection, slots)))
    vip = next(a for a in loaded.spec.vips["dns"].addresses if a.version == family)
    draw = random.Random(53)
    frames = []
    for _ in range(clients):
        low = draw.getrandbits(17)
        client = ip_address(0xC6120000 + low) if family == 4 else ip_address((0x20010002 << 96) + draw.getrandbits(64))
        sport = draw.randrange(1024, 65536)
        frames.append(Frame("p0", query_frame(loaded, client, sport, vip, 53, protocol)))
    with Harness(build_plan(loaded)) as harness:
        left = harness.send(frames)
        flows = harness.megaflows()
        recirculations = harness.counters().recirculations
    return {
        "selection": selection,
        "slots": slots,
        "family": family,
        "protocol": protocol.value,
        "clients": clients,
        "forwarded": len(left),
        "megaflows": len(flows),
        "at_most": slots + 4,
        "masks": masks(flows),
        "recirculations_per_query": recirculations / clients,
        "ok": len(left) == clients and len(flows) <= slots + 4 and masks(flows) <= 6,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=5000)
    options = parser.parse_args()
    rows = [
        measure(selection, slots, options.clients, family, protocol)
        for selection, slots in (("source-port", 64), ("source-port", 256), ("dp-hash", 64))
        for family, protocol in ((4, Protocol.UDP), (6, Protocol.TCP))
    ]
    json.dump({"machine": machine(), "results": rows}, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
