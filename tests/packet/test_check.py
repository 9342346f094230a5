# SPDX-License-Identifier: Apache-2.0
"""`check` on a real switch: the examples and random specs pass, and every way of breaking the flows is seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from dnsteer.checks.load import check_document, load_spec
from dnsteer.plan.plan import Plan
from dnsteer.proof import check_report as proof_report
from dnsteer.proof.check import prove
from dnsteer.proof.harness import switch
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.slots import weights as slots_by_weight
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.read import parse_document
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.order import PIPELINE
from tests.packet.switches import EGRESS_TABLE, NUMBER, SLOT_TABLE, VIP_TABLE
from tests.strategies import specs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_examples_pass_the_proof(file: Path) -> None:
    report = prove(load_spec(file))
    assert report.ok, report.failures[:1]
    assert {"query", "drop", "echo", "neighbor", "unusual"} <= set(report.packets)


@pytest.mark.parametrize("example", ["own-ports", "siit"])
def test_vlan_tagged_frames_pass_the_proof(example: str) -> None:
    """Tagged frames pass then, each with its tag."""
    text = (ROOT / "examples" / f"{example}.yaml").read_text()
    served, dropped = (
        prove(
            check_document(parse_document("spec.yaml", text.replace("  uplinks:", f"  vlans: {vlans}\n  uplinks:", 1)))
        )
        for vlans in ("any", "untagged")
    )
    assert served.ok, served.failures[:1]
    assert dropped.ok, dropped.failures[:1]
    assert served.packets["unusual"] > dropped.packets["unusual"]
    assert served.masks == dropped.masks


@settings(max_examples=18, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_random_specs_pass_the_proof(loaded: Loaded) -> None:
    report = prove(loaded)
    assert report.ok, (report.failures[:1], report.complaints)


def test_source_port_takes_one_pass_and_one_megaflow_per_slot() -> None:
    report = prove(load_spec(ROOT / "examples" / "quickstart.yaml"))
    assert report.recirculations == 0
    assert report.megaflows == 4 * 64  # two families, two protocols, 64 slots
    assert report.masks == 2  # one per family


def _tables(*names: str) -> set[int]:
    return {PIPELINE.tables[name].number for name in names}


_UNTAGGED = ",vlan_tci=0x0000/0x0fff"
BREAKS = {
    # what is broken: (example, whether a flow is touched, what becomes of it: None removes it)
    "a slot names another backend": (
        "one-armed-nat",
        lambda f: f.table in _tables("slot") and f.priority and f.match.endswith("reg1=0x5"),
        lambda f: replace(f, actions="drop"),
    ),
    "a responder is missing": ("quickstart", lambda f: f.match.startswith("arp,reg6"), None),
    **{
        f"{what} in every VLAN": (
            "quickstart",
            lambda f, shape=shape: f.table in _tables("ingress") and f.priority in (200, 300, 310) and shape(f),
            lambda f: replace(f, match=f.match.replace(_UNTAGGED, "")),
        )
        for what, shape in (
            ("ARP is answered", lambda f: f.match.startswith("arp,")),
            ("solicitations are answered", lambda f: "icmp_type=135" in f.match),
            ("echo requests are answered", lambda f: f.match.startswith("icmp,")),
            (
                "echo requests over IPv6 are answered",
                lambda f: f.match.startswith("icmp6,") and "icmp_type" not in f.match,
            ),
            ("queries are served", lambda f: f.priority == 200),
        )
    },
    "the advertisement's flags are wrong": (
        "quickstart",
        lambda f: "nd_reserved" in f.actions and f.priority == 100,
        lambda f: replace(f, actions=f.actions.replace("1610612736", "536870912")),
    ),
    "the TTL is decremented": (
        "quickstart",
        lambda f: f.table in _tables("egress") and f.priority,
        lambda f: replace(f, match=f"ip,{f.match}", actions=f"dec_ttl,{f.actions}"),
    ),
    "the source MAC stays": (
        "quickstart",
        lambda f: f.table in _tables("egress") and f.priority,
        lambda f: replace(f, actions="IN_PORT"),
    ),
    "answers keep the backend's address": (
        "one-armed-nat",
        lambda f: f.table in _tables("return") and f.match.startswith("udp,nw_src=10.53.0.11,nw_frag=no,"),
        lambda f: replace(f, actions=f"goto_table:{NUMBER['egress']}"),
    ),
    "fragments are rewritten without the connection tracker": (
        "one-armed-nat",
        lambda f: "ct(" in f.actions,
        lambda f: replace(f, actions=f"set_field:198.51.100.53->ip_src,goto_table:{NUMBER['egress']}"),
    ),
    "IPv6 later fragments are forgotten": ("one-armed-nat", lambda f: "nw_proto=44" in f.match, None),
    "the target port is forgotten": (
        "own-ports",
        lambda f: "->udp_dst" in f.actions and "ipv6" in f.match,
        lambda f: replace(f, actions=f.actions.replace("set_field:5353->udp_dst,", "")),
    ),
    "queries are let in at a backend's port": (
        "own-ports",
        lambda f: f.match == f"ip,in_port=vf0{_UNTAGGED},dl_dst=02:00:00:00:00:52",
        lambda f: replace(f, match="in_port=vf0", actions=f"set_field:0x1->reg4,goto_table:{NUMBER['protect']}"),
    ),
    "answers leave by the wrong MAC": (
        "two-uplinks",
        lambda f: f.table in _tables("egress") and "02:00:00:00:00:fe" in f.actions,
        lambda f: replace(f, actions=f.actions.replace("00:fe", "00:fd")),
    ),
    "ports are told apart by their low bits alone": (
        "quickstart",
        lambda f: f.match in ("udp,tp_dst=53", "udp,nw_dst=192.0.2.53,tp_dst=53"),
        lambda f: replace(f, match=f.match.replace("tp_dst=53", "tp_dst=0x35/0xff")),
    ),
    "what the connection tracker did not translate goes on": (
        "one-armed-nat",
        lambda f: (f.table in _tables("fragment") and f.priority == 10) or "ct(" in f.actions,
        lambda f: (
            replace(f, actions=f.actions.replace(",nat(src=198.51.100.53)", ""))
            if "ct(" in f.actions
            else replace(f, actions=f"goto_table:{NUMBER['egress']}")
        ),
    ),
    "probes go where clients' queries go": (
        "authoritative",
        lambda f: f.table in _tables("slot") and "reg8=" in f.match,
        None,
    ),
    "probes go to another backend": (
        "authoritative",
        lambda f: f.table in _tables("slot") and "reg8=0x996" in f.match,
        lambda f: replace(f, actions=f"set_field:0x1c19cd->reg2,goto_table:{NUMBER['forward']}"),
    ),
    "clients choose their backend as probes do": (
        "authoritative",
        lambda f: (
            (f.table in _tables("slot") and "reg8=" in f.match)
            or f.match == f"ip,in_port=p0{_UNTAGGED},dl_dst=02:00:00:00:00:53"
        ),
        lambda f: (
            replace(f, match=f.match.replace(",reg4=0x3", ""))
            if "reg8=" in f.match
            else replace(
                f,
                match=f"udp{f.match.removeprefix('ip')}",
                actions="move:NXM_OF_UDP_SRC[4..15]->NXM_NX_REG8[0..11]," + f.actions,
            )
        ),
    ),
    "answers to probes keep the backend's address": (
        "authoritative",
        lambda f: f.table in _tables("return") and f.match.startswith("udp,nw_src=10.53.0.11,nw_frag=no,"),
        lambda f: replace(f, actions=f"goto_table:{NUMBER['egress']}"),
    ),
    "the port for probes gets what is sent to any address": (
        "authoritative",
        lambda f: f.table in _tables("egress") and f.match == "ip,reg4=0x4,nw_dst=192.0.2.9",
        lambda f: replace(f, match="ip,reg4=0x4"),
    ),
    "the port for probes gets what comes from any address": (
        "authoritative",
        lambda f: f.table in _tables("return") and f.match == "udp,reg4=0x4,nw_src=192.0.2.53,nw_frag=no",
        lambda f: replace(f, match="udp,reg4=0x4,nw_frag=no"),
    ),
    "the address of probes has another MAC": (
        "authoritative",
        lambda f: f.match.startswith("arp,arp_tpa=192.0.2.9,"),
        lambda f: replace(f, actions=f.actions.replace("00:00:51", "00:00:53")),
    ),
    "what comes by the port for probes is taken for a query of a client": (
        "authoritative",
        lambda f: f.table in _tables("ingress") and "in_port=probe0" in f.match,
        lambda f: replace(f, actions=f.actions.replace("set_field:0x3->reg4", "set_field:0x1->reg4")),
    ),
    "unknown ports are let through": (
        "quickstart",
        lambda f: f.table in _tables("protect", "port", "vip") and f.match.startswith("udp,") and "tp_dst=" in f.match,
        lambda f: replace(f, match=f.match.partition(",tp_dst=")[0]),
    ),
    "a window has other bits than the VIP": (
        "quickstart",
        lambda f: f.table in _tables("address3") and f.match == "ipv6,ipv6_dst=2001:db8::/92",
        lambda f: replace(f, match="ipv6,ipv6_dst=2001:db8::10:0:0/92"),
    ),
    "addresses beside a VIP are let through": (
        "quickstart",
        lambda f: f.table in _tables("address7", "vip") and "2001:db8::53" in f.match,
        lambda f: replace(f, match=f.match.replace("2001:db8::53", "2001:db8::/119")),
    ),
    "a router's packets are taken for answers": (
        "one-armed-nat",
        lambda f: f.table in _tables("return") and "dl_src=" in f.match,
        None,
    ),
}


def break_flows(
    monkeypatch: pytest.MonkeyPatch, touches: Callable[[Flow], object], change: Callable[[Flow], Flow] | None
) -> list[Flow]:
    """Have the switch load flows that were changed (None: removed) where *touches* says so; these, once it has."""
    original = switch.lines_of
    touched: list[Flow] = []

    def broken(plan: Plan, **_: bool) -> list[str]:
        flows = []
        for flow in map(parse_flow, original(plan)):
            if touches(flow):
                touched.append(flow)
                if change is None:
                    continue
                flows.append(change(flow))
            else:
                flows.append(flow)
        return [flow.line() for flow in flows]

    monkeypatch.setattr(switch, "lines_of", broken)
    return touched


@pytest.mark.parametrize("what", BREAKS)
def test_broken_flows_are_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example, touches, change = BREAKS[what]
    touched = break_flows(monkeypatch, touches, change)
    report = prove(load_spec(ROOT / "examples" / f"{example}.yaml"))
    assert touched
    assert not report.ok
    assert report.failures[0].detail


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("priority=100,reg4=0x1,reg5=0 actions=", "priority=100,ip,reg4=0x1,reg5=0 actions=set_field:5->ip_dscp,"),
        (",tp_dst=53 actions=", " actions="),
    ],
    ids=["left with wrong bytes", "left though they should be dropped"],
)
def test_failures_that_are_not_kept_are_counted_alike(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    original = switch.lines_of
    monkeypatch.setattr(switch, "lines_of", lambda plan, **_: [line.replace(old, new) for line in original(plan)])
    loaded = load_spec(ROOT / "examples" / "quickstart.yaml")
    monkeypatch.setattr(proof_report, "_MAX_FAILURES", 2)
    some = prove(loaded)
    monkeypatch.setattr(proof_report, "_MAX_FAILURES", 10**6)
    every = prove(loaded)
    assert len(every.failures) == every.failed == some.failed > len(some.failures) == 2
    assert [f.vector for f in every.failures[:2]] == [f.vector for f in some.failures]


def test_a_failure_shows_the_trace_of_its_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries to one backend are dropped, those to another leave with a wrong MAC: neither is shown for the other."""
    rewrite = f"actions=set_field:02:00:00:00:01:0{{}}->eth_dst,set_field:0->reg5,goto_table:{NUMBER['egress']}"
    broken = {rewrite.format(2): "actions=drop", rewrite.format(3): rewrite.format(9)}
    touched = break_flows(
        monkeypatch,
        lambda f: f"actions={f.actions}" in broken,
        lambda f: replace(f, actions=broken[f"actions={f.actions}"].removeprefix("actions=")),
    )
    report = prove(load_spec(ROOT / "examples" / "quickstart.yaml"))
    assert len(touched) == 4
    seen = set()
    for failure in report.failures:
        text = "\n".join(failure.detail)
        came, *left = re.findall(r"^(?:in|left): .*, (\S+ > \S+) ttl \d+, (.*)", text, re.MULTILINE)
        assert all(each == came for each in left), "DSR leaves addresses, ports and the question alone"
        seen.add((failure.problem, re.findall(r"02:00:00:00:01:0\d", text)[0]))
    assert seen == {("was dropped", "02:00:00:00:01:02"), ("left with wrong bytes", "02:00:00:00:01:03")}


