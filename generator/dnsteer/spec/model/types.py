# SPDX-License-Identifier: Apache-2.0
"""Scalar types of the spec: names, MACs and IP addresses, each with a message that says what is expected."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_NAME = 63
"""Longest name of an object, in characters."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_STRANGE = re.compile(r"[^A-Za-z0-9._-]")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,14}\Z")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
_LOOSE_MAC = re.compile(r"[0-9a-f]{12}\Z")
_DEVICE_TYPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}\Z")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}\Z")
MAX_OPTION = 1024
"""Longest value of an interface option, in characters."""
AUTO_MAC = "auto"
"""In place of a MAC address: the one at which the address answers."""
# Words that ovs-ofctl reads as something else than a port's name.
RESERVED_PORT_NAMES = frozenset(
    ["in_port", "table", "normal", "flood", "all", "controller", "local", "any", "none", "unset", "max"]
)
_DATAPATH_DEVICES = frozenset(["ovs-system", "ovs-netdev"])


def wrong_value(expected: str, hint: str = "") -> PydanticCustomError:
    """An error that says what was expected; the value found is added by the reader of the error."""
    return PydanticCustomError("dnsteer", "{expected}", {"expected": expected, "hint": hint})


def _text(value: Any, expected: str) -> str:
    """*value* as text. Whole numbers read as text are what was written; of the rest of YAML's values only text is."""
    if isinstance(value, bool):
        raise wrong_value(
            expected, f'YAML reads this as a truth value; if you mean the word, write "{str(value).lower()}" in quotes'
        )
    if not isinstance(value, str | int):
        raise wrong_value(expected)
    return str(value)


def _name_hint(text: str, most: int) -> str:
    strange = _STRANGE.search(text)
    if strange:
        return f'"{strange.group()}" cannot stand in it'
    return f"this one has {len(text)} characters" if len(text) > most else ""


def parse_name(value: Any) -> str:
    """Check the name of an object of the spec."""
    expected = f"a name of at most {MAX_NAME} letters, digits, '.', '_' and '-'"
    text = _text(value, expected)
    if not _NAME.match(text):
        raise wrong_value(expected, _name_hint(text, MAX_NAME) or "it begins and ends with a letter or digit")
    return text


def parse_interface(value: Any) -> str:
    """Check the name of a bridge or port."""
    expected = "an interface name: a letter, then at most 14 letters, digits, '.', '_' and '-'"
    text = _text(value, expected)
    if not _INTERFACE.match(text):
        raise wrong_value(expected, _name_hint(text, 15) or "it begins with a letter")
    if text.lower() in RESERVED_PORT_NAMES:
        raise wrong_value(
            "an interface name that is not an OpenFlow keyword", f'ovs-ofctl reads "{text}" as a reserved port'
        )
    if text in _DATAPATH_DEVICES:
        raise wrong_value("another interface name", "Open vSwitch has a device of this name for itself")
    return text


def parse_mac(value: Any) -> str:
    """Check a unicast MAC address and return it in lower case."""
    expected = "a MAC address such as 02:00:00:00:00:53"
    text = _text(value, expected).lower()
    if not _MAC.match(text):
        digits = re.sub(r"[:.-]", "", text[:32])
        fixed = ":".join(digits[i : i + 2] for i in range(0, 12, 2)) if _LOOSE_MAC.match(digits) else ""
        raise wrong_value(expected, f"write it as {fixed}" if fixed else "six bytes of two hexadecimal digits each")
    if int(text[:2], 16) & 1:
        raise wrong_value("the MAC address of one station", "the lowest bit of the first byte marks a group address")
    if text == "00:00:00:00:00:00":
        raise wrong_value("the MAC address of a station", "00:00:00:00:00:00 is not an address of a station")
    return text


def parse_mac_or_auto(value: Any) -> str:
    """Check a MAC address, or the word that stands for the one at which an address answers."""
    if isinstance(value, str) and value.lower() == AUTO_MAC:
        if value != AUTO_MAC:
            raise wrong_value("a MAC address such as 02:00:00:00:00:53, or auto", "write auto")
        return value
    return parse_mac(value)


