# SPDX-License-Identifier: Apache-2.0
"""Warnings: what is allowed but probably a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from dnsteer.checks.access import doubtful_access
from dnsteer.checks.addresses import all_addresses
from dnsteer.checks.devices import unknown_types
from dnsteer.checks.lint_entries import useless_entries
from dnsteer.checks.switch import families_that_return
from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding, Path
from dnsteer.spec.health_checks import is_liveness_only
from dnsteer.spec.loaded import Scope
from dnsteer.spec.model.families import ANY, FAMILIES, FAMILY_NAMES, Family
from dnsteer.spec.model.health import CheckKind
from dnsteer.spec.model.spec import Spec, State
from dnsteer.spec.model.types import Address
from dnsteer.spec.own_traffic import own_addresses


def warnings(scope: Scope) -> Iterator[Finding]:
    """All warnings of a valid spec."""
    yield from _ports(scope)
    yield from _pools(scope)
    yield from _vips(scope)
    yield from _extension(scope)
    yield from _longer(scope)
    yield from _probes(scope)
    yield from _liveness(scope)
    yield from _gateways(scope)
    yield from _anycast(scope)
    yield from _without_health(scope)
    yield from unknown_types(scope)
    yield from useless_entries(scope)
    yield from doubtful_access(scope)


def _ports(scope: Scope) -> Iterator[Finding]:
    used = {b.port for pool in scope.spec.pools.values() for b in pool.backends}
    for name in scope.spec.switch.ports:
        if name not in used:
            yield scope.finding(
                ("switch", "ports", name),
                "a port that no backend uses",
                f"a backend with port: {name}",
                "queries to a backend without port leave by the uplink that they came in by",
                "ports that no backend uses",
            )


def _pools(scope: Scope) -> Iterator[Finding]:
    spec = scope.spec
    asked = {
        (vip.pool, MODES[vip.forwarding].reach(derived.family_of(a)))
        for vip in spec.vips.values()
        for a in vip.addresses
    }
    used = {name for name, _ in asked} | {pool.backup.pool for pool in spec.pools.values() if pool.backup is not None}
    for name, pool in spec.pools.items():
        base: Path = ("pools", name)
        if name not in used:
            yield scope.finding(base, "a pool that no VIP uses", "a VIP with this pool", kind="pools that no VIP uses")
            continue
        down = [
            reached
            for reached in (*FAMILIES, ANY)
            if (name, reached) in asked
            and not any(b.weight and b.state is State.UP for b in derived.members(pool, reached))
        ]
        if down:
            families = [family for family in FAMILIES if family in down]
            one = len(families) == 1 and ANY not in down
            what = f"every backend for {FAMILY_NAMES[families[0]]}" if one else "every backend"
            yield scope.finding(
                (*base, "backends"),
                f"{what} down",
                "a backend that is up",
                "the base assignment is kept: queries still go to backends that are down"
                if pool.on_all_down == "keep"
                else "queries are dropped until one is up (on_all_down)",
                "pools with every backend of a family down",
            )


def _extension(scope: Scope) -> Iterator[Finding]:
    spec = scope.spec
    if spec.switch.extension is None:
        return
    through = [(n, vip) for n, vip in spec.vips.items() if MODES[vip.forwarding].uses_extension(spec.pools[vip.pool])]
    if not through:
        yield scope.finding(
            ("switch", "extension"),
            "an extension that no VIP needs",
            "a VIP with forwarding ipip or siit, or with a pool of selection client or spray",
            "without one, leave switch.extension out",
        )
    for name, pool in spec.pools.items():
        if pool.hash_fields and not {"src_ip", "src_port"} & {*pool.hash_fields}:
            yield scope.finding(
                ("pools", name, "hash_fields"),
                "fields that all clients of a service share",
                "src_ip or src_port among them",
                "the hash is the same for all queries to a service, so one backend gets them all",
                "pools that give all queries to a service to one backend",
            )


def _longer(scope: Scope) -> Iterator[Finding]:
    """Packets that a tunnel makes longer than the links."""
    spec = scope.spec
    part = spec.switch.bringup
    mtu = USUAL_MTU if part is None or part.mtu is None else part.mtu
    said = "as usual: switch.bringup.mtu is left out" if part is None or part.mtu is None else "switch.bringup.mtu"
    for name, vip in spec.vips.items():
        more = MODES[vip.forwarding].mtu_excess(vip, spec.pools[vip.pool])
        if more and mtu < USUAL_MTU + more:
            yield scope.finding(
                ("vips", name, "forwarding"),
                f"{vip.forwarding.value}, and links of {mtu} bytes ({said})",
                f"links of at least {USUAL_MTU + more} bytes from the switch to the backends of pool {vip.pool}",
                f"tunnels make queries {more} bytes longer, and packets above the links' MTU are lost: full TCP "
                "segments are that long, queries over UDP never are",
                "VIPs whose tunnels make packets longer than the links",
            )


USUAL_MTU = 1500
"""Bytes of Ethernet without jumbo frames."""


def _vips(scope: Scope) -> Iterator[Finding]:
    echo: dict[Address, str] = {}
    for name, vip in scope.spec.vips.items():
        if vip.echo:
            for address in vip.addresses:
                echo.setdefault(address, name)
    for name, vip in scope.spec.vips.items():
        why = MODES[vip.forwarding].fragments
        if why and vip.fragments == "drop":
            way = vip.forwarding.value
            yield scope.finding(
                ("vips", name, "fragments"),
                f'"drop" with forwarding {way}',
                f"no fragments key with {way}",
                why,
                "VIPs with fragments: drop, which has no effect without forwarding nat",
            )
        others = [a for a in vip.addresses if a in echo]
        if not vip.echo and others:
            yield scope.finding(
                ("vips", name, "echo"),
                f"false, while VIP {echo[others[0]]} with the same address says true",
                "one answer for an address",
                f"echo requests to {others[0]} are answered",
                "VIPs with echo: false, while another VIP with the same address says true",
            )


def _probes(scope: Scope) -> Iterator[Finding]:
    """A backend that is asked through the bridge answers the probe's address, which should be in its own network."""
    probe = scope.spec.switch.probe
    if probe is None:
        return
    networks = [a.network for a in probe.addresses]
    for name, pool in scope.spec.pools.items():
        if all(check.check is CheckKind.COMMAND or check.via == "network" for check in pool.health or ()):
            continue
        families = _probed_on_link(scope.spec, name)
        for i, backend in enumerate(pool.backends):
            for family in families:
                address = derived.address_of(backend, family)
                if address is not None and not any(address in network for network in networks):
                    yield scope.finding(
                        ("pools", name, "backends", i, family),
                        f"{address}, in no network of switch.probe.addresses",
                        "an address of the port for probes in the network of each backend that is asked through the bridge",
                        "its answers arrive only if its router sends them to the bridge; add one, or say via: network",
                        "backends in no network of switch.probe.addresses",
                    )