@pytest.mark.parametrize(
    ("example", "old", "new", "problem", "shown"),
    [
        (
            "quickstart",
            "priority=100,reg4=0x1,reg5=0 actions=",
            "priority=100,ip,reg4=0x1,reg5=0 actions=set_field:5->ip_dscp,",
            "left with wrong bytes",
            " tos 0x14, udp ",
        ),
        ("own-ports", "actions=output:vf0", "actions=output:vf1", "left by port vf1, not vf0", ""),
    ],
)
def test_a_failure_says_whether_bytes_or_port_are_wrong(
    monkeypatch: pytest.MonkeyPatch, example: str, old: str, new: str, problem: str, shown: str
) -> None:
    original = switch.lines_of
    monkeypatch.setattr(switch, "lines_of", lambda plan, **_: [line.replace(old, new) for line in original(plan)])
    report = prove(load_spec(ROOT / "examples" / f"{example}.yaml"))
    assert any(f.problem == problem and shown in "".join(f.detail) for f in report.failures), report.failures[:1]


@pytest.mark.parametrize(
    ("example", "old", "new", "lines"),
    [
        (
            "quickstart",
            "set_field:02:00:00:00:01:02->",
            "set_field:02:00:00:00:01:09->",
            ["$.vips.dns", "$.pools.authoritative.backends[1]"],
        ),
        ("one-armed-nat", "set_field:198.51.100.53->ip_src", "set_field:198.51.100.99->ip_src", ["$.vips.resolver"]),
    ],
)
def test_a_failure_names_the_lines_of_the_spec(
    monkeypatch: pytest.MonkeyPatch, example: str, old: str, new: str, lines: list[str]
) -> None:
    """Of its VIP, for queries and answers, and of the backend that a query should have reached."""
    original, loaded = switch.lines_of, load_spec(ROOT / "examples" / f"{example}.yaml")
    monkeypatch.setattr(switch, "lines_of", lambda plan, **_: [line.replace(old, new) for line in original(plan)])
    report = prove(loaded)
    assert report.failures
    for failure in report.failures:
        found = [line.split(maxsplit=2)[1:] for line in failure.detail if line.startswith("spec:")]
        assert [path for _, path in found] == lines
        for place, path in found:
            name = path.rpartition(".")[2] if "backends" not in path else "ns2"
            assert name in Path(loaded.file).read_text().splitlines()[int(place.rpartition(":")[2]) - 1]


