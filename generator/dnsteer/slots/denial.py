# SPDX-License-Identifier: Apache-2.0
"""Denials by hand: prefixes of clients whose queries people have a running switch drop, since when, by whom and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from dnsteer.spec.errors import escape

MAX_DENIALS = 1000
"""Most denials of a switch: each is in its record, which every change writes anew. Lists of the spec take more."""


@dataclass(frozen=True)
class Denial:
    """Clients by the *prefix* of their addresses, whose queries are dropped whatever the lists of the spec say.

    To one *port* alone, 0 for all, and to one *vip*, empty for all. *since*, *until* and *decision* are as in Maintenance.
    """

    prefix: str
    since: str
    by: str
    port: int = 0
    vip: str = ""
    note: str = ""
    until: str = ""
    decision: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, int, str]:
        """What is denied: of each there is one entry."""
        return self.prefix, self.port, self.vip

    @cached_property
    def network(self) -> IPv4Network | IPv6Network:
        """The prefix."""
        return ip_network(self.prefix)

    @property
    def name(self) -> str:
        """What is denied, in words: `203.0.113.0/24`, `203.0.113.0/24 port 53 to VIP resolver`."""
        port, vip = f" port {self.port}" if self.port else "", f" to VIP {self.vip}" if self.vip else ""
        return f"{self.prefix}{port}{vip}"

    @property
    def words(self) -> tuple[str, ...]:
        """How commands take it: `203.0.113.0/24 --port 53 --vip resolver`."""
        port = ("--port", str(self.port)) if self.port else ()
        return self.prefix, *port, *(("--vip", self.vip) if self.vip else ())

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"denial of {self.name}"

    @property
    def text(self) -> str:
        """What is denied by whom, since when, until when and why, on one line."""
        until = f" until {_minute(self.until)} UTC" if self.until else ""
        note = f": {escape(self.note)}" if self.note else ""
        return f"{self.name} denied by {escape(self.by)} since {_minute(self.since)} UTC{until}{note}"

    def expired(self, now: datetime) -> bool:
        """Whether its *until* has passed."""
        return bool(self.until) and now >= datetime.fromisoformat(self.until)

    def seconds_left(self, now: datetime) -> int | None:
        """Whole seconds until it ends by itself, 0 where it should have; None where it does not."""
        if not self.until:
            return None
        return max(0, int((datetime.fromisoformat(self.until) - now).total_seconds()))

    def is_about(self, vip: str) -> bool:
        """Whether it is for queries to a VIP."""
        return self.vip in ("", vip)

    def to_value(self) -> dict[str, Any]:
        """As it is recorded, without what is empty and without its decision."""
        return {key: value for key, value in asdict(self).items() if value and key != "decision"}


def denial_from_value(value: Mapping[str, Any]) -> Denial:
    """Read what `to_value` gave; the caller looks at its times. Raises ValueError that says what is wrong."""
    for key, found in value.items():
        kind = int if key == "port" else str
        if key not in _KEYS or isinstance(found, bool) or not isinstance(found, kind):
            raise ValueError(f"a denial has {key!r} with {found!r}")
    missing = {"prefix", "since", "by"} - set(value)
    if missing:
        raise ValueError(f"a denial lacks {', '.join(sorted(missing))}")
    denial = Denial(**value)
    if not 0 <= denial.port <= 65535 or str(denial.network) != denial.prefix:
        raise ValueError(f"a denial has the prefix {denial.prefix!r} and the port {denial.port}")
    return denial


_KEYS = {"prefix", "since", "by", "port", "vip", "note", "until"}


def _minute(time: str) -> str:
    return datetime.fromisoformat(time).astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")
