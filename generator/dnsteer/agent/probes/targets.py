"""What is probed: every backend of a pool with health checks, by each check, in each family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dnsteer.agent.health import Thresholds
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.checked_services import SPOKEN, checked_services, service_name
from dnsteer.spec.model.families import FAMILIES, Family
from dnsteer.spec.model.health import HealthCheck
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Backend, Spec
from dnsteer.tables.slot import probe_numbers

Key = tuple[str, str, int, str]


@dataclass(frozen=True)
class Source:
    """Where a probe through the bridge comes from: an address of the port for probes, and ports that name the backend.

    Each check of a pool has ports of its own: two sockets with the same addresses and ports would take each other's answers.
    """

    address: str
    ports: range


@dataclass(frozen=True)
class Target:
    """An address and port to ask, and the check that a backend must pass there. *number* is the check's place in the pool.

    With a *source* the address is that of *vip*, and the bridge leads the probe to the backend.
    """

    pool: str
    backend: str
    number: int
    address: str
    port: int
    check: HealthCheck
    thresholds: Thresholds
    source: Source | None = None
    vip: str = ""
    services: tuple[str, ...] = ("",)
    """The services that a failure takes the backend out of, such as `853/tcp`; the empty one stands for all."""

    @property
    def key(self) -> Key:
        """What stays the same when other parts of the spec change."""
        return self.pool, self.backend, self.number, self.address

    @property
    def slots(self) -> list[str]:
        """The names of the slots that it decides about (`slots_name`)."""
        return [slots_name(self.pool, service) for service in self.services]

    @property
    def name(self) -> str:
        """The check as messages call it."""
        where = f"[{self.address}]" if ":" in self.address else self.address
        way = f" (VIP {self.vip}) through the bridge" if self.source else ""
        return f"{self.check.check.value} {where}:{self.port}{way}"


def slots_name(pool: str, service: str = "") -> str:
    """Return what messages call a pool's slots: `POOL`, or `POOL (853/tcp)` for those that one service has for itself."""
    return f"{pool} ({service})" if service else pool


def targets(spec: Spec) -> Iterator[Target]:
    """Yield what is to be probed, in the order of the spec."""
    probe = spec.switch.probe
    for pool_name, pool in spec.pools.items():
        numbers = probe_numbers(pool) if pool.health and probe is not None else {}
        checks = pool.health or []
        for number, check in enumerate(checks):
            limits = Thresholds(check.rise, check.fall, pool.hold_max)
            per = tuple(checked_services(spec, pool_name, check)) if check.per == "service" else ("",)
            vips = _services(spec, pool_name, check) if probe is not None and check.via != "network" else {}
            for backend in pool.backends:
                for family in FAMILIES:
                    address = derived.address_of(backend, family)
                    if address is None:
                        continue
                    if family in vips and probe is not None and (own := _own_address(probe, backend, family)):
                        first = derived.PROBE_PORTS * numbers[backend.name]
                        of_check = slice(number % derived.PROBE_PORTS, None, min(derived.PROBE_PORTS, len(checks)))
                        source = Source(own, range(first, first + derived.PROBE_PORTS)[of_check])
                        for vip_address, (vip, port) in vips[family].items():
                            yield Target(
                                pool_name, backend.name, number, vip_address, port, check, limits, source, vip, per
                            )
                    else:
                        port = check.port or SPOKEN.get(check.check, (None, "", 0))[2]
                        yield Target(pool_name, backend.name, number, str(address), port, check, limits, services=per)


def rounds(of: Iterable[Target]) -> list[list[Target]]:
    """Return the targets in groups: the VIPs of one family at which one check asks one backend."""
    found: dict[tuple[str, str, int, bool], list[Target]] = {}
    for target in of:
        found.setdefault((target.pool, target.backend, target.number, ":" in target.address), []).append(target)
    return list(found.values())


def _services(spec: Spec, pool: str, check: HealthCheck) -> dict[Family, dict[str, tuple[str, int]]]:
    """By family, the addresses of the pool that the check can ask through the bridge, each with its VIP and first port."""
    found: dict[Family, dict[str, tuple[str, int]]] = {}
    checked = checked_services(spec, pool, check)
    for name, vip in spec.vips.items():
        if vip.pool != pool or MODES[vip.forwarding].uses_extension(spec.pools[pool]):
            continue
        for e in derived.endpoints(vip):
            if service_name(e.protocol.value, e.port) in checked:
                for address in vip.addresses:
                    found.setdefault(derived.family_of(address), {}).setdefault(str(address), (name, e.port))
    return found


def _own_address(probe: Probe, backend: Backend, family: Family) -> str:
    """The address that a backend answers directly: that in its network, or else the first of the family; empty for none."""
    own = [a for a in probe.addresses if derived.family_of(a.ip) == family]
    near = next((a for a in own if derived.address_of(backend, family) in a.network), own[0] if own else None)
    return str(near.ip) if near is not None else ""
