# SPDX-License-Identifier: Apache-2.0
"""The path of a query by the switch's own trace: the same that `explain` finds by sending it, and what is broken shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from dnsteer.checks.load import check_document, load_spec
from dnsteer.plan.build import build_plan
from dnsteer.proof.explain import explain_query
from dnsteer.proof.harness.switch import Harness
from dnsteer.slots.maintenance import NO_OVERLAY, Maintenance, Overlay
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from dnsteer.status.path import PathQuery, PathTracer, PathView
from dnsteer.switch.openflow import OpenFlow
from tests.packet.switches import FORWARD_TABLE, RETURN_TABLE, SLOT_TABLE
from tests.unit.extension_cases import SPEC

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EVERYTHING = check_document(parse_document("spec.yaml", SPEC))
NAT = load_spec(EXAMPLES / "one-armed-nat.yaml")
PORTS = load_spec(EXAMPLES / "own-ports.yaml")


class Commands:
    """The control socket of a harness's switch."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    def run(self, command: str, *args: str) -> str:
        return self.harness.switch.appctl(command, *args)


@contextmanager
def tracer(loaded: Loaded, overlay: Overlay = NO_OVERLAY) -> Iterator[tuple[PathTracer, Commands]]:
    plan = build_plan(loaded, overlay)
    with Harness(plan) as harness:
        yield PathTracer(loaded, plan, overlay), Commands(harness)


def query(client: str, vip: str, protocol: Protocol = Protocol.UDP, *, sport: int = 40001, **more: Any) -> PathQuery:
    return PathQuery(
        ip_address(client), sport, ip_address(vip), more.get("port", 53), protocol, more.get("uplink", "p0")
    )


def explained(loaded: Loaded, q: PathQuery, overlay: Overlay = NO_OVERLAY) -> dict[str, Any]:
    return explain_query(loaded, q.client, q.sport, q.vip, q.port, q.protocol, q.uplink, overlay).as_json()


def same_flows(view: PathView, path: dict[str, Any]) -> None:
    steps = [(s.table, s.match, s.cookie, s.about or "not dnsteer's", s.line) for s in view.way.steps]
    assert steps == [(s["table"], s["match"], s["cookie"], s["about"], s["line"]) for s in path["steps"]]
    assert (view.slot, view.why, view.selection) == (path["slot"], path["why"], path["selection"])


@pytest.mark.parametrize(
    ("loaded", "asked"),
    [
        (NAT, query("198.51.100.7", "198.51.100.53", Protocol.TCP)),
        (PORTS, query("2001:db8::7", "2001:db8:1::54", sport=1)),
    ],
    ids=["nat", "ports"],
)
def test_the_traced_path_equals_the_explained_one(loaded: Loaded, asked: PathQuery) -> None:
    path = explained(loaded, asked)
    with tracer(loaded) as (traced, switch):
        view = traced.trace(switch, asked)
    same_flows(view, path)
    assert view.backend == path["backend"] and not view.way.problem
    (left,), ((port, text),) = view.way.leaves, path["out"]
    assert left.port == port
    assert f"{left.from_mac} > {left.to_mac}, {left.source} > {left.destination} ttl {left.ttl}" in text
    assert f"{left.sport} > {left.dport}" in text
    back = view.answer
    assert back is not None and not back.problem
    (answer,) = back.leaves
    assert (answer.source, answer.sport, answer.destination, answer.dport) == (asked.vip, 53, asked.client, asked.sport)
    assert answer.to_mac == loaded.spec.switch.uplinks["p0"].next_hop


def test_backends_that_answer_by_themselves() -> None:
    quick = load_spec(EXAMPLES / "quickstart.yaml")
    with tracer(quick) as (traced, switch):
        view = traced.trace(switch, query("198.51.100.7", "192.0.2.53"))
        dropped = traced.trace(switch, query("198.51.100.7", "192.0.2.53", port=80))
        strange = traced.trace(switch, query("198.51.100.7", "203.0.113.9"))
    assert view.backend and view.answer is None and "does not pass the switch" in view.no_answer
    for each in (dropped, strange):
        assert (each.way.leaves, each.way.problem, each.backend, each.answer) == ((), "", "", None)
        assert each.way.steps[-1].does == ("drops the packet: there is no action",)
    assert (dropped.vip, strange.vip) == ("dns", "")


def test_with_a_drain_the_slot_has_another_backend_and_the_reason_is_there() -> None:
    asked = query("198.51.100.7", "198.51.100.53")
    own = explained(NAT, asked)["backend"]
    drain = Maintenance("resolvers", own, "drain", "2026-01-02T03:04:05+00:00", "alice@dpu-1", note="CHG 4711")
    overlay = Overlay((drain,))
    with tracer(NAT, overlay) as (traced, switch):
        view = traced.trace(switch, asked)
    assert view.backend == explained(NAT, asked, overlay)["backend"] != own
    assert view.base == f"{own}, which is drained since 2026-01-02 03:04 UTC, by alice@dpu-1: CHG 4711"
    assert not view.way.problem


def test_a_pool_that_the_switchs_hash_selects_ends_at_its_group() -> None:
    asked = query("2001:db8::7", "2001:db8:1::53", Protocol.TCP)
    with tracer(PORTS) as (traced, switch):
        view = traced.trace(switch, asked)
    assert view.way.recirculates and not view.way.leaves and not view.way.problem
    assert (view.slot, view.backend, view.answer) == (None, "", None) and view.group > 53_000_000
    assert view.way.steps[-1].does == (f"takes a bucket of group {view.group}, by the switch's hash",)
    assert [s.cookie for s in view.way.steps] == [s["cookie"] for s in explained(PORTS, asked)["steps"]]


