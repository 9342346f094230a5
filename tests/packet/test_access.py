# SPDX-License-Identifier: Apache-2.0
"""Access lists on a real switch: what they deny and nothing else, counters and lines of entries, and going back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dnsteer.checks.load import check_document, load_spec
from dnsteer.metrics.collect import read_denials
from dnsteer.plan.build import build_plan
from dnsteer.plan.plan import Plan
from dnsteer.proof.check import prove
from dnsteer.proof.explain import explain_query
from dnsteer.proof.harness import switch
from dnsteer.proof.harness.switch import Harness
from dnsteer.proof.reference.outcome import Frame
from dnsteer.proof.reference.packets import Reference
from dnsteer.proof.traffic import craft
from dnsteer.proof.traffic.senders import Senders
from dnsteer.render.flows import Flow, parse_flow
from dnsteer.spec.loaded import Loaded
from dnsteer.spec.model.access import AccessEntry, AccessRules
from dnsteer.spec.model.spec import Protocol
from dnsteer.spec.read import parse_document
from dnsteer.status.denying_flows import DENYING_FLOWS
from dnsteer.switch.tools import run
from dnsteer.tables.order import PIPELINE
from tests.packet.command import FARM, on
from tests.packet.switches import EXAMPLES, Switch
from tests.unit.test_access import entries

EXAMPLE = EXAMPLES / "access.yaml"
PROBED = """\
apiVersion: dnsteer/v1
switch:
  flavor: ovs-netdev
  bridge: br-dns
  mac: 02:00:00:00:00:53
  gateways: [10.53.0.1]
  uplinks: {p0: {next_hop: '02:00:00:00:00:fe'}}
  ports: {vf0: }
  probe: {addresses: [10.53.0.9/24]}
  access: {allow: [172.16.0.0/12, '2001:db8:9::/48']}
pools:
  hashed:
    selection: dp-hash
    slots: 4
    backends: [{name: a, ipv4: 10.53.0.11, mac: '02:00:00:00:01:01', port: vf0}]
vips:
  dns: {addresses: [192.0.2.53], services: [dns], pool: hashed, forwarding: nat}
