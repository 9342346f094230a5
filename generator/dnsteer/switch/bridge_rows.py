# SPDX-License-Identifier: Apache-2.0
"""A bridge, its ports and its tables as OVSDB has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from dnsteer.switch.state import OWNER_KEY

if TYPE_CHECKING:
    from dnsteer.plan.bridge import WantedLag  # the quick verbs do without the spec


@dataclass(frozen=True)
class Interface:
    """An interface in OVSDB. *ofport* is None until the switch has opened it, -1 if it could not.

    *gone* says that its device vanished afterwards: the switch keeps the number then, but has neither index, link nor
    address. *settings* are those of settings.SETTINGS.
    """

    name: str
    port: str
    type: str
    options: Mapping[str, str]
    ofport: int | None
    error: str
    ours: bool
    gone: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    mac: str = ""
    """The MAC address that OVSDB gives it; empty where it has its own."""
    mtu: int | None = None
    """The MTU, in bytes, that OVSDB asks for; None where it is the device's own."""
    of_capture: bool = False
    """Whether a capture has made it, for as long as it runs."""

    @property
    def is_open(self) -> bool:
        return (self.ofport or 0) > 0

    @property
    def is_down(self) -> bool:
        return self.settings.get("admin_state") == "down"


@dataclass(frozen=True)
class FlowTable:
    """A bridge's settings of one OpenFlow table."""

    uuid: UUID
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Lag:
    """A bond by LACP as OVSDB has it. *differs* is what is not as dnsteer makes it, in words; *interfaces* by member."""

    lag: WantedLag
    datapath_type: str
    differs: str = ""
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    lacp_current: Mapping[str, bool] = field(default_factory=dict)
    """Of each member whether its partner's LACP is current, where the switch says so."""


@dataclass(frozen=True)
class Bridge:
    """A bridge in OVSDB. *ports* are by interface name."""

    name: str
    external_ids: Mapping[str, str]
    datapath_type: str
    fail_mode: str
    protocols: tuple[str, ...]
    ports: Mapping[str, Interface]
    tables: Mapping[int, FlowTable]
    settings: Mapping[str, str] = field(default_factory=dict)
    lags: Mapping[str, Lag] = field(default_factory=dict)
    """The bonds by LACP beside it that are dnsteer's, by uplink."""

    @property
    def devices(self) -> Mapping[str, Interface]:
        """Its interfaces, and the members of bonds beside it, by name."""
        return {**self.ports, **{name: now for lag in self.lags.values() for name, now in lag.interfaces.items()}}

    @property
    def ours(self) -> bool:
        """Whether dnsteer made it or was told to adopt it."""
        return OWNER_KEY in self.external_ids
