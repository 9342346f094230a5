# SPDX-License-Identifier: Apache-2.0
"""The datapath flows that the private switch really makes of the examples: all are read, known by name, and judged."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.offload.datapath_flow import DatapathFlow, Unreadable, read_flows
from dnsteer.offload.judge import Judgement, judge
from dnsteer.offload.profile import profile
from dnsteer.offload.split import shared_rules
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.vectors import Vector, vectors
from dnsteer.spec.loaded import Loaded
from dnsteer.switch.masks import mask_of_match
from dnsteer.switch.megaflows import masks, read_megaflows

EXAMPLES = Path(__file__).parents[2] / "examples"
SLOTS = 8


def flows_of(loaded: Loaded, kinds: dict[str, list[Vector]]) -> dict[str, tuple[str, list[DatapathFlow]]]:
    """The dump after each kind of traffic, and the flows that were new in it."""
    out: dict[str, tuple[str, list[DatapathFlow]]] = {}
    seen: set[str] = set()
    with Harness(build_plan(loaded)) as harness:
        for kind, group in kinds.items():
            harness.send([Frame(v.port, v.data) for v in sorted(group, key=lambda v: v.port)])
            text = harness.switch.dump("dpctl/dump-flows", "-m")
            found = list(read_flows(text))
            assert not [f for f in found if isinstance(f, Unreadable)]
            out[kind] = text, [f for f in found if isinstance(f, DatapathFlow) and f.ufid not in seen]
            seen |= {f.ufid for f in found if isinstance(f, DatapathFlow)}
    return out


@pytest.mark.parametrize("name", ["quickstart.yaml", "one-armed-nat.yaml"])
def test_megaflows_of_the_examples_are_parsed_and_judged(name: str) -> None:
    loaded = load_spec(EXAMPLES / name)
    kinds: dict[str, list[Vector]] = defaultdict(list)
    for vector in vectors(loaded.spec, Reference(loaded.spec), per_service=SLOTS):
        kinds[vector.kind].append(vector)
    found = flows_of(loaded, {kind: kinds[kind] for kind in ("query", *sorted(set(kinds) - {"query"}))})

    doca = profile("ovs-doca")
    flows = [flow for _, new in found.values() for flow in new]
    unknown = {f.key for flow in flows for f in flow.match if doca.match(f.key) is doca.other_match}
    unknown |= {a.name for flow in flows for a in flow.every_action() if doca.action(a.name) is doca.other_action}
    assert unknown == {"userspace"}  # which is judged by name

    judged = {flow: judge(flow, doca) for flow in flows}
    queries = {flow: judged[flow] for flow in found["query"][1]}
    assert {j.verdict for j in queries.values()} == {"yes"}
    assert all(judge(flow, profile("ovs-netdev")).verdict == "no" for flow in flows)
    for flow, judgement in judged.items():
        fragment = any(f.key.endswith(".frag") and f.value != "no" for f in flow.match)
        slow = any(action.name == "userspace" for action in flow.every_action())
        if fragment or slow:
            assert judgement.verdict == "no", flow.text
    # Echo requests, also those that are dropped behind it: the tracker gives them to the second pass.
    echo = {
        flow for flow in flows if any(action.name == "ct" for action in flow.every_action()) and "icmp" in flow.text
    }
    assert {judged[flow].verdict for flow in echo} <= {"partial", "no"}
    others = {j.verdict for flow, j in judged.items() if flow not in echo}
    assert others == {"yes", "no"}  # nothing else in the examples is doubtful on this flavor

    text = found[list(found)[-1]][0]
    whole = [flow for flow in read_flows(text) if isinstance(flow, DatapathFlow)]
    assert masks(read_megaflows(text)) == len({mask_of_match(flow.match) for flow in whole})
    _widths(queries)


def _widths(queries: dict[DatapathFlow, Judgement]) -> None:
    """IPv4 queries are one rule each; IPv6 ones are split where they are too wide, and then slots share the first rule."""
    for flow, judgement in queries.items():
        assert judgement.rules == (1 if judgement.match_bytes <= 32 else 2)
        assert flow.family == "ipv6" or judgement.rules == 1
    by_port: dict[tuple[object, ...], list[Judgement]] = defaultdict(list)
    for flow, judgement in queries.items():
        key = tuple((f.key, f.value) for f in flow.match if f.key not in ("udp.src", "tcp.src"))
        by_port[key].append(judgement)
    for same in by_port.values():
        assert shared_rules(j.parts for j in same) <= len(same) + 1
        assert len(same) == SLOTS
