# SPDX-License-Identifier: Apache-2.0
"""Options that say which switch is meant and how to reach it. Light: every start of the command reads this."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dnsteer.switch.control_socket import DIRECTORY, default_remote
from dnsteer.switch.rpc import parse_remote


def _remote(text: str) -> str:
    if not text:
        return default_remote()
    try:
        return parse_remote(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Db = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="REMOTE",
        help="OVSDB of the switch: unix:PATH, tcp:IP:PORT or ssl:IP:PORT.",
        envvar="DNSTEER_DB",
        callback=_remote,
        show_default=f"unix:{DIRECTORY}/db.sock, or in $OVS_RUNDIR",
    ),
]
OpenFlowTarget = Annotated[
    str | None,
    typer.Option(
        "--openflow",
        metavar="TARGET",
        help="The bridge's OpenFlow, such as ssl:HOST:PORT. By default its socket next to --db.",
        envvar="DNSTEER_OPENFLOW",
    ),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for the switch to answer or act.")
]
ExtensionSocket = Annotated[
    str | None,
    typer.Option(
        "--extension",
        metavar="SOCKET",
        help="Control socket of the extension, if the spec has one. By default switch.extension.control.",
        envvar="DNSTEER_EXTENSION_SOCKET",
    ),
]
PrivateKey = Annotated[
    Path | None,
    typer.Option(
        "--private-key",
        metavar="FILE",
        help="For ssl: remotes: our private key, PEM.",
        envvar="DNSTEER_PRIVATE_KEY",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="For ssl: remotes: our certificate, PEM.",
        envvar="DNSTEER_CERTIFICATE",
    ),
]
CaCert = Annotated[
    Path | None,
    typer.Option(
        "--ca-cert",
        metavar="FILE",
        help="For ssl: remotes: certificate of the CA that signed the switch's, PEM.",
        envvar="DNSTEER_CA_CERT",
    ),
]


def use_tls(private_key: Path | None, certificate: Path | None, ca_cert: Path | None) -> None:
    """Use these files for ssl: remotes. They are read only when there is one.

    Raises SwitchError when only some of the three were given.
    """
    if private_key or certificate or ca_cert:
        from dnsteer.switch import tls

        tls.use(tls.from_options(private_key, certificate, ca_cert))
