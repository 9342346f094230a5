# SPDX-License-Identifier: Apache-2.0
"""The flows of an access list: its prefixes in nested windows of the source address, one table for each window of 8 bits.

In a table only the next 8 bits decide, and each flow looks at all of them: so packets that end there have one mask,
whatever the lengths of the prefixes, and a table has at most 256 megaflows below each prefix that leads into it. A prefix
with longer ones below it leads to the next table; the verdict for all that those do not match goes there with it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dnsteer.spec.model.families import Family
from dnsteer.tables.cookies import Subject

WINDOW = 8
"""Bits of the source address that a table looks at."""
WIDTHS: dict[Family, int] = {"ipv4": 32, "ipv6": 128}
"""Bits of an address."""
WINDOWS = 16
"""Tables of a list: for all bits of an IPv6 address."""

Verdict = Literal["allow", "deny", "deeper"]


class AccessRule(NamedTuple):
    """What an entry of a list, or what stands for all others, does with queries."""

    denies: bool
    subject: Subject


class AccessFlow(NamedTuple):
    """A flow of a window. *match* is the source prefix as ovs-ofctl prints it, with a comma before it; *port* 0: any."""

    subject: Subject
    priority: int
    port: int
    match: str
    verdict: Verdict


@dataclass(frozen=True)
class AccessWindow:
    """The flows of a list in one table, for one family.

    *list* is what register `list` has, 0 for the switch's own list. *bits* are those of the source address that all flows
    look at, as `unwildcard` takes them; empty where no prefix is longer than 0.
    """

    table: str
    family: Family
    list: int
    bits: str
    flows: tuple[AccessFlow, ...]
    entrances: int = 1
    """How many prefixes lead here; all addresses, for a first window, are one."""

    @property
    def protocol(self) -> str:
        """The family as flows match it."""
        return "ip" if self.family == "ipv4" else "ipv6"


Rules = dict[tuple[int, int], dict[int, AccessRule]]
"""Rules by the length and the value (its first bits) of their prefix, then by port; 0: all ports."""
_Verdicts = Mapping[int, AccessRule]
_PORT, _DEEPER, _PRIORITY = 1, 2, 100


def add_rule(rules: Rules, prefix: tuple[int, int], port: int, rule: AccessRule) -> None:
    """Add an entry. Of entries with one prefix that match a query those that deny win: add these first."""
    there = rules.setdefault(prefix, {})
    if not (0 in there and there[0].denies):
        there.setdefault(port, rule)


def windows_of(rules: Rules, family: Family, others: AccessRule) -> Iterator[tuple[str, tuple[AccessFlow, ...], int]]:
    """Yield the bits and flows of each window of a list, and how many prefixes lead to it. *others*: what none matches."""
    width = WIDTHS[family]
    root: _Verdicts = _updated({0: others}, rules.get((0, 0), {}))
    by_depth: dict[int, list[tuple[int, int]]] = {}
    for length, value in rules:
        if length:
            by_depth.setdefault(-(-length // WINDOW), []).append((length, value))
    parents: dict[int, _Verdicts] = {0: root}
    for depth in range(1, max(by_depth, default=1) + 1):
        whole = depth * WINDOW
        flows = [*_flows(root, family, 0, 0)]
        for value, verdicts in parents.items():
            if verdicts != root:
                flows += _flows(verdicts, family, value, whole - WINDOW)
        inner = _inner(by_depth, depth)
        for length, value in by_depth.get(depth, ()):
            if length < whole or value not in inner:
                flows += _flows(rules[length, value], family, value, length)
        below: dict[int, _Verdicts] = {}
        for value in inner:
            verdicts = parents[value >> WINDOW]
            for length in range(whole - WINDOW + 1, whole + 1):
                verdicts = _updated(verdicts, rules.get((length, value >> whole - length), {}))
            below[value] = verdicts
            match = _match(family, value, whole)
            flows.append(AccessFlow(verdicts[0].subject, _priority(whole) + _DEEPER, 0, match, "deeper"))
        field = "ip_src" if family == "ipv4" else "ipv6_src"
        bits = f"{field}[{width - whole}..{width - whole + WINDOW - 1}]" if by_depth else ""
        yield bits, tuple(flows), len(parents)
        parents = below


def _inner(by_depth: Mapping[int, list[tuple[int, int]]], depth: int) -> dict[int, None]:
    """The prefixes of all bits up to a depth that have longer ones below them."""
    whole = depth * WINDOW
    longer = (entry for below, entries in by_depth.items() if below > depth for entry in entries)
    return dict.fromkeys(value >> length - whole for length, value in longer)


def _updated(verdicts: _Verdicts, rules: Mapping[int, AccessRule]) -> _Verdicts:
    """The verdicts below a prefix that has these rules: they go before those of shorter ones."""
    return dict(rules) if 0 in rules else {**verdicts, **rules}


def _flows(verdicts: _Verdicts, family: Family, value: int, length: int) -> Iterator[AccessFlow]:
    match = _match(family, value, length)
    for port, rule in verdicts.items():
        priority = _priority(length) + (_PORT if port else 0)
        yield AccessFlow(rule.subject, priority, port, match, "deny" if rule.denies else "allow")


def _priority(length: int) -> int:
    return _PRIORITY + 4 * length


def _match(family: Family, value: int, length: int) -> str:
    """A source prefix in a flow, spelt as ovs-ofctl prints it."""
    if not length:
        return ""
    width = WIDTHS[family]
    packed = (value << width - length).to_bytes(width // 8, "big")
    if family == "ipv4":
        return f",nw_src={socket.inet_ntop(socket.AF_INET, packed)}{'' if length == width else f'/{length}'}"
    return f",ipv6_src={socket.inet_ntop(socket.AF_INET6, packed)}{'' if length == width else f'/{length}'}"
