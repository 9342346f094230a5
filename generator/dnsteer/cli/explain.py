"""The verb `explain`: which way a client's query goes and what a cookie stands for, by a spec or by a running switch."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dnsteer.cli.output import Exit, Json, Verbose, err, fail, load, out, print_json, spec_warnings, utc
from dnsteer.cli.running_switch import Bridge, on_switch
from dnsteer.deploy.target_switch import Switch
from dnsteer.spec.errors import escape

if TYPE_CHECKING:
    from dnsteer.proof.explain import Step, Way
    from dnsteer.slots.maintenance import Absence
    from dnsteer.spec.loaded import Loaded
    from dnsteer.spec.model.types import Address
    from dnsteer.status.live import Live


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("explain")(on_switch(explain))


def explain(
    switch: Switch,
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
    live: Annotated[
        bool,
        typer.Option("--live", help="By the running switch: the spec that is applied there, and who is out now."),
    ] = False,
    bridge: Bridge = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Say which backend a client gets and through which flows, or what a cookie stands for.

    With SPEC: by the spec alone, and no switch is needed. With --live: by the record of the running switch, drains and
    downs included; --db says which.
    """
    if (spec is None) is not live:
        fail("give either SPEC, or --live for what the running switch does", Exit.USAGE)
    if (cookie is None) is (client is None and vip is None) or (client is None) is not (vip is None):
        fail("give either --client and --vip, or --cookie", Exit.USAGE)
    asked = _asked(client, vip) if client is not None and vip is not None else None
    number = _number(cookie) if cookie is not None else 0
    found = _live(switch, bridge, json) if live else None
    if found is not None:
        loaded = found.loaded
    else:
        assert spec is not None
        loaded = load(spec, json, verbose)
    if asked is None:
        _cookie(loaded, number, json)
    else:
        _query(loaded, found, asked, uplink, json)


def _live(switch: Switch, bridge: str | None, json: bool) -> Live:
    from dnsteer.status.live import read_live

    found = read_live(switch, bridge)
    if not json:
        for warning in found.warnings:
            err.print(f"warning: {escape(warning)}")
    return found


def _number(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        fail(f"--cookie: found {text!r}; expected a hexadecimal number such as 0xd453020000006ff4", Exit.USAGE)


def _cookie(loaded: Loaded, number: int, json: bool) -> None:
    from dnsteer.proof.explain import explain_cookie, is_tagged
    from dnsteer.spec.errors import show_path

    subject = explain_cookie(loaded, number)
    if subject is None:
        why = "an object that this spec does not have" if is_tagged(number) else "no cookie of dnsteer's"
        fail(f"0x{number:x}: {why}", Exit.ERROR)
    if json:
        value = {"object": subject.title, "line": subject.line, "path": show_path(subject.path)}
        print_json({"cookie": hex(number), **value, **spec_warnings(loaded)})
    else:
        where = f"{loaded.file}:{subject.line} {show_path(subject.path)}"
        out.print(f"0x{number:x}: {subject.title}, {where}")


def _endpoint(option: str, text: str) -> tuple[Address, int]:
    host, colon, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port) if colon else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65535:
        fail(f"{option}: found {text!r}; expected an address and port such as 198.51.100.7:40001 or [2001:db8::7]:40001",
             Exit.USAGE)  # fmt: skip
    return address, number


_CHOSEN = {
    "dp-hash": "chosen by the switch's hash",
    "client": "chosen by the extension's hash",
    "spray": "chosen by the extension at random",
}
_NOTES = {
    "dp-hash": "the switch's trace ends at the hash; what left shows the rest. The hash is this switch's: others, and "
    "hardware, may choose another slot",
    "client": "the hash is the software model's: hardware may choose another slot",
    "spray": "the next query gets another slot",
}


def _show(way: Way, file: str, moved: str) -> None:
    """Print the way of a query. *moved*: whose the slot is when nobody is out, where that is another."""
    out.print(f"query    {way.query}, in by {way.ingress}")
    chosen = f"slot {way.slot}" if way.slot is not None else "none"
    if way.slot is None and way.backend:
        chosen = f"slot {_CHOSEN.get(way.selection, 'chosen')}"
    out.print(f"slot     {chosen}")
    out.print(f"backend  {way.backend or 'none'}  ({way.why})")
    if moved:
        out.print(f"own      {moved}")
    _show_steps(way.steps, file)
    part = way.extension
    if part is not None:
        out.print(f"extension {part.verdict} by {part.why}")
        out.print(f"  pipes     {' > '.join(part.pipes)}")
        if part.target is not None:
            out.print(f"  target    {part.target}, in {part.share} of {part.slots} slots")
        for port_name, frame in part.gave:
            out.print(f"  gave      {port_name}: {frame}")
        _show_steps(way.back, file)
    out.print(f"passes   {way.passes}")
    for port_name, frame in way.out or (("nowhere", "dropped"),):
        out.print(f"out      {port_name}: {frame}")
    if way.backend and way.selection in _NOTES:
        out.print(f"note     {_NOTES[way.selection]}")


