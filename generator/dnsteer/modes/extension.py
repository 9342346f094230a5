# SPDX-License-Identifier: Apache-2.0
"""Types that modes use for the extension: the services and targets of its program, and the pipes made for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dnsteer.spec.model.families import Family


@dataclass(frozen=True)
class ExtensionBackend:
    """A backend as the extension reaches it. *address* is the tunnel's end or the translated destination, else empty."""

    name: str
    mac: str
    address: str

    @property
    def family(self) -> Family:
        """The family of *address*; "ipv4" if it is empty."""
        return "ipv6" if ":" in self.address else "ipv4"


@dataclass(frozen=True)
class ExtendedService:
    """A service that the extension serves. *slots* has the name of each slot's target; empty if no backend is left.

    *probes* has the number of each target for probes (`probe_numbers`); empty without a port for probes.
    """

    name: str
    address: str
    family: Family
    protocol: str
    port: int
    select: str
    hash_fields: tuple[str, ...]
    forward: str
    slots: tuple[str, ...]
    probes: Mapping[str, int] = field(default_factory=dict)

    @property
    def reached(self) -> tuple[str, ...]:
        """The names of the targets that its packets reach, each once."""
        return tuple(dict.fromkeys((*self.slots, *self.probes)))


Targets = Mapping[str, ExtensionBackend]
"""Targets by name."""


@dataclass(frozen=True)
class Pipe:
    """A pipe of the extension's program and its number of entries."""

    name: str
    entries: int
