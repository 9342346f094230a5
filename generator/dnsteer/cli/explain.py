# SPDX-License-Identifier: Apache-2.0
"""The verb `explain`: the path of a client's query, and what a cookie stands for, by a spec or by a running switch."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.output import Exit, Json, Verbose, err, fail, load_and_warn, out, print_json, spec_warnings
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.cli.spec_inputs import reads_spec
from dnsteer.deploy.target_switch import TargetSwitch
from dnsteer.spec.errors import escape, file_of_part, some_of
from dnsteer.spec.source import STDIN

if TYPE_CHECKING:
    from dnsteer.proof.explain import QueryPath, Step
    from dnsteer.spec.loaded import Loaded
    from dnsteer.spec.model.types import Address
    from dnsteer.status.record import RecordedSwitch


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("explain")(reads_spec(on_switch(explain)))


def explain(
    switch: TargetSwitch,
    spec: Annotated[
        Path | None,
        typer.Argument(metavar="[SPEC]", help="The spec, a YAML file; not with --live.", show_default=False),
    ] = None,
    client: Annotated[str | None, typer.Option(metavar="ADDR:PORT", help="The client; an IPv6 address in [].")] = None,
    vip: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT/PROTO", help="The VIP, such as 192.0.2.53:53/udp.")
    ] = None,
    uplink: Annotated[str | None, typer.Option(help="Uplink that the query comes in by; the first by default.")] = None,
    cookie: Annotated[str | None, typer.Option(metavar="0x...", help="Name the object behind a flow's cookie.")] = None,
    clients: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Show how evenly the clients of a file share the backends of pools with selection source-address: a "
            "capture (pcap), or text with an address on each line, and after it a number of packets; - is standard input.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Explain the running switch: its applied spec, and the backends that are drained or down now.",
        ),
    ] = False,
    bridge: Bridge = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Show which backend a client gets and through which flows, what a cookie stands for, or how clients share backends.

    With SPEC: by the spec alone, and no switch is needed. With --live: by the record of the running switch, drains and
    downs included; --db says which.
    """
    if (spec is None) is not live:
        fail("give either SPEC, or --live for what the running switch does", Exit.USAGE)
    asked = [client is not None or vip is not None, cookie is not None, clients is not None]
    if sum(asked) != 1 or (client is None) is not (vip is None):
        fail("give either --client and --vip, or --cookie, or --clients", Exit.USAGE)
    if clients == spec == STDIN:
        fail("found - for both SPEC and --clients; standard input can be one of them", Exit.USAGE)
    query = _parse_query(client, vip) if client is not None and vip is not None else None
    number = _cookie_of(cookie) if cookie is not None else 0
    running = _read_live(switch, bridge, json) if live else None
    if running is not None:
        loaded = running.loaded
    else:
        assert spec is not None
        loaded = load_and_warn(spec, json, verbose)
    if clients is not None:
        _explain_clients(loaded, running, clients, json)
    elif query is None:
        _explain_cookie(loaded, running, number, json)
    else:
        _explain_query(loaded, running, query, uplink, json)


def _read_live(switch: TargetSwitch, bridge: str | None, json: bool) -> RecordedSwitch:
    from dnsteer.status.record import read_recorded_switch

    found = read_recorded_switch(switch, bridge)
    if not json:
        for warning in found.warnings:
            err.print(f"warning: {escape(warning)}")
    return found


