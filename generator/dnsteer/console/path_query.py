"""The form of the page Path: what it asks for, checked against the applied spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, urlencode

from dnsteer.spec.derived import endpoints
from dnsteer.spec.model.spec import Protocol, Spec
from dnsteer.spec.model.types import Address
from dnsteer.status.path import PathQuery

KEY = "path"
FIELDS = ("client", "port", "vip", "service", "uplink")
MAX_LISTED = 500
"""VIP addresses that are listed to choose from; where there are more, one is typed."""
_LONGEST = 100
"""Characters of a value; no address or name that the form asks for has as many."""


class BadQueryError(Exception):
    """A form that cannot be followed: *field* is the one to change, the message says what was found and what is expected."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True)
class Form:
    """The form with what was entered. *vips* are addresses with the names of their VIPs."""

    values: Mapping[str, str]
    vips: tuple[tuple[str, str], ...]
    services: tuple[str, ...]
    uplinks: tuple[str, ...]
    error: BadQueryError | None = None


def key_of(given: Mapping[str, str]) -> str:
    """The page's key: the fields that were entered, in one order, so that equal questions are one page."""
    found = {name: given[name].strip()[: _LONGEST + 1] for name in FIELDS if given.get(name, "").strip()}
    return f"{KEY}?{urlencode(found)}" if found else KEY


def is_key(key: str) -> bool:
    """Whether it is a key that `key_of` gives."""
    return key == KEY or (key.startswith(f"{KEY}?") and key == key_of(values_of(key)))


def values_of(key: str) -> dict[str, str]:
    """The fields of a key."""
    try:
        found = dict(parse_qsl(key.partition("?")[2], max_num_fields=len(FIELDS)))
    except ValueError:  # so many that it is none of ours
        found = {}
    return {name: found[name] for name in FIELDS if name in found}


def form_of(key: str, spec: Spec | None, error: BadQueryError | None = None) -> Form:
    """The form for a key; its lists are empty without a spec."""
    if spec is None:
        return Form(values_of(key), (), (), ())
    vips: dict[str, list[str]] = {}  # several may share an address
    for name, vip in spec.vips.items():
        for address in vip.addresses:
            vips.setdefault(str(address), []).append(name)
    services = dict.fromkeys(f"{e.port}/{e.protocol.value}" for vip in spec.vips.values() for e in endpoints(vip))
    values = values_of(key)
    named = spec.vips.get(values.get("vip", ""))
    if named is not None:  # of which one address is chosen in the list
        version = 6 if ":" in values.get("client", "") else 4
        same = [address for address in named.addresses if address.version == version]
        values["vip"] = str((same or named.addresses)[0])
    listed = tuple((address, ", ".join(names)) for address, names in vips.items())
    return Form(values, listed, tuple(services), tuple(spec.switch.uplinks), error)


def query_of(key: str, spec: Spec) -> PathQuery:
    """The query that a key asks for. Raises BadQueryError."""
    values = values_of(key)
    for name, value in values.items():
        if len(value) > _LONGEST:
            raise BadQueryError(name, f"{name}: found more than {_LONGEST} characters")
    client = _address(values.get("client", ""))
    sport = _port("port", "Source port", values.get("port", ""), "40000")
    vip = _vip(values.get("vip", ""), client, spec)
    port, protocol = _service(values.get("service", ""), spec, vip)
    uplinks = list(spec.switch.uplinks)
    uplink = values.get("uplink", uplinks[0])
    if uplink not in uplinks:
        raise BadQueryError("uplink", f"Uplink: found {uplink!r}; expected one of {', '.join(uplinks)}")
    return PathQuery(client, sport, vip, port, protocol, uplink)


def _address(text: str) -> Address:
    try:
        found = ip_address(text)
    except ValueError:
        found = None
    if found is None or getattr(found, "scope_id", None):
        expected = "an IPv4 or IPv6 address such as 198.51.100.7 or 2001:db8::7"
        raise BadQueryError("client", f"Client address: found {_shown(text)}; expected {expected}")
    return found


def _port(field: str, title: str, text: str, example: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535):
        raise BadQueryError(
            field, f"{title}: found {_shown(text)}; expected a number from 1 to 65535, such as {example}"
        )
    return int(text)


def _vip(text: str, client: Address, spec: Spec) -> Address:
    """The VIP's address, or the first one of the client's family of a VIP that is named."""
    named = spec.vips.get(text)
    found = list(named.addresses) if named is not None else _listed(text, spec)
    if not found:
        raise BadQueryError(
            "vip", f"VIP: found {_shown(text)}; expected a VIP of the applied spec, by its address or name"
        )
    same = [address for address in found if address.version == client.version]
    if not same:
        is_, has = (f"IPv{version}" for version in (client.version, found[0].version))
        of = f"VIP {text} has no {is_} address" if named is not None else f"{text} is an {has} address"
        raise BadQueryError("client", f"The client has an {is_} address, and {of}; both must be of one family")
    return same[0]


def _listed(text: str, spec: Spec) -> list[Address]:
    """The VIP address of a text; none if it is not one."""
    try:
        wanted = ip_address(text)
    except ValueError:
        return []
    return [address for vip in spec.vips.values() for address in vip.addresses if address == wanted][:1]


def _service(text: str, spec: Spec, vip: Address) -> tuple[int, Protocol]:
    """Port and protocol: `53/udp`; without any the first service of the VIP."""
    if not text:
        first = next(e for each in spec.vips.values() if vip in each.addresses for e in endpoints(each))
        return first.port, first.protocol
    port, _, protocol = text.partition("/")
    if protocol not in [each.value for each in Protocol]:
        raise BadQueryError("service", f"Service: found {_shown(text)}; expected a port and protocol such as 53/udp")
    return _port("service", "Service", port, "53"), Protocol(protocol)


def _shown(text: str) -> str:
    return repr(text) if text else "nothing"
