# SPDX-License-Identifier: Apache-2.0
"""Whose queries access lists deny: plain longest prefix match over the entries of the spec (docs/access.md)."""

from __future__ import annotations

from dnsteer.spec.model.access import AccessRules
from dnsteer.spec.model.spec import Spec

_Rules = dict[tuple[int, int], dict[int | None, str]]
"""Denials and admissions by the length of a prefix and its bits, then by port; None: all ports."""


class PlainAccessList:
    """One list, which says of each client whether it may ask."""

    def __init__(self, name: str, access: AccessRules) -> None:
        self.name = name
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
        for length in self._lengths[width]:
            found = self._rules[width].get((length, address >> width - length), {})
            said = [found[key] for key in (None, port) if key in found]
            if said:
                return next((f"{self.name}: {each}" for each in said if each.startswith("deny ")), "")
        return f"{self.name}: only those in allow" if self.is_closed else ""


class AccessReference:
    """The lists of a spec: a query must pass the switch's and that of its VIP."""

    def __init__(self, spec: Spec) -> None:
        self.of_switch = PlainAccessList("switch.access", spec.switch.access) if spec.switch.access else None
        self.of_vips = {
            name: PlainAccessList(f"vips.{name}.access", vip.access) for name, vip in spec.vips.items() if vip.access
        }

    def lists_of(self, vip: str) -> list[PlainAccessList]:
        """The lists that queries to a VIP must pass."""
        return [each for each in (self.of_switch, self.of_vips.get(vip)) if each is not None]

    def denial(self, vip: str, client: bytes, port: int) -> str:
        """Why a client's query to a port of a VIP is dropped; empty where it is not."""
        return next(filter(None, (each.denial(client, port) for each in self.lists_of(vip))), "")