def _probed_on_link(spec: Spec, pool: str) -> list[Family]:
    """The families in which backends of a pool are reached without a router on the way back."""
    ways = [(MODES[vip.forwarding], a) for vip in spec.vips.values() if vip.pool == pool for a in vip.addresses]
    # In tunnels they may be anywhere, and translated answers go by a route.
    reached = {mode.reach(derived.family_of(a)) for mode, a in ways if not (mode.tunnels or mode.translates)}
    return [family for family in FAMILIES if family in reached]


def _liveness(scope: Scope) -> Iterator[Finding]:
    """Pools whose checks any server passes that answers."""
    for name, pool in scope.spec.pools.items():
        deciding = [check for check in pool.health or () if check.on_failure == "out"]
        if deciding and all(is_liveness_only(pool, check) for check in deciding):
            yield scope.finding(
                ("pools", name, "health"),
                "checks that test only that something answers",
                "serves: authoritative or serves: resolver, or a query for what the servers have",
                "a server that has lost its zones, or a resolver without a way to the Internet, passes",
                "pools whose checks test only that something answers",
            )


def _gateways(scope: Scope) -> Iterator[Finding]:
    """Gateways are for answers that pass the switch, and for traffic of backends' own."""
    own = {each.family: each for each in own_addresses(scope.spec)}
    needed = {*families_that_return(scope.spec), *own}
    have = {derived.family_of(address) for address in scope.spec.switch.gateways}
    for family, each in own.items():
        if family not in have:
            yield scope.finding(
                ("switch", "gateways"),
                f"no {FAMILY_NAMES[family]} gateway, and backends with {FAMILY_NAMES[family]} addresses",
                f"an {FAMILY_NAMES[family]} address in switch.gateways",
                f"backends such as {each.backend.name} of pool {each.pool} ask others over "
                f"{FAMILY_NAMES[family]} by a gateway, and are not reached without one",
                "families in which backends' own traffic has no gateway",
            )
    for i, address in enumerate(scope.spec.switch.gateways):
        if derived.family_of(address) not in needed:
            word = FAMILY_NAMES[derived.family_of(address)]
            yield scope.finding(
                ("switch", "gateways", i),
                f"{address}, a gateway that no answers need",
                f"{word} answers that pass the switch",
                "answers pass it with forwarding nat or siit, and of backends on ports of their own; leave it out otherwise",
                "gateways that no answers need",
            )


def _anycast(scope: Scope) -> Iterator[Finding]:
    """An IPv6 address whose last 64 bits are 0 is that of all routers of its /64, unless the network is another one."""
    for path, address in all_addresses(scope):
        if address.version == 6 and not int(address) & _INTERFACE_ID:
            yield scope.finding(
                path,
                f"{address}, the anycast address of the routers of {address}/64",
                "an address of one host",
                "routers of that network answer for it themselves (RFC 4291, 2.6.1); fine where no router has this network",
                "addresses that are those of a network's routers",
            )


def _without_health(scope: Scope) -> Iterator[Finding]:
    """What says how the agent treats backends that fail has no effect where none is checked."""
    for name, pool in scope.spec.pools.items():
        if pool.health:
            continue
        keys = [key for key in ("panic", "slow_start", "hold_max") if key in pool.model_fields_set]
        for key in keys:
            if key != "slow_start" or pool.backup is None:  # a backup's backends leave over it
                yield scope.finding(
                    ("pools", name, key),
                    f"{key}, and no health",
                    f"a pool with health, or no {key}",
                    "the agent checks no backend of this pool and takes none out",
                    "pools with panic, slow_start or hold_max and without health",
                )


_INTERFACE_ID = (1 << 64) - 1
