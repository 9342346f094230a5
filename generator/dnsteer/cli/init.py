"""The verb `init`: a first spec for a site, from flags, or from answers in a terminal."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterable
from ipaddress import ip_interface
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic_core import PydanticCustomError

from dnsteer.cli.output import Exit, Json, fail, out, print_json, reporting
from dnsteer.spec.draft import SITE_KINDS, Site, SiteBackend, draft_spec
from dnsteer.spec.errors import counted
from dnsteer.spec.model.spec import Flavor
from dnsteer.spec.model.types import Address, parse_address, parse_interface, parse_mac, parse_name

_T = TypeVar("_T")
_MAC = "02:00:00:00:00:53"
_FLAVORS = tuple(flavor.value for flavor in Flavor)
_ABOUT_SITES = (
    "dsr: one arm, the servers own the VIP and answer the clients themselves; nat: one arm, the servers have addresses of "
    "their own and answer through the switch; resolvers: a farm with health checks, by dsr, or by nat with --gateway"
)


def register(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command("init")(init)


def _option(flag: str, metavar: str, about: str) -> Any:
    return typer.Option(flag, metavar=metavar, help=about, show_default=False)


Kind = Annotated[str | None, _option("--site", "KIND", f"{_ABOUT_SITES}.")]
Vips = Annotated[list[str] | None, _option("--vip", "ADDRESS", "Address that clients ask; one more time for IPv6.")]
Backends = Annotated[
    list[str] | None,
    _option(
        "--backend", "NAME,ADDRESS,MAC", "A server, as often as there are; both families: NAME,ADDRESS,ADDRESS,MAC."
    ),
]
NextHop = Annotated[
    str | None, _option("--next-hop", "MAC", "MAC address of the router that answers leave to; for NAT.")
]
Gateways = Annotated[
    list[str] | None,
    _option("--gateway", "ADDRESS", "Unused address that NAT servers route their answers to; one more time for IPv6."),
]
Probes = Annotated[
    list[str] | None,
    _option("--probe", "ADDRESS/LEN", "Unused address in the servers' network for health checks by the clients' path."),
]


def init(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write; - for standard output.")
    ] = Path("spec.yaml"),
    site: Kind = None,
    vip: Vips = None,
    backend: Backends = None,
    next_hop: NextHop = None,
    gateway: Gateways = None,
    probe: Probes = None,
    zone: Annotated[
        str | None,
        _option("--zone", "NAME", "A zone that all servers have: turns on health checks of authoritative ones."),
    ] = None,
    name: Annotated[str | None, _option("--name", "NAME", "Name of the switch; the machine's by default.")] = None,
    flavor: Annotated[
        str | None, _option("--flavor", "FLAVOR", f"Which Open vSwitch: {', '.join(_FLAVORS)}; ovs-doca by default.")
    ] = None,
    bridge: Annotated[str, typer.Option("--bridge", metavar="NAME", help="The bridge, which apply makes.")] = "br-dns",
    uplink: Annotated[str | None, _option("--uplink", "PORT", "The port towards the network; p0 by default.")] = None,
    mac: Annotated[
        str | None, _option("--mac", "MAC", f"MAC address of the VIPs, unused in their network; {_MAC} by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    json: Json = False,
) -> None:
    """Write a first spec for a site, with comments: from flags, and what these leave open is asked in a terminal.

    It is checked before it is written, as by every verb that reads a spec; `dnsteer check` then proves it.
    """
    with reporting(json):
        standard = output == Path("-")
        if not standard and output.exists() and not force:
            fail(f"{output}: is there already; --force replaces it, -o names another file", Exit.ERROR, as_json=json)
        asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty() and not json
        wanted = _Answers(asks, everything=site is None)
        host = socket.gethostname().partition(".")[0] or "dpu-1"
        kind = wanted.one("--site", site, f"site ({_ABOUT_SITES})", _one_of(SITE_KINDS))
        for flag, given, other in (("--zone", zone, "resolvers"), ("--gateway", gateway, "dsr")):
            if given and kind == other:
                raise typer.BadParameter(f"found {flag} for --site {other}, which has none; expected another site")
        asked_for = wanted.optional(
            "--zone", zone, "zone that all servers have, for health checks", ask=kind != "resolvers"
        )
        described = Site(
            kind=kind,  # type: ignore[arg-type]
            name=wanted.usual("--name", name, "name of the switch", host, _by(parse_name)),
            flavor=wanted.usual("--flavor", flavor, f"Open vSwitch ({', '.join(_FLAVORS)})", "ovs-doca", _one_of(_FLAVORS)),
            bridge=_read("--bridge", bridge, _by(parse_interface)),
            uplink=wanted.usual("--uplink", uplink, "port towards the network", "p0", _by(parse_interface)),
            mac=wanted.usual("--mac", mac, "MAC address of the VIPs, unused in their network", _MAC, _by(parse_mac)),
            vips=wanted.several("--vip", vip, "address that clients ask", _by(parse_address)),
            backends=wanted.several(
                "--backend", backend, "server, as NAME,ADDRESS,MAC (both families: NAME,ADDRESS,ADDRESS,MAC)", _backend
            ),
            gateways=wanted.several(
                "--gateway", gateway, "unused address that the servers route their answers to", _by(parse_address),
                needed=kind == "nat",
            ),
            next_hop=wanted.one(
                "--next-hop", next_hop, "MAC address of the router that answers leave to", _by(parse_mac),
                needed=kind == "nat" or bool(gateway),
            ),
            probes=wanted.several(
                "--probe", probe, "unused address in the servers' network for health checks, as ADDRESS/LEN", _probe,
                needed=False, ask=kind == "resolvers" or bool(asked_for),
            ),
            zone=asked_for,
        )  # fmt: skip
        wanted.refuse_missing()
        text = draft_spec(described)
        _check(text, str(output))
        if standard:
            out.write_document(text)
            return
        from dnsteer.render.atomic_files import write_file

        write_file(output, text)
    _report(described, output, json)


def _check(text: str, file: str) -> None:
    """Refuse what every verb would refuse of the spec. Raises SpecError."""
    from dnsteer.checks.load import check_document
    from dnsteer.spec.document import parse_document

    check_document(parse_document(file, text))


def _report(site: Site, file: Path, json: bool) -> None:
    steps = [
        (f"dnsteer check {file}", "proves it on a private switch; no root, no switch needed"),
        (f"dnsteer lint {file}", "what hardware does with it"),
        (f"dnsteer bringup {file} -o bringup", "scripts that prepare this machine"),
        (f"dnsteer plan {file}", "what would change on the running switch"),
        (f"dnsteer apply {file}", "changes it"),
        *([("dnsteer agent", "checks the servers, and takes those that fail out")] if site.checked else []),
    ]
    if json:
        print_json({"ok": True, "file": str(file), "site": site.kind, "next": [command for command, _ in steps]})
        return
    out.print(f"{file}: written: site {site.kind}, {counted(len(site.backends), 'server')}; look it over, then")
    width = max(len(command) for command, _ in steps)
    out.print("\n".join(f"  {command:{width}}  {about}" for command, about in steps))


class _Answers:
    """What flags give, and in a terminal what is asked for those that are missing."""

    def __init__(self, asks: bool, *, everything: bool) -> None:
        self._asks, self._everything = asks, everything
        self._missing: list[str] = []

    def one(self, flag: str, given: str | None, what: str, read: Callable[[str], str], *, needed: bool = True) -> str:
        """The value of a flag, or the answer; empty where it is not *needed* or missing."""
        if given is not None:
            return _read(flag, given, read)
        found = self._ask(flag, what, read, one=True) if needed else ()
        return found[0] if found else ""

    def optional(self, flag: str, given: str | None, what: str, *, ask: bool) -> str:
        """The value of a flag; who is asked *everything* may answer, where it makes sense to *ask*."""
        if given is not None or not (ask and self._asks and self._everything):
            return given or ""
        return str(typer.prompt(f"{what}; empty: none", default="", show_default=False, err=True)).strip()

    def usual(self, flag: str, given: str | None, what: str, usual: str, read: Callable[[str], str]) -> str:
        """The value of a flag, else what is *usual*; who is asked *everything* is asked for this too."""
        if given is not None or not (self._asks and self._everything):
            return _read(flag, given or usual, read)
        while True:
            try:
                return read(typer.prompt(what, default=usual, err=True).strip())
            except ValueError as wrong:
                typer.echo(f"{flag}: {wrong}", err=True)

    def several(
        self, flag: str, given: Iterable[str] | None, what: str, read: Callable[[str], _T], *, needed: bool = True,
        ask: bool | None = None,
    ) -> tuple[_T, ...]:  # fmt: skip
        """The values of a flag, or the answers until an empty one."""
        if given:
            return tuple(_read(flag, text, read) for text in given)
        if not needed and not (ask and self._asks):
            return ()
        return self._ask(flag, what, read, one=False, needed=needed)

    def _ask(
        self, flag: str, what: str, read: Callable[[str], _T], *, one: bool, needed: bool = True
    ) -> tuple[_T, ...]:
        if not self._asks:
            self._missing.append(flag)
            return ()
        found = list[_T]()
        while not found or not one:
            more = "" if one else f"; {'empty: no more' if found else 'empty: none' if not needed else 'one at a time'}"
            text = typer.prompt(f"{what}{more}", default="", show_default=False, err=True).strip()
            if not text and (found or not needed):
                break
            try:
                found.append(read(text))
            except ValueError as wrong:
                typer.echo(f"{flag}: {wrong}", err=True)
        return tuple(found)

    def refuse_missing(self) -> None:
        """Raise typer.BadParameter where flags are missing that were not asked for."""
        if self._missing:
            raise typer.BadParameter(
                f"expected {', '.join(self._missing)}: there is no terminal to ask for what the flags leave open"
            )


def _read(flag: str, text: str, read: Callable[[str], _T]) -> _T:
    try:
        return read(text)
    except ValueError as wrong:
        raise typer.BadParameter(f"{flag}: {wrong}") from None


def _by(parse: Callable[[Any], _T]) -> Callable[[str], _T]:
    """A reader of the spec's own types, with its errors as ValueError in words."""

    def read(text: str) -> _T:
        try:
            return parse(text)
        except PydanticCustomError as err:
            raise ValueError(f"found {text!r}; expected {_words(err)}") from None

    return read


