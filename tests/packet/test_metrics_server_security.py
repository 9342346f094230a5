# SPDX-License-Identifier: Apache-2.0
"""What a real agent's /metrics tells of its own server: the certificate that is in use, and where the console is."""

from __future__ import annotations

import shutil
import signal
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from tests.packet.agents import Agent, wait
from tests.packet.console_sessions import secrets_in, serves_at
from tests.packet.test_console_security import Nowhere

END, WHERE = "dnsteer_certificate_end_timestamp_seconds", "dnsteer_console_info"


@pytest.mark.parametrize("what", ["--console", "--metrics"])
def test_certificate_expiry_and_console_url_are_exported(pki: Path, tmp_path: Path, what: str) -> None:
    for suffix in ("pem", "key"):
        shutil.copy(pki / f"web.{suffix}", tmp_path)
    token = secrets_in(tmp_path / "tokens", bob="read")["bob"]
    running = Agent(
        Nowhere(tmp_path),
        tmp_path / "log",
        what,
        "127.0.0.1:0",
        "--console-tokens",
        str(tmp_path / "tokens"),  # type: ignore[arg-type]
        "--console-tls-cert",
        str(tmp_path / "web.pem"),
        "--console-tls-key",
        str(tmp_path / "web.key"),
    )
    try:
        port = serves_at(running, what.removeprefix("--")).rpartition(":")[2]
        with httpx.Client(
            verify=ssl.create_default_context(cafile=pki / "ca.pem"), headers={"authorization": f"Bearer {token}"}
        ) as client:

            def read(name: str) -> list[tuple[dict[str, str], float]]:
                text = client.get(f"https://localhost:{port}/metrics").text
                families = text_string_to_metric_families(text)
                return [(s.labels, s.value) for family in families for s in family.samples if s.name == name]

            def end_of(file: Path) -> float:
                return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc.timestamp()

            assert [value for _, value in read(END)] == [end_of(pki / "web.pem")]
            urls = [labels["url"] for labels, _ in read(WHERE)]
            assert urls == ([f"https://dpu-1.example.net:{port}/"] if what == "--console" else [])
            for suffix in ("pem", "key"):
                shutil.copy(pki / f"again.{suffix}", tmp_path / f"web.{suffix}")
            running.waits_for("console: certificate and key read again")
            assert end_of(pki / "again.pem") != end_of(pki / "web.pem")
            wait(lambda: [value for _, value in read(END)] == [end_of(pki / "again.pem")], running.said)
        assert running.end() == 0, running.said()
    finally:
        running.end(signal.SIGKILL)
