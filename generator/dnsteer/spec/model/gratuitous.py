# SPDX-License-Identifier: Apache-2.0
"""Gratuitous ARP and unsolicited neighbour advertisements of the VIPs and gateways."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dnsteer.spec.model.part import Part, bounds, duration, text_schema, whole


class Gratuitous(Part):
    """What `dnsteer agent` sends unasked, so that neighbours learn the switch's MAC addresses at once."""

    repeat: Annotated[int, whole(1, 20), bounds(1, 20)] = Field(
        default=3,
        description="How often, a second apart: when the agent begins, when another state is applied, and after a repair.",
    )
    refresh: Annotated[float, duration(0, 86400), text_schema("5m")] = Field(
        default=0.0, description="Time after which it is all sent once more, again and again. 0: never."
    )
