# SPDX-License-Identifier: Apache-2.0
"""Rules of access lists: how long they may be, that somebody may ask at all, and what in them is of no use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses

from dnsteer.slots.denial import Denial
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.access import MAX_ENTRIES, AccessEntry, AccessRules
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.spec.model.types import Network

LEAVES_OUT, NO_CLIENTS = "closed access lists that leave out a family", "services that no client may ask"
"""Kinds of warnings of lists that keep everybody out of something."""
_VERSION_NAMES = {4: "IPv4", 6: "IPv6"}
_EVERYBODY: dict[int, Network] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


def check_access(scope: Scope) -> Iterator[Finding]:
    """All findings of access lists."""
    lists = list(_lists(scope))
    for path, access, vips in lists:
        if not access.entries:
            hint = "give it deny, allow, deny_file or allow_file, or remove the key"
            yield scope.finding(path, "an access list without an entry", "at least one entry", hint)
        yield from _nobody(scope, path, access, vips)
    distinct = {(tuple(a.deny or ()), tuple(a.allow or ())): path for path, a, _ in lists}
    total = sum(len(deny) + len(allow) for deny, allow in distinct)
    if total > MAX_ENTRIES:
        path = max(lists, key=lambda each: each[1].entries)[0]
        yield scope.finding(
            path,
            f"{total:,} entries in all access lists",
            f"at most {MAX_ENTRIES:,}",
            "join prefixes that lie side by side, and put what all VIPs have in common into switch.access",
        )


def doubtful_access(scope: Scope) -> Iterator[Finding]:
    """Warnings about access lists: entries that do nothing, and families that a closed list leaves out."""
    for path, access, vips in _lists(scope):
        yield from _twice(scope, path, access)
        yield from _unused_ports(scope, path, access, vips)
        yield from _left_out(scope, path, access, vips)
    yield from _without_clients(scope)


def _lists(scope: Scope) -> Iterator[tuple[Path, AccessRules, list[Vip]]]:
    """Each list with its path, and the VIPs that it is for."""
    spec = scope.spec
    if spec.switch.access is not None:
        yield ("switch", "access"), spec.switch.access, list(spec.vips.values())
    for name, vip in spec.vips.items():
        if vip.access is not None:
            yield ("vips", name, "access"), vip.access, [vip]


def _versions(vips: list[Vip]) -> list[int]:
    """The IP versions of the addresses of VIPs."""
    return sorted({address.version for vip in vips for address in vip.addresses})


def _nobody(scope: Scope, path: Path, access: AccessRules, vips: list[Vip]) -> Iterator[Finding]:
    """Refuse a list that denies every client of a family."""
    allowed = {entry.prefix.version for entry in access.allow or ()}
    for version in _versions(vips):
        if version in allowed:
            continue
        denied = [e for e in access.deny or () if e.prefix.version == version and e.port is None]
        if list(collapse_addresses(e.prefix for e in denied)) == [_EVERYBODY[version]]:  # type: ignore[type-var]
            name = _VERSION_NAMES[version]
            yield scope.finding(
                (*path, "deny"),
                f"every client over {name}",
                f"a list that lets some clients over {name} ask",
                f"name those in allow; to serve nobody over {name}, remove the VIPs' addresses of {name}",
            )


def _twice(scope: Scope, path: Path, access: AccessRules) -> Iterator[Finding]:
    seen: dict[AccessEntry, Path] = {}
    for key in ("deny", "allow"):
        for i, entry in enumerate(getattr(access, key) or ()):
            at: Path = (*path, key, i)
            first = seen.setdefault(entry, at)
            if first is at:
                continue
            same = first[-2] == key
            yield scope.finding(
                at,
                f"{entry}, which {scope.where(first)} has already",
                "each prefix once" if same else "each prefix in deny or in allow",
                "remove one of the two" if same else "it is denied: of entries with the same prefix deny counts",
                "entries of access lists that stand there twice",
            )


def _unused_ports(scope: Scope, path: Path, access: AccessRules, vips: list[Vip]) -> Iterator[Finding]:
    ports = {end.port for vip in vips for end in derived.endpoints(vip)}
    for key in ("deny", "allow"):
        for i, entry in enumerate(getattr(access, key) or ()):
            if entry.port is not None and entry.port not in ports:
                yield scope.finding(
                    (*path, key, i),
                    f"port {entry.port}, at which no service is",
                    f"a port of a service: {', '.join(map(str, sorted(ports)))}",
                    "the entry does nothing: queries to other ports are dropped anyway",
                    "entries of access lists with a port that no service has",
                )


def _left_out(scope: Scope, path: Path, access: AccessRules, vips: list[Vip]) -> Iterator[Finding]:
    if not access.is_closed:
        return
    allowed = {entry.prefix.version for entry in access.allow or ()}
    for version in _versions(vips):
        if version not in allowed:
            name = _VERSION_NAMES[version]
            yield scope.finding(
                (*path, "allow"),
                f"no prefix of {name}, in a list without deny",
                f"a prefix of {name}, as there are VIPs with addresses of {name}",
                f"a list of allow alone is closed, so that every client over {name} is denied",
                LEAVES_OUT,
            )


def _without_clients(scope: Scope) -> Iterator[Finding]:
    """Services that no client may ask, by the switch's list and that of the VIP together."""
    spec = scope.spec
    for name, vip in spec.vips.items():
        lists = [each for each in (spec.switch.access, vip.access) if each is not None]
        path: Path = ("vips", name, "access") if vip.access is not None else ("switch", "access")
        for version in _versions([vip]):
            if any(_leaves_out(each, version) for each in lists):
                continue  # which is said of the list
            ports = list(dict.fromkeys(end.port for end in derived.endpoints(vip)))
            dead = [port for port in ports if not _has_client(lists, version, port)]
            if dead:
                what = f"port{'s' if len(dead) > 1 else ''} {', '.join(map(str, dead))} of VIP {name}"
                yield scope.finding(
                    path,
                    f"no client over {_VERSION_NAMES[version]} that may ask {what}",
                    "a list that lets some clients ask each service",
                    "a query must pass the switch's list and that of its VIP: allow some clients in both",
                    NO_CLIENTS,
                )


