"""A real Prometheus with dnsteer's rules beside a real agent: it reads all metrics, and alerts for real faults."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dnsteer.metrics.families import SERIES
from tests.packet.agents import agent, checked_by_files, wait
from tests.packet.command import SLOW, fresh, on, spec_file
from tests.packet.scraping import METRICS, address
from tests.packet.status_cases import insert_by_start
from tests.packet.switches import ROOT, Switch

EXPECTED = ["Connection reset by peer", "connection dropped", "Broken pipe", *SLOW]
RULES = ROOT / "ovs" / "monitoring" / "dnsteer.rules.yml"
pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs the program prometheus (Debian's package prometheus)"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def quick(rules: str) -> str:
    """The rules without the times that an alert waits, which are tried by promtool."""
    value = yaml.safe_load(rules)
    for group in value["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    return yaml.safe_dump(value)


class Prometheus:
    """A Prometheus that scrapes one agent each second."""

    def __init__(self, target: str, folder: Path) -> None:
        (folder / "dnsteer.rules.yml").write_text(quick(RULES.read_text()))
        times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        jobs = [{"job_name": "dnsteer", "static_configs": [{"targets": [target.removeprefix("http://")]}]}]
        config = {"global": times, "rule_files": ["dnsteer.rules.yml"], "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.at = f"127.0.0.1:{free_port()}"
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.at}"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def ask(self, path: str, **query: str) -> Any:
        """What its interface answers; None while it does not."""
        try:
            url = f"http://{self.at}/api/v1/{path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, expression: str) -> float | None:
        """The only result of a query."""
        found = self.ask("query", query=expression)
        return float(found["result"][0]["value"][1]) if found and found["result"] else None

    def firing(self) -> dict[str, dict[str, str]]:
        """The annotations of the alerts that fire, by name."""
        found = self.ask("alerts") or {"alerts": []}
        return {a["labels"]["alertname"]: a["annotations"] for a in found["alerts"] if a["state"] == "firing"}


@pytest.fixture(scope="module")
def watched(shared: Switch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    fresh(shared)
    assert on(shared)("apply", spec_file(folder, checked_by_files(folder, "1s", "900ms")), "--yes").code == 0
    with agent(shared, folder, "pools with health checks: 1", "agent", *METRICS) as running:
        prometheus = Prometheus(address(running), folder)
        try:
            wait(lambda: prometheus.value('up{job="dnsteer"}') == 1, lambda: prometheus.log.read_text())
            prometheus.folder = folder  # type: ignore[attr-defined]
            yield prometheus
        finally:
            prometheus.process.send_signal(signal.SIGTERM)
            prometheus.process.wait(20)


def test_it_reads_every_series_and_no_alert_fires(watched: Prometheus) -> None:
    wait(lambda: watched.value("dnsteer_check_healthy"), lambda: watched.log.read_text())
    names = set(watched.ask("label/__name__/values"))
    assert {name for name in names if name.startswith("dnsteer_")} <= SERIES.keys()
    assert len(names & SERIES.keys()) > 60
    groups = watched.ask("rules")["groups"]
    assert all(rule["health"] in ("ok", "unknown") for group in groups for rule in group["rules"]), groups
    wait(lambda: watched.ask("alerts") == {"alerts": []}, lambda: str(watched.ask("alerts")))


def test_packets_become_a_rate(watched: Prometheus, shared: Switch) -> None:
    insert_by_start(shared, "198.51.100.54", udp=100, tcp=0)
    wait(
        lambda: (
            (watched.value('increase(dnsteer_service_packets_total{vip="straight",service="53/udp"}[1m])') or 0) > 50
        ),
        lambda: str(watched.ask("query", query="dnsteer_service_packets_total")),
    )


def test_a_backend_that_fails_is_an_alert_until_it_is_back(watched: Prometheus) -> None:
    mark: Path = watched.folder / "c"  # type: ignore[attr-defined]
    mark.unlink()
    wait(lambda: "DnsteerBackendUnhealthy" in watched.firing(), lambda: str(watched.firing()))
    said = watched.firing()["DnsteerBackendUnhealthy"]
    assert said["summary"] == "direct/c is unhealthy"
    assert "test ended with 1" in said["description"] and "dnsteer status" in said["description"]
    mark.touch()
    wait(lambda: "DnsteerBackendUnhealthy" not in watched.firing(), lambda: str(watched.firing()))


def test_a_switch_that_dies_is_an_alert_until_it_is_back(watched: Prometheus, shared: Switch) -> None:
    shared.kill_switch()
    wait(lambda: "DnsteerSwitchAway" in watched.firing(), lambda: str(watched.firing()))
    shared.start_switch()
    wait(lambda: "DnsteerSwitchAway" not in watched.firing(), lambda: str(watched.firing()))
    assert watched.value("dnsteer_tables_as_recorded") == 1
