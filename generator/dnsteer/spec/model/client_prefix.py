# SPDX-License-Identifier: Apache-2.0
"""Which clients stay together with selection `source-address`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dnsteer.spec.model.part import Part, bounds, whole

IPV4_PREFIX, IPV6_PREFIX = 32, 56
"""Prefix lengths of clients: an IPv4 address is a client (or the translator of many); homes have a /56 (RIPE-690), whose own
low bits number its networks and are 0 nearly everywhere."""


class ClientPrefix(Part):
    """The clients that stay together: the slot is the lowest bits of their prefix."""

    ipv4: Annotated[int, whole(10, 32), bounds(10, 32)] = Field(
        default=IPV4_PREFIX,
        description="Length of the prefix of IPv4 clients. With 256 slots, 32 looks at the last byte of the address, and 24 "
        "at the third, so that all clients of a /24 reach one backend.",
    )
    ipv6: Annotated[int, whole(18, 128), bounds(18, 128)] = Field(
        default=IPV6_PREFIX,
        description="Length of the prefix of IPv6 clients: 56 for homes, 64 for networks and phones.",
    )
