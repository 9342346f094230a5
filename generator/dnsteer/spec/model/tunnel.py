# SPDX-License-Identifier: Apache-2.0
"""The switch's end of tunnels that Open vSwitch makes. docs/tunnels.md explains them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dnsteer.spec.model.part import Part, bounds, whole
from dnsteer.spec.model.types import IPv4, IPv6

MAX_KEY = (1 << 24) - 1
"""A VNI has 24 bits (RFC 7348, RFC 8926). A GRE key has 32 (RFC 2890), of which the others stay 0: one range for all."""


class Tunnel(Part):
    """Where tunnels to backends begin. Nothing else may use its addresses."""

    ipv4: IPv4 | None = Field(
        default=None, examples=["198.51.100.2"], description="Source address of tunnels over IPv4."
    )
    ipv6: IPv6 | None = Field(
        default=None, examples=["2001:db8:51::2"], description="Source address of tunnels over IPv6."
    )
    key: Annotated[int, whole(0, MAX_KEY), bounds(0, MAX_KEY)] = Field(
        examples=[53], description="The key of all tunnels: VXLAN's and Geneve's VNI, or GRE's key."
    )
