# SPDX-License-Identifier: Apache-2.0
"""The verb `init`: a first spec for a site, from flags, or from answers in a terminal."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic_core import PydanticCustomError

from dnsteer.cli.init_files import (
    STANDARD_OUTPUT,
    files_of_spec,
    keep_draft,
    report_written,
    why_unwritable,
    write_spec,
)
from dnsteer.cli.output import Exit, Json, fail, out, print_json, reporting
from dnsteer.spec.draft import SITE_KINDS, Site, SiteBackend, draft_spec
from dnsteer.spec.errors import MAX_SHOWN, Finding, SpecError, show_path
from dnsteer.spec.errors import Path as SpecPath
from dnsteer.spec.model.spec import Flavor
from dnsteer.spec.model.types import Address, parse_address, parse_interface, parse_mac, parse_name

_T = TypeVar("_T")
_MAC = "02:00:00:00:00:53"
_FLAVORS = tuple(flavor.value for flavor in Flavor)
_FLAGS = (
    ("switch.name", "--name"),
    ("switch.flavor", "--flavor"),
    ("switch.bridge", "--bridge"),
    ("switch.uplinks", "--uplink"),
    ("switch.mac", "--mac"),
    ("switch.gateways", "--gateway"),
    ("switch.probe", "--probe"),
    ("pools.*.health", "--zone"),
    ("pools.*.backends", "--backend"),
    ("pools", "--backend"),
    ("vips", "--vip"),
)
"""Places in the draft, the inner ones first, with the flags that say what stands there; `*` is any key."""
_PLACE, _STEP = re.compile(r"line \d+, (\$[^\s;,)]+)"), re.compile(r"\.([\w-]+)|\[(\d+)\]")
"""Another place that a finding points to, and the keys and indices of its path."""
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
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write; - for standard output. Left out: spec.yaml, or with --parts NAME.yaml.",
            show_default=False,
        ),
    ] = None,
    parts: Annotated[
        bool,
        typer.Option(
            "--parts",
            help="Write what the switches of the site have in common into site.yaml beside the file, and the switch's own "
            "values into vars/NAME.yaml, so that another switch is two small files more.",
        ),
    ] = False,
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
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
) -> None:
    """Write a first spec for a site, with comments: from flags, and what these leave open is asked in a terminal.

    It is checked before it is written, as by every verb that reads a spec; `dnsteer check` then proves it.
    """
    with reporting(json):
        if parts and output == STANDARD_OUTPUT:
            raise typer.BadParameter("found -o - with --parts, which writes three files; expected the name of a file")
        asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty() and not json
        flags = _Flags(site, vip, backend, next_hop, gateway, probe, zone, name, flavor, bridge, uplink, mac)
        # wrong flags, and files that are there, are said before anything is asked
        known = _describe(flags, _Answers(asks=False, everything=False), asks=asks)
        asks_name = asks and site is None and name is None
        files = files_of_spec(output, "" if asks_name else known.name, parts=parts)
        why = "" if output == STANDARD_OUTPUT else why_unwritable(files, parts=parts, force=force)
        if why:
            fail(why, Exit.ERROR, as_json=json)

        def read_name(text: str) -> str:
            """The name of the switch; its files may be there."""
            asked = _by(parse_name)(text)
            why = why_unwritable(files_of_spec(output, asked, parts=True), parts=True, force=force) if parts else ""
            if why:
                raise ValueError(why)
            return asked

        wanted = _Answers(asks, everything=site is None)
        described = _describe(flags, wanted, asks=asks, read_name=read_name)
        wanted.refuse_missing()
        files = files_of_spec(output, described.name, parts=parts)
        text = draft_spec(described)
        try:
            _check(text, str(files[0]))
        except SpecError as error:
            if wanted.answered:
                keep_draft(error, described, files)
            _refuse(error, described, json=json)
        if output == STANDARD_OUTPUT:
            out.write_document(text)
            return
        write_spec(described, files)
    report_written(described, files, json=json)


@dataclass(frozen=True)
class _Flags:
    """What the flags of the site's description say."""

    site: str | None
    vip: list[str] | None
    backend: list[str] | None
    next_hop: str | None
    gateway: list[str] | None
    probe: list[str] | None
    zone: str | None
    name: str | None
    flavor: str | None
    bridge: str
    uplink: str | None
    mac: str | None


