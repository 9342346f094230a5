# SPDX-License-Identifier: Apache-2.0
"""Findings about the most megaflows that attackers can make."""

from __future__ import annotations

import json

from dnsteer.lint.finding import LintFinding
from dnsteer.lint.masks.megaflows import show_count
from dnsteer.lint.run import run_finders
from dnsteer.offload.examine import examine
from dnsteer.offload.profile import profile
from tests.packet.linted_examples import changed, found_as, report

BRIDGE = "  bridge:"


def within(budget: int) -> list[LintFinding]:
    loaded = changed("quickstart", ("vips:\n", f"lint: {{megaflows: {budget}}}\n\nvips:\n"))
    return found_as(run_finders(examine(loaded, profile("ovs-netdev"))), "DNS035")


def test_more_megaflows_than_the_budget_are_a_finding() -> None:
    routed = report("quickstart", "ovs-netdev").megaflows[0]
    (found,) = within(1)
    assert found.text.startswith(
        f"somebody behind a router can make up to {show_count(routed.beyond)} megaflows beyond those of good traffic, and "
        "the budget is 1: "
    )
    largest = max((kind for kind in routed.kinds if not kind.served), key=lambda kind: kind.megaflows)
    assert str(largest) in found.text
    assert found.path == ("lint", "megaflows")
    assert "switch.routed" in found.advice
    assert bool(within(10_000_000)) == (routed.beyond > 10_000_000)


def test_what_somebody_on_the_network_can_make_is_said() -> None:
    (found,) = found_as(report("quickstart", "ovs-netdev"), "DNS036")
    assert found.text.startswith("somebody on the network itself can make up to 2^")
    assert found.path == ("switch",)


def test_the_bounds_are_in_the_json_by_attacker_and_kind() -> None:
    found = report("quickstart", "ovs-netdev")
    told = json.loads(json.dumps(found.as_json()))
    assert told["megaflows_budget"] == 60_000
    routed, local = told["megaflows_bound"]
    assert (routed["attacker"], local["attacker"]) == ("behind a router", "on the network itself")
    assert local["megaflows"] is None and local["log2"] > 200, "too large for a number of JSON"
    good = [kind["megaflows"] for kind in routed["kinds"] if kind["good"]]
    assert sum(good) == 4 * 64
    dropped = [kind for kind in routed["kinds"] if kind["kind"] == "IPv4 UDP" and not kind["good"]]
    assert {kind["table"] for kind in dropped} >= {"protect"}
    assert all(set(kind) == {"kind", "table", "megaflows", "log2", "good", "fields"} for kind in dropped)


def test_a_narrower_prefix_leaves_an_attacker_less() -> None:
    wide = report("quickstart", "ovs-netdev").megaflows[0]
    routed = (BRIDGE, "  routed: [192.0.2.53/32, 2001:db8::53/128]\n  bridge:")
    narrow = run_finders(examine(changed("quickstart", routed), profile("ovs-netdev"))).megaflows[0]
    by_table = {kind.table for kind in narrow.kinds if kind.kind in ("IPv4 UDP", "IPv6 UDP")}
    assert not any(table.startswith("address") for table in by_table), "all that they can send to is the VIP"
    assert narrow.beyond < wide.beyond
