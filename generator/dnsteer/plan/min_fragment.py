"""The smallest IPv4 fragment that the connection tracker accepts: NAT answers in smaller ones are lost.

Open vSwitch takes none below 1,200 bytes by default, and can be told to take some down to 400. It forgets that with the
datapath, so at each start of ovs-vswitchd. The kernel's tracker, and IPv6, which goes past the tracker, have no such limit.
"""

from __future__ import annotations

from dnsteer.plan.plan import Plan
from dnsteer.tables.return_ import FragmentRow

SMALLEST = 400
"""Bytes, IP header included: the least that Open vSwitch can be told. The last one of a datagram may be shorter."""
DEFAULT = 1200
NAME = "the connection tracker's smallest IPv4 fragment"
_USERSPACE = "netdev"


def required_size(plan: Plan, datapath_type: str) -> int | None:
    """Return the size that it must have, in bytes; None if no fragment of the plan passes such a tracker."""
    tracked = any(row.family == "ipv4" for row in plan.rows.of(FragmentRow))
    return SMALLEST if tracked and datapath_type == _USERSPACE else None


def setting(size: int, datapath_type: str = _USERSPACE) -> list[str]:
    """Return the ovs-appctl arguments that set it to *size* bytes."""
    return ["dpctl/ipf-set-min-frag", f"{datapath_type}@ovs-{datapath_type}", "v4", str(size)]


def reading(datapath_type: str = _USERSPACE) -> list[str]:
    """Return the ovs-appctl arguments that print it after "min v4 frag size:"."""
    return ["dpctl/ipf-get-status", f"{datapath_type}@ovs-{datapath_type}"]
