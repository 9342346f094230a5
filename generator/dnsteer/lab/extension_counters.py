"""The extension's counters: packets by VIP and backend, and drops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.lab import extension

Numbers = dict[str, int]


@dataclass(frozen=True)
class ExtensionCounters:
    """Packets of each service by backend; packets dropped, by reason and port; and packets that *missed* all entries."""

    services: dict[str, Numbers]
    dropped: Numbers
    missed: int

    def since(self, before: ExtensionCounters) -> ExtensionCounters:
        """Return the counts since *before*."""
        services = {
            name: {backend: n - before.services.get(name, {}).get(backend, 0) for backend, n in by.items()}
            for name, by in self.services.items()
        }
        dropped = {why: n - before.dropped.get(why, 0) for why, n in self.dropped.items()}
        return ExtensionCounters(services, dropped, self.missed - before.missed)

    def problems(self) -> list[str]:
        """Messages about drops and misses, which must be zero: the switch sends the extension only what it serves."""
        found = [f"the extension dropped {n} packets ({why})" for why, n in self.dropped.items() if n]
        if self.missed:
            found.append(f"the extension had no entry for {self.missed} packets")
        return found

    def as_json(self) -> dict[str, Any]:
        """The counters as JSON values."""
        services = {name: {"packets": sum(by.values()), "backends": by} for name, by in self.services.items()}
        return {"services": services, "dropped": self.dropped, "missed": self.missed}


def read() -> ExtensionCounters:
    """The running extension's counters. Raises UnavailableError."""
    counters = extension.control().counters()
    services = {
        str(vip["name"]): {str(backend): int(n["packets"]) for backend, n in vip["backends"].items()}
        for vip in counters["vips"]
    }
    dropped = counters["dropped"]
    by_why = {f"{why}, by port {port}": int(n) for port in ("in", "out") for why, n in _numbers(dropped[port]).items()}
    return ExtensionCounters(services, by_why, int(dropped["missed"]))


def _numbers(value: Mapping[str, Any]) -> Numbers:
    return {name: int(n) for name, n in value.items()}
