# SPDX-License-Identifier: Apache-2.0
"""The keys of an uplink that is a bond of several ports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dnsteer.spec.model.part import ByName, Device, MayBeEmpty, Part
from dnsteer.spec.model.types import Interface


class Bond(Part):
    """Several ports of the bridge as one uplink."""

    members: Annotated[dict[Interface, Annotated[Device, MayBeEmpty()]] | None, Field(min_length=1), ByName()] = Field(
        default=None,
        description="The ports of a bond, by name, the preferred one first: the uplink is then no port itself. Left out: it "
        "is one.",
    )
    mode: Literal["active-backup", "lacp"] | None = Field(
        default=None,
        description="How a bond shares its members. `active-backup`: all leaves by the first member whose link is up. "
        "`lacp`: Open vSwitch's own bond on a bridge beside, which the network's switch must have as a LAG by LACP too. "
        "Left out: `active-backup`.",
    )
