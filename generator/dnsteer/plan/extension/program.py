"""The extension's part of a plan: what Open vSwitch sends it and takes back, and what its program does between."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.plan.subject import Subject
from dnsteer.spec.model.families import Family


@dataclass(frozen=True)
class ExtensionPortRow:
    """A port of the bridge whose other end is the extension's; *device* is what it opens there."""

    name: str
    number: int
    device: str


@dataclass(frozen=True)
class Target:
    """A backend as the extension reaches it: *address* is the end of a tunnel or of a translation, else empty."""

    name: str
    mac: str
    address: str


@dataclass(frozen=True)
class ExtendedService:
    """A service that the extension serves. *slots* has the name of each slot's target; empty where nobody is left."""

    name: str
    address: str
    family: Family
    protocol: str
    port: int
    select: str
    hash_fields: tuple[str, ...]
    forward: str
    slots: tuple[str, ...]


@dataclass(frozen=True)
class ExitRow:
    """Where what the extension gives back by port *came_by* leaves: frames for *mac*, or all when it is empty."""

    subject: Subject
    came_by: str
    mac: str
    port: str


@dataclass(frozen=True)
class TranslatedRow:
    """Answers of a backend over IPv6 to clients over IPv4, which the extension translates."""

    subject: Subject
    backend: str
    protocol: str
    port: int


@dataclass
class Extension:
    """All of it. *mac*, *ipv4* and *ipv6* are the sources of tunnels; *answers_to* is the MAC that answers leave to."""

    subject: Subject
    ingress: ExtensionPortRow
    egress: ExtensionPortRow
    mac: str
    ipv4: str
    ipv6: str
    budgets: dict[str, int]
    answers_to: str = ""
    targets: dict[str, Target] = field(default_factory=dict)
    services: list[ExtendedService] = field(default_factory=list)
    exits: list[ExitRow] = field(default_factory=list)
    translated: list[TranslatedRow] = field(default_factory=list)


PREFIX = "64:ff9b::/96"
"""Where IPv4 clients are in the IPv6 that backends see (RFC 6052)."""
FORWARD = {"dsr": "l2", "ipip": "ipip", "siit": "siit"}
SELECT = {"source-port": "slots", "client": "client", "spray": "spray"}
"""The spec's words in the program's."""