def _describe(flags: _Flags, wanted: _Answers, *, asks: bool, read_name: Callable[[str], str] | None = None) -> Site:
    """The site by the flags, and by the answers to what they leave open. Where it *asks*, a zone that checks need may be
    answered. Raises typer.BadParameter for a flag that is wrong, or that the site has no use for.
    """
    host = socket.gethostname().partition(".")[0] or "dpu-1"
    kind = wanted.one("--site", flags.site, f"site ({_ABOUT_SITES})", _one_of(SITE_KINDS))
    _refuse_unused(kind, flags)
    zone = _zone(kind, flags, wanted)
    site = Site(
        kind=kind,  # type: ignore[arg-type]
        name=wanted.usual("--name", flags.name, "name of the switch", host, read_name or _by(parse_name)),
        flavor=wanted.usual(
            "--flavor", flags.flavor, f"Open vSwitch ({', '.join(_FLAVORS)})", "ovs-doca", _one_of(_FLAVORS)
        ),
        bridge=_read("--bridge", flags.bridge, _by(parse_interface)),
        uplink=wanted.usual("--uplink", flags.uplink, "port towards the network", "p0", _by(parse_interface)),
        mac=wanted.usual("--mac", flags.mac, "MAC address of the VIPs, unused in their network", _MAC, _by(parse_mac)),
        vips=wanted.several("--vip", flags.vip, "address that clients ask", _by(parse_address)),
        backends=wanted.several(
            "--backend",
            flags.backend,
            "server, as NAME,ADDRESS,MAC (both families: NAME,ADDRESS,ADDRESS,MAC)",
            _backend,
        ),
        gateways=wanted.several(
            "--gateway",
            flags.gateway,
            "unused address that the servers route their answers to",
            _by(parse_address),
            needed=kind == "nat",
        ),
        next_hop=wanted.one(
            "--next-hop",
            flags.next_hop,
            "MAC address of the router that answers leave to",
            _by(parse_mac),
            needed=kind == "nat" or bool(flags.gateway),
        ),
        probes=wanted.several(
            "--probe",
            flags.probe,
            "unused address in the servers' network for health checks, as ADDRESS/LEN",
            _probe,
            needed=False,
            ask=kind == "resolvers" or bool(zone),
        ),
        zone=zone,
    )
    if kind and site.probes and not (site.checked or asks):
        raise typer.BadParameter(
            "found --probe without --zone, so that nothing would be checked from there; expected --zone NAME too, a zone "
            "that all servers have"
        )
    return site


def _refuse_unused(kind: str, flags: _Flags) -> None:
    """Refuse flags that the site has no use for; *kind* is empty where it is not known yet. Raises typer.BadParameter."""
    for flag, given, other in (("--zone", flags.zone, "resolvers"), ("--gateway", flags.gateway, "dsr")):
        if given and kind == other:
            raise typer.BadParameter(f"found {flag} for --site {other}, which has none; expected another site")
    if flags.next_hop and (kind == "dsr" or (kind == "resolvers" and not flags.gateway)):
        raise typer.BadParameter(
            f"found --next-hop for servers that answer the clients themselves (--site {kind}); expected it "
            + ("together with --gateway, for answers through the switch" if kind == "resolvers" else "for --site nat")
        )


def _zone(kind: str, flags: _Flags, wanted: _Answers) -> str:
    """The zone that authoritative servers are asked for; empty where they are not checked."""
    what = "zone that all servers have, for health checks"
    if flags.probe and kind in ("dsr", "nat"):
        return wanted.one("--zone", flags.zone, what, _zone_name)
    return wanted.optional("--zone", flags.zone, what, _zone_name, ask=kind != "resolvers")


def _check(text: str, file: str) -> None:
    """Refuse what every verb would refuse of the spec. Raises SpecError."""
    from dnsteer.checks.load import check_document
    from dnsteer.spec.read import parse_document

    check_document(parse_document(file, text))


def _refuse(error: SpecError, site: Site, *, json: bool) -> NoReturn:
    """Say what is wrong with the site: each finding names its flag."""
    findings = [(_flag_of(f.path, site), _without_lines(f, site)) for f in error.findings]
    if json:
        found = [{**f.as_json(error.file), "flag": flag} for flag, f in findings]
        print_json({"ok": False, "errors": found, "more": error.more})
        raise typer.Exit(Exit.ERROR)
    lines = [replace(finding, path=()).text(flag) for flag, finding in findings[:MAX_SHOWN]]
    left = len(findings) + error.more - len(lines)
    lines += [f"and {left} more (--json shows all)"] if left else []
    fail("\n".join([*lines, "nothing was written"]), Exit.ERROR)


