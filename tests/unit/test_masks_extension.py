# SPDX-License-Identifier: Apache-2.0
"""Masks of specs that have VIPs behind the extension, beside others or alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dnsteer.checks.load import check_document
from dnsteer.lint.mask_count import explain_bound
from dnsteer.lint.masks.bound import mask_bound
from dnsteer.plan.build import build_plan
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.tables.extension import ExitRow
from tests.strategies import loaded_from

ROOT = Path(__file__).resolve().parents[2]
SORTS = {"slots": "source-port", "hashed": "dp-hash", "client": "client"}


def mixed(sorts: Sequence[str], forwarding: str, siit: bool) -> Loaded:
    """A spec of both families with a pool of each of these sorts, and one more whose answers the extension translates."""
    pools: dict[str, object] = {}
    vips: dict[str, object] = {}
    for n, sort in enumerate(sorts, 1):
        backend = {"name": "a", "ipv4": f"10.53.0.{n}", "ipv6": f"2001:db8:53::{n}", "mac": f"02:00:00:00:01:0{n}"}
        pools[sort] = {"slots": 16, "selection": SORTS[sort], "backends": [backend]}
        vips[sort] = {
            "addresses": [f"198.51.100.{n}", f"2001:db8:1::{n}"],
            "services": ["dns"],
            "pool": sort,
            "forwarding": "dsr" if sort == "client" else forwarding,
        }
    if siit:
        backend = {"name": "a", "ipv6": "2001:db8:53::66", "mac": "02:00:00:00:01:66"}
        pools["ipv6_prefix_trees"] = {"slots": 16, "backends": [backend]}
        vips["ipv6_prefix_trees"] = {
            "addresses": ["198.51.100.66"],
            "services": ["dns"],
            "pool": "ipv6_prefix_trees",
            "forwarding": "siit",
        }
    switch = {
        "flavor": "ovs-netdev",
        "bridge": "br-dns",
        "mac": "02:00:00:00:00:53",
        "gateways": ["10.53.0.254", "2001:db8:53::ffff"],
        "uplinks": {"p0": {"next_hop": "02:00:00:00:00:fe"}},
        "extension": {"ingress": {"port": "ext-in"}, "egress": {"port": "ext-out"}},
    }
    return loaded_from({"apiVersion": "dnsteer/v1", "switch": switch, "pools": pools, "vips": vips})


@pytest.mark.parametrize(
    ("sorts", "forwarding", "siit", "most"),
    [
        (["client"], "dsr", False, 29),
        (["client"], "dsr", True, 30),
        (["slots", "client"], "nat", False, 33),
        (["slots"], "nat", True, 29),
        (["slots", "hashed"], "dsr", True, 32),
        (["slots", "client"], "nat", True, 35),
        (["hashed", "client"], "nat", False, 33),
        (["hashed"], "nat", True, 29),
        (["slots", "hashed", "client"], "dsr", True, 33),
        (["slots", "hashed", "client"], "nat", True, 37),
    ],
)
def test_masks_of_all_extension_queries_are_bounded(sorts: list[str], forwarding: str, siit: bool, most: int) -> None:
    """None of them multiplies with another."""
    plan = build_plan(mixed(sorts, forwarding, siit))
    found = mask_bound(plan)
    assert not [str(part) for part in found.parts if part.many]
    assert found.total == most


def test_the_extensions_vips_are_named_where_they_are_too_many() -> None:
    loaded = mixed(["slots", "hashed", "client"], "nat", True)
    said = explain_bound(loaded, mask_bound(build_plan(loaded)))
    apart = "need masks of their own: with these on another switch it is at most"
    assert said == [
        f"VIPs that the extension serves (client) {apart} 31",
        f"answers for siit VIPs (ipv6_prefix_trees) {apart} 35",
        "with all of this at most 28",
    ]


def test_packets_from_the_extension_add_no_masks_to_dropped_ones() -> None:
    """Also where it leaves by several ports, told by the backend's MAC address."""
    text = (ROOT / "examples" / "spray.yaml").read_text()
    several = text.replace("    p0:\n", "    p0:\n    p1:\n")
    for n, uplink in enumerate(("p1", "p0", "p0"), 1):
        several = several.replace(f"01:0{n}", f"01:0{n}, port: {uplink}")
    plans = [build_plan(check_document(parse_document("spec.yaml", t))) for t in (text, several)]
    assert [len(plan.rows.of(ExitRow)) for plan in plans] == [1, 3]
    one, other = map(mask_bound, plans)
    assert {*one.mask_sets} == {*other.mask_sets}
