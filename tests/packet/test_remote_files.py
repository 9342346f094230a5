# SPDX-License-Identifier: Apache-2.0
"""The options of ssl: remotes and the files that they name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dnsteer.cli import remote_options as remote_options
from dnsteer.switch import tls
from dnsteer.switch.database import Database
from dnsteer.switch.openflow import OpenFlow
from dnsteer.switch.rpc import parse_remote
from dnsteer.switch.tls import Tls
from dnsteer.switch.tools import SwitchError
from tests.packet.switches import ROOT

pytestmark = pytest.mark.usefixtures("no_tls_files")


@pytest.mark.parametrize(
    "text", ["ssl:1.2.3.4", "ssl:1.2.3.4:0", "ssl:1.2.3.4:65536", "ssl:host:1", "ssl:::1:1", "ssl:"]
)
def test_a_malformed_remote_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected unix:PATH, .*, or the same with ssl:"):
        parse_remote(text)


def test_ssl_without_files_names_the_options() -> None:
    for work in (lambda: Database("ssl:127.0.0.1:1"), lambda: OpenFlow("ssl:127.0.0.1:1").dump()):
        with pytest.raises(SwitchError) as caught:
            work()
        text = str(caught.value)
        for name in ("private-key", "certificate", "ca-cert"):
            assert f"--{name}" in text
            assert f"DNSTEER_{name.upper().replace('-', '_')}" in text
    assert "OpenFlow at ssl:" in text


def test_tls_files_are_given_all_or_none(pki: Path) -> None:
    assert tls.from_options(None, None, None) is None
    with pytest.raises(
        SwitchError, match=r"found --certificate without --private-key \(DNSTEER_PRIVATE_KEY\) and --ca-"
    ):
        tls.from_options(None, pki / "client.pem", None)
    found = tls.from_options(Path("a"), Path("b"), Path("c"))
    assert found == Tls(Path("a").absolute(), Path("b").absolute(), Path("c").absolute())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("gone.key", "client.pem", "ca.pem"), "--private-key: .*gone.key: No such file or directory; give a PEM file"),
        (("client.key", "gone.pem", "ca.pem"), "--certificate: .*gone.pem: No such file or directory"),
        (("client.key", "client.pem", "."), "--ca-cert: .*: Is a directory"),
        (("client.key", "client.pem", "nonsense.pem"), "--ca-cert: .*nonsense.pem is not a certificate .* in PEM"),
        (("client.key", "client.key", "ca.pem"), "--certificate: .*client.key is not a certificate"),
        (("client.pem", "client.pem", "ca.pem"), "--private-key: .*client.pem is not a private key"),
        (("server.key", "client.pem", "ca.pem"), "--private-key: .*server.key is not the key of .*client.pem; give"),
        (("locked.key", "client.pem", "ca.pem"), "--private-key: .*locked.key has a passphrase.*openssl pkey -in"),
    ],
)
def test_a_key_that_does_not_fit_its_certificate_is_named(pki: Path, files: tuple[str, str, str], message: str) -> None:
    """Said before anything is sent: nobody listens there."""
    key, certificate, ca = (pki / f for f in files)
    tls.use(Tls(key, certificate, ca))
    for work in (lambda: Database("ssl:127.0.0.1:1"), lambda: OpenFlow("ssl:127.0.0.1:1").dump()):
        with pytest.raises(SwitchError, match=message):
            work()


def test_tls_files_come_from_options_or_environment(pki: Path) -> None:
    app = typer.Typer()

    @app.command()
    def show(
        db: remote_options.Db = "unix:x",
        key: remote_options.PrivateKey = None,
        certificate: remote_options.Certificate = None,
        ca: remote_options.CaCert = None,
    ) -> None:
        remote_options.use_tls(key, certificate, ca)

    command = CliRunner()
    env = {"DNSTEER_PRIVATE_KEY": str(pki / "client.key"), "DNSTEER_CERTIFICATE": "from-environment"}
    line = ["--db", "ssl:127.0.0.1:1", "--certificate", str(pki / "client.pem"), "--ca-cert", str(pki / "ca.pem")]
    assert command.invoke(app, line, env=env).exit_code == 0
    assert tls.current() == Tls(pki / "client.key", pki / "client.pem", pki / "ca.pem")
    failed = command.invoke(app, [], env=env)
    assert isinstance(failed.exception, SwitchError)
    assert "without --ca-cert (DNSTEER_CA_CERT)" in str(failed.exception)


def test_options_cost_nothing_without_a_remote() -> None:
    code = (
        "import sys, dnsteer.cli.remote_options as r; "
        "r.use_tls(None, None, None); print({'ssl', 'ovs'} & sys.modules.keys())"
    )
    env = {"PYTHONPATH": str(ROOT / "generator")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "set()\n"


def test_a_pipe_is_not_waited_for(pki: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    tls.use(Tls(tmp_path / "pipe", pki / "client.pem", pki / "ca.pem"))
    with pytest.raises(SwitchError, match=r"--private-key: .*/pipe: a pipe, a socket or a device; give a PEM file"):
        Database("ssl:127.0.0.1:1")
