# SPDX-License-Identifier: Apache-2.0
"""The verb `probes`: what to ask so that every backend answers."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from dnsteer.cli.output import Json, load_and_warn, out, print_json
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape
from dnsteer.spec.model.types import Address

_MAX = 1000


def _address(text: str) -> Address:
    try:
        return ip_address(text)
    except ValueError:
        raise typer.BadParameter(f"found {text!r}; expected an IPv4 or IPv6 address") from None


def _service(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(udp|tcp)/([0-9]{1,5})", text)
    if found is None or not 1 <= int(found[2]) <= 65535:
        raise typer.BadParameter(f"found {text!r}; expected a protocol and port such as tcp/853")
    return found[1], int(found[2])


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("probes")(reads_spec(on_switch(probes)))


def probes(
    switch: TargetSwitch,
    backend: Annotated[
        str | None, typer.Option(metavar="POOL/BACKEND", help="Queries to this backend itself, not through the VIPs.")
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDR", help="Only these addresses; with --backend: in place of the spec's."),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="PROTO/PORT", help="Leave this service out, such as tcp/853.")
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            "--spec",
            metavar="FILE",
            help="A spec that is about to be applied: only what it serves too, as its own health checks ask.",
        ),
    ] = None,
    ports: Annotated[
        int, typer.Option("--ports", metavar="N", min=1, max=_MAX, help="Source ports named for each question.")
    ] = 1,
    bridge: Bridge = None,
    json: Json = False,
) -> None:
    """List queries, with source ports, that make each backend answer for each of its services. Sends none of them."""
    from dnsteer.status.probes import ProbeFilter, of_backend, through_vips

    if spec is not None and backend is not None:
        raise typer.BadParameter("--spec is about queries through the VIPs; leave out --backend")
    wanted = ProbeFilter(
        addresses=[_address(each) for each in address or ()],
        skip={_service(each) for each in skip or ()},
        count=ports,
        coming=load_and_warn(spec, as_json=json).spec if spec is not None else None,
    )
    if backend is None:
        found = through_vips(switch, bridge, wanted)
    else:
        pool, slash, name = backend.partition("/")
        if not (pool and slash and name):
            raise typer.BadParameter(f"found {backend!r}; expected POOL/BACKEND")
        found = of_backend(switch, bridge, pool, name, wanted)
    if json:
        print_json(found.as_json())
        return
    for q in found.questions:
        reached = f"{q.pool}/{q.backend}" if q.backend else f"any of {q.pool}" if q.pool else "not a VIP of this switch"
        source = f"from port {', '.join(map(str, q.source_ports))}" if q.source_ports else "from any port"
        asked = f"{q.query.name} {q.query.type}{' RD' if q.query.recursion else ''}"
        out.print(escape(f"{q.address} {q.transport}/{q.port} {asked} {source}: {reached}"))
    for line in found.unasked:
        out.print(escape(f"not asked: {line}"))
    for line in found.notes:
        out.print(escape(f"note: {line}"))