def parse_device_type(value: Any) -> str:
    """Check the type of an interface in OVSDB."""
    expected = "an interface type such as system, dpdk or afxdp"
    text = _text(value, expected)
    if not _DEVICE_TYPE.match(text):
        raise wrong_value(expected, "leave the key out for the flavor's usual type")
    return text


def parse_option_key(value: Any) -> str:
    """Check the key of an interface option."""
    expected = "an option's name such as dpdk-devargs"
    text = _text(value, expected)
    if not _OPTION.match(text):
        raise wrong_value(expected)
    return text


def parse_option(value: Any) -> str:
    """Check the value of an interface option. OVSDB holds text: numbers and truth values become what was written."""
    expected = f"text of at most {MAX_OPTION} characters, a whole number, true or false"
    if isinstance(value, bool):
        return str(value).lower()
    text = _text(value, expected)
    if len(text) > MAX_OPTION or not text.isprintable():
        raise wrong_value(expected, "on one line, without invisible characters")
    return text


def parse_address(value: Any) -> Address:
    """Check a unicast address of either family."""
    return _address(value, "46")


def _address(value: Any, families: str) -> Address:
    example = {"46": "192.0.2.53 or 2001:db8::53", "4": "192.0.2.53", "6": "2001:db8::53"}[families]
    kind = {"46": "an IP address", "4": "an IPv4 address", "6": "an IPv6 address"}[families]
    expected = f"{kind} such as {example}"
    return _read_address(_text(value, expected), families, kind, expected)


@lru_cache(maxsize=1 << 16)  # an apply reads the spec before as well, which has nearly the same addresses
def _read_address(text: str, families: str, kind: str, expected: str) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise wrong_value(expected, _no_address(text)) from None
    if str(address.version) not in families:
        other = "ipv6" if address.version == 6 else "ipv4"
        raise wrong_value(expected, f"this is an IPv{address.version} address: its key is {other}")
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        raise wrong_value("a plain IPv6 address", "no IPv4-mapped address and no zone")
    why = _unusable(address)
    if why:
        raise wrong_value(f"{kind} that routers can reach", f"this one is {why}")
    return address


PREFIX_EXPECTED = "a prefix such as 192.0.2.0/24 or 2001:db8::/32"
_LENGTH = re.compile(r"(0|[1-9][0-9]{0,2})\Z")


def parse_prefix(value: Any) -> Network:
    """Check a prefix of either family; an address alone is a prefix of one address."""
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str):
        raise wrong_value(PREFIX_EXPECTED)
    length = value.partition("/")[2]
    if "/" in value and not _LENGTH.match(length):
        raise wrong_value(PREFIX_EXPECTED, _no_prefix(value))
    try:
        found = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise wrong_value(PREFIX_EXPECTED, _no_prefix(value)) from None
    address = value.partition("/")[0]
    if "%" in address:
        raise wrong_value(PREFIX_EXPECTED, "without a zone")
    if ipaddress.ip_address(address) != found.network_address:
        raise wrong_value("a prefix without bits behind its length", f"write {found}, or the address alone")
    if isinstance(found, ipaddress.IPv6Network) and found.subnet_of(_MAPPED):
        raise wrong_value("a prefix of addresses that packets have", "write the prefix of IPv4 instead")
    return found


_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


def _no_prefix(text: str) -> str:
    """What may be wrong with *text*, which is no prefix."""
    address, slash, length = text.partition("/")
    if slash and ("." in length or ":" in length):
        return "write the length as a number of bits: 192.0.2.0/24"
    if text.count(":") == 1 or text.startswith("["):
        return "a port is a key of its own: {prefix: 192.0.2.0/24, port: 53}"
    return "names are not looked up" if address and not set(address.lower()) <= set("0123456789abcdef.:") else ""


