"""The numbers of slots that pools keep from the applied state, if the spec names none.

Another number moves many clients of a pool. So a pool keeps the number that it was applied with, also when a newer dnsteer
gives new pools another one, until its spec names a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from dnsteer.checks.load import check_slots
from dnsteer.slots.membership import Membership
from dnsteer.spec import derived
from dnsteer.spec.loaded import Loaded, with_slots
from dnsteer.spec.model.spec import Selection, Spec


def kept_slots(spec: Spec, applied: Sequence[Membership]) -> dict[str, int]:
    """Return the number of slots by pool that names none and keeps a number other than the default."""
    known = {m.pool: m for m in applied}
    most = derived.FLAVOR_LIMITS[spec.switch.flavor].max_dp_hash_slots
    out = {}
    for name, pool in spec.pools.items():
        before = known.get(name)
        if pool.slots is not None or before is None or before.selection != pool.selection.value:
            continue
        possible = pool.selection is not Selection.DP_HASH or before.slots <= most
        if possible and before.slots != derived.slot_count(spec, pool):
            out[name] = before.slots
    return out


def keep_slots(loaded: Loaded, applied: Sequence[Membership]) -> Loaded:
    """Return the spec with the numbers of slots that its pools keep. Raises SpecError if it is invalid with these."""
    kept = kept_slots(loaded.spec, applied)
    return check_slots(loaded, kept) if kept else loaded


def keep_slots_of(spec: Spec, applied: Sequence[Membership]) -> Spec:
    """The same for a spec that is only compared, without checks."""
    return with_slots(spec, kept_slots(spec, applied))


def notes(spec: Spec, applied: Sequence[Membership]) -> list[str]:
    """Return sentences about pools of *spec* that keep their number of slots."""
    return [
        f"pool {name} keeps its {number} slots, where a new pool gets {derived.slot_count(spec, spec.pools[name])}: "
        f"to keep them anywhere, or to have others, name them (slots: {number})"
        for name, number in kept_slots(spec, applied).items()
    ]
