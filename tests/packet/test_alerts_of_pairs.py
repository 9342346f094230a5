"""Two switches with bridges of one name in one Prometheus: what alerts and dashboard say of the one that is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packet.agents import Agent
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
def test_both_or_none_of_a_pair_active_is_an_alert(pair: Pair) -> None:
    pair.role("dpu-2", "active")
    for name in NAMES:
        fires(pair.prometheus, "DnsteerPairBothActive", {"switch": name, "pair": "192.0.2.53"})
    for name in NAMES:
        pair.role(name, "standby")
    for name in NAMES:
        fires(pair.prometheus, "DnsteerPairNoneActive", {"switch": name, "pair": "192.0.2.53"})
    pair.role("dpu-2", "active")
    pair.prometheus.is_silent()
