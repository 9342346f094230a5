# SPDX-License-Identifier: Apache-2.0
"""Datapath flows that queries to 1,000 VIPs of one pool make, in one pass and in two, beside those computed. Prints JSON.

The VIPs are of both families, with DNS over UDP and TCP and direct server return. In two passes each service and each slot
of a protocol and family is asked; in one pass that would be a million flows, so some VIPs are, and the rest is computed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address

from bench.machine import machine
from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.dns_frames import query_frame
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from dnsteer.switch.megaflows import masks

VIPS, SLOTS, IN_ONE_PASS = 1_000, 256, 10
"""VIPs and slots of the pool, and the VIPs that are asked in one pass."""
GOAL = 5_300
"""Datapath flows of the 1,000 VIPs in two passes, at most."""
CLIENTS = {4: ip_address("203.0.113.9"), 6: ip_address("2001:db8:9::9")}
_FIRST_PORT = 32_768


def spec_of_vips(vips: int, passes: int) -> Loaded:
    """The spec with so many VIPs of both families, of one pool with four backends."""
    lines = [
        "apiVersion: dnsteer/v1",
        "switch: {flavor: ovs-netdev, bridge: br-dns, mac: '02:00:00:00:00:53', uplinks: {p0: }}",
        f"pools:\n  zones:\n    passes: {passes}\n    slots: {SLOTS}\n    backends:",
        *(
            f"      - {{name: ns{n}, ipv4: 192.0.2.{n}, ipv6: '2001:db8::{n}', mac: '02:00:00:00:01:0{n}'}}"
            for n in range(1, 5)
        ),
        "vips:",
        *(
            f"  vip{v}: {{addresses: [198.18.{v // 250}.{v % 250 + 1}, '2001:db8:1::{v:x}'], services: [dns], pool: zones}}"
            for v in range(vips)
        ),
    ]
    return check_document(parse_document("many-vips", "\n".join(lines) + "\n"))


def asked(loaded: Loaded, each_slot: bool) -> Iterator[Frame]:
    """A query to each service, and to each slot of the first VIP's; with *each_slot* to each slot of each service."""
    for number, vip in enumerate(loaded.spec.vips.values()):
        for address in vip.addresses:
            source = CLIENTS[address.version]
            for protocol in Protocol:
                for slot in range(SLOTS) if each_slot or not number else [number % SLOTS]:
                    data = query_frame(loaded, source, _FIRST_PORT + 2 * slot, address, 53, protocol)
                    yield Frame("p0", data)


def measure(vips: int, passes: int) -> dict[str, object]:
    """Ask all services, and look at the datapath."""
    loaded = spec_of_vips(vips, passes)
    plan = build_plan(loaded)
    frames = list(asked(loaded, passes == 1))
    with Harness(plan) as harness:
        start = time.monotonic()
        left = harness.send(frames)
        seconds = time.monotonic() - start
        flows = harness.megaflows()
    again = sum(flow.recirculated for flow in flows)
    computed = sizes_of(loaded.spec, plan).total
    return {
        "passes": passes,
        "vips": vips,
        "slots": SLOTS,
        "queries": len(frames),
        "forwarded": len(left),
        "seconds": round(seconds, 1),
        "datapath_flows": len(flows),
        "of_them_in_the_second_pass": again,
        "computed": computed,
        "masks": masks(flows),
        "ok": len(left) == len(frames) and len(flows) == computed,
    }


def main() -> int:
    """Run the benchmark; exit status 1 when the computed number is not the one made, or the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vips", type=int, default=VIPS)
    options = parser.parse_args()
    two, one = measure(options.vips, 2), measure(min(options.vips, IN_ONE_PASS), 1)
    loaded = spec_of_vips(options.vips, 1)
    all_in_one = sizes_of(loaded.spec, build_plan(loaded)).total
    json.dump(
        {"machine": machine(), "goal": GOAL, "results": [two, one], "computed_for_all_in_one_pass": all_in_one},
        sys.stdout,
        indent=2,
    )
    sys.stdout.write("\n")
    reached = options.vips > VIPS or int(str(two["datapath_flows"])) <= GOAL
    return 0 if two["ok"] and one["ok"] and reached else 1


if __name__ == "__main__":
    sys.exit(main())
