# SPDX-License-Identifier: Apache-2.0
"""Two switches with bridges of one name in one Prometheus: what alerts and dashboard say of the one that is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packet.agents import Agent
from tests.packet.announcing import kill_database
from tests.packet.command import SLOW, on, spec_file
from tests.packet.prometheus import Prometheus, fires, needs_prometheus, wait
from tests.packet.scraping import METRICS, address
from tests.packet.switches import Switch
from tests.unit.test_dashboard import expression

pytestmark = needs_prometheus
EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", "Connection refused", *SLOW]
NAMES = ("dpu-1", "dpu-2")


@dataclass
class Pair:
    """Two switches with the same VIPs and bridges of one name, their agents, and a Prometheus that scrapes both."""

    switches: dict[str, Switch]
    agents: dict[str, Agent]
    prometheus: Prometheus

    def role(self, name: str, role: str) -> None:
        """Tell a switch its role."""
        done = on(self.switches[name])("role", role)
        assert done.code == 0, done.err

    def panel(self, title: str) -> dict[str, float]:
        """What a panel of the dashboard shows now, by switch."""
        return self.prometheus.values(expression(title))

    def shows(self, title: str, **values: float) -> None:
        """Wait until a panel shows this of the switches."""
        wanted = {name.replace("_", "-"): value for name, value in values.items()}
        wait(lambda: self.panel(title) == wanted, lambda: f"{title}: {self.panel(title)}; expected {wanted}")

    def active(self) -> float | None:
        """How many switches of the pair the dashboard shows as active."""
        return self.prometheus.value(expression("Active switches of each pair"))

    def alerts(self) -> set[tuple[str, str]]:
        """The alerts that fire, and of which switches."""
        return {(name, one.get("switch", "")) for name, found in self.prometheus.firing().items() for one in found}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    switches: dict[str, Switch] = {}
    agents: dict[str, Agent] = {}
    with Switch() as one, Switch() as other:
        for name, switch in zip(NAMES, (one, other), strict=True):
            switch.expected, switches[name] = EXPECTED, switch
            folder = tmp_path / name
            folder.mkdir()
            assert on(switch)("apply", spec_file(folder, old="name: dpu-1", new=f"name: {name}"), "--yes").code == 0
        try:
            for name, switch in switches.items():
                agents[name] = Agent(switch, tmp_path / name / "log", *METRICS)
            targets = [address(running).removeprefix("http://") for running in agents.values()]
            prometheus = Prometheus(tmp_path, *targets)
            try:
                it = Pair(switches, agents, prometheus)
                it.role("dpu-1", "active")
                it.role("dpu-2", "standby")
                it.shows("Switches", dpu_1=1, dpu_2=1)
                wait(lambda: prometheus.values("dnsteer_pair_active") == {"dpu-1": 1, "dpu-2": 0}, lambda: "roles")
                prometheus.is_silent()
                yield it
            finally:
                prometheus.end()
        finally:
            for running in agents.values():
                running.process.send_signal(signal.SIGCONT)
                running.end(signal.SIGKILL)


def test_the_switch_that_is_killed_is_named_and_the_other_one_is_not(pair: Pair) -> None:
    pair.switches["dpu-2"].kill_switch()
    fires(pair.prometheus, "DnsteerSwitchAway", {"switch": "dpu-2", "bridge": "br-dns"})
    pair.shows("Switches", dpu_1=1, dpu_2=0)
    assert {switch for _, switch in pair.alerts()} == {"dpu-2"}
    pair.agents["dpu-2"].end(signal.SIGKILL)  # now as when the whole machine is gone
    fires(pair.prometheus, "DnsteerAgentDown", {"switch": "dpu-2", "bridge": "br-dns"})
    pair.shows("Switches", dpu_1=1, dpu_2=-1)
    pair.shows("An agent acts", dpu_1=1)
    assert {switch for _, switch in pair.alerts()} == {"dpu-2"}
    (alert,) = pair.prometheus.firing()["DnsteerAgentDown"]
    assert alert["summary"].startswith("dpu-2: the agent at 127.0.0.1:")


@pytest.mark.slow
def test_the_active_switch_that_is_killed_is_not_active_and_keeps_its_name(pair: Pair) -> None:
    pair.switches["dpu-1"].kill_switch()
    fires(pair.prometheus, "DnsteerPairNoneActive", {"switch": "dpu-2", "pair": "192.0.2.53"})
    assert pair.active() == 0
    kill_database(pair.switches["dpu-1"])
    pair.role("dpu-2", "active")
    wait(lambda: pair.active() == 1, lambda: f"active: {pair.active()}")
    wait(lambda: pair.alerts() == {("DnsteerSwitchAway", "dpu-1")}, lambda: str(pair.alerts()))
    assert pair.prometheus.values("dnsteer_pair_active") == {"dpu-1": 1, "dpu-2": 1}  # as the record says
    pair.prometheus.evaluates("dnsteer-pairs")
    assert pair.alerts() == {("DnsteerSwitchAway", "dpu-1")}
    before = pair.agents["dpu-1"]
    before.end(signal.SIGKILL)
    where = address(before).removeprefix("http://")
    pair.agents["dpu-1"] = Agent(pair.switches["dpu-1"], before.log.with_name("again"), "--metrics", where)
    unread = 'dnsteer_switch_up{bridge=""}'
    wait(lambda: pair.prometheus.values(unread), pair.agents["dpu-1"].said)
    pair.prometheus.evaluates("dnsteer-agent")
    wait(lambda: pair.alerts() == {("DnsteerSwitchAway", "dpu-1")}, lambda: str(pair.alerts()))
    pair.shows("Switches", dpu_1=0, dpu_2=1)


@pytest.mark.slow
def test_two_switches_with_one_name_are_an_alert(pair: Pair, tmp_path: Path) -> None:
    same = spec_file(tmp_path, old="name: dpu-1", new="name: dpu-1\n  pair: site-a")
    for name in NAMES:
        assert on(pair.switches[name])("apply", same, "--rename", "--yes").code == 0
    for running in pair.agents.values():
        agent_at = {"switch": "dpu-1", "instance": address(running).removeprefix("http://")}
        fires(pair.prometheus, "DnsteerSwitchNameNotUnique", agent_at)
    pair.role("dpu-2", "active")
    for running in pair.agents.values():
        agent_at = {"pair": "site-a", "instance": address(running).removeprefix("http://")}
        fires(pair.prometheus, "DnsteerPairBothActive", agent_at)
    assert pair.active() == 2


@pytest.mark.slow
def test_a_pair_of_which_one_switch_has_another_name_is_incomplete(pair: Pair, tmp_path: Path) -> None:
    other = spec_file(tmp_path, old="name: dpu-1", new="name: dpu-2\n  pair: site-a")
    assert on(pair.switches["dpu-2"])("apply", other, "--yes").code == 0
    fires(pair.prometheus, "DnsteerPairIncomplete", {"switch": "dpu-2", "pair": "site-a"})
    assert pair.alerts() == {("DnsteerPairIncomplete", "dpu-2")}
    pair.role("dpu-2", "none")
    pair.prometheus.is_silent()


@pytest.mark.slow
def test_a_pair_with_both_or_no_switch_active_is_an_alert(pair: Pair) -> None:
    pair.role("dpu-2", "active")
    for name in NAMES:
        fires(pair.prometheus, "DnsteerPairBothActive", {"switch": name, "pair": "192.0.2.53"})
    for name in NAMES:
        pair.role(name, "standby")
    for name in NAMES:
        fires(pair.prometheus, "DnsteerPairNoneActive", {"switch": name, "pair": "192.0.2.53"})
    pair.role("dpu-2", "active")
    pair.prometheus.is_silent()