def _cookie_of(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        fail(f"--cookie: found {text!r}; expected a hexadecimal number such as 0xd453020000006ff4", Exit.USAGE)


def _explain_cookie(loaded: Loaded, live: RecordedSwitch | None, number: int, json: bool) -> None:
    from dnsteer.proof.explain import explain_cookie, is_tagged
    from dnsteer.render.templates import place_in_spec
    from dnsteer.slots.maintenance import NO_OVERLAY
    from dnsteer.spec.errors import show_path

    subject = explain_cookie(loaded, number, live.overlay if live is not None else NO_OVERLAY)
    if subject is None:
        why = "an object that this spec does not have" if is_tagged(number) else "not a cookie of dnsteer's"
        fail(f"0x{number:x}: {why}", Exit.ERROR)
    if json:
        file = file_of_part(loaded.file, subject.part) if subject.line else ""
        value = {"object": subject.title, "file": file, "line": subject.line, "path": show_path(subject.path)}
        print_json({"cookie": hex(number), **value, **spec_warnings(loaded)})
    else:
        out.print(f"0x{number:x}: {subject.title}, {place_in_spec(subject, loaded.file)}")


def _explain_clients(loaded: Loaded, live: RecordedSwitch | None, file: Path, json: bool) -> None:
    from dnsteer.proof.clients import ClientsError, read_clients, shares_in_words, shares_of_pools
    from dnsteer.proof.reference.packets import Reference
    from dnsteer.slots.maintenance import NO_OVERLAY

    overlay = live.overlay if live is not None else NO_OVERLAY
    reference = Reference(loaded.spec, overlay, overlay.denials, overlay.macs)
    if not any(service.client_prefix for service in reference.services.values()):
        fail(
            "--clients: no pool with a backend in service has selection: source-address; other selections do not look at "
            "clients' addresses alone",
            Exit.ERROR,
            as_json=json,
        )
    try:
        probe = loaded.spec.switch.probe
        own = [address.ip.packed for address in probe.addresses or ()] if probe is not None else []
        clients = read_clients(file, {service.key for service in reference.services.values()}, own)
    except ClientsError as err:
        fail(f"--clients: {err}", Exit.ERROR, as_json=json)
    found = shares_of_pools(loaded, reference, clients)
    if json:
        pools = [each.as_json() for each in found]
        print_json({"view": _view_json(live), "clients": len(clients), "pools": pools, **spec_warnings(loaded)})
        return
    _show_view(loaded, live)
    for each in found:
        for line in shares_in_words(each):
            out.print(line)


def _endpoint(option: str, text: str) -> tuple[Address, int]:
    host, colon, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port) if colon else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65535:
        fail(
            f"{option}: found {text!r}; expected an address and port such as 198.51.100.7:40001 or [2001:db8::7]:40001",
            Exit.USAGE,
        )
    return address, number


_CHOSEN_BY = {
    "dp-hash": "by the switch's hash",
    "client": "by the extension's hash",
    "spray": "by the extension at random",
}
_NOTES = {
    "dp-hash": "the switch's trace ends at the hash; what left shows the rest. The hash is this switch's: others, and "
    "hardware, may choose another slot",
    "client": "the hash is the software model's: hardware may choose another slot",
    "spray": "the next query gets another slot",
}


def _show_path(path: QueryPath, file: str, base: str) -> None:
    """Print the path of a query. *base*: the slot's backend when nobody is out, where that is another, and why it is out."""
    out.print(f"query    {path.query}, in by {path.ingress}")
    slot = f"slot {path.slot}" if path.slot is not None else "none"
    if path.slot is None and path.backend:
        slot = f"chosen {_CHOSEN_BY[path.selection]}"
    if path.bucket is not None:
        out.print(f"bucket   {path.bucket} of the limit of the VIP's clients")
    out.print(f"slot     {slot}")
    out.print(f"backend  {path.backend or 'none'}  ({path.why})")
    if base:
        out.print(f"base     {base}")
    if path.kept:
        out.print(
            "kept     this connection begins; an open one stays with the backend that it began with, by the tracker"
        )
    _show_steps(path.steps, file)
    hop = path.extension
    if hop is not None:
        out.print(f"extension {hop.verdict} by {hop.reason}")
        out.print(f"  pipes     {' > '.join(hop.pipes)}")
        if hop.target is not None:
            out.print(f"  target    {hop.target}, in {hop.share} of {hop.slots} slots")
        for port, frame in hop.sent:
            out.print(f"  sent      {port}: {frame}")
        _show_steps(path.returned_steps, file)
    out.print(f"passes   {path.passes}")
    for port, frame in path.out or (("nowhere", "dropped"),):
        out.print(f"out      {port}: {frame}")
    if path.backend and path.selection in _NOTES:
        out.print(f"note     {_NOTES[path.selection]}")