def _show_steps(steps: tuple[Step, ...], file: str) -> None:
    for step in steps:
        at = f"{file}:{step.line}" if step.line else ""
        out.print(f"  {step.table:<9} {step.match}")
        out.print(f"            {step.about}  {at}  cookie 0x{step.cookie:x}")


_Asked = tuple["Address", int, "Address", int, str]
"""Client and its port, VIP, port and protocol."""


def _asked(client: str, vip: str) -> _Asked:
    source, sport = _endpoint("--client", client)
    where, _, protocol = vip.partition("/")
    if protocol not in ("udp", "tcp"):
        fail(f"--vip: found {vip!r}; expected an address, port and protocol such as 192.0.2.53:53/udp", Exit.USAGE)
    address, port = _endpoint("--vip", where)
    if source.version != address.version:
        fail("--client and --vip are of different families", Exit.USAGE)
    return source, sport, address, port, protocol


def _query(loaded: Loaded, live: Live | None, asked: _Asked, uplink: str | None, json: bool) -> None:
    from dnsteer.proof.explain import explain_query
    from dnsteer.slots.maintenance import NO_OVERLAY
    from dnsteer.spec.model.spec import Protocol

    uplinks = list(loaded.spec.switch.uplinks)
    ingress = uplink or uplinks[0]
    if ingress not in uplinks:
        fail(f"--uplink: found {ingress!r}; expected one of {', '.join(uplinks)}", Exit.USAGE)
    client, sport, vip, port, protocol = asked
    overlay = live.overlay if live is not None else NO_OVERLAY
    way = explain_query(loaded, client, sport, vip, port, Protocol(protocol), ingress, overlay)
    pool = next((v.pool for v in loaded.spec.vips.values() if vip in v.addresses), "")
    gone = [a for a in overlay.of(pool) if a.backend == way.own]
    if json:
        print_json(
            {"view": _view_json(live), **asdict(way), "own_out": [asdict(a) for a in gone], **spec_warnings(loaded)}
        )
    else:
        _show_view(loaded, live)
        _show(way, loaded.file, _why_moved(way, gone))
    if not way.as_expected:
        fail("this is not what the spec says; run `dnsteer check`", Exit.ERROR)


def _view_json(live: Live | None) -> dict[str, Any]:
    if live is None:
        return {"from": "spec"}
    return {
        "from": "switch",
        "bridge": live.bridge,
        "switch": live.name,
        "state": live.state.number,
        "digest": live.state.digest,
        "out": [asdict(absence) for absence in live.overlay],
        "warnings": list(live.warnings),
    }


def _show_view(loaded: Loaded, live: Live | None) -> None:
    """Which view it is, since both may be asked for the same query."""
    if live is None:
        out.print(f"view     the spec {loaded.file} alone; with who is out on the running switch: --live")
        return
    name = f" of switch {escape(live.name)}" if live.name else ""
    gone = ", ".join(f"{a.name} {_WORDS[a.kind]}{_far(a)}" for a in live.overlay) or "nobody"
    out.print(f"view     bridge {live.bridge}{name} as it runs, {escape(loaded.file)}; out: {gone}")


_WORDS = {"drain": "drained", "down": "down"}


def _far(absence: Absence) -> str:
    from dnsteer.slots.maintenance import WHOLE

    return f" {absence.gone / 10:g} %" if absence.gone < WHOLE else ""


def _why_moved(way: Way, gone: list[Absence]) -> str:
    """Whose the slot is when nobody is out, and why it is not there now; empty where it is."""
    if way.own is None or way.own == way.backend:
        return ""
    said = [_absence(a) for a in gone] or ["out by the spec (state: down)"]
    return f"{way.own}, which is {'; '.join(said)}"


def _absence(a: Absence) -> str:
    until = f", until {utc(a.until)} UTC" if a.until else ""
    note = f": {escape(a.note)}" if a.note else ""
    return f"{_WORDS[a.kind]}{_far(a)} since {utc(a.since)} UTC{until}, by {escape(a.by)}{note}"
