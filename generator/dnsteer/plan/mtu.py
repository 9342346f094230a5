"""What MTU the interfaces of a spec's switch need."""

from __future__ import annotations

from dnsteer.spec.model.spec import Spec

LEAST = 1280
"""What every link of IPv6 must carry (RFC 8200, 5); an answer of 1232 bytes, the usual limit over UDP, just fits."""
_USUAL = 1500


def least_mtu(spec: Spec) -> int:
    """Return the MTU, in bytes, below which answers over UDP are lost, or which the spec itself gives the interfaces."""
    part = spec.switch.bringup
    return LEAST if part is None or part.mtu is None else part.mtu


def full_mtu(spec: Spec) -> int:
    """Return the MTU, in bytes, with which full TCP segments of clients and servers on usual links pass."""
    from dnsteer.modes import MODES  # here, since the quick verbs do without

    longer = [MODES[vip.forwarding].mtu_excess(vip, spec.pools[vip.pool]) for vip in spec.vips.values()]
    return max(least_mtu(spec), _USUAL + max(longer, default=0))