def test_a_trace_continues_into_the_extension() -> None:
    with tracer(EVERYTHING) as (traced, switch):
        tunnel = traced.trace(switch, query("198.51.100.7", "192.0.2.1", uplink="p1"))
        client = traced.trace(switch, query("198.51.100.7", "192.0.2.4"))
        nobody = traced.trace(switch, query("198.51.100.7", "192.0.2.9"))
    path = explained(EVERYTHING, tunnel.query)
    same_flows(tunnel, path)
    assert tunnel.extension == "ext-in" and tunnel.chosen_there == f"{path['backend']}, by the source port"
    assert (client.slot, client.chosen_there) == (None, "a slot by its src_ip; of 16 slots n1 has 8, n2 has 8")
    assert nobody.chosen_there == "" and "no backend left" in nobody.why
    for view in (tunnel, client, nobody):
        assert view.extension == "ext-in" and not view.way.problem and view.answer is None and view.no_answer


@pytest.mark.parametrize(
    ("change", "problem", "last"),
    [
        (("del-flows", SLOT_TABLE), "it should leave to ", "(no flow)"),
        (("add-flow", f"{FORWARD_TABLE},priority=999,ip,actions=output:p0"), "it should leave to ", "ip"),
        (("add-flow", "table=0,priority=999,udp,actions=drop"), "it should leave to ", "udp"),
        (("mod-flows", f"{RETURN_TABLE},actions=drop"), "", ""),
    ],
    ids=["slots are gone", "another port", "dropped at once", "answers are dropped"],
)
def test_a_trace_shows_a_broken_flow(change: tuple[str, str], problem: str, last: str) -> None:
    with tracer(NAT) as (traced, switch):
        harness = switch.harness
        assert not traced.trace(switch, query("198.51.100.7", "198.51.100.53")).way.problem
        harness.openflow.ofctl(*change, names=True)
        view = traced.trace(switch, query("198.51.100.7", "198.51.100.53"))
    assert view.way.problem.startswith(problem) and bool(view.way.problem) is bool(problem)
    if problem:
        step = view.way.steps[-1]
        assert (step.match, step.about, step.line) == (last, "", 0)
    else:
        assert view.answer is not None and view.answer.problem.startswith("it should leave by port p0")


def test_packets_sent_by_foreign_flows_are_not_shown_as_dropped() -> None:
    asked = query("198.51.100.7", "198.51.100.53")
    with tracer(NAT) as (traced, switch):
        add = switch.harness.openflow.ofctl
        add("add-flow", "table=0,priority=998,udp,actions=NORMAL", names=True)
        normal = traced.trace(switch, asked)
        add("add-flow", "table=0,priority=999,udp,actions=in_port", names=True)
        plain = traced.trace(switch, asked)
    assert (normal.way.leaves, normal.way.otherwise) == ((), "NORMAL") and "not known" in normal.no_answer
    assert NAT.spec.switch.bridge in normal.way.datapath.split(","), "it is flooded"
    assert plain.way.leaves == (plain.way.enters,) and not plain.way.otherwise, "as it came"
    for view in (normal, plain):
        assert view.way.problem.startswith("it should leave to ")


def test_a_patch_port_leads_to_a_bridge_whose_flows_are_not_dnsteers() -> None:
    text = (EXAMPLES / "one-armed-nat.yaml").read_text()
    loaded = check_document(parse_document("spec.yaml", text))
    asked = query("198.51.100.7", "198.51.100.53")
    bridge, peer = loaded.spec.switch.bridge, "br2"
    with tracer(loaded) as (traced, switch):
        before = traced.trace(switch, asked)
        (left,) = before.way.leaves
        run = switch.harness.switch.vsctl
        number = run("get", "Interface", left.port, "ofport").strip()
        run("del-port", bridge, left.port)
        run(
            "add-br",
            peer,
            "--",
            "set",
            "Bridge",
            peer,
            "datapath_type=dummy",
            "fail_mode=secure",
            "--",
            "add-port",
            peer,
            "q0",
            "--",
            "set",
            "Interface",
            "q0",
            "type=dummy",
            "--",
            "add-port",
            peer,
            "far",
            "--",
            "set",
            "Interface",
            "far",
            "type=patch",
            f"options:peer={left.port}",
            "--",
            "add-port",
            bridge,
            left.port,
            "--",
            "set",
            "Interface",
            left.port,
            "type=patch",
            "options:peer=far",
            f"ofport_request={number}",
        )
        view = traced.trace(switch, asked)
        there = OpenFlow(f"unix:{switch.harness.switch.dir}/{peer}.mgmt", switch.harness.switch.env)
        there.ofctl(
            "add-flow", "table=0,priority=5,ip,actions=set_field:02:00:00:00:00:bb->eth_dst,output:q0", names=True
        )
        sent = traced.trace(switch, asked)
    for each in (view, sent):
        assert [step.key for step in each.way.steps] == [step.key for step in before.way.steps]
        assert (each.way.leaves, each.way.problem, each.way.onward) == ((left,), "", (peer,))
    assert "drop" in view.way.datapath and "q0" in sent.way.datapath
