"""What the lab's switch did with the packets: its megaflows, their masks, and passes through the datapath."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from ipaddress import ip_address

from dnsteer.lab import openvswitch

_IDENTITY = re.compile(r"^ufid:[0-9a-f-]+, ")
_RESULT = re.compile(r", packets:\d+, .*$")
_FIELD = re.compile(r"(?P<key>[(,]\w+=|[(,]|^)(?P<value>[^=,()/]+)(?:/(?P<mask>[^,()]+))?(?=[,)])")


@dataclass(frozen=True)
class Megaflows:
    """The datapath's flows at one moment: each as what it matches, and the different masks among them."""

    matches: frozenset[str]
    masks: frozenset[str]

    def __or__(self, other: Megaflows) -> Megaflows:
        return Megaflows(self.matches | other.matches, self.masks | other.masks)


def megaflows() -> Megaflows:
    """The megaflows that are installed now."""
    return parse_megaflows(openvswitch.appctl("dpctl/dump-flows", "-m"))


def parse_megaflows(text: str) -> Megaflows:
    """Megaflows of the output of `dpctl/dump-flows -m`, whose lines name every field with its mask.

    The switch prints the first packet's values, bits outside the mask included; they are cut off, so that one megaflow
    seen twice counts once.
    """
    lines = [line for line in text.splitlines() if _IDENTITY.match(line)]
    matches = {_RESULT.sub("", _IDENTITY.sub("", line)) for line in lines}
    return Megaflows(
        frozenset(_FIELD.sub(lambda f: f"{f['key']}{_masked(f['value'], f['mask'])}/{f['mask']}", m) for m in matches),
        frozenset(_FIELD.sub(lambda f: f"{f['key']}{f['mask'] or '*'}", _same_ports(m)) for m in matches),
    )


def _same_ports(match: str) -> str:
    """UDP and TCP ports are the same fields to the switch: one mask covers both."""
    return match.replace("tcp(", "udp(").replace(",tcp_flags(0/0)", "")


def _masked(value: str, mask: str | None) -> str:
    if mask is None:
        return value
    number, bits = _number(value), _number(mask)
    return value if number is None or bits is None else f"{number & bits:#x}"


def _number(text: str) -> int | None:
    if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", text):
        return int(text.replace(":", ""), 16)
    with contextlib.suppress(ValueError):
        return int(text, 0)
    with contextlib.suppress(ValueError):
        return int(ip_address(text))
    return None


@dataclass(frozen=True)
class Passes:
    """Packets that came in, and second passes of them through the datapath, since the switch started."""

    packets: int
    recirculations: int

    def __sub__(self, earlier: Passes) -> Passes:
        return Passes(self.packets - earlier.packets, self.recirculations - earlier.recirculations)

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.packets + other.packets, self.recirculations + other.recirculations)


def passes() -> Passes:
    """The counters of all threads of the datapath."""
    text = openvswitch.appctl("dpif-netdev/pmd-stats-show")
    return Passes(_sum(r"packets received: (\d+)", text), _sum(r"packet recirculations: (\d+)", text))


def _sum(pattern: str, text: str) -> int:
    return sum(map(int, re.findall(pattern, text)))