@pytest.mark.parametrize(
    ("added", "why"),
    [
        (
            f", {VIP_TABLE}, priority=0 actions=goto_table:{NUMBER['slot']}",
            "tables/vip.j2: two flows of one table have the same priority and match: ",
        ),
        (
            f", {VIP_TABLE}, priority=9,ip,nw_dst=10.0.0.0/8,tp_dst=0/0 actions=drop",
            r"(?s)vip.j2: the switch shows a flow otherwise .*or add .*rendered: .*/8,tp_dst=0/0 .*shown: .*/8 actions=drop",
        ),
        (
            f", {SLOT_TABLE}, priority=9,ip,reg0=0x1,reg9=0x5 actions=set_field:5->reg2,goto_table:{NUMBER['forward']}",
            r"(?s)tables/slot.j2: .*rendered: .*set_field:5->reg2.*shown: .*set_field:0x5->reg2",
        ),
        (
            f", {EGRESS_TABLE}, priority=9,udp,tp_srcc=53 actions=IN_PORT",
            "tables/egress.j2: the private switch refuses a flow: .*unknown keyword tp_srcc: .*tp_srcc=53",
        ),
        (
            f", {EGRESS_TABLE}, priority=9 actions=dec_ttl,IN_PORT",
            "the private switch refuses what the templates make: .* whose protocol it does not match",
        ),
    ],
)
def test_flows_that_a_switch_cannot_hold_say_why(monkeypatch: pytest.MonkeyPatch, added: str, why: str) -> None:
    """Whoever edits a template reads what is wrong with it, and not that of one of 100,000 flows something differs."""
    original = switch.lines_of
    monkeypatch.setattr(switch, "lines_of", lambda plan, **_: [*original(plan), f"cookie=0xd453010000000001{added}"])
    with pytest.raises(SwitchError, match=why):
        prove(load_spec(ROOT / "examples" / "quickstart.yaml"))


