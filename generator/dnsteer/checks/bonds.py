# SPDX-License-Identifier: Apache-2.0
"""Rules that bonds must keep: each member is a port of one bond, and nothing is asked of a bond that its members do."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope

_LEAST, _MOST = 2, 8


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
    if bonds and switch.extension is not None:
        yield scope.finding(
            ("switch", "uplinks", next(iter(bonds)), "members"),
            "a bond with switch.extension",
            "uplinks of one port",
            "what the extension gives back leaves by one port: give the uplink one, or a bond that the machine makes, which "
            "is one port",
        )
