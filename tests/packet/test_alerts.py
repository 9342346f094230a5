# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with dnsteer's rules beside a real agent: each alert fires by its fault, alone, and ends with it.

Half a minute of the rules is a second here (tests/packet/prometheus.py). Errors of a port need a real one: they are
tried in the lab, by tests/system/test_alerts_in_the_lab.py.
"""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dnsteer.metrics.families import SERIES
from tests.packet import alert_faults as faults
from tests.packet.agents import Agent, agent
from tests.packet.alert_faults import Watched
from tests.packet.announcing import applied, folder, spec
from tests.packet.birds import bird, needs_bird
from tests.packet.command import FARM, SLOW, fresh, on
from tests.packet.console_sessions import secrets_in, serves_at
from tests.packet.extension_beside_switch import EXTENDED, Extension
from tests.packet.full_disk import enduring, leave
from tests.packet.prometheus import Prometheus, fires, free_port, needs_prometheus, wait
from tests.packet.scraping import METRICS, address
from tests.packet.switches import Switch
from tests.packet.test_agent_defects import broken, checked
from tests.packet.test_console_security import Nowhere
from tests.unit.test_monitoring import ALL

__all__ = ["folder"]  # for pytest
EXPECTED = [
    "Connection reset by peer",
    "connection dropped",
    "Broken pipe",
    "Connection refused",
    "reached the dynamic limit",
    *SLOW,
]
pytestmark = needs_prometheus


@dataclass(frozen=True)
class Fault:
    """What is done, whom the alert must name, and which other alerts are right too."""

    of: Callable[[Watched], AbstractContextManager[None]]
    labels: dict[str, str]
    also: tuple[str, ...] = ()


_UNHEALTHY = "DnsteerBackendUnhealthy"
_FAR = "DnsteerSlotsFarFromWeights"
_SILENT = "DnsteerVipWithoutTraffic"
BUSY = (_SILENT, "DnsteerAgentDown", "DnsteerAgentSlow", "DnsteerUpcallsLost", "DnsteerBackendReturnsSlowly")
"""What a machine that has other work to do may raise by itself, in this quicker time."""
FAULTS = {
    _UNHEALTHY: Fault(lambda it: it.failed("b6"), {"pool": "cautious", "backend": "b6"}, (_FAR,)),
    "DnsteerBackendReturnsSlowly": Fault(faults.one_returns_slowly, {"pool": "many", "backend": "b1"}, (_UNHEALTHY,)),
    "DnsteerPoolPanic": Fault(lambda it: it.failed("b6", "b7"), {"pool": "cautious"}, (_UNHEALTHY,)),
    "DnsteerPoolKeepsFailingBackends": Fault(
        lambda it: it.failed("b12", "b13"), {"pool": "kept"}, (_UNHEALTHY, _FAR, "DnsteerPoolWithoutEnoughBackends")
    ),
    "DnsteerPoolOnBackup": Fault(
        lambda it: it.failed("b8"), {"pool": "helped"}, (_UNHEALTHY, "DnsteerPoolWithoutBackends", _FAR)
    ),
    "DnsteerPoolWithoutEnoughBackends": Fault(
        lambda it: it.out("many/b1", "many/b2", "many/b3"), {"pool": "many"}, (_FAR,)
    ),
    "DnsteerPoolWithoutBackends": Fault(faults.no_backend, {"pool": "plain"}, ("DnsteerNoBackendDrops",)),
    _FAR: Fault(lambda it: it.out("plain/b10"), {"pool": "plain", "backend": "b11"}),
    _SILENT: Fault(faults.no_traffic, {"vip": "many"}),
    "DnsteerNoBackendDrops": Fault(
        faults.no_backend, {"reason": "no backend in service"}, ("DnsteerPoolWithoutBackends",)
    ),
    "DnsteerManyDrops": Fault(faults.flood, {}),
    "DnsteerVipLimited": Fault(faults.vip_is_flooded, {"vip": "kept", "kind": "queries"}),
    "DnsteerTrackingNearlyFull": Fault(faults.tracker_is_nearly_full, {"bridge": "br-dns"}),
    "DnsteerUplinkMemberDown": Fault(lambda it: faults.no_link(it, "m1"), {"uplink": "bond0", "member": "m1"}),
    "DnsteerUplinkBondIdle": Fault(
        lambda it: faults.no_link(it, "m0", "m1"), {"uplink": "bond0"}, ("DnsteerUplinkMemberDown",)
    ),
    "DnsteerSwitchAway": Fault(faults.switch_dies, {}, (_SILENT,)),
    "DnsteerTablesNotAsRecorded": Fault(faults.tables_are_gone, {}, ("DnsteerDriftNotRepaired", _SILENT)),
    "DnsteerDriftNotRepaired": Fault(faults.flow_is_gone, {}),
    "DnsteerRepairsAgainAndAgain": Fault(faults.somebody_fights, {}),
    "DnsteerChangeInterrupted": Fault(faults.change_hangs, {}),
    "DnsteerMaintenanceOverdue": Fault(
        faults.maintenance_cannot_end,
        {"pool": "plain", "backend": "b10", "kind": "drain"},
        ("DnsteerChangeInterrupted", _FAR),
    ),
    "DnsteerFlowRestoreWait": Fault(faults.waits_for_flows, {}, (_SILENT,)),
    "DnsteerUpcallsLost": Fault(faults.upcalls_are_lost, {}),
    "DnsteerTooManyMasks": Fault(faults.many_masks, {}),
    "DnsteerMegaflowsNearLimit": Fault(faults.many_megaflows, {}),
    "DnsteerAgentDown": Fault(faults.agent_hangs, {}),
    "DnsteerAgentAbsent": Fault(faults.not_scraped, {}),
    "DnsteerNoAgentActs": Fault(faults.another_acts, {}),
    "DnsteerAgentFailsOnSwitch": Fault(faults.record_is_damaged, {}, ("DnsteerTablesNotAsRecorded",)),
    "DnsteerAgentSlow": Fault(
        faults.slow_switch,
        {},
        (_UNHEALTHY, _FAR, "DnsteerSwitchAway", "DnsteerTablesNotAsRecorded", "DnsteerAgentFailsOnSwitch"),
    ),
}


@pytest.fixture(scope="module")
def watched(goes_first: None, shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    fresh(shared)
    it = Watched(shared, tmp_path_factory.mktemp("alerts"))
    try:
        log = it.prometheus.log
        wait(lambda: it.prometheus.value('up{job="dnsteer"}') == 1, log.read_text)
        with it.traffic():
            yield it
        assert it.agent.end() == 0 and "Traceback" not in it.agent.said(), it.agent.said()
    finally:
        it.agent.end(signal.SIGKILL)
        it.prometheus.end()


def test_prometheus_reads_every_series_and_no_alert_fires(watched: Watched) -> None:
    prometheus = watched.prometheus
    wait(lambda: prometheus.value('dnsteer_check_healthy{backend="b1"}'), prometheus.log.read_text)
    names = set(prometheus.ask("label/__name__/values"))
    assert {name for name in names if name.startswith("dnsteer_")} <= SERIES.keys()
    assert len(names & SERIES.keys()) > 60
    groups = prometheus.ask("rules")["groups"]
    assert all(rule["health"] in ("ok", "unknown") for group in groups for rule in group["rules"]), groups
    wait(lambda: prometheus.ask("alerts") == {"alerts": []}, lambda: str(prometheus.ask("alerts")))


def test_packets_become_a_rate(watched: Watched) -> None:
    """That of `Watched.traffic`, 8 packets a second, and of no other service."""
    rate = 'sum(rate(dnsteer_service_packets_total{{vip="cautious",service="53/{}"}}[10s]))'.format
    wait(
        lambda: 4 < (watched.prometheus.value(rate("udp")) or 0) < 12,
        lambda: str(watched.prometheus.value(rate("udp"))),
    )
    assert watched.prometheus.value(rate("tcp")) == 0


def test_each_alert_has_a_fault() -> None:
    # Below, in test_alerts_of_pairs.py, test_followed_lists.py, and in the lab; tests/system/test_neighbors.py sees the
    # metrics of those of neighbours.
    elsewhere = {
        "DnsteerAccessListNotApplied",
        "DnsteerExtensionAway",
        "DnsteerPortErrors",
        "DnsteerNotRecorded",
        "DnsteerAgentDefect",
        "DnsteerPairBothActive",
        "DnsteerPairNoneActive",
        "DnsteerPairIncomplete",
        "DnsteerNeighborSilent",
        "DnsteerNeighborMovesAgainAndAgain",
        "DnsteerSwitchNameNotUnique",
        "DnsteerCertificateEndsSoon",
        "DnsteerVipNotAnnounced",
    }
    assert {*FAULTS, *elsewhere} == set(ALL)


QUICK = (_UNHEALTHY, "DnsteerSwitchAway")
"""Faults of `make test`; `make test-alerts` has all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FAULTS]
)
def test_a_fault_is_an_alert_until_it_is_over(watched: Watched, name: str) -> None:
    fault, prometheus = FAULTS[name], watched.prometheus
    prometheus.is_silent()
    with fault.of(watched):
        fires(prometheus, name, fault.labels)
        assert set(prometheus.firing()) <= {name, *fault.also, *BUSY}
    prometheus.is_silent()


