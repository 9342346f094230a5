# SPDX-License-Identifier: Apache-2.0
"""Workers that cannot be: names that are too long, ports that do not exist, and modes that change no ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.health_checks import checked_services, own_port
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.spec import MAX_PORT, Pool, Spec
from dnsteer.spec.model.types import MAX_NAME
from dnsteer.spec.workers import Worker, named


@dataclass(frozen=True)
class _Host:
    """A backend with workers: its path, its name and how many it has."""

    path: Path
    name: str
    workers: int


def check_workers(scope: Scope) -> Iterator[Finding]:
    """All findings about workers. Which ports they share with others, the forwarding mode says."""
    for name, pool in scope.spec.pools.items():
        hosts = list(_hosts(name, pool))
        if hosts:
            yield from _modes(scope, name, hosts[0])
            for host in hosts:
                yield from _names(scope, host)
                yield from _ports(scope, name, host)


def _hosts(name: str, pool: Pool) -> Iterator[_Host]:
    for index, backend in enumerate(pool.backends):
        if isinstance(backend, Worker) and not backend.number:
            count = sum(1 for b in pool.backends if isinstance(b, Worker) and b.host == backend.host)
            yield _Host(("pools", name, "backends", index), backend.host, count)


def _names(scope: Scope, host: _Host) -> Iterator[Finding]:
    longest = len(f".{host.workers - 1}")
    if len(host.name) + longest > MAX_NAME:
        yield scope.finding(
            (*host.path, "name"),
            f"a name of {len(host.name)} characters, and {host.workers} workers",
            f"one of at most {MAX_NAME - longest}",
            "workers are called NAME.0, NAME.1 and so on",
        )


def _served(spec: Spec, pool: str) -> Iterator[str]:
    """The names of the VIPs that a pool may serve: its own, and those of pools that it is the backup of."""
    for name, vip in spec.vips.items():
        found = spec.pools.get(vip.pool)
        if vip.pool == pool or (found is not None and found.backup is not None and found.backup.pool == pool):
            yield name


def _modes(scope: Scope, pool: str, host: _Host) -> Iterator[Finding]:
    """One finding for each VIP whose mode changes no ports."""
    for name in _served(scope.spec, pool):
        mode = scope.spec.vips[name].forwarding
        if not MODES[mode].translates_ports:
            yield scope.finding(
                (*host.path, "workers"),
                f"{host.workers} workers, and VIP {name} with forwarding {mode.value}",
                "VIPs with forwarding: nat alone for a pool with workers",
                f"workers differ in their ports, which {MODES[mode].changed_by} does not change: use forwarding: nat, or "
                f"leave workers out; see {scope.where(('vips', name, 'forwarding'))}",
            )


def _ports(scope: Scope, pool: str, host: _Host) -> Iterator[Finding]:
    """One finding for each service, and each check, whose last worker would have no port."""
    for name in _served(scope.spec, pool):
        for endpoint in derived.endpoints(scope.spec.vips[name]):
            first, last = endpoint.target_port, endpoint.target_port + host.workers - 1
            if last > MAX_PORT:
                yield scope.finding(
                    (*host.path, "workers"),
                    f"{host.workers} workers at ports from {first}/{endpoint.protocol.value} on, so up to {last}",
                    f"ports up to {MAX_PORT}",
                    f"lower the target_port; see {scope.where(('vips', name, 'services', endpoint.index))}",
                )
    last_worker = named(scope.spec.pools[pool], host.name)[-1]
    for index, check in enumerate(scope.spec.pools[pool].health or ()):
        last = own_port(scope.spec, pool, check, last_worker)
        if last > MAX_PORT and not checked_services(scope.spec, pool, check):
            yield scope.finding(
                (*host.path, "workers"),
                f"{host.workers} workers, which a check asks at ports from {check.port} on, so up to {last}",
                f"ports up to {MAX_PORT}",
                f"lower the port of the check; see {scope.where(('pools', pool, 'health', index))}",
            )
