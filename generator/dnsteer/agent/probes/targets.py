"""What is probed: every address of every backend of a pool with health checks, once per check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.agent.health import Thresholds
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Spec

_PORTS = {CheckKind.DNS: 53, CheckKind.TCP: 53, CheckKind.TLS: 853, CheckKind.QUIC: 853, CheckKind.HTTPS: 443}


@dataclass(frozen=True)
class Target:
    """One address of one backend and the check that it must pass. *number* is the check's place in the pool's list."""

    pool: str
    backend: str
    number: int
    address: str
    port: int
    check: HealthCheck
    thresholds: Thresholds

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What stays the same when other parts of the spec change."""
        return self.pool, self.backend, self.number, self.address

    @property
    def name(self) -> str:
        """The check as messages call it."""
        where = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.check.check.value} {where}:{self.port}"


def targets(spec: Spec) -> Iterator[Target]:
    """Yield what is to be probed, in the order of the spec."""
    for pool_name, pool in spec.pools.items():
        for number, check in enumerate(pool.health or ()):
            limits = Thresholds(check.rise, check.fall, pool.hold_max)
            port = check.port or _PORTS.get(check.check, 0)
            for backend in pool.backends:
                for address in (backend.ipv4, backend.ipv6):
                    if address is not None:
                        yield Target(pool_name, backend.name, number, str(address), port, check, limits)