@pytest.mark.slow
def test_an_extension_that_dies_is_an_alert(switch: Switch, tmp_path: Path) -> None:
    switch.expected = EXPECTED
    (tmp_path / "spec.yaml").write_text(EXTENDED)
    at = f"127.0.0.1:{free_port()}"
    with Extension(tmp_path) as extension:
        options = ["--extension", str(extension.socket)]
        done = on(switch)("apply", tmp_path / "spec.yaml", "--yes", *options)
        assert done.code == 0, done.err
        with agent(switch, tmp_path, "metrics at", "agent", "--metrics", at, *options):
            prometheus = Prometheus(tmp_path, at)
            try:
                wait(lambda: prometheus.value("dnsteer_extension_up") == 1, prometheus.log.read_text)
                prometheus.is_silent()
                extension.kill()
                fires(prometheus, "DnsteerExtensionAway", {"bridge": "br-dns"})
                assert set(prometheus.firing()) <= {"DnsteerExtensionAway", *BUSY}
                extension.start()
                prometheus.is_silent()
            finally:
                prometheus.end()


@pytest.mark.slow
def test_a_full_disk_is_an_alert(tmp_path: Path) -> None:
    for name in ("ns1", "ns2", "ns3"):
        (tmp_path / name).touch()
    check = f"{{check: command, command: [test, -e, '{tmp_path}/{{backend}}'], fall: 1, rise: 1}}"
    (tmp_path / "spec.yaml").write_text(FARM.replace("  farm:\n", f"  farm:\n    health: {check}\n"))
    at = f"127.0.0.1:{free_port()}"
    with enduring(tmp_path), Switch() as own:
        assert on(own)("apply", tmp_path / "spec.yaml", "--yes").code == 0
        with agent(own, tmp_path, "metrics at", "agent", "--metrics", at) as running:
            prometheus = Prometheus(tmp_path, at)
            try:
                wait(lambda: prometheus.value("dnsteer_agent_unrecorded") == 0, prometheus.log.read_text)
                prometheus.is_silent()
                leave(own, 0)
                (tmp_path / "ns1").unlink()
                fires(prometheus, "DnsteerNotRecorded", {"bridge": "br-dns"})
                assert set(prometheus.firing()) <= {"DnsteerNotRecorded", _UNHEALTHY, _FAR, *BUSY}
                leave(own, None)
                (tmp_path / "ns1").touch()
                running.waits_for("farm/ns1 comes back")
                prometheus.is_silent()
            finally:
                prometheus.end()


