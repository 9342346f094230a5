"""Scalar types of the spec: names, MACs and IP addresses, each with a message that says what is wanted."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,14}\Z")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
# Words that ovs-ofctl reads as something else than a port's name.
RESERVED_PORT_NAMES = frozenset(
    ["in_port", "table", "normal", "flood", "all", "controller", "local", "any", "none", "unset", "max"]
)


def wanted(expected: str, hint: str = "") -> PydanticCustomError:
    """An error that says what was expected; the value found is added by the reader of the error."""
    return PydanticCustomError("dnsteer", "{expected}", {"expected": expected, "hint": hint})


def _text(value: Any, expected: str) -> str:
    if not isinstance(value, str):
        raise wanted(expected)
    return value


def parse_name(value: Any) -> str:
    """Check the name of an object of the spec."""
    expected = "a name of at most 63 letters, digits, '.', '_' and '-'"
    text = _text(value, expected)
    if not _NAME.match(text):
        raise wanted(expected, "it stands in comments, reports and host names")
    return text


def parse_interface(value: Any) -> str:
    """Check the name of a bridge or port."""
    expected = "an interface name: a letter, then at most 14 letters, digits, '.', '_' and '-'"
    text = _text(value, expected)
    if not _INTERFACE.match(text):
        raise wanted(expected, "Linux allows 15 characters")
    if text.lower() in RESERVED_PORT_NAMES:
        raise wanted("an interface name that is not an OpenFlow keyword", f"ovs-ofctl reads {text!r} as a reserved port")
    return text


def parse_mac(value: Any) -> str:
    """Check a unicast MAC address and return it in lower case."""
    expected = "a MAC address such as 02:00:00:00:00:53"
    text = _text(value, expected).lower()
    if not _MAC.match(text):
        raise wanted(expected)
    if int(text[:2], 16) & 1:
        raise wanted("the MAC address of one station", "the lowest bit of the first byte marks a group address")
    if text == "00:00:00:00:00:00":
        raise wanted("the MAC address of a station")
    return text


def _address(value: Any, families: str) -> Address:
    example = {"46": "192.0.2.53 or 2001:db8::53", "4": "192.0.2.53", "6": "2001:db8::53"}[families]
    kind = {"46": "an IP address", "4": "an IPv4 address", "6": "an IPv6 address"}[families]
    expected = f"{kind} such as {example}"
    text = _text(value, expected)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        hint = "give the address alone, without a prefix length" if "/" in text else ""
        raise wanted(expected, hint) from None
    if str(address.version) not in families:
        raise wanted(expected, f"this is an IPv{address.version} address")
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        raise wanted("a plain IPv6 address", "no IPv4-mapped address and no zone")
    unusable = {
        "multicast": address.is_multicast,
        "unspecified": address.is_unspecified,
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "broadcast": str(address) == "255.255.255.255",
    }
    for word, is_so in unusable.items():
        if is_so:
            raise wanted(f"{kind} that routers can reach", f"this one is {word}")
    return address


def _schema(example: str, **extra: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], **extra})


Name = Annotated[str, BeforeValidator(parse_name), _schema("resolvers", pattern=_NAME.pattern.replace(r"\Z", "$"))]
Interface = Annotated[
    str, BeforeValidator(parse_interface), _schema("p0", pattern="^" + _INTERFACE.pattern.replace(r"\Z", "$"))
]
Mac = Annotated[
    str,
    BeforeValidator(parse_mac),
    _schema("02:00:00:00:00:53", pattern="^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"),
]
IPAny = Annotated[Address, BeforeValidator(lambda v: _address(v, "46")), PlainSerializer(str), _schema("192.0.2.53")]
IPv4 = Annotated[
    ipaddress.IPv4Address,
    BeforeValidator(lambda v: _address(v, "4")),
    PlainSerializer(str),
    _schema("192.0.2.53", format="ipv4"),
]
IPv6 = Annotated[
    ipaddress.IPv6Address,
    BeforeValidator(lambda v: _address(v, "6")),
    PlainSerializer(str),
    _schema("2001:db8::53", format="ipv6"),
]
