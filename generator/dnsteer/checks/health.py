"""Health checks that cannot work, and the port that their probes enter by."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.checks.health_query import check_query
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.derived import endpoints
from dnsteer.spec.errors import Finding, Path, near
from dnsteer.spec.health_checks import checked_services, service_name
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.health import CheckKind, HealthCheck
from dnsteer.spec.model.probe import Probe
from dnsteer.spec.model.spec import Pool


def check_probe(scope: Scope) -> Iterator[Finding]:
    """All findings about the port for probes, and what is probed through it."""
    probe = scope.spec.switch.probe
    if probe is None:
        return
    yield from _probe(scope, probe)
    for name, pool in scope.spec.pools.items():
        if pool.health and len(pool.backends) > derived.MAX_PROBED:
            yield scope.finding(
                ("pools", name, "backends"),
                f"{len(pool.backends)} backends",
                f"at most {derived.MAX_PROBED} in a pool that is probed through the bridge",
                "use several pools",
            )


def check_health(scope: Scope) -> Iterator[Finding]:
    """All findings about health checks."""
    for name, pool in scope.spec.pools.items():
        for i, check in enumerate(pool.health or ()):
            path: Path = ("pools", name, "health", i)
            path = path if path in scope.doc.lines else path[:-1]  # a single check, written without a list
            yield from _check(scope, path, check)
            yield from check_query(scope, path, pool, check)
            if check.per == "service":
                yield from _per_service(scope, path, name, check)
            if check.via == "datapath":
                yield from _through_bridge(scope, path, name, pool, check)


def _check(scope: Scope, path: Path, check: HealthCheck) -> Iterator[Finding]:
    if check.timeout is not None and check.timeout > check.interval:
        yield scope.finding(
            path,
            f"a timeout of {check.timeout:g} s and an interval of {check.interval:g} s",
            "a timeout that is not longer than the interval",
            "a probe ends before the next one begins: raise interval or lower timeout",
        )
    if check.check is CheckKind.COMMAND and not check.command:
        yield scope.finding(
            path,
            "check: command without a command",
            'the key "command"',
            "give the program and its arguments: command: [/usr/lib/check-dns, '{address}']",
        )
    if check.check is not CheckKind.COMMAND and check.command:
        yield scope.finding(
            (*path, "command"),
            f"a command with check: {check.check.value}",
            "check: command",
            "one check asks by DNS or runs a command; write two",
        )


def _per_service(scope: Scope, path: Path, name: str, check: HealthCheck) -> Iterator[Finding]:
    pool = scope.spec.pools[name]
    if check.on_failure == "warn":
        yield scope.finding(
            (*path, "per"), '"service" with on_failure: warn', "on_failure: out", "it takes nothing out: leave per out"
        )
    elif check.check is CheckKind.COMMAND:
        yield scope.finding(
            (*path, "per"),
            '"service" with check: command',
            "per: backend",
            "a command tells nothing about which service fails; leave per out",
        )
    elif any(MODES[v.forwarding].uses_extension(pool) for v in scope.spec.vips.values() if v.pool == name):
        yield scope.finding(
            (*path, "per"),
            '"service" for a pool that the extension forwards',
            "per: backend",
            "the extension has one set of slots for all services of a pool; leave per out",
        )
    elif not checked_services(scope.spec, name, check):
        vips = [vip for vip in scope.spec.vips.values() if vip.pool == name]
        services = {service_name(e.protocol.value, e.port) for vip in vips for e in endpoints(vip)}
        yield scope.finding(
            (*path, "per"),
            f'"service" with check: {check.check.value}, which is about no service of the pool\'s VIPs',
            f"a check of one of {', '.join(sorted(services))}" if services else "a VIP that uses the pool",
            "add the service to a VIP, or leave per out",
        )


def _through_bridge(scope: Scope, path: Path, name: str, pool: Pool, check: HealthCheck) -> Iterator[Finding]:
    if scope.spec.switch.probe is None:
        yield scope.finding(
            (*path, "via"),
            '"datapath" without switch.probe',
            "the key switch.probe",
            "give the bridge a port for probes: probe: {addresses: [192.0.2.9/24]}, or leave via out",
        )
    elif check.check is CheckKind.COMMAND:
        yield scope.finding(
            (*path, "via"),
            '"datapath" with check: command',
            "check: dns, tcp, tls, https or quic",
            "a command asks by source ports of its own, which name no backend; leave via out",
        )


def _probe(scope: Scope, probe: Probe) -> Iterator[Finding]:
    switch = scope.spec.switch
    if probe.uplink is not None and probe.uplink not in switch.uplinks:
        yield scope.finding(
            ("switch", "probe", "uplink"),
            f'"{probe.uplink}"',
            "the name of an uplink",
            near(probe.uplink, switch.uplinks),
        )
    yield from _probe_port(scope, probe)
    yield from _probe_mac(scope, probe)
    yield from _probe_addresses(scope, probe)


def _probe_port(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """The port for probes is no other port of the bridge."""
    switch, part = scope.spec.switch, scope.spec.switch.extension
    others = {switch.bridge: "the bridge's own port"}
    others |= dict.fromkeys(switch.uplinks, "an uplink") | dict.fromkeys(switch.ports, "a port of backends")
    if part is not None:
        others |= dict.fromkeys((part.ingress.port, part.egress.port), "the extension's")
    if probe.port in others:
        yield scope.finding(
            ("switch", "probe", "port"),
            f'"{probe.port}", which is {others[probe.port]}',
            "a name of its own",
            "probes have an internal port for themselves",
        )


def _probe_mac(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """Nothing else in the segment has the MAC address of probes."""
    switch, base = scope.spec.switch, ("switch", "probe")
    mac = derived.probe_mac(switch, probe)
    stations = {switch.mac: "the balancer's", derived.gateway_mac(switch): "the virtual gateways'"}
    stations |= {up.next_hop: "a next hop's" for up in switch.uplinks.values() if up.next_hop}
    stations |= {b.mac: f"that of backend {b.name}" for pool in scope.spec.pools.values() for b in pool.backends}
    if mac in stations:
        default = "" if probe.mac else " (switch.mac with its second lowest bit flipped)"
        yield scope.finding(
            (*base, "mac") if probe.mac else base,
            f'"{mac}"{default}, which is {stations[mac]}',
            "a MAC address of its own",
            "set switch.probe.mac to one that is free",
        )


def _probe_addresses(scope: Scope, probe: Probe) -> Iterator[Finding]:
    """Each address of probes is there once, and used for nothing else."""
    used = dict.fromkeys(scope.spec.switch.gateways, "a gateway's")
    used |= {a: f"that of VIP {name}" for name, vip in scope.spec.vips.items() for a in vip.addresses}
    for pool in scope.spec.pools.values():
        used |= {a: f"that of backend {b.name}" for b in pool.backends for a in (b.ipv4, b.ipv6) if a is not None}
    seen: set[object] = set()
    for i, own in enumerate(probe.addresses):
        path = ("switch", "probe", "addresses", i)
        if own.ip in used:
            what = f"{own.ip}, which is {used[own.ip]}"
            yield scope.finding(path, what, "an address that is used for nothing else")
        if own.ip in seen:
            yield scope.finding(path, f"{own.ip} a second time", "each address once", "remove it")
        seen.add(own.ip)
