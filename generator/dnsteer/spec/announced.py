# SPDX-License-Identifier: Apache-2.0
"""Which addresses a spec wants to be announced, and how."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dnsteer.spec.model.announce import LastResort, VipAnnounce
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


def routes_of(spec: Spec, working: Mapping[str, bool], last_resort: Collection[str] = ()) -> dict[Address, VipAnnounce]:
    """The routes of VIPs that work. An address that several VIPs have needs all of them.

    Those of *last_resort* are for routers that have nothing better, where `switch.announce.when_none_pass` has a MED.
    """
    wanted = announced_vips(spec)
    missing = {address for name in wanted if not working.get(name) for address in spec.vips[name].addresses}
    resort = spec.switch.announce.when_none_pass if spec.switch.announce is not None else None
    worse = {"med": resort.med} if isinstance(resort, LastResort) else {}
    last = {address for name in last_resort for address in spec.vips[name].addresses}
    return {
        address: settings.model_copy(update=worse) if address in last else settings
        for name, settings in wanted.items()
        for address in spec.vips[name].addresses
        if address not in missing
    }
