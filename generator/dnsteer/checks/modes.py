"""What each forwarding mode checks of its VIPs."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes import MODES, NamedVip
from dnsteer.spec.errors import Finding
from dnsteer.spec.loaded import Scope


def check_modes(scope: Scope) -> Iterator[Finding]:
    """All findings of the modes. VIPs without a pool have a finding of their own."""
    pools = scope.spec.pools
    for word, mode in MODES.items():
        vips = [
            NamedVip(name, vip, pools[vip.pool])
            for name, vip in scope.spec.vips.items()
            if vip.forwarding is word and vip.pool in pools
        ]
        yield from mode.check(scope, vips)
