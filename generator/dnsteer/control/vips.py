"""How the VIPs of a spec do: the rates of their services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dnsteer.control.counters import Service
from dnsteer.control.rates import Rate, Rates, total
from dnsteer.spec import meaning
from dnsteer.spec.model import Spec, Vip


@dataclass(frozen=True)
class ServiceView:
    """A protocol and port of a VIP, all of its addresses together."""

    protocol: str
    port: int
    rate: Rate

    def as_json(self) -> dict[str, Any]:
        """As a JSON object. The protocol says whether its packets are queries."""
        packets = self.rate.as_json()["packets_per_second"]
        return {"protocol": self.protocol, "port": self.port, "packets_per_second": packets}


@dataclass(frozen=True)
class VipView:
    """A VIP, its services, and where it leads."""

    name: str
    addresses: tuple[str, ...]
    services: tuple[ServiceView, ...]
    pool: str
    forwarding: str

    @property
    def rate(self) -> Rate:
        """That of its services together."""
        return total(s.rate for s in self.services)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "name": self.name, "addresses": list(self.addresses), "services": [s.as_json() for s in self.services],
            "pool": self.pool, "forwarding": self.forwarding, **self.rate.as_json(),
        }  # fmt: skip


def view_vips(spec: Spec, rates: Rates) -> list[VipView]:
    """All VIPs, in the order of the spec."""
    return [_vip(name, vip, rates) for name, vip in spec.vips.items()]


def _vip(name: str, vip: Vip, rates: Rates) -> VipView:
    services = []
    for e in meaning.endpoints(vip):
        protocol = e.protocol.value
        rate = rates.of(Service(protocol, address, e.port) for address in vip.addresses)
        services.append(ServiceView(protocol, e.port, rate))
    return VipView(name, tuple(map(str, vip.addresses)), tuple(services), vip.pool, vip.forwarding.value)
