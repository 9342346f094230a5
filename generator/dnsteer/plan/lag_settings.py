# SPDX-License-Identifier: Apache-2.0
"""How a bond by LACP is set in OVSDB, for apply and for scripts."""

from __future__ import annotations

OF_KEY = "dnsteer-bond-of"
"""external_ids key of the bridge of a bond: the balancer's bridge."""
UPLINK_KEY = "dnsteer-uplink"
"""external_ids key of the bridge of a bond: the uplink that it is."""
MODE, LACP = "balance-tcp", "active"
"""Members are chosen by a hash of addresses and ports. By balance-slb all would leave by one: it has one source MAC."""
NO_VLAN = 4095
"""The only VLAN of the bridge's own port, so that nothing is flooded to it."""
CONFIG = {"lacp-time": "fast"}
"""A partner that is silent is given up after 3 s instead of 90."""
