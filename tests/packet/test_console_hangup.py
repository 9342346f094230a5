# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: the console's files are read again, also where they have not changed, and nothing ends."""

from __future__ import annotations

import shutil
import signal
import ssl
from pathlib import Path

import httpx
import pytest

from tests.packet.agents import Agent
from tests.packet.console_sessions import secrets_in, serves_at
from tests.packet.test_console_security import Nowhere


def test_a_ca_of_clients_is_read_again_on_hangup(pki: Path, tmp_path: Path) -> None:
    ca = shutil.copy(pki / "ca.pem", tmp_path)
    options = ["--console", "127.0.0.1:0", "--console-client-ca", str(ca)]
    options += ["--console-tls-cert", str(pki / "web.pem"), "--console-tls-key", str(pki / "web.key")]
    secrets_in(tmp_path / "tokens", alice="read")
    options += ["--console-tokens", str(tmp_path / "tokens")]
    running = Agent(Nowhere(tmp_path), tmp_path / "log", *options)  # type: ignore[arg-type]
    try:
        at = serves_at(running)
        trusts = ssl.create_default_context(cafile=pki / "ca.pem")
        with httpx.Client(verify=trusts, trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get(at)
        trusts.load_cert_chain(pki / "client.pem", pki / "client.key")
        with httpx.Client(verify=trusts, trust_env=False) as client:
            assert client.get(f"{at}/sign-in").status_code == 200
        shutil.copy(pki / "other.pem", ca)  # whose certificates it took before, it takes no longer
        running.process.send_signal(signal.SIGHUP)  # the tokens have not changed
        running.waits_for("asked to read tokens and certificates again (SIGHUP)")
        running.waits_for("console: tokens read again: 1")
        running.waits_for("console: certificate and key read again")
        with httpx.Client(verify=trusts, trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get(at)
        trusts.load_cert_chain(pki / "stranger.pem", pki / "stranger.key")
        with httpx.Client(verify=trusts, trust_env=False) as client:
            assert client.get(f"{at}/sign-in").status_code == 200
        assert running.end() == 0
    finally:
        running.end(signal.SIGKILL)