_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""The addresses that NAT64 gives to those of IPv4 (RFC 6052)."""
# What may stand for one host elsewhere than on its own link. All other IPv6 is reserved (IANA, IPv6 address space).
_UNICAST = tuple(
    map(ipaddress.IPv6Network, ("2000::/3", "fc00::/7", str(TRANSLATED), "64:ff9b:1::/48"))
)  # global, unique local, and what translators stand for (RFC 6052, 8215)


def _unusable(address: Address) -> str:
    """Why no VIP, gateway, server or end of a tunnel can have this address; empty where one can."""
    if address.version == 4 and 0 < address.packed[0] < 224 and address.packed[0] not in (127, 169):
        return ""  # the usual case first, as a large spec has 20,000 addresses
    if address.version == 6 and any(address in network for network in _UNICAST):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in TRANSLATED else None
        why = _unusable(inner) if inner is not None else ""
        return f"that of {inner} behind a translator (64:ff9b::/96), and that one is {why}" if why else ""
    for is_so, word in (
        (address.is_multicast, "multicast"),
        (address.is_unspecified, "unspecified"),
        (address.is_loopback, "loopback"),
        (address.is_link_local, "link-local"),
        (address == _BROADCAST, "broadcast"),
    ):
        if is_so:
            return word
    if isinstance(address, ipaddress.IPv4Address):
        if address.packed[0] == 0:
            return 'in 0.0.0.0/8 ("this network"), which routers drop'
        return "in 240.0.0.0/4 (reserved), which routers drop" if address.is_reserved else ""
    if address.is_site_local:
        return "site-local (fec0::/10), which is no longer in use; unique local addresses are in fd00::/8"
    return "reserved; unicast addresses are in 2000::/3 and fc00::/7"


def _no_address(text: str) -> str:
    """What may be wrong with *text*, which is no address."""
    if "/" in text:
        return "give the address alone, without a prefix length"
    if text.startswith("[") or text.count(":") == 1:
        return "give the address alone; ports are given in services"
    parts = text.split(".")
    if len(parts) == 4 and all(p.isascii() and p.isdigit() for p in parts):
        return "four numbers from 0 to 255, without leading zeros"
    return "names are not looked up: write the address" if re.search("[g-zG-Z]", text) else ""


def _schema(example: str, **extra: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], **extra})


def _anchored(pattern: re.Pattern[str]) -> str:
    return "^" + pattern.pattern.replace(r"\Z", "$")


Name = Annotated[
    str, BeforeValidator(parse_name), _schema("resolvers", type=["string", "integer"], pattern=_anchored(_NAME))
]
Interface = Annotated[str, BeforeValidator(parse_interface), _schema("p0", pattern=_anchored(_INTERFACE))]
Mac = Annotated[
    str,
    BeforeValidator(parse_mac),
    _schema("02:00:00:00:00:53", pattern="^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"),
]
DeviceType = Annotated[str, BeforeValidator(parse_device_type), _schema("dpdk", pattern=_anchored(_DEVICE_TYPE))]
OptionKey = Annotated[str, BeforeValidator(parse_option_key), _schema("dpdk-devargs", pattern=_anchored(_OPTION))]
Option = Annotated[
    str,
    BeforeValidator(parse_option),
    _schema("0000:03:00.0", type=["string", "number", "boolean"], maxLength=MAX_OPTION),
]
IPAny = Annotated[Address, BeforeValidator(lambda v: _address(v, "46")), PlainSerializer(str), _schema("192.0.2.53")]
Prefix = Annotated[Network, BeforeValidator(parse_prefix), PlainSerializer(str), _schema("192.0.2.0/24")]
IPv4 = Annotated[
    ipaddress.IPv4Address,
    BeforeValidator(lambda v: _address(v, "4")),
    PlainSerializer(str),
    _schema("192.0.2.53", format="ipv4"),
]
MacOrAuto = Annotated[
    str,
    BeforeValidator(parse_mac_or_auto),
    _schema("02:00:00:00:00:53", pattern="^([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}|auto)$"),
]
IPv6 = Annotated[
    ipaddress.IPv6Address,
    BeforeValidator(lambda v: _address(v, "6")),
    PlainSerializer(str),
    _schema("2001:db8::53", format="ipv6"),
]
