# SPDX-License-Identifier: Apache-2.0
"""How many packets a second the switch takes of what: echo requests, and the queries of a VIP."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dnsteer.spec.model.families import Family
from dnsteer.spec.model.part import Part, SpelledValidator, bounds, number_hint, whole
from dnsteer.spec.model.types import wrong_value

MAX_RATE = 1_000_000_000
"""Packets a second. A meter of OpenFlow holds 32 bits of them."""
ECHO_RATE = 1000
"""Echo requests a second that are answered, where the spec does not say. Each makes a megaflow of its own, which stays for
10 seconds (max-idle of Open vSwitch), so that this many times ten are there at most: a twentieth of the usual flow-limit."""
ERROR_RATE = 100
"""ICMP errors a second that are copied to backends, where the spec does not say. A server needs one of them for each client
behind a small MTU, and keeps it for minutes (10 in Linux); every backend gets a copy, 100 packets a second at most."""
OWN_RATE = 20_000
"""Packets a second to a backend's own address, where the spec does not say: the replies to some 12,000 questions that are in
no cache of a resolver. For each of them 1.7 packets came (Unbound 1.17.1 in the lab, docs/pass.md)."""
MAX_COPIES = 256
"""The most backends that get a copy of an ICMP error. Each is a change of a MAC address and an output of one datapath flow,
of which Open vSwitch can have 64 KB: some 1,500."""
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
_COUNT = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,6}))?([kM]?)\Z")
_RATE_PATTERN = "^[0-9]{1,10}([.][0-9]{1,6})?[kM]?/s$"


def _whole_number(text: str) -> int | None:
    """The number that text such as `1.5M` stands for, None where it is no whole number."""
    m = _COUNT.match(text)
    if m is None:
        return None
    unit, decimals = _UNITS[m[3]], m[2] or ""
    scaled = int(m[1] + decimals) * unit
    return scaled // 10 ** len(decimals) if scaled % 10 ** len(decimals) == 0 else None


def _spelled(number: int) -> str:
    unit = next(u for u in ("M", "k", "") if number % _UNITS[u] == 0 and (number or not u))
    return f"{number // _UNITS[unit]}{unit}"


_RATES = f"packets a second from 1/s to {_spelled(MAX_RATE)}/s, such as 5000/s, 100k/s or 1.5M/s"


def _rate(
    value: Any, expected: str = _RATES, zero: str = "nothing would pass; to serve nothing, leave the VIP out"
) -> int:
    text, slash, unit = value.partition("/") if isinstance(value, str) else ("", "", "")
    number = _whole_number(text) if (slash, unit) == ("/", "s") else None
    if number is None or not 1 <= number <= MAX_RATE:
        hint = zero if number == 0 else ""
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            hint = f"write {_spelled(value)}/s"
        raise wrong_value(expected, hint)
    return number


def _burst(value: Any) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        number = _whole_number(value)
    if number is None or not 1 <= number <= MAX_RATE:
        hint = "with less than one packet nothing would ever pass" if _is_below_one(value) else ""
        raise wrong_value(f"a number of packets from 1 to {_spelled(MAX_RATE)}, such as 500 or 20k", hint)
    return number


def _is_below_one(value: Any) -> bool:
    m = _COUNT.match(str(value)) if isinstance(value, int | float | str) else None
    return m is not None and not m[3] and float(f"{m[1]}.{m[2] or 0}") < 1


def _rate_or_none(value: Any) -> int:
    return (
        0
        if value == "none"
        else _rate(value, f"none, or {_RATES}", "to answer no echo requests: echo: false at each VIP")
    )


def _error_rate(value: Any) -> int:
    return _rate(value, zero="to copy no ICMP errors: errors: drop at each VIP")


def _own_rate(value: Any) -> int:
    return _rate(value, zero="to let nothing reach backends but queries: leave switch.pass out")


def show_rate(rate: int) -> str:
    """A rate as the spec spells it; 0 stands for `none`."""
    return f"{_spelled(rate)}/s" if rate else "none"


def usual_burst(rate: int) -> int:
    """The burst of a limit that has none of its own, in packets: what comes in a tenth of a second, and at least ten."""
    return max(10, rate // 10)


def burst_of(rate: int, given: int | None) -> int:
    """The burst of a rate, in packets: what the spec says, or the usual one."""
    return given if given is not None else usual_burst(rate)


def least_burst(rate: int) -> int:
    """The smallest burst of a rate, in packets: what comes in 10 ms.

    Below one millisecond's packets a meter of the userspace datapath never refills once it is empty (measured with Open
    vSwitch 3.1.0: 100k/s with a burst of 99 packets lets 99 pass, and then none for ever).
    """
    return max(1, -(-rate // 100))


_RATE_SCHEMA: dict[str, Any] = {"type": "string", "pattern": _RATE_PATTERN, "examples": ["100k/s"]}
Rate = Annotated[int, SpelledValidator(_rate, spell=show_rate), WithJsonSchema(_RATE_SCHEMA)]
RateOrNone = Annotated[
    int,
    SpelledValidator(_rate_or_none, spell=show_rate),
    WithJsonSchema({"anyOf": [_RATE_SCHEMA, {"type": "string", "const": "none"}], "examples": ["1000/s"]}),
]
ErrorRate = Annotated[int, SpelledValidator(_error_rate, spell=show_rate), WithJsonSchema(_RATE_SCHEMA)]
OwnRate = Annotated[int, SpelledValidator(_own_rate, spell=show_rate), WithJsonSchema(_RATE_SCHEMA)]
Burst = Annotated[
    int,
    SpelledValidator(_burst, spell=_spelled),
    WithJsonSchema({"type": ["string", "integer"], "minimum": 1, "examples": ["20k"]}),
]


_BURST = (
    "Packets that may come at once after a quiet time, at least those of 10 ms. Left out: those of a tenth of a second, at "
    "least 10."
)
MIN_BUCKETS, MAX_BUCKETS = 16, 4096
"""Buckets of clients: one meter each, of the 262,144 that Open vSwitch can have for all its bridges. 4,096 are added in some
20 ms (measured with Open vSwitch 3.1.0)."""


BUCKET_NUMBERS = [1 << bits for bits in range(MIN_BUCKETS.bit_length() - 1, MAX_BUCKETS.bit_length())]


def _buckets(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in BUCKET_NUMBERS:
        shown = ", ".join(map(str, BUCKET_NUMBERS))
        raise wrong_value(f"a power of two from {MIN_BUCKETS} to {MAX_BUCKETS}: {shown}", number_hint(value))
    return value


Buckets = Annotated[int, BeforeValidator(_buckets), WithJsonSchema({"type": "integer", "enum": BUCKET_NUMBERS})]


class SwitchLimits(Part):
    """What the switch answers itself, and copies."""

    echo: RateOrNone = Field(
        default=ECHO_RATE,
        description="Echo requests a second that are answered for all VIPs together, and as many for all gateways; more are "
        "dropped. `none`: all are answered, without a meter, for a datapath that has none.",
    )
    errors: ErrorRate = Field(
        default=ERROR_RATE,
        description="ICMP errors a second that are copied to backends (`vips.NAME.errors`), for all VIPs together; more are "
        "dropped. A second brings each backend so many packets at most. With `pass: backends` as many errors and echo "
        "replies of and for all backends themselves.",
    )
    backends: OwnRate = Field(
        default=OWN_RATE,
        description="Packets a second from outside to each of the backends' own addresses (`pass: backends`); more are "
        "dropped. Answers of a VIP and its queries do not count.",
    )


class ClientPrefixes(Part):
    """How many bits of a client's address tell clients apart."""

    ipv4: Annotated[int, whole(1, 32), bounds(1, 32)] = Field(
        default=24, description="Bits of an IPv4 address; its clients share a bucket."
    )
    ipv6: Annotated[int, whole(1, 128), bounds(1, 128)] = Field(default=56, description="Bits of an IPv6 address.")