_LEAST_WIDTH = 9
"""Columns of the names of tables, as wide as the others."""


def _show_steps(steps: tuple[Step, ...], file: str) -> None:
    width = max(_LEAST_WIDTH, *(len(step.table) for step in steps), 0)
    for step in steps:
        at = f"{file_of_part(file, step.part)}:{step.line}" if step.line else ""
        out.print(f"  {step.table:<{width}} {step.match}")
        out.print(f"{'':{width + 3}}{step.about}  {at}  cookie 0x{step.cookie:x}")


_Query = tuple["Address", int, "Address", int, str]
"""Client and its port, VIP, port and protocol."""


def _parse_query(client: str, vip: str) -> _Query:
    source, sport = _endpoint("--client", client)
    endpoint, _, protocol = vip.partition("/")
    if protocol not in ("udp", "tcp"):
        fail(f"--vip: found {vip!r}; expected an address, port and protocol such as 192.0.2.53:53/udp", Exit.USAGE)
    address, port = _endpoint("--vip", endpoint)
    if source.version != address.version:
        fail("--client and --vip must be of the same family, both IPv4 or both IPv6", Exit.USAGE)
    return source, sport, address, port, protocol


def _explain_query(loaded: Loaded, live: RecordedSwitch | None, query: _Query, uplink: str | None, json: bool) -> None:
    from dnsteer.deploy.maintenance_text import concerning, why_not_base
    from dnsteer.proof.explain import explain_query
    from dnsteer.slots.maintenance import NO_OVERLAY
    from dnsteer.spec.model.spec import Protocol

    uplinks = list(loaded.spec.switch.uplinks)
    ingress = uplink or uplinks[0]
    if ingress not in uplinks:
        fail(f"--uplink: found {ingress!r}; expected one of {', '.join(uplinks)}", Exit.USAGE)
    client, sport, vip, port, protocol = query
    overlay = live.overlay if live is not None else NO_OVERLAY
    path = explain_query(loaded, client, sport, vip, port, Protocol(protocol), ingress, overlay)
    pool = next((v.pool for v in loaded.spec.vips.values() if vip in v.addresses), "")
    outages = concerning(overlay, pool, f"{port}/{protocol}", path.base_backend, path.slot)
    if json:
        own_out = [asdict(outage) for outage in outages]
        print_json({"view": _view_json(live), **path.as_json(), "own_out": own_out, **spec_warnings(loaded)})
    else:
        _show_view(loaded, live)
        _show_path(path, loaded.file, why_not_base(path.base_backend, path.backend, outages))
    if not path.as_expected:
        fail("the packet did not take the path that the spec says; run `dnsteer check`", Exit.ERROR)


def _view_json(live: RecordedSwitch | None) -> dict[str, Any]:
    if live is None:
        return {"from": "spec"}
    return {
        "from": "switch",
        "bridge": live.bridge,
        "switch": live.name,
        "state": live.state.number,
        "digest": live.state.digest,
        "out": [asdict(absence) for absence in live.overlay],
        "denied": [asdict(denial) for denial in live.overlay.denials],
        "warnings": list(live.warnings),
    }


def _show_view(loaded: Loaded, live: RecordedSwitch | None) -> None:
    """Which view it is, since both may be asked for the same query."""
    from dnsteer.deploy.maintenance_text import percent_gone

    if live is None:
        out.print(f"view     the spec {loaded.file}; for the running switch, drains and downs included: --live")
        return
    name = f" of switch {escape(live.name)}" if live.name else ""
    words = [f"{a.name} {a.state}{percent_gone(a)}" for a in live.overlay if a.takes_out]
    given = [f"{a.name} {a.state}{percent_gone(a)}" for a in live.overlay if not a.takes_out]
    denied = [f"denied by hand: {some_of([a.name for a in live.overlay.denials])}"] if live.overlay.denials else []
    out_of_it = "; ".join([f"out: {', '.join(words) or 'nobody'}", *([", ".join(given)] if given else []), *denied])
    out.print(f"view     bridge {live.bridge}{name}, which runs {escape(loaded.file)}; {out_of_it}")