def _without_lines(finding: Finding, site: Site) -> Finding:
    """The finding without line numbers, since the operator has no draft: it refers to other places by their flags."""

    def flag(place: re.Match[str]) -> str:
        steps = _STEP.findall(place[1])
        return _flag_of(tuple(int(index) if index else key for key, index in steps), site)

    found, expected, hint = (_PLACE.sub(flag, text) for text in (finding.found, finding.expected, finding.hint))
    return replace(finding, line=0, found=found, expected=expected, hint=hint)


def _flag_of(path: SpecPath, site: Site) -> str:
    """The flag that says what the draft has at a path, with its value where it may be given several times."""
    match path:
        case ("pools", _, "backends", int(n), *_):
            return f"--backend {site.backends[n].name}"
        case ("vips", _, "addresses", int(n), *_):
            return f"--vip {site.vips[n]}"
        case ("switch", "gateways", int(n), *_):
            return f"--gateway {site.gateways[n]}"
        case ("switch", "probe", "addresses", int(n), *_):
            return f"--probe {site.probes[n]}"
        case ("switch", "uplinks", _, "next_hop", *_):
            return "--next-hop"
        case (first, *rest):
            words = (str(first), *(str(word) for word in rest))
            return next((flag for place, flag in _FLAGS if _is_below(words, place)), show_path(path))
    return "the site"


def _is_below(words: Sequence[str], place: str) -> bool:
    keys = place.split(".")
    return len(words) >= len(keys) and all(key in ("*", word) for key, word in zip(keys, words, strict=False))


class _Answers:
    """Values of flags, and in a terminal answers to questions for the missing ones."""

    def __init__(self, asks: bool, *, everything: bool) -> None:
        self._asks, self._everything = asks, everything
        self._missing: list[str] = []
        self.answered = False
        """Whether anything was asked for."""

    def one(self, flag: str, given: str | None, what: str, read: Callable[[str], str], *, needed: bool = True) -> str:
        """The value of a flag, or the answer; empty where it is not *needed* or missing."""
        if given is not None:
            return _read(flag, given, read)
        found = self._ask(flag, what, read, one=True) if needed else ()
        return found[0] if found else ""

    def optional(self, flag: str, given: str | None, what: str, read: Callable[[str], str], *, ask: bool) -> str:
        """The value of a flag; with *everything* asked for, also an answer, where it makes sense to *ask*."""
        if given:
            return _read(flag, given, read)
        if not (ask and self._asks and self._everything):
            return ""
        while True:
            text = self._prompt(f"{what}; empty: none")
            try:
                return read(text) if text else ""
            except ValueError as wrong:
                typer.echo(f"{flag}: {wrong}", err=True)

    def usual(self, flag: str, given: str | None, what: str, usual: str, read: Callable[[str], str]) -> str:
        """The value of a flag, else the *usual* one; with *everything* asked for, the answer."""
        if given is not None or not (self._asks and self._everything):
            return _read(flag, given or usual, read)
        while True:
            try:
                return read(self._prompt(what, usual))
            except ValueError as wrong:
                typer.echo(f"{flag}: {wrong}", err=True)

    def several(
        self,
        flag: str,
        given: Iterable[str] | None,
        what: str,
        read: Callable[[str], _T],
        *,
        needed: bool = True,
        ask: bool | None = None,
    ) -> tuple[_T, ...]:
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
            text = self._prompt(f"{what}{more}")
            if not text and (found or not needed):
                break
            try:
                found.append(read(text))
            except ValueError as wrong:
                typer.echo(f"{flag}: {wrong}", err=True)
        return tuple(found)

    def _prompt(self, what: str, usual: str = "") -> str:
        self.answered = True
        return str(typer.prompt(what, default=usual, show_default=bool(usual), err=True)).strip()

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


def _zone_name(text: str) -> str:
    """A name that a check can ask for, as it was written."""
    from dnsteer.spec.model.health import parse_query_name

    _by(parse_query_name)(text)
    return text


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
