# SPDX-License-Identifier: Apache-2.0
"""The scalable functions to create: those that the spec names, and the two that the extension opens."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.model.bringup import BringUp
from dnsteer.spec.model.extension import ExtensionPort
from dnsteer.spec.model.spec import Flavor, Switch

FIRST_NUMBER = 53
"""First number (sfnum) for functions that the spec does not name; NVIDIA's own configuration creates function 0."""
_BY_DEVARGS = re.compile(r"representor=(?:pf\d+)?sf\[?(\d+)\]?")
_BY_NAME = re.compile(r"(?:.*)pf(\d+)sf(\d+)\Z")
"""The kernel's name for a function's representor, such as `en3f1pf1sf8`."""


@dataclass(frozen=True)
class CardFunction:
    """A scalable function of an uplink's physical function.

    *port* is the name for its representor, *device* the name for the function itself; empty to keep the kernel's name.
    *role* is its use by the extension (ingress or egress); empty if the extension does not use it.
    """

    uplink: str
    number: int
    mac: str | None
    trust: bool
    port: str = ""
    device: str = ""
    role: str = ""


def functions_of(switch: Switch, physical: Mapping[str, str]) -> tuple[CardFunction, ...]:
    """Return all functions; *physical* has the PCI addresses of the uplinks, empty where unknown.

    The extension's functions are those that its ports name (`representor=sf[8]`, or a port name such as pf0sf8), then the
    first free trusted ones of the spec; otherwise new ones on the first uplink.
    """
    part = switch.bringup or BringUp()
    found = [CardFunction(f.uplink, f.number, f.mac, f.trust) for f in part.functions]
    extension = switch.extension
    if extension is None or switch.flavor is Flavor.OVS_NETDEV:
        return tuple(found)
    ports = {"ingress": extension.ingress, "egress": extension.egress}
    places = dict[str, int]()
    for role, port in ports.items():
        named = _named_function(port, switch, physical)
        if named is not None:
            if named not in [(f.uplink, f.number) for f in found]:
                found.append(CardFunction(*named, None, True))
            places[role] = [(f.uplink, f.number) for f in found].index(named)
    for role in ports:
        if role not in places:
            places[role] = _place_free(found, places.values(), next(iter(uplink_devices(switch))))
    for role, n in places.items():
        port = ports[role]
        # With devargs Open vSwitch finds the function; without, it finds the representor by its name.
        netdev = "" if "dpdk-devargs" in port.options else port.port
        found[n] = replace(found[n], trust=True, port=netdev, device=port.device or port.port, role=role)
    return tuple(found)


def _place_free(found: list[CardFunction], taken: Collection[int], uplink: str) -> int:
    """Return the place in *found* of a trusted function that is not *taken*; where there is none, a new one of an uplink."""
    free = next((n for n, f in enumerate(found) if f.trust and n not in taken), None)
    if free is not None:
        return free
    used = {f.number for f in found if f.uplink == uplink}
    number = next(n for n in range(FIRST_NUMBER, FIRST_NUMBER + len(found) + 1) if n not in used)
    found.append(CardFunction(uplink, number, None, True))
    return len(found) - 1


def _named_function(port: ExtensionPort, switch: Switch, physical: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the uplink and number of the function that a port names; None if it names none."""
    devargs = port.options.get("dpdk-devargs", "")
    if found := _BY_DEVARGS.search(devargs):
        for uplink, address in physical.items():
            if address and devargs.lower().removeprefix("pci:").startswith((address, address.removeprefix("0000:"))):
                return uplink, int(found[1])
        return next(iter(uplink_devices(switch))), int(found[1])
    if found := _BY_NAME.match(port.port):
        for uplink, address in physical.items():
            if uplink == f"p{found[1]}" or address.endswith(f".{found[1]}"):
                return uplink, int(found[2])
        return next(iter(uplink_devices(switch))), int(found[2])
    return None
