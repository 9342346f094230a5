# SPDX-License-Identifier: Apache-2.0
"""`verify --offload` of a spec with an extension: the flows of its ports are the spec's, and judged like all others."""

from __future__ import annotations

from functools import cache

import pytest

from dnsteer.checks.load import load_spec
from dnsteer.offload.datapath_flow import DatapathFlow, read_flow
from dnsteer.offload.observe import Observation, RunningSwitch, observe
from dnsteer.offload.profile import profile
from dnsteer.plan.build import build_plan
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.packets import Frame, Reference
from dnsteer.proof.traffic.vectors import vectors
from dnsteer.spec.loaded import Loaded
from tests.packet.linted_examples import ROOT, changed
from tests.packet.test_verify_offload import DATAPATH, ON, Recorded

EXTENDED = ("client-hash", "ipip", "siit", "spray")
DOCA = ("flavor: ovs-netdev", "flavor: ovs-doca")
CONFIG = {**ON, "hw-offload-ct-size": "0"}


@cache
def lines(example: str) -> tuple[str, ...]:
    """The datapath flows of usual queries and answers, as a real switch makes them."""
    loaded = load_spec(ROOT / "examples" / f"{example}.yaml")
    usual = [v for v in vectors(loaded.spec, Reference(loaded.spec)) if v.kind in ("query", "answer")]
    with Harness(build_plan(loaded)) as harness:
        harness.send(Frame(v.port, v.data) for v in usual)
        dumped = harness.switch.dump("dpctl/dump-flows", "-m").splitlines()
    return tuple(line for line in dumped if line.startswith("ufid:"))


def on_doca(example: str) -> Loaded:
    return changed(example, DOCA)


def observed(example: str, here: tuple[str, ...], lost: tuple[str, ...] = ()) -> Observation:
    found = Recorded(
        [
            {
                "offloaded": [line.replace("dp:ovs", "offloaded:yes, dp:doca") for line in here],
                "non-offloaded": list(lost),
            }
        ]
    )
    return observe(
        on_doca(example), profile("ovs-doca"), found, RunningSwitch(DATAPATH, CONFIG, {}), wait=lambda _: None
    )


def port_of(line: str) -> str:
    flow = read_flow(line)
    assert isinstance(flow, DatapathFlow)
    found = flow.get("in_port")
    return str(found.value) if found is not None else ""


@pytest.mark.parametrize("example", EXTENDED)
def test_flows_to_and_from_the_extension_are_in_hardware(example: str) -> None:
    every = lines(example)
    ports = {port_of(line) for line in every}
    assert {"p0", "ext-out"} <= ports <= {"p0", "ext-in", "ext-out"}
    seen = observed(example, every)
    assert (seen.ok, len(seen.flows), seen.count("yes")) == (True, len(every), len(every))
    assert all(o.owners for o in seen.flows)
    assert seen.surprising == []
    assert seen.as_json()["extension_ports"] == ["ext-in", "ext-out"]


@pytest.mark.parametrize("example", EXTENDED)
def test_a_flow_back_from_the_extension_that_is_not_in_hardware_is_named(example: str) -> None:
    every = lines(example)
    back = next(line for line in every if port_of(line) == "ext-out")
    seen = observed(example, tuple(line for line in every if line != back), (back,))
    (missing,) = seen.missing
    vips = {"client-hash": "resolver", "ipip": "dns", "siit": "dns4", "spray": "dns-udp"}
    assert not seen.ok and {owner.vip for owner in missing.owners} == {vips[example]}
    assert {owner.direction for owner in missing.owners} == {"query"}


def test_translated_answers_are_those_of_their_vip_both_ways() -> None:
    seen = observed("siit", lines("siit"))
    answers = [o for o in seen.flows if {owner.direction for owner in o.owners} == {"answer"}]
    by_vip = {vip: {port_of(o.flow.text) for o in answers if o.owners[0].vip == vip} for vip in ("dns4", "dns6")}
    assert by_vip == {"dns4": {"p0", "ext-in"}, "dns6": {"p0"}}


def test_a_port_of_the_extension_that_no_eswitch_has_is_known() -> None:
    """As a veth pair to the software model: the flows to it cannot be in hardware."""
    loaded = changed("ipip", DOCA, ("{port: ext-in}", "{port: ext-in, type: system}"))
    there = [line for line in lines("ipip") if port_of(line) == "p0"]
    found = Recorded([{"non-offloaded": there}])
    seen = observe(loaded, profile("ovs-doca"), found, RunningSwitch(DATAPATH, CONFIG, {}), wait=lambda _: None)
    assert seen.ok and {o.predicted.verdict for o in seen.flows} == {"partial"}
