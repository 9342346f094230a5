"""Verbs that prove and explain a spec on a private switch: `check` and `explain`. No root needed."""

from __future__ import annotations

import ipaddress
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dnsteer.cli.output import Exit, Json, SpecFile, Verbose, err, fail, load, out, print_json, reporting, spec_warnings

if TYPE_CHECKING:
    from dnsteer.proof.check import Report
    from dnsteer.proof.explain import Step, Way
    from dnsteer.spec.types import Address


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("check")(check)
    app.command("explain")(explain)


def check(
    spec: SpecFile,
    json: Json = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Send packets for N slots of each service instead of all; for huge specs."
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Prove the spec on a private ovs-vswitchd: every byte of every kind of packet, both ways."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from dnsteer.proof.check import check as run_check

    with reporting(json):
        loaded = load(spec, json, verbose)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=err.rich, transient=True, disable=json or not sys.stderr.isatty()) as progress:
            task, sent = progress.add_task("starting a private switch", total=None), 0

            def tell(count: int, queries: int) -> None:
                nonlocal sent
                sent += count
                words = f"{sent:,} packets, of about {max(sent, queries):,}"
                progress.update(task, completed=sent, total=max(sent, queries), description=words)

            report = run_check(loaded, per_service=sample, progress=tell)
    if json:
        print_json({**report.as_json(), **spec_warnings(loaded)})
        raise typer.Exit(Exit.OK if report.ok else Exit.ERROR)
    for failure in report.failures:
        out.print(f"FAILED {failure.vector} at {failure.port}: {failure.problem}")
        for line in failure.detail:
            out.print(f"    {line}")
    for complaint in report.complaints:
        out.print(f"FAILED the switch's log: {complaint}")
    for note in report.notes:
        out.print(f"note: {note}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(report.packets.items()))
    total = sum(report.packets.values())
    out.print(f"{loaded.file}: {report.flows} flows, {report.groups} groups on Open vSwitch {report.ovs}")
    out.print(f"  {total} packets ({kinds}); {report.coverage}")
    out.print(
        f"  {report.megaflows} megaflows, {report.masks} masks, {report.recirculations} recirculations "
        f"for queries and answers"
    )
    if report.extension:
        out.print(f"  {report.extended} packets through the extension, {report.extension}")
    out.print(f"  {verdict(report)}; {report.seconds:.1f} s")
    if not report.ok:
        raise typer.Exit(Exit.ERROR)


def verdict(report: Report) -> str:
    """The result of a check in one phrase."""
    found = []
    if report.failed:
        found.append(f"{report.failed} {'findings' if report.failed > 1 else 'finding'} against the spec")
    if report.complaints:
        found.append(
            f"{len(report.complaints)} {'warnings' if len(report.complaints) > 1 else 'warning'} of the switch"
        )
    return f"FAILED: {', '.join(found)}" if found else "every byte as the spec says"


def explain(
    spec: SpecFile,
    client: Annotated[str | None, typer.Option(metavar="ADDR:PORT", help="The client; an IPv6 address in [].")] = None,
    vip: Annotated[
        str | None, typer.Option(metavar="ADDR:PORT/PROTO", help="The VIP, such as 192.0.2.53:53/udp.")
    ] = None,
    uplink: Annotated[str | None, typer.Option(help="Uplink that the query comes in by; the first by default.")] = None,
    cookie: Annotated[str | None, typer.Option(metavar="0x...", help="Name the object behind a flow's cookie.")] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Say which backend a client gets and through which flows, or what a cookie stands for."""
    with reporting(json):
        if cookie is not None and client is None and vip is None:
            _cookie(spec, cookie, json, verbose)
        elif client is not None and vip is not None and cookie is None:
            _query(spec, client, vip, uplink, json, verbose)
        else:
            fail("give either --client and --vip, or --cookie", Exit.USAGE)


def _cookie(spec: SpecFile, text: str, json: bool, verbose: bool) -> None:
    from dnsteer.proof.explain import explain_cookie, is_tagged
    from dnsteer.spec.errors import show_path

    try:
        number = int(text, 16)
    except ValueError:
        fail(f"--cookie: found {text!r}; expected a hexadecimal number such as 0xd453020000006ff4", Exit.USAGE)
    loaded = load(spec, json, verbose)
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


def _show(way: Way, file: str) -> None:
    """Print the way of a query."""
    out.print(f"query    {way.query}, in by {way.ingress}")
    chosen = f"slot {way.slot}" if way.slot is not None else "none"
    if way.slot is None and way.backend:
        chosen = f"slot {_CHOSEN.get(way.selection, 'chosen')}"
    out.print(f"slot     {chosen}")
    out.print(f"backend  {way.backend or 'none'}  ({way.why})")
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


def _query(spec: SpecFile, client: str, vip: str, uplink: str | None, json: bool, verbose: bool) -> None:
    from dnsteer.proof.explain import explain_query
    from dnsteer.spec.model import Protocol

    source, sport = _endpoint("--client", client)
    where, _, protocol = vip.partition("/")
    if protocol not in ("udp", "tcp"):
        fail(f"--vip: found {vip!r}; expected an address, port and protocol such as 192.0.2.53:53/udp", Exit.USAGE)
    address, port = _endpoint("--vip", where)
    if source.version != address.version:
        fail("--client and --vip are of different families", Exit.USAGE)
    loaded = load(spec, json, verbose)
    uplinks = list(loaded.spec.switch.uplinks)
    ingress = uplink or uplinks[0]
    if ingress not in uplinks:
        fail(f"--uplink: found {ingress!r}; expected one of {', '.join(uplinks)}", Exit.USAGE)
    way = explain_query(loaded, source, sport, address, port, Protocol(protocol), ingress)
    if json:
        print_json({**asdict(way), **spec_warnings(loaded)})
    else:
        _show(way, loaded.file)
    if not way.as_expected:
        fail("this is not what the spec says; run `dnsteer check`", Exit.ERROR)
