"""Which addresses a spec wants to be announced, and how."""

from __future__ import annotations

from collections.abc import Mapping

from dnsteer.spec.model.announce import VipAnnounce
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.spec.model.types import Address


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


def prefixes(vip: Vip) -> list[str]:
    """What routes to a VIP lead to."""
    return [f"{address}/{address.max_prefixlen}" for address in vip.addresses]


def routes_of(spec: Spec, working: Mapping[str, bool]) -> dict[Address, VipAnnounce]:
    """The routes of VIPs that work. An address that several VIPs have needs all of them."""
    wanted = announced_vips(spec)
    missing = {address for name in wanted if not working.get(name) for address in spec.vips[name].addresses}
    return {
        address: settings
        for name, settings in wanted.items()
        for address in spec.vips[name].addresses
        if address not in missing
    }
