# SPDX-License-Identifier: Apache-2.0
"""What is probed: every backend of a pool with health checks, by each check, in each family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dnsteer.agent.health import Thresholds
from dnsteer.modes import MODES
from dnsteer.modes.base import Mode
from dnsteer.spec import derived
from dnsteer.spec.health_checks import (
    EffectiveQuery,
    checked_services,
    effective_query,
    effective_timeout,
    own_port,
    service_name,
)
from dnsteer.spec.model.families import ANY, FAMILIES, Family
from dnsteer.spec.model.health import HealthCheck
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Backend, Spec
from dnsteer.status.agent_knowledge import WARNS
from dnsteer.switch.agent_record import TargetKey
from dnsteer.tables.slot import probe_numbers


@dataclass(frozen=True)
class ProbeSource:
    """Where a probe through the bridge comes from: an address of the port for probes, and ports that name the backend.

    Each check of a pool has ports of its own: two sockets with the same addresses and ports would take each other's answers.
    """

    address: str
    ports: range


@dataclass(frozen=True)
class ProbeTarget:
    """An address and port to ask, and the check that a backend must pass there. *number* is the check's place in the pool.

    *query* is what it asks, where it asks by DNS; *timeout* is in seconds.

    With a *source* the address is that of *vip*, and the bridge leads the probe to the backend.
    """

    pool: str
    backend: str
    number: int
    address: str
    port: int
    check: HealthCheck
    query: EffectiveQuery
    timeout: float
    thresholds: Thresholds
    source: ProbeSource | None = None
    vip: str = ""
    services: tuple[str, ...] = ("",)
    """The services that a failure takes the backend out of, such as `853/tcp`; the empty one stands for all."""

    @property
    def key(self) -> TargetKey:
        """What stays the same when other parts of the spec change."""
        return self.pool, self.backend, self.number, self.address

    @property
    def slots(self) -> list[str]:
        """The names of the slots that it decides about (`slots_name`)."""
        return [slots_name(self.pool, service) for service in self.services]

    @property
    def label(self) -> tuple[str, str, str]:
        """Pool, backend and kind of check, as metrics have them: `dns`, or `dns-warn` for one that only warns."""
        warns = WARNS if self.check.on_failure == "warn" else ""
        return self.pool, self.backend, f"{self.check.check.value}{warns}"

    @property
    def place(self) -> str:
        """What tells it from other targets of its label: the check's place in the pool, and the address."""
        return f"{self.number} {self.address}"

    @property
    def name(self) -> str:
        """The check as messages call it."""
        where = f"[{self.address}]" if ":" in self.address else self.address
        suffix = f" (VIP {self.vip}) through the bridge" if self.source else ""
        return f"{self.check.check.value} {where}:{self.port}{suffix}"


def slots_name(pool: str, service: str = "") -> str:
    """Return what messages call a pool's slots: `POOL`, or `POOL (853/tcp)` for those that one service has for itself."""
    return f"{pool} ({service})" if service else pool


def probe_targets(spec: Spec) -> Iterator[ProbeTarget]:
    """Yield what is to be probed, in the order of the spec."""
    probe = spec.switch.probe
    for pool_name, pool in spec.pools.items():
        numbers = probe_numbers(pool) if pool.health and probe is not None else {}
        checks = pool.health or []
        for number, check in enumerate(checks):
            limits = Thresholds(check.rise, check.fall, pool.hold_max)
            asks = effective_query(pool, check), effective_timeout(pool, check), limits
            per = tuple(checked_services(spec, pool_name, check)) if check.per == "service" else ("",)
            vips = _services(spec, pool_name, check) if probe is not None and check.via != "network" else []
            for backend in pool.backends:
                asked: set[Family] = set()
                for reached in vips:
                    end, own = (
                        reached.end_at(backend),
                        _own_address(probe, reached, backend) if probe is not None else "",
                    )
                    if end is None or not own:
                        continue
                    asked.add(end)
                    first = derived.PROBE_PORTS * numbers[backend.name]
                    of_check = slice(number % derived.PROBE_PORTS, None, min(derived.PROBE_PORTS, len(checks)))
                    source = ProbeSource(own, range(first, first + derived.PROBE_PORTS)[of_check])
                    yield ProbeTarget(
                        pool_name,
                        backend.name,
                        number,
                        reached.address,
                        reached.port,
                        check,
                        *asks,
                        source,
                        reached.vip,
                        per,
                    )
                for family in FAMILIES:
                    address = derived.address_of(backend, family)
                    if address is not None and family not in asked:
                        port = own_port(spec, pool_name, check, backend)
                        yield ProbeTarget(
                            pool_name, backend.name, number, str(address), port, check, *asks, services=per
                        )


def group_targets(of: Iterable[ProbeTarget]) -> list[list[ProbeTarget]]:
    """Return the targets in groups: the VIPs of one family at which one check asks one backend."""
    found: dict[tuple[str, str, int, bool], list[ProbeTarget]] = {}
    for target in of:
        found.setdefault((target.pool, target.backend, target.number, ":" in target.address), []).append(target)
    return list(found.values())


@dataclass(frozen=True)
class _ProbedAddress:
    """An address of a VIP that a check can ask through the bridge."""

    address: str
    family: Family
    port: int
    vip: str
    mode: Mode

    def end_at(self, backend: Backend) -> Family | None:
        """The family of the backend's address that is reached so; None if it has none."""
        reach = self.mode.reach(self.family)
        families = [
            f for f in ((self.family, *FAMILIES) if reach == ANY else (reach,)) if derived.address_of(backend, f)
        ]
        return families[0] if families else None


def _services(spec: Spec, pool: str, check: HealthCheck) -> list[_ProbedAddress]:
    """The addresses of the pool that the check can ask through the bridge, each with its VIP and first port, IPv4 first."""
    found: dict[str, _ProbedAddress] = {}
    checked = checked_services(spec, pool, check)
    for name, vip in spec.vips.items():
        if vip.pool != pool:
            continue
        for e in derived.endpoints(vip):
            if service_name(e.protocol.value, e.port) in checked:
                for address in vip.addresses:
                    reached = _ProbedAddress(
                        str(address), derived.family_of(address), e.port, name, MODES[vip.forwarding]
                    )
                    found.setdefault(reached.address, reached)
    return sorted(found.values(), key=lambda reached: FAMILIES.index(reached.family))


def _own_address(probe: Probe, reached: _ProbedAddress, backend: Backend) -> str:
    """The address that a backend answers: that in its network, or else the first of the family; empty for none."""
    if reached.mode.translates:
        return derived.translated_probe(probe)
    own = [a for a in probe.addresses if derived.family_of(a.ip) == reached.family]
    at = derived.address_of(backend, reached.family)
    near = next((a for a in own if at is not None and at in a.network), own[0] if own else None)
    return str(near.ip) if near is not None else ""
