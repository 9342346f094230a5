# SPDX-License-Identifier: Apache-2.0
"""The router that answers leave to: its MAC address, or addresses whose MAC addresses the agent finds out and follows."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.spec.model.part import Part
from dnsteer.spec.model.types import IPv4, Mac, parse_address, wrong_value


def _router(value: Any) -> ipaddress.IPv6Address:
    """Check the IPv6 address of a router, which may be link-local."""
    try:
        address = ipaddress.IPv6Address(value) if isinstance(value, str) else None
    except ValueError:
        address = None
    if address is not None and address.is_link_local and address.scope_id is None:
        return address
    found = parse_address(value)
    if isinstance(found, ipaddress.IPv4Address):
        raise wrong_value("an IPv6 address such as fe80::1", "this is an IPv4 address: its key is ipv4")
    return found


RouterIPv6 = Annotated[
    ipaddress.IPv6Address,
    BeforeValidator(_router),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["fe80::1"], "format": "ipv6"}),
]


class RouterAddresses(Part):
    """A router by its addresses. The MAC address at which each answers is found out on the switch, and followed."""

    ipv4: IPv4 | None = Field(
        default=None, description="Its IPv4 address, in a network of `switch.probe`. Answers over IPv4 leave to it."
    )
    ipv6: RouterIPv6 | None = Field(
        default=None,
        description="Its IPv6 address, link-local or in a network of `switch.probe`. Answers over IPv6 leave to it.",
    )
    mac: Mac | None = Field(
        default=None,
        description="Its MAC address, if that is not to be followed: the agent watches the addresses, and says when another "
        "one answers. Left out: it is followed.",
    )

    @model_validator(mode="before")
    @classmethod
    def _has_an_address(cls, written: Any) -> Any:
        """Refuse a router without an address: there is nothing to find out."""
        if isinstance(written, dict) and written.keys() <= {"mac"}:
            raise wrong_value("the key ipv4, ipv6, or both", "where only the MAC address is known: next_hop: MAC")
        return written

    _found: dict[Family, str] = PrivateAttr(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{key} {value}" for key, value in self if value is not None)

    def address(self, family: Family) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """Its address in *family*."""
        return self.ipv4 if family == "ipv4" else self.ipv6

    def mac_of(self, family: Family) -> str:
        """The MAC address that answers in *family* leave to; empty where it is not known."""
        return self.mac or self._found.get(family, "")

    def with_macs(self, found: dict[Family, str]) -> RouterAddresses:
        """Return the same with the MAC addresses that were *found*."""
        out = self.model_copy()
        out._found = found
        return out


def _alone(value: Any) -> Any:
    """Refuse an IP address that stands alone."""
    try:
        key = f"ipv{ipaddress.ip_address(value).version}" if isinstance(value, str) else ""
    except ValueError:
        return value
    if key:
        raise wrong_value("a MAC address, or a mapping", f'an address is written {{{key}: "{value}"}}')
    return value


Router = Annotated[
    Annotated[RouterAddresses, Tag("mapping")] | Annotated[Mac, BeforeValidator(_alone), Tag("word")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | RouterAddresses) else "word"),
]
"""What an uplink's `next_hop` is."""


def router_mac(router: RouterAddresses | str | None, family: Family) -> str | None:
    """The MAC address that answers in *family* leave to: empty where it is not known, None where there is no router."""
    return router.mac_of(family) if isinstance(router, RouterAddresses) else router


def router_addresses(router: RouterAddresses | str | None) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
    """The addresses of a router that the spec gives by them."""
    found = (router.ipv4, router.ipv6) if isinstance(router, RouterAddresses) else ()
    return tuple(address for address in found if address is not None)


def router_macs(router: RouterAddresses | str | None) -> tuple[str, ...]:
    """The MAC addresses of a router that are known, each once."""
    return tuple(dict.fromkeys(mac for family in FAMILIES if (mac := router_mac(router, family))))
