# SPDX-License-Identifier: Apache-2.0
"""Probes of what the extension serves are proven with it, and every damage to them is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dnsteer.checks.load import check_document
from dnsteer.plan.build import build_plan
from dnsteer.proof.check import prove
from dnsteer.proof.harness import switch
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.spec.read import parse_document
from dnsteer.tables.slot import probe_numbers
from tests.packet.test_extension import Program, failures, of_table, to, vip, with_broken_flows, with_wrong_program
from tests.unit.extension_cases import SPEC

PROBE = "  probe: {addresses: [10.0.0.9/24, 10.0.1.9/24, '2001:db8:a::9/64'], uplink: p1}\n"
LOADED = check_document(parse_document("spec.yaml", SPEC.replace("  extension:\n", f"{PROBE}  extension:\n")))
PROBE_MAC = "02:00:00:00:00:51"
TO_QUERIES = next(
    flow.actions
    for flow in map(parse_flow, switch.lines_of(build_plan(LOADED)))
    if (flow.table, flow.priority) == (0, 200) and "in_port=p0" in flow.match and "00:00:53" in flow.match
)


def test_probes_pass_the_proof() -> None:
    report = prove(LOADED)
    assert report.ok, report.failures[:1]
    assert report.extended > 1000


FLOWS: dict[str, tuple[Callable[[Flow], bool], Callable[[Flow], Flow] | None]] = {
    # what is broken: (which flows, what becomes of them: None removes them)
    "probes do not go to the extension": (
        lambda f: of_table("egress")(f) and "ext-in" in f.actions and PROBE_MAC in f.actions,
        None,
    ),
    "probes go to the extension as queries": (
        lambda f: of_table("egress")(f) and "ext-in" in f.actions and PROBE_MAC in f.actions,
        lambda f: replace(f, actions=f.actions.replace(f"set_field:{PROBE_MAC}->eth_dst,", "")),
    ),
    "queries go to the extension as probes": (
        lambda f: of_table("egress")(f) and "ext-in" in f.actions and PROBE_MAC not in f.actions,
        lambda f: replace(f, actions=f"set_field:{PROBE_MAC}->eth_dst,{f.actions}"),
    ),
    "queries to the MAC of probes are taken": (
        lambda f: f.table == 0 and "in_port=p0" in f.match and PROBE_MAC in f.match and f.match.startswith("ip,"),
        lambda f: replace(f, actions=TO_QUERIES),
    ),
    "translated answers to probes leave as others": (
        lambda f: of_table("extension")(f) and PROBE_MAC in f.match,
        None,
    ),
    "a tunnel's end does not answer probes": (
        lambda f: of_table("return")(f) and f.priority == 120 and "nw_src=192.0.2.1," in f.match,
        to("drop"),
    ),
}


@pytest.mark.parametrize("what", FLOWS)
def test_broken_flows_are_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not with_broken_flows(LOADED, *FLOWS[what], monkeypatch).ok


@pytest.mark.parametrize("backend", ["six", "away"])
def test_a_client_that_chooses_a_backend_by_its_source_port_is_seen(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queries go to the extension as probes, if they come from the ports of one backend; all others as they should."""
    ports = f"tp_src={probe_numbers(LOADED.spec.pools['far'])[backend] << 4:#x}/0xfff0"
    original = switch.lines_of

    def broken(plan: Any, **_: bool) -> list[str]:
        lines = original(plan)
        right = next(f for f in map(parse_flow, lines) if of_table("egress")(f) and "ext-in" in f.actions)
        assert PROBE_MAC not in right.actions
        wrong = f"set_field:{PROBE_MAC}->eth_dst,{right.actions}"
        return [*lines, replace(right, priority=200, match=f"udp,{right.match},{ports}", actions=wrong).line()]

    monkeypatch.setattr(switch, "lines_of", broken)
    report = prove(LOADED)
    assert f"from the source port of probes of {backend}" in failures(report)
    assert not any(failure.vector.startswith("probe of") for failure in report.failures)


def swap_probes(program: Program, part: str) -> None:
    """Two backends have each other's number."""
    probes = vip(program, part)["probes"]
    one, other, *_ = probes
    probes[one], probes[other] = probes[other], probes[one]


PROGRAMS: dict[str, tuple[Callable[[Program], object], str]] = {
    # what is broken: (how, what is said of it among the failures)
    "probes of a tunnel's end": (lambda p: swap_probes(p, "192.0.2.1/udp/53"), "probe of four"),
    "probes of a translation": (lambda p: swap_probes(p, "192.0.2.3/tcp/53"), "probe of s1"),
    "probes of clients": (lambda p: swap_probes(p, "192.0.2.4/udp/53"), "probe of n1"),
    "probes of spray": (lambda p: swap_probes(p, "192.0.2.6/udp/53"), "probe of n1"),
    "a backend that is down has no probes": (
        lambda p: vip(p, "192.0.2.1/udp/53")["probes"].pop("far/away/10.0.0.14"),
        "probe of away",
    ),
    "a VIP without a backend has no probes": (
        lambda p: p["vips"].remove(vip(p, "192.0.2.9/udp/53")),
        "probe of g as gone 192.0.2.9",
    ),
    "the MAC of probes": (lambda p: p["probe"].update(mac="02:00:00:00:09:09"), "probe of"),
    "the address of probes": (lambda p: p["probe"].update(ipv4="10.0.1.9"), "answer to probe of s1"),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_wrong_program_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, problem = PROGRAMS[what]
    assert problem in failures(with_wrong_program(LOADED, change, monkeypatch))
