# SPDX-License-Identifier: Apache-2.0
"""The switch's connection tracker, as far as it keeps TCP connections with their backends. docs/tracking.md explains it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dnsteer.spec.model.part import Part, bounds, duration, text_schema, whole

ZONE = 53_000
"""The tracker's zone of the connections that are kept, where the spec names none."""
MAX_CONNECTIONS = 3_000_000
"""The most entries that the userspace tracker of Open vSwitch has by default, of all zones."""


class Tracking(Part):
    """What the switch's connection tracker keeps of the VIPs with `keep: connections`."""

    idle: Annotated[float, duration(30, 7200), text_schema("5m")] = Field(
        default=300.0,
        description="How long the tracker remembers a connection without a packet of the client. After that its next packet "
        "goes by its slot.",
    )
    connections: Annotated[int, whole(1, MAX_CONNECTIONS), bounds(1, MAX_CONNECTIONS)] = Field(
        default=100_000,
        description="The most connections that the tracker remembers, of all these VIPs. Those beyond go by their slots.",
    )
    zone: Annotated[int, whole(1, 65_535), bounds(1, 65_535)] = Field(
        default=ZONE,
        description="The tracker's zone of these connections. Bridges of one datapath need different ones.",
    )
