"""The services that health checks are about, and those that have slots of their own for it (`per: service`)."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.spec.derived import Endpoint, endpoints, spoken
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Backend, Protocol, Spec
from dnsteer.spec.workers import Worker

SPOKEN = {
    CheckKind.DNS: (Protocol.UDP, "dns", 53),
    CheckKind.TCP: (Protocol.TCP, "dns", 53),
    CheckKind.TLS: (Protocol.TCP, "dot", 853),
    CheckKind.QUIC: (Protocol.UDP, "doq", 853),
    CheckKind.HTTPS: (Protocol.TCP, "doh", 443),
}
"""Protocol, service and default port that a check is about."""


def checked_services(spec: Spec, pool: str, check: HealthCheck) -> dict[str, None]:
    """Return the services of a pool's VIPs that a check asks, such as `853/tcp`, in the order of the VIPs."""
    return {service_name(e.protocol.value, e.port): None for e in _checked(spec, pool, check)}


def _checked(spec: Spec, pool: str, check: HealthCheck) -> Iterator[Endpoint]:
    protocol, word, _ = SPOKEN.get(check.check, (None, "", 0))
    for e in _services(spec, pool):
        if e.protocol is protocol and spoken(e) == word and check.port in (None, e.port):
            yield e


def _services(spec: Spec, pool: str) -> Iterator[Endpoint]:
    return (e for vip in spec.vips.values() if vip.pool == pool for e in endpoints(vip))


def own_port(spec: Spec, pool: str, check: HealthCheck, backend: Backend) -> int:
    """Return the port at which a check asks a backend itself.

    It is that of the check. For a worker it is its own port of the service that is asked; where that is none, the check's
    port plus the worker's number, or for a command without a port its own port of the pool's first service.
    """
    usual = check.port or SPOKEN.get(check.check, (None, "", 0))[2]
    if not isinstance(backend, Worker):
        return usual
    service = next(_checked(spec, pool, check), None) or (None if usual else next(_services(spec, pool), None))
    return (service.target_port if service is not None else usual) + backend.number


def service_name(protocol: str, port: int) -> str:
    """Return what messages call a service: `853/tcp`."""
    return f"{port}/{protocol}"


def own_slots(spec: Spec, pool: str) -> tuple[str, ...]:
    """Return the services of a pool that have slots of their own, since a check takes backends out of them alone."""
    checks = [check for check in spec.pools[pool].health or () if check.per == "service"]
    return tuple(dict.fromkeys(service for check in checks for service in checked_services(spec, pool, check)))
