# SPDX-License-Identifier: Apache-2.0
"""Bonds of uplinks: what comes in by any member leaves by the active one, now and after its link went down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.l2 import ARP
from scapy.utils import rdpcap

from dnsteer.checks.load import load_spec
from dnsteer.lab.topology import TopologyError, plan_network
from dnsteer.plan.build import build_plan
from dnsteer.plan.sizes import sizes_of
from dnsteer.proof.check import prove
from dnsteer.render import templates
from tests.packet.agents import Agent, agent, wait
from tests.packet.command import fresh, on, spec_file
from tests.packet.scraping import METRICS, address, scrape, value
from tests.packet.switches import EXAMPLES, Switch

EXAMPLE = (EXAMPLES / "bond.yaml").read_text()
MEMBERS = "members:\n        p0:\n        p1:\n"
FOLLOWED = """  probe: {port: probe0, addresses: [10.53.0.2/24, "2001:db8:53::2/64"], watch: true}
  gratuitous:"""


def checked(folder: Path, text: str) -> tuple[list[str], int]:
    """The problems that `check` finds, and the megaflows that it saw."""
    report = prove(load_spec(spec_file(folder, text)))
    return [failure.problem for failure in report.failures], report.megaflows


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.replace("  gratuitous:", FOLLOWED),
        lambda text: text.replace("    vm1:\n", "    vm1: {answers: bond0}\n").replace("  ports:", "    p2:\n  ports:"),
        lambda text: text.replace(MEMBERS, "members: {en-p0.1: {}, p1: {}, p3: {type: dummy}}\n").replace(
            "mode: active-backup", ""
        ),
        lambda text: text.replace("forwarding: nat", "forwarding: dsr"),
    ],
    ids=["one-armed and on a port", "neighbours watched", "beside another uplink", "three members", "dsr"],
)
def test_all_leaves_by_the_active_member(change: Callable[[str], str], tmp_path: Path) -> None:
    text = change(EXAMPLE)
    problems, megaflows = checked(tmp_path, text)
    assert problems == []
    if text == EXAMPLE:
        loaded = load_spec(tmp_path / "spec.yaml")
        plan = build_plan(loaded)
        assert len([p for p in sizes_of(loaded.spec, plan).crossing.split() if p == "p1"]) == 1
        assert megaflows == 536  # 64 slots x 2 members x 2 transports x 2 families, and answers by 3 ports


def test_check_sees_what_leaves_by_the_wrong_member(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right, filters = templates.active_member, templates.environment().filters
    monkeypatch.setitem(filters, "active", lambda members: right(members[::-1]))
    problems, _ = checked(tmp_path, EXAMPLE)
    assert any("left by port p1, not bond0" in problem for problem in problems)


def test_the_lab_has_no_partner_for_a_bond() -> None:
    with pytest.raises(TopologyError, match="uplink bond0 is a bond, and the lab has no partner"):
        plan_network(load_spec(EXAMPLES / "bond.yaml").spec)


def scraped(running: Agent) -> tuple[float | None, ...]:
    """What /metrics says of the members of bond0: whether p0 and p1 are up, and whether they are active."""
    found = scrape(address(running))
    return tuple(
        value(found, f"dnsteer_uplink_member_{what}", uplink="bond0", member=member)
        for what in ("up", "active")
        for member in ("p0", "p1")
    )


def arps(folder: Path, port: str) -> int:
    """How many ARP announcements have left by a port."""
    return sum(packet.haslayer(ARP) for packet in rdpcap(f"{folder}/{port}.pcap"))


def test_the_agent_tells_the_network_of_another_active_member(shared: Switch, tmp_path: Path) -> None:
    fresh(shared)
    members = ", ".join(f"{p}: {{type: dummy, options: {{tx_pcap: {tmp_path}/{p}.pcap}}}}" for p in ("p0", "p1"))
    text = EXAMPLE.replace(MEMBERS, f"members: {{{members}}}\n").replace("vm1:\n", "vm1: {type: dummy}\n", 1)
    done = on(shared)("apply", spec_file(tmp_path, text.replace("  gratuitous:", "  gratuitous: {repeat: 1}")), "--yes")
    assert done.code == 0, done.err
    assert on(shared)("verify", tmp_path / "spec.yaml").code == 0
    with agent(shared, tmp_path, "metrics at", "agent", *METRICS) as running:
        running.waits_for("told neighbours of")
        wait(lambda: scraped(running) == (1, 1, 1, 0), running.said)
        assert arps(tmp_path, "p0") and not arps(tmp_path, "p1")
        shared.appctl("netdev-dummy/set-admin-state", "p0", "down")
        running.waits_for("p0 of bond0 is down, p1 is active")
        wait(lambda: arps(tmp_path, "p1"), running.said)
        wait(lambda: scraped(running) == (0, 1, 0, 1), running.said)
        seen = on(shared)("status", "--no-rates", "--json").json["bonds"]
        assert [(m["name"], m["link"], m["active"]) for m in seen[0]["members"]] == [
            ("p0", "down", False),
            ("p1", "up", True),
        ]
        assert "bond     bond0 (active-backup): p0 down; p1 up, active" in on(shared)("status", "--no-rates").out
        on(shared)("report", "-o", tmp_path / "report.html")
        assert '<span class="word bad">p0 down</span><br>p1 up, active' in (tmp_path / "report.html").read_text()
        shared.appctl("netdev-dummy/set-admin-state", "p0", "up")
        running.waits_for("all members of bonds are up again")
        shared.appctl("netdev-dummy/set-admin-state", "p0", "down")
        shared.appctl("netdev-dummy/set-admin-state", "p1", "down")
        running.waits_for("p0, p1 of bond0 are down, no member is active")
        shared.appctl("netdev-dummy/set-admin-state", "p0", "up")
        shared.appctl("netdev-dummy/set-admin-state", "p1", "up")