"""


def test_the_example_is_proven() -> None:
    report = prove(load_spec(EXAMPLE))
    assert report.ok
    assert report.recirculations >= 160
    assert report.packets["unusual"] > 100
    assert report.masks <= 6


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(entries(), min_size=1, max_size=6), st.lists(entries(), max_size=6), st.lists(entries(), max_size=6))
def test_a_switch_does_what_plain_lists_say(
    deny: list[AccessEntry], allow: list[AccessEntry], of_vip: list[AccessEntry]
) -> None:
    """With a list of the switch and one of a VIP: both must let a query pass. Every edge of every prefix is tried."""
    loaded = load_spec(EXAMPLE)
    switch = loaded.spec.switch.model_copy(update={"access": AccessRules(deny=deny, allow=allow)})
    own = AccessRules(allow=of_vip) if of_vip else None
    vips = {**loaded.spec.vips, "resolver": loaded.spec.vips["resolver"].model_copy(update={"access": own})}
    spec = loaded.spec.model_copy(update={"switch": switch, "vips": vips})
    report = prove(Loaded(spec, loaded.document, ()), per_service=4)
    assert report.ok, report.failures[:2]


def test_probes_and_what_follows_are_not_listed() -> None:
    """Probes of the agent come from an address that the closed list does not allow."""
    report = prove(check_document(parse_document("spec.yaml", PROBED)))
    assert report.ok, report.failures[:2]


def test_what_nobody_may_ask_is_not_said_to_be_covered() -> None:
    closed = PROBED.replace(", '2001:db8:9::/48'", "").replace(
        "ipv4: 10.53.0.11,", "ipv4: 10.53.0.11, ipv6: 'fd00::11',"
    )
    closed = closed.replace("[192.0.2.53]", "[192.0.2.53, '2001:db8::53']").replace(
        "[10.53.0.1]", "[10.53.0.1, 'fd00::1']"
    )
    report = prove(check_document(parse_document("spec.yaml", closed)))
    assert report.ok, report.failures[:2]
    assert report.coverage == "every slot of each service, but for 2 services that no client may ask"


Change = Callable[[Flow], Flow | None]


def _changed(when: Callable[[Flow], bool], change: Change) -> Change:
    return lambda flow: change(flow) if when(flow) else flow


BREAKS: dict[str, Change] = {
    "an entry that denies is gone": _changed(
        lambda f: "nw_src=203.0.113.0/24" in f.match and "goto_table" not in f.actions, lambda f: None
    ),
    "an entry that allows denies": _changed(
        lambda f: "203.0.113.32/27" in f.match, lambda f: replace(f, actions=f.actions.partition(",")[0])
    ),
    "the list of a VIP is left out": _changed(
        lambda f: f.table == PIPELINE.tables["access"].number and "->reg10" in f.actions,
        lambda f: replace(f, actions=f.actions.partition(",")[2]),
    ),
    "an entry with a port is for all": _changed(
        lambda f: "reg11=0x355" in f.match, lambda f: replace(f, match=f.match.replace(",reg11=0x355", ""))
    ),
    "a prefix is a bit longer": _changed(
        lambda f: "ipv6_src=2001:db8:bad::/48" in f.match,
        lambda f: replace(f, match=f.match.replace("/48", "/49")),
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_check_finds_a_mistake_in_the_flows_of_a_list(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = switch.lines_of

    def wrong(plan: Plan, *, check: bool = False) -> list[str]:
        flows = [parse_flow(line) for line in original(plan, check=check)]
        changed = [BREAKS[what](flow) for flow in flows]
        assert changed != flows
        return [flow.line() for flow in changed if flow is not None]

    monkeypatch.setattr(switch, "lines_of", wrong)
    assert not prove(load_spec(EXAMPLE)).ok


def test_an_entry_is_named_with_its_line_and_counts_what_it_denies(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(EXAMPLE.read_text().replace("    deny:\n", "    deny_file: denied.txt\n    deny:\n"))
    (tmp_path / "denied.txt").write_text("# one\n\n192.0.0.0/9 53  # two\n")
    loaded = load_spec(spec)
    path = explain_query(loaded, ip_address("192.1.2.3"), 40001, ip_address("192.0.2.53"), 53, Protocol.UDP, "p0")
    assert path.as_expected
    assert path.out == ()
    assert (path.steps[-1].about, path.steps[-1].part, path.steps[-1].line) == (
        "deny 192.0.0.0/9 port 53 of switch.access",
        "denied.txt",
        3,
    )
    admitted = explain_query(loaded, ip_address("192.200.2.3"), 40001, ip_address("192.0.2.53"), 53, Protocol.UDP, "p0")
    assert admitted.as_expected
    assert admitted.passes == 2
    assert [step.table for step in admitted.steps][-5:] == ["admit", "vip", "slot", "forward", "egress"]
    reference = Reference(loaded.spec)
    senders = Senders(loaded.spec, reference, None)
    service = next(iter(reference.services.values()))
    with Harness(build_plan(loaded)) as harness:
        frames = []
        for nth in range(7):
            headers = senders.query_headers(service, "p0")
            client = ip_address("192.1.2.3").packed if nth < 5 else ip_address("192.200.2.3").packed
            frames.append(Frame("p0", craft.query(replace(headers, source=client), service.protocol)))
        assert len(harness.send(frames)) == 2
        harness.forget_megaflows()  # which counts what they have forwarded
        bridge = f"unix:{harness.switch.dir}/{harness.plan.bridge}.mgmt"
        found = list(read_denials(run(["ovs-ofctl", "-O", "OpenFlow15", "dump-flows", bridge, DENYING_FLOWS])))
    assert [reading.values[0] for _, reading in found] == [5]


def test_going_back_needs_no_list_file(applied: Switch, tmp_path: Path) -> None:
    """And `plan` says which entries an apply adds and removes."""
    listed = FARM.replace("  uplinks:\n", "  access: {deny_file: denied.txt}\n  uplinks:\n")
    spec, denied = tmp_path / "listed.yaml", tmp_path / "denied.txt"
    spec.write_text(listed)
    denied.write_text("203.0.113.0/24\n2001:db8:bad::/48 53\n")
    assert on(applied)("apply", str(spec), "--yes").code == 0
    first = applied.flows()
    assert any("nw_src=203.0.113.0/24" in flow for flow in first)
    denied.write_text("203.0.113.0/24\n198.51.100.0/24\n")
    told = on(applied)("plan", str(spec)).out
    assert "access.deny +1 entry: 198.51.100.0/24; -1 entry: 2001:db8:bad::/48 port 53" in told
    assert on(applied)("apply", str(spec), "--yes").code == 0
    assert applied.flows() != first
    denied.unlink()
    assert on(applied)("rollback", "--yes").code == 0
    assert applied.flows() == first
    shown = on(applied)("show").out
    assert "denied.txt:2" in shown
    gone = on(applied)("apply", str(spec), "--yes")
    assert gone.code != 0
    assert '"denied.txt", which is not there' in gone.err
    assert applied.flows() == first
