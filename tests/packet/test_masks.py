# SPDX-License-Identifier: Apache-2.0
"""The bound on masks against the real switch: no attack makes a mask that was not computed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from dnsteer.checks.load import load_spec
from dnsteer.lint.masks.bound import MaskBound, bound_of, mask_bound
from dnsteer.offload.datapath_flow import DatapathFlow, read_flows
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness import switch
from dnsteer.proof.reference.packets import Frame
from dnsteer.render.flows import parse_flow
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.networks import has_vlans
from dnsteer.switch.masks import show_mask
from dnsteer.tables.order import TABLES
from tests.mask_attack import Attack, attack, attack_tables
from tests.strategies import specs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
TIME = 40.0
"""Seconds after which an attack ends that did not send all of its packets."""


def strays(found: Attack, bound: MaskBound) -> list[str]:
    """Masks that were seen and not computed, each with its megaflow."""
    return [f"{show_mask(mask)}: {found.examples[mask]}" for mask in found.masks if not bound.allows(mask)]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_an_attack_on_an_example_makes_the_computed_masks(file: Path) -> None:
    loaded = load_spec(file)
    plan = build_plan(loaded)
    bound, found = mask_bound(plan), attack(plan, TIME, 53, 60_000)
    assert strays(found, bound) == []
    assert 0 < found.subtables <= bound.total <= loaded.spec.lint.masks
    # The model has drops of slots without a row, for each selection, and no slot is without. With VLANs it has one more that
    # nothing was seen to make.
    missed = 2 * len({pool.selection for pool in loaded.spec.pools.values()}) + has_vlans(loaded.spec)
    assert len(found.masks) >= bound.total - missed, "the attack reaches too little"
    assert found.megaflows > 1000


def test_prefix_trees_for_ipv6_change_nothing() -> None:
    """Releases since 3.5 have them; here they are set."""
    plan = build_plan(load_spec(ROOT / "examples" / "one-armed-nat.yaml"))
    bound, found = mask_bound(plan), attack(plan, TIME, 54, 6_000, ipv6_prefix_trees=True)
    assert strays(found, bound) == []
    assert 0 < found.subtables <= bound.total


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_an_attack_on_any_spec_makes_no_other_masks(loaded: Loaded) -> None:
    plan = build_plan(loaded)
    bound, found = mask_bound(plan), attack(plan, TIME, 55, 3_000, ipv6_prefix_trees=True)
    assert strays(found, bound) == []
    assert 0 < found.subtables <= bound.total


@pytest.mark.parametrize("ipv6_prefix_trees", [False, True], ids=["IPv4 trees", "IPv6 trees too"])
def test_tables_with_many_masks_are_found(ipv6_prefix_trees: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few addresses and a few ports are let in by flows of their own: the prefix lengths multiply."""
    plan = build_plan(load_spec(ROOT / "examples" / "quickstart.yaml"))
    lines = [
        "cookie=0xd453010000000000, table=0, priority=100,ip,nw_dst=192.0.2.53 actions=goto_table:1",
        "cookie=0xd453010000000000, table=0, priority=90,ipv6,ipv6_dst=2001:db8::53 actions=goto_table:1",
        "cookie=0xd453010000000000, table=0, priority=0 actions=goto_table:1",
        "cookie=0xd453010000000000, table=1, priority=100,udp,tp_dst=53 actions=IN_PORT",
        "cookie=0xd453010000000000, table=1, priority=90,udp6,tp_dst=53 actions=IN_PORT",
        "cookie=0xd453010000000000, table=1, priority=0 actions=drop",
    ]
    flows = [parse_flow(line) for line in lines]
    bound = bound_of(flows)
    assert bound.total > 32 * 16 + 128 * 16
    assert bound.why[0] == f"IPv6, ending in table {TABLES[1].name}: 2176 masks (128 of ipv6_dst times 16 of tp_dst)"
    monkeypatch.setattr(switch, "lines_of", lambda _, **__: lines)
    with switch.Harness(plan) as loaded:
        found = attack_tables(loaded, flows, TIME, 53, 10_000, ipv6_prefix_trees=ipv6_prefix_trees)
    assert strays(found, bound) == []
    assert len(found.masks) > (200 if ipv6_prefix_trees else 100), "more than all fields make that do not multiply"


def test_answers_to_translated_clients_do_not_multiply_the_others() -> None:
    """One backend answers clients over IPv6, by NAT, and over IPv4, by the extension: a datapath flow for each sort."""
    plan = build_plan(load_spec(ROOT / "examples" / "siit.yaml"))
    ether = Ether(src="02:00:00:00:04:01", dst=plan.gateway_mac)
    clients = [
        f"{start}{n:x}{end}"
        for start, end in (("2001:db8:", "::1"), ("fd00:", "::1"), ("64:ff9b::c633:64", ""))
        for n in range(0x10, 0x40)
    ]
    frames = [
        bytes(ether / IPv6(src="2001:db8:53::11", dst=client) / UDP(sport=53, dport=2000) / b"answer")
        for client in clients
    ]
    with switch.Harness(plan) as loaded:
        out = loaded.send(Frame("p0", frame) for frame in frames)
        flows = [
            flow for flow in read_flows(loaded.switch.dump("dpctl/dump-flows", "-m")) if isinstance(flow, DatapathFlow)
        ]
    assert len(out) == len(frames)
    answers = [flow.get("ipv6.dst") for flow in flows if flow.get("ipv6.src")]
    assert sorted(field.mask.bit_count() for field in answers if field) == [3, 3, 96]
