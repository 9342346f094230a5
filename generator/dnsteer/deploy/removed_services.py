"""What a deployment removes for clients: VIPs, addresses and services without answers afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dnsteer.render.flows import Flow
from dnsteer.spec import derived
from dnsteer.spec.errors import some_of
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.tables.cookies import OBJECT_BITS, Category, cookie

_SERVICE = cookie(Category.SERVICE, 0) >> OBJECT_BITS
_ADDRESS = re.compile(r"\b(?:nw_dst|ipv6_dst)=([0-9a-f.:]+)(?=,|$)")


def removed_services(old: Spec, new: Spec) -> list[str]:
    """Return what the old spec serves and the new one does not, in words."""
    changed = {name: vip for name, vip in old.vips.items() if new.vips.get(name) != vip}
    left = {one for vip in new.vips.values() for one in _served(vip)} if changed else set()
    out = []
    for name, vip in changed.items():
        served = _served(vip)
        gone, kept = sorted(served - left), {address for address, _, _ in served & left}
        addresses = [a for a in map(str, vip.addresses) if a not in kept]
        services = sorted({f"{protocol}/{port} of {a}" for a, protocol, port in gone if a not in addresses})
        if addresses and name not in new.vips and len(addresses) == len(vip.addresses):
            out.append(f"VIP {name} ({some_of(addresses)}) removed: its clients will get no answer")
        elif addresses:
            out.append(f"VIP {name}: {some_of(addresses)} removed: its clients will get no answer")
        if services:
            out.append(f"VIP {name}: {some_of(services)} removed: its clients will get no answer")
    return out


def removed_by_flows(removed: Iterable[Flow], new: Spec) -> list[str]:
    """The same from the flows that are removed, if their spec is unknown."""
    kept = {str(a) for vip in new.vips.values() for a in vip.addresses}
    services = (flow for flow in removed if flow.cookie >> OBJECT_BITS == _SERVICE)
    found = {m[1] for flow in services if (m := _ADDRESS.search(flow.match))} - kept
    return [f"{address}, which has flows, removed: its clients will get no answer" for address in sorted(found)]


def _served(vip: Vip) -> set[tuple[str, str, int]]:
    return {(str(a), e.protocol.value, e.port) for a in vip.addresses for e in derived.endpoints(vip)}
