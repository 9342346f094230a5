"""What MTU the interfaces of a spec's switch need."""

from __future__ import annotations

from dnsteer.spec.model.spec import Spec

LEAST_MTU = 1280
"""What every link of IPv6 must carry (RFC 8200, 5); an answer of 1232 bytes, the usual limit over UDP, just fits."""
_USUAL = 1500


def full_mtu(spec: Spec) -> int:
    """Return the MTU, in bytes, with which full TCP segments of clients and servers on usual links pass, or more where the
    spec itself gives the interfaces more."""
    from dnsteer.modes import MODES  # here, since the quick verbs do without

    longer = [MODES[vip.forwarding].mtu_excess(vip, spec.pools[vip.pool]) for vip in spec.vips.values()]
    part = spec.switch.bringup
    return max((part.mtu if part is not None else None) or 0, _USUAL + max(longer, default=0))
