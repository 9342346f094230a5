# SPDX-License-Identifier: Apache-2.0
"""Which routes a spec wants to be announced, and how."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_network

from dnsteer.spec.model.announce import AnnouncedPrefix, LastResort, RouteSettings, VipAnnounce
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.spec.model.types import Network


def settings_of(vip: Vip) -> VipAnnounce | None:
    """How a VIP is announced where the switch announces its VIPs; None: never."""
    if vip.announce == "never":
        return None
    return vip.announce or VipAnnounce()


def announced_vips(spec: Spec) -> dict[str, VipAnnounce]:
    """The VIPs that are announced while they work, with their settings; empty where the switch announces none."""
    if spec.switch.announce is None:
        return {}
    found = {name: settings_of(vip) for name, vip in spec.vips.items()}
    return {name: settings for name, settings in found.items() if settings is not None}


def vip_routes(vip: Vip) -> list[Network]:
    """What routes to a VIP lead to: each of its addresses."""
    return [ip_network(address) for address in vip.addresses]


def announced_prefixes(spec: Spec) -> list[AnnouncedPrefix]:
    """The prefixes that are announced beside the VIPs in them."""
    return spec.switch.announce.prefixes if spec.switch.announce is not None else []


def vips_in(spec: Spec, prefix: Network) -> list[str]:
    """The announced VIPs that have an address in a prefix."""
    return [
        name
        for name in announced_vips(spec)
        if any(address.version == prefix.version and address in prefix for address in spec.vips[name].addresses)
    ]


def routes_of(
    spec: Spec, working: Mapping[str, bool], last_resort: Collection[str] = ()
) -> dict[Network, RouteSettings]:
    """The routes of VIPs that work, and of prefixes that enough of them are in. An address that several VIPs have needs all.

    Those of *last_resort* are for routers that have nothing better, where `switch.announce.when_none_pass` has a MED; so is
    a prefix that is announced only for them.
    """
    wanted = announced_vips(spec)
    missing = {route for name in wanted if not working.get(name) for route in vip_routes(spec.vips[name])}
    resort = spec.switch.announce.when_none_pass if spec.switch.announce is not None else None
    worse = {"med": resort.med} if isinstance(resort, LastResort) else {}
    last = {route for name in last_resort for route in vip_routes(spec.vips[name])}
    found: dict[Network, RouteSettings] = {}
    for one in announced_prefixes(spec):
        works = [name for name in vips_in(spec, one.prefix) if working.get(name)]
        if len(works) >= one.min_vips:
            is_last = sum(name not in last_resort for name in works) < one.min_vips
            found[one.prefix] = one.model_copy(update=worse) if is_last else one
    for name, settings in wanted.items():
        for route in vip_routes(spec.vips[name]):
            if route not in missing:
                found[route] = settings.model_copy(update=worse) if route in last else settings
    return found