def _words(err: PydanticCustomError) -> str:
    about = err.context or {}
    hint = about.get("hint")
    return f"{about.get('expected') or err.message()}{f' ({hint})' if hint else ''}"


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"found {text!r}; expected one of {', '.join(words)}")
        return text

    return read


def _backend(text: str) -> SiteBackend:
    """`ns1,192.0.2.11,2001:db8::11,02:00:00:00:01:01`: a name, then its addresses and its MAC address in any order."""
    name, *others = [part.strip() for part in text.split(",")]
    macs = [part for part in others if part.count(":") == 5 and "::" not in part and len(part) == 17]
    addresses = [_by(parse_address)(part) for part in others if part not in macs]
    versions = [address.version for address in addresses]
    if len(macs) != 1 or not addresses or len(set(versions)) < len(versions):
        raise ValueError(f"found {text!r}; expected NAME,ADDRESS,MAC, or NAME,ADDRESS,ADDRESS,MAC for both families")
    ordered: list[Address] = sorted(addresses, key=lambda address: address.version)
    return SiteBackend(_by(parse_name)(name), tuple(ordered), _by(parse_mac)(macs[0]))


def _probe(text: str) -> str:
    try:
        if "/" not in text:
            raise ValueError
        ip_interface(text)
    except ValueError:
        raise ValueError(f"found {text!r}; expected an address with its prefix length, such as 192.0.2.9/24") from None
    return text
