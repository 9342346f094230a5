# SPDX-License-Identifier: Apache-2.0
"""The bonds of uplinks as they are now: the link of each member, and by which one all leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dnsteer.spec.bonds import is_lag
from dnsteer.spec.model.spec import Switch
from dnsteer.switch.bridge_rows import Bridge, Interface

LinkState = Literal["up", "down", "unknown"]


@dataclass(frozen=True)
class MemberView:
    """A member of a bond. *link* is unknown where the database does not say; *active*: packets leave by it."""

    name: str
    link: LinkState
    active: bool

    @property
    def text(self) -> str:
        """In words: `p0 up, active`."""
        return f"{self.name} {'link ' if self.link == 'unknown' else ''}{self.link}{', active' if self.active else ''}"


@dataclass(frozen=True)
class BondView:
    """A bond, with its members in the order of the spec."""

    name: str
    mode: str
    members: tuple[MemberView, ...]

    @property
    def down(self) -> tuple[str, ...]:
        """The members without a link."""
        return tuple(m.name for m in self.members if m.link == "down")

    @property
    def active(self) -> tuple[str, ...]:
        """The members by which packets leave; empty: none has a link."""
        return tuple(m.name for m in self.members if m.active)

    @property
    def idle(self) -> str:
        """Why nothing leaves by it, in words; empty: something does, or it is not known."""
        if self.active or any(m.link == "unknown" for m in self.members):
            return ""
        return "no member has a link" if len(self.down) == len(self.members) else "no partner answers by LACP"

    @property
    def text(self) -> str:
        """In words: `bond0 (active-backup): p0 up, active; p1 down`."""
        return f"{self.name} ({self.mode}): {'; '.join(m.text for m in self.members)}"

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def bonds_of(switch: Switch) -> dict[str, tuple[str, ...]]:
    """The members of each bond, the preferred one first."""
    return {name: tuple(uplink.members) for name, uplink in switch.uplinks.items() if uplink.members}


def view_bonds(switch: Switch, bridge: Bridge | None) -> tuple[BondView, ...]:
    """All bonds by what the database says of their ports. What it does not say of a link is no reason to call it down."""
    found = bonds_of(switch).items()
    return tuple(
        _lag(name, members, bridge) if is_lag(switch.uplinks[name]) else _view(name, members, bridge)
        for name, members in found
    )


def _view(name: str, members: Sequence[str], bridge: Bridge | None) -> BondView:
    links = [_link_of(bridge.ports.get(member) if bridge is not None else None) for member in members]
    active = next((i for i, link in enumerate(links) if link != "down"), None)
    views = (MemberView(m, link, i == active) for i, (m, link) in enumerate(zip(members, links, strict=True)))
    return BondView(name, "active-backup", tuple(views))


def _lag(name: str, members: Sequence[str], bridge: Bridge | None) -> BondView:
    """Those are active whose partner answers."""
    lag = bridge.lags.get(name) if bridge is not None else None
    links = {m: _link_of(lag.interfaces.get(m) if lag is not None else None) for m in members}
    current = lag.lacp_current if lag is not None else {}
    return BondView(
        name, "lacp", tuple(MemberView(m, link, link != "down" and current.get(m, False)) for m, link in links.items())
    )


def _link_of(port: Interface | None) -> LinkState:
    said = port.settings.get("link_state") if port is not None else None
    return said if said in ("up", "down") else "unknown"  # type: ignore[return-value]
