"""The extension's part of a plan: what Open vSwitch exchanges with it, and what its program does."""

from __future__ import annotations

from dataclasses import dataclass, field

from dnsteer.modes.extension import ExtendedService, ExtensionBackend
from dnsteer.tables.return_ import TranslatedRow
from dnsteer.tables.subject import Subject


@dataclass(frozen=True)
class ExtensionPortRow:
    """A port of the bridge whose other end is the extension's; *device* is what it opens there."""

    name: str
    number: int
    device: str


@dataclass
class ExtensionPlan:
    """All of it. *mac*, *ipv4* and *ipv6* are the sources of tunnels; *answers_to* is the MAC that
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