def test_a_bucket_for_the_wrong_backend_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """dp-hash slots cannot be predicted, but a bucket without a backend loses its packets."""
    original = switch.groups_of

    def broken(plan):
        return [
            replace(g, text=re.sub(r"(bucket_id:3,actions=set_field:)0x\w+", r"\g<1>0x999999", g.text))
            for g in original(plan)
        ]

    monkeypatch.setattr(switch, "groups_of", broken)
    assert not prove(load_spec(ROOT / "examples" / "own-ports.yaml")).ok


@pytest.fixture
def swapped_slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plan assigns two slots of each pool the wrong way round: flows, groups and program agree with each other."""
    original = slots_by_weight.assign

    def swapped(weights: Mapping[str, int], slots: int) -> tuple[str, ...]:
        owners = list(original(weights, slots))
        other = next(slot for slot, owner in enumerate(owners) if owner != owners[0])
        owners[0], owners[other] = owners[other], owners[0]
        return tuple(owners)

    slots_by_weight._base.cache_clear()
    monkeypatch.setattr(slots_by_weight, "assign", swapped)
    yield
    slots_by_weight._base.cache_clear()


@pytest.mark.usefixtures("swapped_slots")
@pytest.mark.parametrize("example", ["quickstart", "one-armed-nat", "ipip", "siit", "client-hash", "spray"])
def test_a_wrong_slot_assignment_of_the_plan_is_seen(example: str) -> None:
    """By its packets where the slot of a query is known, by what the extension's program holds where it is not."""
    report = prove(load_spec(ROOT / "examples" / f"{example}.yaml"))
    assert not report.ok
    assert any("slot 0" in f.problem or "slot 0 of" in line for f in report.failures for line in (*f.detail, ""))
