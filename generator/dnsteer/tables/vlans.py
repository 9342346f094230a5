# SPDX-License-Identifier: Apache-2.0
"""What flows match and write of VLAN tags. Where a spec names no VLAN they write nothing.

One action serves frames with a tag and without one: `set_field` of the ID and of the bit that says that there is a tag
(0x1000) adds a tag where there is none and leaves the priority; tag control information of 0 is no tag. What changes a tag
makes its priority an exact match in the datapath; an action that writes what is there already does not.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dnsteer.spec.model.spec import Spec

_TAGGED = 0x1000
NO_ID = "vlan_tci=0x0000/0x0fff"
"""The match of frames without a VLAN ID, as the switch prints it."""


class NetworkRow(NamedTuple):
    """Frames of a port that are served: what is matched of their VLAN tag, and who asks there for what.

    *outside*: routers send there what is for backends' own addresses.
    """

    match: str
    vips: bool
    gateways: bool
    outside: bool


class Vlans:
    """The VLANs of a spec as flows have them. Matches begin with a comma, actions end with one; both may be empty."""

    def __init__(self, spec: Spec) -> None:
        from dnsteer.spec.networks import has_vlans  # here, since the quick verbs do without it

        self._spec = spec
        self._any = spec.switch.vlans == "any"
        self._named = has_vlans(spec)

    @property
    def untag(self) -> str:
        """The action that takes a tag away."""
        return self.tag(0)

    def tag(self, vlan: int) -> str:
        """The action that gives a frame a VLAN, or none."""
        if not self._named:
            return ""
        return f"set_field:{vlan | _TAGGED:#x}/0x1fff->vlan_tci," if vlan else "set_field:0->vlan_tci,"

    def tag_alone(self, vlan: int) -> str:
        """The same without the frame's priority: of several copies each is made of the one before, which may have none."""
        return f"set_field:{vlan | _TAGGED:#x}->vlan_tci," if self._named and vlan else self.tag(vlan)

    def tag_of_port(self, port: str) -> str:
        """The action that gives a frame the VLAN of an uplink or port itself."""
        from dnsteer.spec.networks import own_vlan  # here, since the quick verbs do without it

        return self.tag(own_vlan(self._spec.switch, port))

    def match(self, vlan: int) -> str:
        """The match of frames of a VLAN, or of those without an ID."""
        return f",dl_vlan={vlan}" if vlan else f",{NO_ID}"

    @cached_property
    def splits(self) -> bool:
        """Whether there is a network where neighbours ask for VIPs and not for gateways."""
        return any(rows.vips and not rows.gateways for found in self._networks.values() for rows in found)

    def networks(self, port: str) -> tuple[NetworkRow, ...]:
        """The frames that are served at a port."""
        return self._networks[port]

    @cached_property
    def _networks(self) -> dict[str, tuple[NetworkRow, ...]]:
        from dnsteer.spec.networks import networks_of  # here, since the quick verbs do without it

        found: dict[str, tuple[NetworkRow, ...]] = {}
        for n in networks_of(self._spec):
            row = NetworkRow("" if self._any else self.match(n.vlan), n.vips, n.gateways, n.outside)
            found[n.port] = (*found.get(n.port, ()), row)
        return found
