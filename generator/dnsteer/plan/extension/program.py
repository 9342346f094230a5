# SPDX-License-Identifier: Apache-2.0
"""The extension's part of a plan: what Open vSwitch exchanges with it, and what its program does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from dnsteer.modes.extension import ExtendedService, ExtensionBackend
from dnsteer.tables.cookies import Subject
from dnsteer.tables.return_ import TranslatedRow


@dataclass(frozen=True)
class ExtensionPortRow:
    """A port of the bridge whose other end is the extension's; *device* is what it opens there."""

    name: str
    number: int
    device: str


@dataclass
class ExtensionPlan:
    """What it exchanges and does. *mac*, *ipv4* and *ipv6* are the sources of tunnels; *answers_to* is the MAC that
    *translated* answers leave to. Probes are frames to *probe_mac*, and translated answers to them go to *probe_ipv4*."""

    subject: Subject
    ingress: ExtensionPortRow
    egress: ExtensionPortRow
    mac: str
    ipv4: str
    ipv6: str
    budgets: dict[str, int]
    answers_to: str
    translated: list[TranslatedRow]
    probe_mac: str = ""
    probe_ipv4: str = ""
    targets: dict[str, ExtensionBackend] = field(default_factory=dict)
    services: list[ExtendedService] = field(default_factory=list)


SELECT = {"source-port": "slots", "client": "client", "spray": "spray"}
"""The spec's selections in the program's words."""


class BackendAddress(TypedDict, total=False):
    """What some backends have: *address* is the end of a tunnel, or what packets are translated to."""

    address: str


class ProgramBackend(BackendAddress):
    """A backend."""

    name: str
    mac: str


class HashFields(TypedDict, total=False):
    """What VIPs with selection `client` have: the fields that are hashed."""

    hash_fields: list[str]


class ProbeNumbers(TypedDict, total=False):
    """What VIPs that are probed have: the upper 12 bits of the source port of probes, by the name of a backend."""

    probes: dict[str, int]


class ProgramVip(HashFields, ProbeNumbers):
    """A service of a VIP's address. *slots* are names of backends; there are none if only probes reach it."""

    name: str
    family: str
    address: str
    protocol: str
    port: int
    select: str
    forward: str
    slots: list[str]


class TunnelSources(TypedDict, total=False):
    """The source addresses of tunnels, by IP version."""

    ipv4: str
    ipv6: str


class ProgramTunnel(TunnelSources):
    """The sources of tunnels."""

    mac: str


class ProbeAddress(TypedDict, total=False):
    """The IPv4 address of probes, to which answers are translated."""

    ipv4: str


class ProgramProbe(ProbeAddress):
    """The MAC address that frames with probes go to."""

    mac: str


class OptionalParts(TypedDict, total=False):
    """What a program can do without. *about* says what it was made from."""

    about: str
    tunnel: ProgramTunnel
    probe: ProgramProbe


class Program(OptionalParts):
    """A program. *ports* are the devices `in` and `out`."""

    version: int
    ports: dict[str, str]
    budgets: dict[str, int]
    backends: list[ProgramBackend]
    vips: list[ProgramVip]
