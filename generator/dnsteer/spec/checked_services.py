"""The services that health checks are about, and those that have slots of their own for it (`per: service`)."""

from __future__ import annotations

from dnsteer.spec.derived import endpoints, spoken
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.spec import Protocol, Spec

SPOKEN = {
    CheckKind.DNS: (Protocol.UDP, "dns", 53), CheckKind.TCP: (Protocol.TCP, "dns", 53),
    CheckKind.TLS: (Protocol.TCP, "dot", 853), CheckKind.QUIC: (Protocol.UDP, "doq", 853),
    CheckKind.HTTPS: (Protocol.TCP, "doh", 443),
}  # fmt: skip
"""Protocol, service and default port that a check is about."""


def checked_services(spec: Spec, pool: str, check: HealthCheck) -> dict[str, None]:
    """Return the services of a pool's VIPs that a check asks, such as `853/tcp`, in the order of the VIPs."""
    protocol, word, _ = SPOKEN.get(check.check, (None, "", 0))
    return {
        service_name(e.protocol.value, e.port): None
        for vip in spec.vips.values()
        if vip.pool == pool
        for e in endpoints(vip)
        if e.protocol is protocol and spoken(e) == word and check.port in (None, e.port)
    }


def service_name(protocol: str, port: int) -> str:
    """Return what messages call a service: `853/tcp`."""
    return f"{port}/{protocol}"


def own_slots(spec: Spec, pool: str) -> tuple[str, ...]:
    """Return the services of a pool that have slots of their own, since a check takes backends out of them alone."""
    checks = [check for check in spec.pools[pool].health or () if check.per == "service"]
    return tuple(dict.fromkeys(service for check in checks for service in checked_services(spec, pool, check)))
