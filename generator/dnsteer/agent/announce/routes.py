"""The file that BIRD includes: a static protocol of each family, with a route of each VIP address that is announced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.spec.model.announce import Announce, VipAnnounce
from dnsteer.spec.model.types import Address
from dnsteer.switch.control_socket import canonical_remote

_OWNER = re.compile(r"# Routes of bridge (.+) in OVSDB at (.+)")
_ROUTE = re.compile(r"^\s*route (\S+)/(?:32|128) ", re.M)
FAMILIES = (4, 6)
"""IP versions, in the order of their protocols."""


@dataclass(frozen=True)
class RouteOwner:
    """Whose routes a file has: those of a bridge, in the OVSDB of a switch."""

    bridge: str
    remote: str

    @property
    def line(self) -> str:
        """The line that says so."""
        return f"# Routes of bridge {self.bridge} in OVSDB at {self.remote}"

    def is_same(self, other: RouteOwner) -> bool:
        """Whether both are the same bridge, however its OVSDB is spelled."""
        return self.bridge == other.bridge and canonical_remote(self.remote) == canonical_remote(other.remote)


def protocols(announce: Announce) -> list[str]:
    """The names of the protocols in the file."""
    return [f"{announce.protocol}{family}" for family in FAMILIES]


def text(owner: RouteOwner, announce: Announce, routes: Mapping[Address, VipAnnounce]) -> str:
    """The file. The same routes give the same text."""
    lines = [owner.line, "# dnsteer agent writes this file: what is changed here is lost."]
    for family, name in zip(FAMILIES, protocols(announce), strict=True):
        lines += [f"protocol static {name} {{", f"  ipv{family};"]
        of_family = sorted(address for address in routes if address.version == family)
        lines += [f"  {_route(address, routes[address])}" for address in of_family]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _route(address: Address, how: VipAnnounce) -> str:
    # A blackhole: BIRD needs no way to the VIP, which only has to be announced.
    attributes = [] if how.med is None else [f"bgp_med = {how.med};"]
    for community in how.communities:
        parts = community.split(":")
        kind = "bgp_community" if len(parts) == 2 else "bgp_large_community"
        attributes.append(f"{kind}.add(({','.join(parts)}));")
    more = f" {{ {' '.join(attributes)} }}" if attributes else ""
    return f"route {address}/{address.max_prefixlen} blackhole{more};"


def owner_of(content: str) -> RouteOwner | None:
    """Whose routes a file has; None where it is not a file of dnsteer's."""
    found = _OWNER.match(content)
    return RouteOwner(found[1], found[2]) if found is not None else None


def addresses_of(content: str) -> set[Address]:
    """The addresses that a file of dnsteer's announces."""
    return {ip_address(found) for found in _ROUTE.findall(content)}
