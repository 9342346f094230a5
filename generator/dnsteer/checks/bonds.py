# SPDX-License-Identifier: Apache-2.0
"""Rules that bonds must keep: each member is a port of one bond, and nothing is asked of a bond that its members do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dnsteer.spec.bonds import is_lag, lag_names
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope

_LEAST, _MOST = 2, 8
MAX_INTERFACE = 15
"""Characters of the name of a network device in Linux (IFNAMSIZ)."""


def check_bonds(scope: Scope) -> Iterator[Finding]:
    """All findings of bonds."""
    switch = scope.spec.switch
    taken = {switch.bridge: "the bridge's own port"}
    taken |= dict.fromkeys(switch.uplinks, "an uplink") | dict.fromkeys(switch.ports, "a port of backends")
    bonds = {name: uplink for name, uplink in switch.uplinks.items() if uplink.members is not None}
    for name, uplink in switch.uplinks.items():
        path: Path = ("switch", "uplinks", name)
        if uplink.members is None:
            if uplink.mode is not None:
                yield scope.finding(
                    (*path, "mode"), "a mode without members", "members beside it", "a port alone is no bond: remove it"
                )
            continue
        if not _LEAST <= len(uplink.members) <= _MOST:
            yield scope.finding(
                (*path, "members"),
                f"{len(uplink.members)} member{'s' if len(uplink.members) > 1 else ''}",
                f"{_LEAST} to {_MOST}",
                "a port alone is an uplink without members" if len(uplink.members) < _LEAST else "leave some out",
            )
        for key in ("type", "options"):
            if getattr(uplink, key):
                yield scope.finding(
                    (*path, key),
                    f"{key} of a bond",
                    f"{key} at its members",
                    "a bond is no port of the switch: its members are",
                )
        for member in uplink.members:
            if member in taken:
                yield scope.finding(
                    (*path, "members", member),
                    f'"{member}", which is {taken[member]}',
                    "a port that has no other use",
                    "remove it here or there",
                )
            taken.setdefault(member, f"a member of {name}")
    for name in (name for name, uplink in bonds.items() if is_lag(uplink)):
        yield from _lag(scope, name, taken)
    if bonds and switch.extension is not None:
        yield scope.finding(
            ("switch", "uplinks", next(iter(bonds)), "members"),
            "a bond with switch.extension",
            "uplinks of one port",
            "what the extension gives back leaves by one port: give the uplink one, or a bond that the machine makes, which "
            "is one port",
        )


def _lag(scope: Scope, name: str, taken: Mapping[str, str]) -> Iterator[Finding]:
    """Check the names of what stands beside the bridge for a bond by LACP."""
    path: Path = ("switch", "uplinks", name)
    names = lag_names(name)
    if len(names.bridge) > MAX_INTERFACE:
        most = MAX_INTERFACE - len(names.bridge) + len(name)
        yield scope.finding(
            path,
            f'"{name}" with mode lacp, a name of {len(name)} characters',
            f"at most {most}",
            f"the bond gets a bridge of its own, {names.bridge}, and Linux takes {MAX_INTERFACE} characters",
        )
    probe = scope.spec.switch.probe
    for own in names:
        used = taken.get(own) or ("the port for probes" if probe is not None and probe.port == own else "")
        if used:
            yield scope.finding(
                path,
                f'"{name}" with mode lacp, which needs the name {own}, that of {used}',
                "a name that leaves that one free",
                "rename one of them",
            )
