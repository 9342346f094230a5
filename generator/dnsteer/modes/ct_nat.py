# SPDX-License-Identifier: Apache-2.0
"""NAT whose TCP connections stay with the backend they began with, by the connection tracker, which sees both directions.

The switch writes addresses and ports itself, as with `nat`: so a packet whose connection the tracker does not know, or
cannot take, is translated all the same. The tracker's own translation is not used. Where a client uses a port again within
the tracker's TIME_WAIT, that of Open vSwitch 3.1.0 takes another port for the client; and an ICMP error about a connection
of which it translates a TCP port makes ovs-vswitchd write beyond the packet (docs/tracking.md).
"""

from __future__ import annotations

from dnsteer.modes.nat import Nat
from dnsteer.spec.model.spec import Forwarding


class CtNat(Nat):
    """As `nat` for each packet; answers pass the tracker too, as the client gets them."""

    word = Forwarding.CT_NAT
    number = 3
