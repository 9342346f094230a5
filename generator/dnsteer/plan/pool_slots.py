# SPDX-License-Identifier: Apache-2.0
"""The slots of pools: which backend each names, how far shares deviate from the weights, and which numbers pools keep.

Another number of slots moves many clients of a pool. So a pool keeps the number that it was applied with, also when a newer
dnsteer gives new pools another one, until its spec names a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from dnsteer.checks.load import check_slots
from dnsteer.modes import MODES
from dnsteer.slots.assignment import worst_share
from dnsteer.slots.maintenance import Maintenance
from dnsteer.slots.membership import Membership
from dnsteer.slots.owners import owners
from dnsteer.spec import derived
from dnsteer.spec.errors import Finding
from dnsteer.spec.loaded import Loaded, with_slots
from dnsteer.spec.model.families import ANY, FAMILIES, Reach
from dnsteer.spec.model.spec import Pool, Selection, Spec, State


def slots_of(spec: Spec, pool: Pool, family: Reach, maintenance: Sequence[Maintenance] = ()) -> tuple[str, ...]:
    """The backend's name for each slot of *pool* in *family*.

    Empty when no backend takes queries in that family, or none is left and the pool drops then.
    """
    members = derived.members(pool, family)
    down = [b.name for b in members if b.state is State.DOWN]
    weights = {b.name: b.weight for b in members}
    return owners(weights, derived.slot_count(spec, pool), down, maintenance, drop=pool.on_all_down == "drop")


SHARE_TOLERANCE = Fraction(10, 100)
"""A share that is off by more than this, relative to its weight's, is worth a warning."""


def used_weights(spec: Spec) -> dict[str, list[dict[str, int]]]:
    """Return the weights that determine each pool's slots, for each set of backends that VIPs reach.

    Pools that no VIP uses, and sets in which nobody has a weight, are left out.
    """
    asked = {
        (vip.pool, MODES[vip.forwarding].reach(derived.family_of(a)))
        for vip in spec.vips.values()
        for a in vip.addresses
    }
    out: dict[str, list[dict[str, int]]] = {}
    for name, pool in spec.pools.items():
        for family in (each for each in (*FAMILIES, ANY) if (name, each) in asked):
            weights = {b.name: b.weight for b in derived.members(pool, family)}
            if any(weights.values()) and weights not in out.get(name, []):
                out.setdefault(name, []).append(weights)
    return out


def worst_of(sets: Sequence[Mapping[str, int]], slots: int) -> tuple[str, Fraction]:
    """Return the backend whose share of the slots deviates most from its weight, and the relative deviation."""
    return max((worst_share(weights, slots) for weights in sets), key=lambda found: abs(found[1]))


def uneven_shares(loaded: Loaded) -> Iterator[Finding]:
    """Yield a finding for each pool with too few slots for its weights, naming the backend that deviates most."""
    for name, sets in used_weights(loaded.spec).items():
        pool = loaded.spec.pools[name]
        slots = derived.slot_count(loaded.spec, pool)
        backend, error = worst_of(sets, slots)
        if abs(error) > SHARE_TOLERANCE:
            path = ("pools", name)
            found = f"{slots} slots, which give backend {backend} {float(error):+.1%} against its weight"
            yield loaded.document.finding(
                path,
                found,
                "shares within 10 % of the weights'",
                _more_slots(sets, slots, derived.most_slots(loaded.spec, pool)),
                "pools with shares that are more than 10 % off their weights'",
            )


def _more_slots(sets: Sequence[Mapping[str, int]], slots: int, most: int) -> str:
    """Return the hint for uneven_shares shares: the number of slots that would be enough for the *sets* of weights."""
    nearest, left = 0, abs(worst_of(sets, slots)[1])
    for size in (1 << n for n in range(slots.bit_length(), most.bit_length())):
        error = abs(worst_of(sets, size)[1])
        if f"{float(error):.1%}" != f"{float(left):.1%}" and error < left:  # else it would gain nothing
            nearest, left = size, error
        if error <= SHARE_TOLERANCE:
            moves = "but a changed number moves many clients"
            return f"if the difference matters: slots: {size} (within {float(error):.1%}), {moves}"
    can = f"the most that it can have is {most}"
    if nearest:
        can = f"slots: {nearest} comes nearest (within {float(left):.1%}), and {can}"
    return f"{can}: give the backends weights that are nearer to each other, or split the pool"


def kept_slots(spec: Spec, applied: Sequence[Membership]) -> dict[str, int]:
    """Return the number of slots by pool that names none and keeps a number other than the default."""
    known = {m.pool: m for m in applied}
    most = derived.FLAVOR_LIMITS[spec.switch.flavor].max_dp_hash_slots
    out = {}
    for name, pool in spec.pools.items():
        before = known.get(name)
        if pool.slots is not None or before is None:
            continue
        selection = Selection(before.selection)
        if pool.selection is not selection and not (pool.selection.by_bits and selection.by_bits):
            continue  # another number is usual there
        possible = pool.selection is not Selection.DP_HASH or before.slots <= most
        if possible and before.slots != derived.slot_count(spec, pool):
            out[name] = before.slots
    return out


def keep_slots(loaded: Loaded, applied: Sequence[Membership]) -> Loaded:
    """Return the spec with the numbers of slots that its pools keep. Raises SpecError if it is invalid with these."""
    kept = kept_slots(loaded.spec, applied)
    return check_slots(loaded, kept) if kept else loaded


def keep_slots_of(spec: Spec, applied: Sequence[Membership]) -> Spec:
    """As keep_slots, for a spec that is only compared, without checks."""
    return with_slots(spec, kept_slots(spec, applied))


def describe_kept_slots(spec: Spec, applied: Sequence[Membership]) -> list[str]:
    """Return sentences about pools of *spec* that keep their number of slots."""
    return [
        f"pool {name} keeps its {number} slots, where a new pool gets {derived.slot_count(spec, spec.pools[name])}: "
        f"to keep them anywhere, or to have others, name them (slots: {number})"
        for name, number in kept_slots(spec, applied).items()
    ]


def describe_chosen_slots(spec: Spec, applied: Sequence[Membership]) -> list[str]:
    """Return sentences about new pools of *spec* that get another number of slots than the usual, because many share them.

    Each names the line by which another switch has the same, whatever other VIPs its spec has.
    """
    known, used = {m.pool for m in applied}, {vip.pool for vip in spec.vips.values()}
    out = []
    for name, pool in spec.pools.items():
        number = derived.slot_count(spec, pool)
        chosen = pool.slots is None and pool.selection.by_bits and name in used - known
        if chosen and number != derived.SOURCE_PORT_SLOTS:
            shared = derived.services_of_pool(spec, pool)
            out.append(
                f"pool {name} gets {number} slots, not {derived.SOURCE_PORT_SLOTS}, since {shared} services share it: to "
                f"have as many anywhere, and whatever VIPs there are, name them (slots: {number})"
            )
    return out
