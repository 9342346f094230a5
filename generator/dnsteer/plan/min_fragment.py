# SPDX-License-Identifier: Apache-2.0
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
DATAPATH = "netdev@ovs-netdev"
"""The datapath whose tracker has such a limit. OVS-DOCA may call it doca@ovs-doca (switch/datapaths.py)."""
_USERSPACE = ("netdev", "doca")


def required_size(plan: Plan, datapath_type: str) -> int | None:
    """Return the size that it must have, in bytes; None if no fragment of the plan passes such a tracker."""
    tracked = any(row.family == "ipv4" for row in plan.rows.of(FragmentRow))
    return SMALLEST if tracked and datapath_type in _USERSPACE else None


def setting(size: int, datapath: str = DATAPATH) -> list[str]:
    """Return the ovs-appctl arguments that set it to *size* bytes in the *datapath* of this name."""
    return ["dpctl/ipf-set-min-frag", datapath, "v4", str(size)]


def reading(datapath: str = DATAPATH) -> list[str]:
    """Return the ovs-appctl arguments that print it after "min v4 frag size:"."""
    return ["dpctl/ipf-get-status", datapath]
