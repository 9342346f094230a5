# SPDX-License-Identifier: Apache-2.0
"""How often queries of each pool pass the datapath: once, or twice so that VIPs and slots do not multiply."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.health_checks import own_slots, service_name
from dnsteer.spec.loaded import with_slots
from dnsteer.spec.model.spec import AUTO, Flavor, Forwarding, Pool, Spec
from dnsteer.spec.workers import has_workers


class SwitchOrExtension(Protocol):
    """The part of a forwarding mode that passes depend on."""

    def uses_extension(self, pool: Pool) -> bool:
        """Whether packets to a VIP served by *pool* go through the extension."""


Modes = Mapping[Forwarding, SwitchOrExtension]


@dataclass
class QueryRules:
    """The hardware rules for queries of a pool: with its *slots*, the number of its *services* and of *kinds* of queries.

    Queries of one kind have one mode, protocol and family: the second pass tells no others apart. Where backends have
    workers it tells ports apart too (*by_port*), and services that have slots of their own (*apart*, such as `853/tcp`).
    """

    slots: int
    uplinks: int
    by_port: bool = False
    apart: Collection[str] = ()
    services: int = 0
    kinds: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def in_one_pass(self) -> int:
        """Slots of each service, at each uplink."""
        return self.uplinks * self.services * self.slots

    @property
    def in_two_passes(self) -> int:
        """Services in the first pass, and in the second slots of each kind, at each uplink."""
        return self.uplinks * (self.services + self.slots * len(self.kinds))


def query_rules(spec: Spec, modes: Modes) -> dict[str, QueryRules]:
    """The rules for queries of each pool that VIPs use without the extension."""
    found: dict[str, QueryRules] = {}
    for vip in spec.vips.values():
        pool = spec.pools[vip.pool]
        if modes[vip.forwarding].uses_extension(pool):
            continue
        if vip.pool not in found:
            slots, uplinks = derived.slot_count(spec, pool), len(uplink_devices(spec.switch))
            found[vip.pool] = QueryRules(slots, uplinks, has_workers(pool), own_slots(spec, vip.pool))
        rules, endpoints = found[vip.pool], derived.endpoints(vip)
        rules.services += len(vip.addresses) * len(endpoints)
        families = {derived.family_of(address) for address in vip.addresses}
        rules.kinds |= {(vip.forwarding, f, *_told_apart(rules, e)) for f in families for e in endpoints}
    return found


def _told_apart(rules: QueryRules, endpoint: derived.Endpoint) -> tuple[object, ...]:
    """What the second pass tells queries to an endpoint apart by."""
    service = service_name(endpoint.protocol.value, endpoint.port)
    return (
        endpoint.protocol,
        endpoint.target_port if rules.by_port else 0,
        service if service in rules.apart else "",
    )


def rules_budget(spec: Spec) -> int:
    """The rules for queries that the switch may have before pools go to two passes by themselves."""
    return spec.switch.rules or derived.RULES


def passes_of(spec: Spec, modes: Modes) -> dict[str, int]:
    """The passes of each pool that VIPs use without the extension: 1 or 2, by the spec alone.

    A pool whose slots the switch's hash selects has 1 here: its own second pass is the group's.
    """
    rules, passes, total, open_ = query_rules(spec, modes), dict[str, int](), 0, list[str]()
    for name, of_pool in rules.items():
        pool = spec.pools[name]
        passes[name] = 2 if pool.passes == 2 and pool.selection.by_bits else 1
        total += of_pool.in_two_passes if passes[name] == 2 else of_pool.in_one_pass
        if pool.passes == AUTO and pool.selection.by_bits:
            open_.append(name)
    if spec.switch.flavor is Flavor.OVS_DPDK:  # which takes no recirculated flow into hardware
        return passes
    for name in sorted(open_, key=lambda name: -rules[name].in_one_pass):  # a stable sort: of equals the first
        saved = rules[name].in_one_pass - rules[name].in_two_passes
        if total <= rules_budget(spec):
            break
        if saved > 0:
            passes[name] = 2
            total -= saved
    return passes


def with_chosen(spec: Spec, modes: Modes) -> Spec:
    """The spec with the slots and passes of each pool named, so that they stay when VIPs are left out of it."""
    passes = passes_of(spec, modes)
    named = with_slots(spec, {name: derived.slot_count(spec, pool) for name, pool in spec.pools.items()})
    pools = {
        name: pool.model_copy(update={"passes": passes[name]}) if name in passes else pool
        for name, pool in named.pools.items()
    }
    return named.model_copy(update={"pools": pools})
