# SPDX-License-Identifier: Apache-2.0
"""The VIPs of a spec with the rates of their services and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dnsteer.spec import derived
from dnsteer.spec.model.spec import Spec, Vip
from dnsteer.status.counters import CountedService
from dnsteer.status.rates import Rate, Rates, total


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
class AddressView:
    """An address of a VIP, all of the VIP's services together."""

    address: str
    rate: Rate

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"address": self.address, **self.rate.as_json()}


@dataclass(frozen=True)
class VipView:
    """A VIP, its addresses, its services and its pool."""

    name: str
    addresses: tuple[AddressView, ...]
    services: tuple[ServiceView, ...]
    pool: str
    forwarding: str

    @property
    def rate(self) -> Rate:
        """That of its services together."""
        return total(s.rate for s in self.services)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object. The addresses are there alone, and with their rates."""
        return {
            "name": self.name,
            "addresses": [a.address for a in self.addresses],
            "by_address": [a.as_json() for a in self.addresses],
            "services": [s.as_json() for s in self.services],
            "pool": self.pool,
            "forwarding": self.forwarding,
            **self.rate.as_json(),
        }


def view_vips(spec: Spec, rates: Rates) -> list[VipView]:
    """All VIPs, in the order of the spec."""
    return [_vip(name, vip, rates) for name, vip in spec.vips.items()]


def _vip(name: str, vip: Vip, rates: Rates) -> VipView:
    ends = [(e.protocol.value, e.port) for e in derived.endpoints(vip)]
    services = [ServiceView(*end, rates.of(CountedService(end[0], a, end[1]) for a in vip.addresses)) for end in ends]
    addresses = [
        AddressView(str(a), rates.of(CountedService(end[0], a, end[1]) for end in ends)) for a in vip.addresses
    ]
    return VipView(name, tuple(addresses), tuple(services), vip.pool, vip.forwarding.value)
