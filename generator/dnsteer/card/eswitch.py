# SPDX-License-Identifier: Apache-2.0
"""The eSwitches of a spec's uplinks: their physical functions, and whether they must be joined (multiport)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dnsteer.card.scalable_functions import CardFunction, functions_of
from dnsteer.plan.bridge import ports_of
from dnsteer.plan.sizes import Sizes
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.model.bringup import BringUp, parse_pci
from dnsteer.spec.model.spec import Flavor, Switch

_PCI = re.compile(r"(?:pci:)?((?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])\b")


@dataclass(frozen=True)
class Eswitch:
    """What `devlink` must set up. *functions* are PCI addresses by uplink, empty if the spec does not determine them.

    *needed*: there is anything to set up. *multiport*: join the eSwitches of a card; *why* is the reason for or against it.
    *scalable* are the scalable functions to create.
    """

    needed: bool
    functions: Mapping[str, str]
    multiport: bool
    why: str
    scalable: tuple[CardFunction, ...]

    @property
    def cards(self) -> list[str]:
        """The known NICs, as PCI addresses without the function."""
        return sorted({address[:-2] for address in self.functions.values() if address})


def eswitch_of(switch: Switch, sizes: Sizes) -> Eswitch:
    """Return the eSwitch setup that a switch needs."""
    part = switch.bringup or BringUp()
    functions = {name: part.pci.get(name) or _of_devargs(port.options) for name, port in uplink_devices(switch).items()}
    devargs = [port.options.get("dpdk-devargs", "") for port in ports_of(switch).values()]
    needed = switch.flavor in (Flavor.OVS_DOCA, Flavor.OVS_KERNEL) or any("representor=" in d for d in devargs)
    scalable = functions_of(switch, functions)
    needed = needed or bool(scalable) or bool(part.multiport)
    if switch.flavor is Flavor.OVS_NETDEV:
        needed = False
    multiport, why = _multiport(part, sizes, functions)
    return Eswitch(needed, functions, needed and multiport, why, scalable)


def _multiport(part: BringUp, sizes: Sizes, functions: Mapping[str, str]) -> tuple[bool, str]:
    if part.multiport is not None:
        return part.multiport, f"the spec says multiport: {str(part.multiport).lower()}"
    if len(functions) < 2:
        return False, "there is one uplink"
    known = {address for address in functions.values() if address}
    if len(known) == 1 and all(functions.values()):
        return False, "all uplinks are on one physical function"
    if not sizes.crossing:
        return False, "every packet leaves by the uplink that it came in by, so that each eSwitch forwards its own"
    return True, f"{sizes.crossing}: hardware forwards that only where both are on one eSwitch"


def _of_devargs(options: Mapping[str, str]) -> str:
    """Return the PCI address in a port's devargs; empty if there is none, or if they name a representor."""
    text = options.get("dpdk-devargs", "")
    found = _PCI.match(text)
    if found is None or "representor=" in text:
        return ""
    address = found[1] if found[1].count(":") == 2 else f"0000:{found[1]}"
    return parse_pci(address)