@needs_bird
@pytest.mark.slow
def test_a_vip_that_is_not_announced_is_an_alert_unless_people_have_withdrawn_it(
    switch: Switch, folder: Path, tmp_path: Path
) -> None:
    switch.expected = EXPECTED
    applied(switch, folder, spec(folder))
    with bird(folder) as own, agent(switch, folder, "metrics at", "agent", *METRICS) as running:
        prometheus = Prometheus(tmp_path, address(running).removeprefix("http://"))
        try:
            wait(lambda: prometheus.value("sum(dnsteer_vip_announced)") == 2, prometheus.log.read_text)
            prometheus.is_silent()
            assert on(switch)("withdraw", "dns").code == 0
            wait(lambda: prometheus.value("sum(dnsteer_vip_announced)") == 1, running.said)
            prometheus.is_silent()
            own.stop()
            fires(prometheus, "DnsteerVipNotAnnounced", {"switch": "dpu-1", "vip": "other"})
            assert [alert["vip"] for alert in prometheus.firing()["DnsteerVipNotAnnounced"]] == ["other"]
            own.start()
            prometheus.is_silent()
        finally:
            prometheus.end()


@pytest.mark.slow
def test_a_certificate_that_ends_soon_is_an_alert(pki: Path, tmp_path: Path) -> None:
    """That of the server ends in 2 days."""
    token = secrets_in(tmp_path / "tokens", prometheus="read")["prometheus"]
    options = ["--metrics", "127.0.0.1:0", "--console-tokens", str(tmp_path / "tokens"), "--console-tls-cert"]
    options += [
        str(tmp_path / "web.pem"),
        "--console-tls-key",
        str(tmp_path / "web.key"),
        "--console-name",
        "localhost",
    ]
    for name, suffix in (("server", "pem"), ("server", "key")):
        shutil.copy(pki / f"{name}.{suffix}", tmp_path / f"web.{suffix}")
    running = Agent(Nowhere(tmp_path), tmp_path / "log", *options)  # type: ignore[arg-type]
    try:
        at = serves_at(running, "metrics").removeprefix("https://")
        prometheus = Prometheus(tmp_path, at, token=token)
        try:
            wait(lambda: prometheus.value("dnsteer_certificate_end_timestamp_seconds"), prometheus.log.read_text)
            fires(prometheus, "DnsteerCertificateEndsSoon", {"switch": socket.gethostname()})
            for suffix in ("pem", "key"):
                shutil.copy(pki / f"web.{suffix}", tmp_path)
            wait(lambda: "DnsteerCertificateEndsSoon" not in prometheus.firing(), lambda: str(prometheus.firing()))
        finally:
            prometheus.end()
    finally:
        running.end(signal.SIGKILL)


@pytest.mark.slow
def test_a_defect_of_the_agent_is_an_alert(switch: Switch, tmp_path: Path) -> None:
    switch.expected = EXPECTED
    text = checked(tmp_path).replace("  farm:\n", "  farm:\n    balance: {by: slots, interval: 1s}\n")
    with broken(switch, tmp_path, text) as running:
        running.waits_for("metrics at http://")
        prometheus = Prometheus(tmp_path, running.said().partition("metrics at http://")[2].partition("/")[0])
        try:
            wait(lambda: prometheus.value("dnsteer_agent_targets"), prometheus.log.read_text)
            prometheus.is_silent()
            (tmp_path / "_find_moves").touch()
            fires(prometheus, "DnsteerAgentDefect", {"part": "balance"})
            assert set(prometheus.firing()) <= {"DnsteerAgentDefect", *BUSY}
            (tmp_path / "_find_moves").unlink()
            running.waits_for("the balance works again")
            prometheus.is_silent()
        finally:
            prometheus.end()
