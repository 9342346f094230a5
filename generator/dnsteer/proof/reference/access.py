# SPDX-License-Identifier: Apache-2.0
"""Whose queries access lists deny: plain longest prefix match over the entries of the spec (docs/access.md)."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol

from dnsteer.spec.model.access import AccessRules
from dnsteer.spec.model.spec import Spec

_Rules = dict[tuple[int, int], dict[int | None, str]]
"""Denials and admissions by the length of a prefix and its bits, then by port; None: all ports."""


class DeniedByHand(Protocol):
    """Clients that people deny on the running switch. An empty *vip* is for all VIPs, *port* 0 for all ports."""

    @property
    def network(self) -> IPv4Network | IPv6Network:
        """The prefix of their addresses."""

    @property
    def port(self) -> int:
        """The only port of their queries."""

    @property
    def vip(self) -> str:
        """The only VIP of their queries."""

    @property
    def text(self) -> str:
        """Who denied them, when and why."""


class PlainAccessList:
    """One list, which says of each client whether it may ask. What is denied *by_hand* counts more than its entries."""

    def __init__(self, name: str, access: AccessRules, by_hand: Iterable[DeniedByHand] = ()) -> None:
        self.name = name
        self.by_hand = list(by_hand)
        self.access = access
        self.is_closed = not access.deny and bool(access.allow)
        self._rules: dict[int, _Rules] = {32: {}, 128: {}}
        for word, entries in (("allow", access.allow), ("deny", access.deny)):  # what is written later counts: deny
            for entry in entries or ():
                prefix, width = entry.prefix, entry.prefix.max_prefixlen
                key = prefix.prefixlen, int(prefix.network_address) >> width - prefix.prefixlen
                self._rules[width].setdefault(key, {})[entry.port] = f"{word} {entry}"
        self._lengths = {
            width: sorted({length for length, _ in rules}, reverse=True) for width, rules in self._rules.items()
        }

    def denial(self, client: bytes, port: int) -> str:
        """The entry that denies a client's query to a port, or that the list is closed; empty where it may pass."""
        width, address = 8 * len(client), int.from_bytes(client, "big")
        for each in self.by_hand:
            net = each.network
            inside = int(net.network_address) <= address <= int(net.broadcast_address)
            if net.max_prefixlen == width and inside and each.port in (0, port):
                return f"hand: {each.text}"
        for length in self._lengths[width]:
            found = self._rules[width].get((length, address >> width - length), {})
            said = [found[key] for key in (None, port) if key in found]
            if said:
                return next((f"{self.name}: {each}" for each in said if each.startswith("deny ")), "")
        return f"{self.name}: only those in allow" if self.is_closed else ""


class AccessReference:
    """The lists of a spec, and what is denied *by_hand*: a query must pass the switch's and that of its VIP."""

    def __init__(self, spec: Spec, by_hand: Iterable[DeniedByHand] = ()) -> None:
        by_hand = list(by_hand)
        self.of_switch = self._list("switch.access", spec.switch.access, [each for each in by_hand if not each.vip])
        found = {
            name: self._list(f"vips.{name}.access", vip.access, [each for each in by_hand if each.vip == name])
            for name, vip in spec.vips.items()
        }
        self.of_vips = {name: one for name, one in found.items() if one is not None}

    @staticmethod
    def _list(name: str, access: AccessRules | None, by_hand: list[DeniedByHand]) -> PlainAccessList | None:
        return PlainAccessList(name, access or AccessRules(), by_hand) if access or by_hand else None

    def lists_of(self, vip: str) -> list[PlainAccessList]:
        """The lists that queries to a VIP must pass."""
        return [each for each in (self.of_switch, self.of_vips.get(vip)) if each is not None]

    def denial(self, vip: str, client: bytes, port: int) -> str:
        """Why a client's query to a port of a VIP is dropped; empty where it is not."""
        return next(filter(None, (each.denial(client, port) for each in self.lists_of(vip))), "")
