# SPDX-License-Identifier: Apache-2.0
"""Estimate the size of a plan from the spec alone, so that one that is too large is not made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dnsteer.modes import MODES
from dnsteer.spec import derived
from dnsteer.spec.health_checks import own_slots
from dnsteer.spec.model.spec import Pool, Spec, Vip
from dnsteer.spec.own_traffic import own_addresses
from dnsteer.spec.workers import has_workers
from dnsteer.tables.address import own_prefixes_of, prefixes_of
from dnsteer.tables.client_limits import client_limits

_OF_LIMIT = 8
"""Flows of a limit of clients besides those of its buckets: bits of both families, and what its tables have anyway."""
_OF_BACKEND = 4
"""Flows of a backend in a set of slots: forwarding, answers, fragments and probes."""


@dataclass(frozen=True)
class SpecSize:
    """About how many *flows* a plan has, and *choices* of slots by backends that it compares: rather too many."""

    flows: int
    choices: int


def size_of_spec(spec: Spec) -> SpecSize:
    """The size of a spec, in time that grows with its text alone. Its meaning need not be checked."""
    vips: dict[str, list[Vip]] = {}
    for vip in spec.vips.values():
        vips.setdefault(vip.pool, []).append(vip)
    flows = choices = 0
    for name, pool in spec.pools.items():
        own = vips.get(name, [])
        backends, taking = _backends(spec, pool)
        slots = derived.slot_count(spec, pool)
        sets = _sets_of_slots(spec, name, own)
        # A pool that no VIP uses has no flows, but its backends, those of a backup among them, are made all the same.
        flows += sets * slots + max(sets, 1) * _OF_BACKEND * backends
        choices += sets * slots * min(taking, slots)
        for vip in own:
            services = len(derived.endpoints(vip))
            of_service = 2 if has_workers(pool) else 1  # it has a flow for each backend in table forward too
            each = services if MODES[vip.forwarding].owns_vip else services * (1 + of_service * backends)
            flows += len(vip.addresses) * (1 + each)
            if derived.copies_errors(vip, pool):  # in the tables error and copy
                flows += len(vip.addresses) * (1 + len(spec.switch.uplinks))
            if vip.limits is not None:  # in the tables access and syn
                ways = (vip.limits.clients is not None) + (vip.limits.tcp_syn is not None)
                flows += ways * len(vip.addresses) * services
    flows += sum(limit.clients.buckets + _OF_LIMIT for limit in client_limits(spec))
    flows += sum(len(prefixes) + 1 for find in (prefixes_of, own_prefixes_of) for *_, prefixes in find(spec))
    flows += 2 * len(list(own_addresses(spec)))
    return SpecSize(flows, choices)


def _backends(spec: Spec, pool: Pool) -> tuple[int, int]:
    """The backends of a pool with those of its backup, and how many of them take slots."""
    backup = spec.pools.get(pool.backup.pool) if pool.backup is not None else None
    more = sum(b.workers or 1 for b in backup.backends) if backup is not None else 0
    return sum(b.workers or 1 for b in pool.backends) + more, sum(b.workers or 1 for b in pool.backends if b.weight)


def _sets_of_slots(spec: Spec, name: str, vips: Sequence[Vip]) -> int:
    """How many sets of slots a pool has: by family where its backends differ, and by service where checks do."""
    pool = spec.pools[name]
    same = all(b.ipv4 is not None and b.ipv6 is not None for b in pool.backends)
    reached = {
        MODES[vip.forwarding].reach(family)
        for vip in vips
        for family in {derived.family_of(address) for address in vip.addresses}
    }
    of_pool = spec.model_copy(update={"vips": dict(enumerate(vips))})
    return (1 if same else len(reached)) * (1 + len(own_slots(of_pool, name)))
