"""A real Prometheus with dnsteer's rules, in quicker time, for tests with real agents."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packet.agents import wait
from tests.packet.switches import ROOT

RULES = ROOT / "ovs" / "monitoring" / "dnsteer.rules.yml"
QUICKER = 60
"""A minute of the rules is a second here."""
LONGEST_WAIT = 1
"""Seconds that an alert waits at most: how long it does in truth is tried by promtool."""
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs the program prometheus (Debian's package prometheus)"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def free_port() -> int:
    """A TCP port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def quick(rules: str) -> str:
    """The rules in quicker time: ranges and offsets of queries, and how long an alert waits."""
    value = yaml.safe_load(rules)
    for group in value["groups"]:
        for rule in group["rules"]:
            quicker = QUICKER // 2 if "changes(" in rule["expr"] else QUICKER  # a reading is shared by two scrapes
            rule["expr"] = re.sub(
                r"(?<=[\[ ])(\d+)([smh])\b",
                lambda m: f"{max(1, int(m[1]) * _SECONDS[m[2]] // quicker)}s",  # noqa: B023
                rule["expr"],
            )
            if "for" in rule:
                rule["for"] = f"{LONGEST_WAIT}s"
    return yaml.safe_dump(value)


class Prometheus:
    """A Prometheus that scrapes agents each second: *targets* are host:port."""

    def __init__(self, folder: Path, *targets: str) -> None:
        self._config = folder / "prometheus.yml"
        (folder / "dnsteer.rules.yml").write_text(quick(RULES.read_text()))
        self._write(targets)
        self.at = f"127.0.0.1:{free_port()}"
        self.log = folder / "prometheus.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self._config}", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address={self.at}"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def _write(self, targets: tuple[str, ...]) -> None:
        times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        jobs = [{"job_name": "dnsteer", "static_configs": [{"targets": list(targets)}]}]
        config = {"global": times, "rule_files": ["dnsteer.rules.yml"], "scrape_configs": jobs}
        self._config.write_text(yaml.safe_dump(config))

    def scrape(self, *targets: str) -> None:
        """Scrape these from now on."""
        self._write(targets)
        self.process.send_signal(signal.SIGHUP)

    def end(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)

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

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Labels and annotations of the alerts that fire, by name. It must answer."""
        out: dict[str, list[dict[str, str]]] = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                out.setdefault(alert["labels"]["alertname"], []).append({**alert["labels"], **alert["annotations"]})
        return out

    def is_silent(self) -> None:
        """Wait until no alert fires."""
        wait(lambda: self.firing() == {}, lambda: str(self.firing()))


def fires(prometheus: Prometheus, name: str, labels: dict[str, str]) -> None:
    """Wait until the alert fires with these labels."""
    wait(
        lambda: any(labels.items() <= alert.items() for alert in prometheus.firing().get(name, [])),
        lambda: f"{prometheus.firing()} {prometheus.ask('alerts')}",
    )
