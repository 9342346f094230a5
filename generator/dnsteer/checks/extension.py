# SPDX-License-Identifier: Apache-2.0
"""Rules of what goes through the extension: which selections and forwardings fit together, its ports, and its budgets."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.extension import Extension
from dnsteer.spec.model.spec import Pool, Protocol, Selection, Vip
from dnsteer.spec.model.types import Address

_AT: Path = ("switch", "extension")


def check_extension(scope: Scope) -> Iterator[Finding]:
    """All findings of the extension and of what goes through it."""
    for name, pool in scope.spec.pools.items():
        if pool.hash_fields is not None and pool.selection is not Selection.CLIENT:
            yield scope.finding(
                ("pools", name, "hash_fields"),
                f"hash_fields with selection {pool.selection.value}",
                "no hash_fields with this selection",
                "only selection: client uses hash_fields",
            )
        fields = pool.hash_fields or []
        for i, field in enumerate(fields):
            if (first := fields.index(field)) != i:
                yield scope.finding(
                    ("pools", name, "hash_fields", i),
                    f'"{field}" a second time',
                    "each field once",
                    f"remove it: it is hash_fields[{first}] already",
                )
    vips = [(n, v, scope.spec.pools[v.pool]) for n, v in scope.spec.vips.items() if v.pool in scope.spec.pools]
    for name, vip, pool in vips:
        yield from _combination(scope, name, vip, pool)
    through = [(name, vip, pool) for name, vip, pool in vips if MODES[vip.forwarding].uses_extension(pool)]
    part = scope.spec.switch.extension
    if part is not None:
        yield from _ports(scope, part)
        yield from _addresses(scope, part)
        yield from _budgets(scope, part, through)
    elif through:
        name, vip, pool = through[0]
        what = f"forwarding {vip.forwarding.value}"
        if not MODES[vip.forwarding].by_extension:
            what = f"selection {pool.selection.value} of pool {vip.pool}"
        yield scope.finding(
            ("vips", name),
            f"{what} without switch.extension",
            "switch.extension, since only the extension can forward these packets",
            "give switch.extension its ingress and egress port (docs/extension.md)",
        )
    yield from _places(scope, through)


def _combination(scope: Scope, name: str, vip: Vip, pool: Pool) -> Iterator[Finding]:
    """Selection and forwarding of a VIP that do not go together."""
    base: Path = ("vips", name)
    pair = f"forwarding {vip.forwarding.value} with selection {pool.selection.value} of pool {vip.pool}"
    extended = MODES[vip.forwarding].uses_extension(pool)
    if extended and not MODES[vip.forwarding].program:
        *words, last = [mode.word.value for mode in MODES.values() if mode.program]
        yield scope.finding(
            (*base, "forwarding"),
            pair,
            f"{', '.join(words)} or {last} with this selection",
            f"{MODES[vip.forwarding].why_unsupported}; forwarding {vip.forwarding.value} requires selection source-port or "
            "dp-hash",
        )
    unseen = {
        Selection.DP_HASH: "the extension does not see the switch's hash",
        Selection.SOURCE_ADDRESS: "the extension keeps clients by a hash: selection client, with hash_fields [src_ip]",
    }
    if extended and pool.selection in unseen:
        yield scope.finding(
            (*base, "forwarding"),
            pair,
            "selection source-port, client or spray with this forwarding",
            unseen[pool.selection],
        )
    if pool.selection is Selection.SPRAY:
        for endpoint in derived.endpoints(vip):
            quic = derived.is_quic(endpoint)
            if quic or endpoint.protocol is Protocol.TCP:
                what, other = ("QUIC at UDP", "QUIC") if quic else ("TCP", "TCP")
                yield scope.finding(
                    (*base, "services", endpoint.index),
                    f"{what} port {endpoint.port} with selection spray of pool {vip.pool}",
                    "services over UDP without QUIC only" if quic else "UDP services only",
                    f"all packets of a connection must reach one backend: give {other} a VIP with another pool; "
                    "the services of one address may be in two VIPs",
                )
                break


def _ports(scope: Scope, part: Extension) -> Iterator[Finding]:
    switch = scope.spec.switch
    taken: dict[str, str] = {switch.bridge: "the bridge's own name"}
    taken.update(dict.fromkeys(switch.uplinks, "the name of an uplink"))
    taken.update(dict.fromkeys(switch.ports, "the name of a port of backends"))
    for key, port in (("ingress", part.ingress), ("egress", part.egress)):
        path = (*_AT, key, "port")
        if port.port in taken:
            yield scope.finding(
                path,
                f'"{port.port}", which is {taken[port.port]}',
                "a port for the extension alone",
                "each of its two scalable functions has a representor of its own",
            )
        taken.setdefault(port.port, "the port of its ingress")
    devices = [port.device or port.port for port in (part.ingress, part.egress)]
    if devices[0] == devices[1] and part.ingress.port != part.egress.port:
        yield scope.finding(
            (*_AT, "egress", "device"),
            f'"{devices[1]}" a second time',
            "a device of its own for each port",
            "queries go in by one function and come out by the other",
        )


def _addresses(scope: Scope, part: Extension) -> Iterator[Finding]:
    """Sources of tunnels that another object of the spec has as its address."""
    spec = scope.spec
    used: dict[Address, Path] = {a: ("switch", "gateways", i) for i, a in enumerate(spec.switch.gateways)}
    for name, vip in spec.vips.items():
        used.update({a: ("vips", name, "addresses", i) for i, a in enumerate(vip.addresses)})
    for name, pool in spec.pools.items():
        for i, backend in enumerate(pool.backends):
            used.update({a: ("pools", name, "backends", i) for a in (backend.ipv4, backend.ipv6) if a is not None})
    for key, own in (("ipv4", part.ipv4), ("ipv6", part.ipv6)):
        if own is not None and own in used:
            yield scope.finding(
                (*_AT, key),
                f"{own}, which is in use",
                "an address that is used for nothing else",
                f"see {scope.where(used[own])}",
            )


def _budgets(scope: Scope, part: Extension, through: list[tuple[str, Vip, Pool]]) -> Iterator[Finding]:
    """What is rendered must fit, and the largest service a second time: it is there twice while it changes."""
    services = slots = largest = 0
    probed = scope.spec.switch.probe is not None
    ends: set[tuple[str, str, int]] = set()
    for _, vip, pool in through:
        count, each = len(derived.endpoints(vip)) * len(vip.addresses), derived.slot_count(scope.spec, pool)
        each += len(pool.backends) if probed else 0
        services, slots, largest = services + count, slots + count * each, max(largest, each)
        if MODES[vip.forwarding].by_extension:
            ends |= {(vip.pool, b.name, a.version) for b in pool.backends for a in vip.addresses}
    kinds = " and backends that are probed" if probed else ""
    for key, needed, why in (
        ("vips", services + 1, f"{services} services, and one that changes"),
        ("slots", slots + largest, f"{slots} slots{kinds}, and a service of {largest} that changes"),
        ("backends", len(ends), f"{len(ends)} tunnels and translations"),
    ):
        most = getattr(part.budgets, key)
        if through and needed > most:
            yield scope.finding(
                (*_AT, "budgets", key) if "budgets" in part.model_fields_set else _AT,
                f"a budget of {most} {key} for {why}",
                f"at least {needed}",
                f"set switch.extension.budgets.{key}; the extension must be restarted for it",
            )


def _places(scope: Scope, through: list[tuple[str, Vip, Pool]]) -> Iterator[Finding]:
    """Packets from the extension are told apart by their destination MAC alone: two ports must not share one."""
    uplinks = list(scope.spec.switch.uplinks)
    seen: dict[str, tuple[str, Path]] = {}
    for pool_name in dict.fromkeys(vip.pool for _, vip, _ in through):
        for i, backend in enumerate(scope.spec.pools[pool_name].backends):
            path: Path = ("pools", pool_name, "backends", i)
            if backend.port is None and len(uplinks) > 1:
                yield scope.finding(
                    path,
                    'no "port", behind the extension of a switch with several uplinks',
                    "the uplink or port that it sits behind",
                    "a packet that comes back from the extension does not show by which uplink it came in",
                )
                continue
            place = backend.port or uplinks[0]
            first, where = seen.setdefault(backend.mac, (place, path))
            if first != place:
                yield scope.finding(
                    (*path, "mac"),
                    f"mac {backend.mac} behind {place}, and behind {first} elsewhere",
                    "one uplink or port for each MAC address behind the extension",
                    f"see {scope.where(where)}",
                )
