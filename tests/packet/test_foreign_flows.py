# SPDX-License-Identifier: Apache-2.0
"""Flows of others in dnsteer's tables: each verb says what they do to the spec's traffic, and none removes them."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dnsteer.cli.output import Exit
from dnsteer.deploy.goal import FileSource
from dnsteer.deploy.run import Options, preview
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.status.verify import find_drift
from dnsteer.switch.openflow import OpenFlow
from tests.packet.agents import wait
from tests.packet.apply_spec import apply
from tests.packet.command import SLOW, on
from tests.packet.setting_cases import QUERY, SPEC, passes
from tests.packet.switches import BRIDGE, LARGE, NUMBER, PROTECT_TABLE, VIP_TABLE, Switch, unexpected

TAKES_ALL = "table=0,priority=400,ip,actions=drop"
LINE = "cookie=0x0, table=0, priority=400,ip actions=drop"
REMEDY = "ovs-ofctl -O OpenFlow15 --strict del-flows br-dns table=0,priority=400,ip"


@pytest.fixture(scope="module")
def one() -> Iterator[Switch]:
    with Switch() as private:
        private.expected = [*SLOW]
        apply(SPEC, private.database)
        yield private
        assert unexpected(private) == []


@pytest.fixture
def applied(one: Switch) -> Iterator[Switch]:
    """The switch with the spec, and afterwards without what the test has added."""
    assert find_drift(SPEC, one.database) == []
    yield one
    for table in (0, 10, NUMBER["vip"], 200):
        one.ofctl("del-flows", f"table={table},cookie=0/-1")


def packets(switch: Switch) -> int:
    return int(switch.ofctl("dump-flows", "table=0,cookie=0/-1", "--no-names").partition("n_packets=")[2].split(",")[0])


def test_a_flow_that_takes_all_traffic_is_named_by_every_verb(applied: Switch, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(LARGE)
    assert passes(applied, QUERY)
    applied.ofctl("add-flow", TAKES_ALL)
    assert not passes(applied, QUERY)
    wait(lambda: packets(applied) == 1, lambda: "the packet is not counted")
    detail = (
        f"not dnsteer's: {LINE}: it comes before the flows of uplink p0, port vf0 and 2 more and drops the packets that it "
        f"matches (1 packet so far); to remove it: {REMEDY}"
    )
    warning = f"foreign flow in table ingress: {detail}"
    done = {verb: on(applied)(*verb.split(), spec) for verb in ("plan", "apply", "verify")}
    assert [each.code for each in done.values()] == [0, 0, Exit.DIFFERENT]
    for verb in ("plan", "apply"):
        assert done[verb].out == "br-dns: nothing to change\n"
        assert done[verb].err == f"warning: {warning}\n"
        assert on(applied)(verb, spec, "--json").json["warnings"] == [warning]
    assert f"foreign flow: table ingress: {detail}\n" in done["verify"].out
    for options in ([], ["--dry-run"]):
        restored = on(applied)("restore", *options)
        assert (restored.code, restored.err) == (0, f"warning: br-dns: {warning}\n")
        as_json = on(applied)("restore", *options, "--json").json
        assert [each["warnings"] for each in as_json["bridges"]] == [[warning]]
    rolled = on(applied)("rollback", "1", "--dry-run")
    assert f"warning: {warning}\n" in rolled.err
    shown = on(applied)("status", "--no-rates", "--json")
    assert [each["detail"] for each in shown.json["drift"]] == [detail] and shown.code == Exit.DIFFERENT
    env = {**applied.env, "OVS_RUNDIR": str(applied.dir), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(shlex.split(REMEDY), env=env, check=True, timeout=30)
    assert find_drift(SPEC, applied.database) == [] and passes(applied, QUERY)


BEFORE = "it comes before the flows of"
STRAIGHT = "VIP straight 198.51.100.54 port 53/udp"


@pytest.mark.parametrize(
    ("flow", "effect"),
    [
        (
            f"{VIP_TABLE},priority=999,udp,nw_dst=198.51.100.54,actions=drop",
            f"{BEFORE} {STRAIGHT} and drops all of their packets",
        ),
        (
            f"{VIP_TABLE},priority=999,udp,nw_dst=198.51.100.54,nw_src=198.18.0.0/15,actions=goto_table:{NUMBER['slot']}",
            f"{BEFORE} {STRAIGHT} and does something else with the packets that it matches",
        ),
        (
            f"{VIP_TABLE},priority=100,udp,nw_src=198.18.0.0/15,nw_dst=198.51.100.54,actions=drop",
            f"it has the priority of the flows of {STRAIGHT}: of packets that match both either flow may get them",
        ),
        (f"{PROTECT_TABLE},priority=999,actions=drop", f"{BEFORE} the pipeline and drops all of their packets"),
        ("table=0,priority=999,in_port=p0,udp6,actions=drop", f"{BEFORE} uplink p0 and drops"),
    ],
)
def test_the_effect_of_a_foreign_flow_is_named(applied: Switch, flow: str, effect: str) -> None:
    applied.ofctl("add-flow", flow)
    [drift] = find_drift(SPEC, applied.database)
    assert (
        f": {effect}" in drift.detail
        and drift.kind == "foreign flow"
        and "(0 packets so far); to remove it: " in drift.detail
    )
    assert find_drift(SPEC, applied.database, ignore_foreign=True) == []
    [warning] = preview(FileSource(SPEC), TargetSwitch(applied.database), Options()).warnings
    assert warning == f"foreign flow in {drift.about}: {drift.detail}"


@pytest.mark.parametrize(
    "flow",
    [
        f"{VIP_TABLE},priority=999,udp,nw_dst=198.51.100.99,actions=drop",
        "table=0,priority=999,in_port=vf9,ip,actions=drop",
        f"{VIP_TABLE},priority=999,udp,nw_dst=198.51.100.99,actions=goto_table:{NUMBER['slot']}",
        "table=200,priority=999,actions=drop",
    ],
)
def test_a_flow_that_changes_nothing_is_no_warning(applied: Switch, flow: str) -> None:
    if "vf9" in flow:
        applied.vsctl("add-port", BRIDGE, "vf9")
        flow = flow.replace("vf9", applied.vsctl("--", "get", "Interface", "vf9", "ofport").strip())
    applied.ofctl("add-flow", flow)
    found = [each for each in find_drift(SPEC, applied.database) if each.kind == "foreign flow"]
    assert [each.detail.count("to remove it") for each in found] == ([] if "table=200" in flow else [0])
    warnings = preview(FileSource(SPEC), TargetSwitch(applied.database), Options()).warnings
    assert not any("foreign flow" in each for each in warnings)
    if "vf9" in str(warnings):
        applied.vsctl("del-port", BRIDGE, "vf9")


def test_a_flow_that_only_takes_what_would_be_dropped_is_named_once_it_has_packets(applied: Switch) -> None:
    applied.ofctl("add-flow", "table=0,priority=50,arp,in_port=LOCAL,actions=NORMAL")
    warnings = lambda: preview(FileSource(SPEC), TargetSwitch(applied.database), Options()).warnings  # noqa: E731
    assert warnings() == []
    arp = "ffffffffffff0200000000fe08060001080006040001" + "0200000000fe0a350001" + "0000000000000a350002"
    applied.appctl("netdev-dummy/receive", BRIDGE, arp)
    wait(lambda: warnings() != [], lambda: "nothing is said")
    [said] = warnings()
    assert ": it takes packets that dnsteer's flows drop (1 packet so far); to remove it: " in said


def test_the_busiest_foreign_flows_are_named(applied: Switch) -> None:
    for number in range(8):
        applied.ofctl("add-flow", f"{PROTECT_TABLE},priority=900,ip,nw_src=203.0.113.{number},actions=drop")
    applied.ofctl("add-flow", f"{VIP_TABLE},priority=999,udp,nw_dst=198.51.100.99,actions=drop")
    warnings = preview(FileSource(SPEC), TargetSwitch(applied.database), Options()).warnings
    assert len(warnings) == 4
    assert warnings[-1] == "5 more foreign flows take packets; see all: dnsteer verify SPEC"
    found = find_drift(SPEC, applied.database)
    assert len(found) == 9 and "to remove it" not in found[-1].detail


def test_many_flows_with_cookies_of_their_own_are_counted_by_one_dump(
    applied: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [f"cookie={n},table=0,priority=500,udp,tp_dst={n},actions=drop" for n in range(1, 101)]
    applied.ofctl("add-flows", "-", stdin="\n".join(flows))
    client, ran = TargetSwitch(applied.database).client(BRIDGE), list[str]()
    original = OpenFlow.ofctl

    def counted(self: OpenFlow, *args: str, **more: Any) -> str:
        ran.append(args[0])
        return original(self, *args, **more)

    monkeypatch.setattr(OpenFlow, "ofctl", counted)
    found = client.packets([*client.dump().other.values()])
    assert len(found) == 100 and ran.count("dump-flows") <= 2