def denied_services(spec: Spec, denials: Sequence[Denial]) -> list[str]:
    """What no client may ask any more where *denials* are made by hand, in words; nothing of what none may by the spec."""
    found: list[str] = []
    known: dict[tuple[object, ...], bool] = {}
    for name, vip in spec.vips.items():
        lists = [each for each in (spec.switch.access, vip.access) if each is not None]
        mine = [denial for denial in denials if denial.vip in ("", name)]
        for version in _versions([vip]):
            own = [denial for denial in mine if denial.network.version == version]
            for port in dict.fromkeys(end.port for end in derived.endpoints(vip)) if own else ():
                networks = list(collapse_addresses(a.network for a in own if a.port in (0, port)))  # type: ignore[type-var]
                key = id(vip.access), version, port, tuple(networks)
                if key not in known:  # VIPs without a list are alike
                    known[key] = _has_client(lists, version, port, networks) or not _has_client(lists, version, port)
                if not known[key]:
                    found.append(f"no client over {_VERSION_NAMES[version]} may ask port {port} of VIP {name} any more")
    return found


def _leaves_out(access: AccessRules, version: int) -> bool:
    return access.is_closed and all(entry.prefix.version != version for entry in access.allow or ())


def _has_client(lists: list[AccessRules], version: int, port: int, denied: Sequence[Network] = ()) -> bool:
    """Whether an address passes all lists and is not *denied*. Between the ends of prefixes all addresses are alike."""
    tables = [_verdicts(access, version, port) for access in lists]
    if denied:
        tables.append((dict.fromkeys(denied, False), True))
    ends = {0}
    for verdicts, _ in tables:
        for prefix in verdicts:
            ends |= {int(prefix.network_address), int(prefix.broadcast_address) + 1}
    width = _EVERYBODY[version].max_prefixlen
    lengths = [sorted({prefix.prefixlen for prefix in verdicts}, reverse=True) for verdicts, _ in tables]
    return any(
        all(
            _passes(address, width, verdicts, own, default)
            for (verdicts, default), own in zip(tables, lengths, strict=True)
        )
        for address in sorted(ends)
        if address < 1 << width
    )


def _verdicts(access: AccessRules, version: int, port: int) -> tuple[dict[Network, bool], bool]:
    """What a list says of each of its prefixes for a port, True to let pass, and of all other addresses."""
    found: dict[Network, bool] = {}
    for passes, entries in ((True, access.allow or ()), (False, access.deny or ())):  # of equal prefixes deny counts
        found |= {e.prefix: passes for e in entries if e.prefix.version == version and e.port in (None, port)}
    return found, not access.is_closed


def _passes(address: int, width: int, verdicts: dict[Network, bool], lengths: list[int], default: bool) -> bool:
    kind = IPv4Network if width == 32 else IPv6Network
    for length in lengths:
        verdict = verdicts.get(kind((address >> width - length << width - length, length)))
        if verdict is not None:
            return verdict
    return default
