"""How many datapath flows port scans can make: packets to the VIPs' addresses for ports that no service has."""

from __future__ import annotations

from collections import Counter, defaultdict

from dnsteer.plan.mask_policy import Kind, MaskPolicy
from dnsteer.plan.plan import Plan
from dnsteer.tables.ingress import PortRow
from dnsteer.tables.vip import ServiceRow

_PORTS = 1 << 16


def scanned(plan: Plan) -> dict[str, int]:
    """Flows that scans of all ports make, by the address that is scanned; under "" those that addresses share.

    Every one is a drop and has the destination port that was looked at: where the first look takes low bits alone, ports
    that share those of a service go on, and show the port, the address and the bits of a slot.
    """
    looks, uplinks = MaskPolicy(plan), sum(port.uplink for port in plan.rows.of(PortRow))
    services = Counter((s.address, s.protocol) for s in plan.rows.of(ServiceRow))
    addresses = {s.address: s.family for s in plan.rows.of(ServiceRow)}
    out: dict[str, int] = defaultdict(int)
    for kind in looks.kinds:
        passing = _passing(kind, looks.port_bits)
        if looks.port_bits:
            out[""] += uplinks * ((1 << looks.port_bits) - len(kind.low_ports))
        for address, family in addresses.items():
            if family == kind.family:
                out[address] += uplinks * (passing - services[address, kind.protocol]) << kind.slot_bits
    return dict(out)


def _passing(kind: Kind, port_bits: int) -> int:
    """Destination ports that get as far as the services."""
    return len(kind.low_ports) * (_PORTS >> port_bits) if port_bits else _PORTS
