# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with dnsteer's rules, in quicker time, for tests with real agents."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packet.switches import ROOT

RULES = ROOT / "ovs" / "monitoring" / "dnsteer.rules.yml"
QUICKER = 30
"""Half a minute of the rules is a second here. A reading is shared for a second or two, and longer on a busy machine."""
PATIENCE = 60.0
"""Seconds until an alert must fire, or be over."""
LONGEST_WAIT = 1
"""Seconds that an alert waits at most: how long it does in truth is tried by promtool."""
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs the program prometheus (Debian's package prometheus)"
)
_SETTLED = 3.0
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
            rule["expr"] = re.sub(r"(?<=[\[ ])(\d+)([smh])\b", _quicker, rule["expr"])
            if "for" in rule:
                rule["for"] = f"{LONGEST_WAIT}s"
    return yaml.safe_dump(value)


def _quicker(found: re.Match[str]) -> str:
    return f"{max(1, int(found[1]) * _SECONDS[found[2]] // QUICKER)}s"


class Prometheus:
    """A Prometheus that scrapes agents each second: *targets* are host:port. With a *token* by TLS."""

    def __init__(self, folder: Path, *targets: str, token: str = "") -> None:
        self._token = token
        self._config = folder / "prometheus.yml"
        (folder / "dnsteer.rules.yml").write_text(quick(RULES.read_text()))
        self._write(targets)
        self.at = f"127.0.0.1:{free_port()}"
        self.log = folder / "prometheus.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address={self.at}",
                ],
                stdout=log,
                stderr=log,
            )

    def _write(self, targets: tuple[str, ...]) -> None:
        times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        secure = {
            "scheme": "https",
            "authorization": {"credentials": self._token},
            "tls_config": {"insecure_skip_verify": True},
        }
        job = {"job_name": "dnsteer", "static_configs": [{"targets": list(targets)}], **(secure if self._token else {})}
        jobs = [job]
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

    def values(self, expression: str) -> dict[str, float]:
        """The results of a query by the label `switch`."""
        found = self.ask("query", query=expression)
        return {one["metric"].get("switch", ""): float(one["value"][1]) for one in (found or {"result": []})["result"]}

    def firing(self) -> dict[str, list[dict[str, str]]]:
        """Labels and annotations of the alerts that fire, by name. It must answer."""
        out: dict[str, list[dict[str, str]]] = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                out.setdefault(alert["labels"]["alertname"], []).append({**alert["labels"], **alert["annotations"]})
        return out

    def evaluates(self, group: str, times: int = 4) -> None:
        """Wait until a group of rules was evaluated this often anew: more often than any alert waits here."""
        seen: set[str] = set()

        def is_evaluated() -> bool:
            seen.update(found["lastEvaluation"] for found in self.ask("rules")["groups"] if found["name"] == group)
            return len(seen) > times

        wait(is_evaluated, lambda: f"{group}: {seen}")

    def is_silent(self) -> None:
        """Wait until no alert fires or is about to, for as long as a reading may be shared."""
        quiet = 0.0

        def is_quiet() -> bool:
            nonlocal quiet
            now = time.monotonic()
            quiet = quiet or now if self.ask("alerts") == {"alerts": []} else 0.0
            return bool(quiet) and now - quiet >= _SETTLED

        wait(is_quiet, lambda: str(self.ask("alerts")))


def wait(until: Callable[[], object], why: Callable[[], str]) -> None:
    """Wait until a condition holds: an average over time takes its time to change."""
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


def fires(prometheus: Prometheus, name: str, labels: dict[str, str]) -> None:
    """Wait until the alert fires with these labels."""
    wait(
        lambda: any(labels.items() <= alert.items() for alert in prometheus.firing().get(name, [])),
        lambda: f"{prometheus.firing()} {prometheus.ask('alerts')}",
    )
