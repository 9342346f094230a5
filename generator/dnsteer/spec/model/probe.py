# SPDX-License-Identifier: Apache-2.0
"""The port by which the agent's probes enter the bridge, to take the path of clients."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from dnsteer.spec.model.part import Part
from dnsteer.spec.model.types import Address, Interface, Mac, parse_address, wrong_value

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
AddressInNetwork = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _in_network(value: Any) -> AddressInNetwork:
    expected = "an address with the length of its network's prefix, such as 192.0.2.9/24 or 2001:db8::9/64"
    if not isinstance(value, str) or value.count("/") != 1:
        raise wrong_value(expected)
    address, _, length = value.partition("/")
    parse_address(address)
    try:
        found = ipaddress.ip_interface(value)
    except ValueError:
        raise wrong_value(expected, f'"/{length[:20]}" is no prefix length of this address') from None
    end = end_of_network(found.ip, found.network)
    if end:
        raise wrong_value(expected, f"this is {end}")
    return found


def end_of_network(address: Address, network: IPNetwork) -> str:
    """Return why no host of *network* can have *address*, in words; empty if one can.

    Networks of two addresses have neither (RFC 3021, RFC 6164).
    """
    if address.version != network.version or network.num_addresses <= 2:
        return ""
    if address == network.network_address:
        return (
            "the address of the network itself"
            if address.version == 4
            else "the anycast address of the network's routers (RFC 4291, 2.6.1)"
        )
    broadcast = address.version == 4 and address == network.broadcast_address
    return "the broadcast address of the network, which hosts do not answer" if broadcast else ""


ProbeAddress = Annotated[
    AddressInNetwork,
    BeforeValidator(_in_network),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["192.0.2.9/24"]}),
]


class Probe(Part):
    """An internal port of the bridge for the agent's probes. Nothing else may use its MAC address or its addresses."""

    port: Interface = Field(default="probe0", description="Its name.")
    mac: Mac | None = Field(
        default=None, description="Its MAC address. Left out: `switch.mac` with its second lowest bit flipped."
    )
    addresses: Annotated[list[ProbeAddress], Field(min_length=1)] = Field(
        description="Its addresses, each with its prefix length: one in each network of backends that is probed through the "
        "bridge, since they answer it directly."
    )
    watch: bool = Field(
        default=False,
        strict=True,
        description="Whether `dnsteer agent` also asks for the MAC addresses of backends in these networks that the spec "
        "gives, and says when another one answers. It follows those of `mac: auto` alone.",
    )
    uplink: Interface | None = Field(
        default=None,
        description="Uplink by which probes reach backends that have no port. Left out: the first.",
    )