class ClientLimits(Part):
    """How many packets clients of one bucket may send. The last bits of their prefix choose the bucket."""

    rate: Rate = Field(description="Packets a second of all clients of a bucket, of UDP and TCP alike.")
    burst: Burst | None = Field(default=None, description=_BURST)
    buckets: Buckets = Field(
        default=1024,
        description="Buckets, a power of two, each a meter of the switch. VIPs whose `clients` are the same share them.",
    )
    prefix: ClientPrefixes = Field(
        default=ClientPrefixes(),
        description="The prefix of a client's address whose last bits choose the bucket, so that neighbouring prefixes have "
        "different ones. Clients of one prefix always share a bucket, and so do prefixes with the same last bits.",
    )

    @property
    def bits(self) -> int:
        """Bits of an address that choose the bucket."""
        return self.buckets.bit_length() - 1

    def lowest_bit(self, family: Family) -> int:
        """The lowest bit of an address of *family* that chooses the bucket; bit 0 is the address's last."""
        return 32 - self.prefix.ipv4 if family == "ipv4" else 128 - self.prefix.ipv6


class VipLimits(Part):
    """How many packets of clients a VIP takes; what comes faster is dropped. At least one of its limits is there."""

    queries: Rate | None = Field(
        default=None,
        description="Packets a second of clients, of UDP and TCP alike. Probes of `dnsteer agent` do not count.",
    )
    per: Literal["vip", "service"] = Field(
        default="vip",
        description="What shares the rates `queries` and `tcp_syn`. `vip`: all services and addresses of the VIP. "
        "`service`: each service has them of its own, for all addresses.",
    )
    burst: Burst | None = Field(default=None, description=f"With `queries`. {_BURST}")
    clients: ClientLimits | None = Field(
        default=None, description="What clients of one prefix may send; a flood of one leaves the others alone."
    )
    tcp_syn: Rate | None = Field(
        default=None,
        description="TCP connections a second that clients may begin: packets with SYN and without ACK. They count for "
        "`queries` too.",
    )
