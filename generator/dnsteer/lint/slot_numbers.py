"""Whether a pool would gain by more slots, or by fewer: shares nearer to the weights against hardware rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dnsteer.lint import codes
from dnsteer.lint.findings import Finding
from dnsteer.lint.wording import finding
from dnsteer.offload.examine import Examination
from dnsteer.plan.slot_shares import used_weights, worst_of
from dnsteer.spec import derived
from dnsteer.spec.model.spec import Pool
from dnsteer.tables.vip import ServiceRow

GOOD_SHARE = Fraction(2, 100)
"""A share that is off by this, relative to its weight's, is good enough: less than what resolvers differ by."""
MANY_RULES = 10_000
"""Rules of one pool from which fewer are worth more movement: as many as Open vSwitch allows itself at first."""
_FEWEST = 64
"""Below this a change moves 5 % of the slots beyond the least, and more (docs/slots.md)."""
_NAMED = 3


@dataclass(frozen=True)
class _Advice:
    """Another number of slots for a pool. Shares are those furthest off, with each number."""

    pool: str
    rules: int
    now: tuple[str, Fraction]
    then: tuple[str, Fraction]


def of_slot_numbers(seen: Examination) -> Iterator[Finding]:
    """A finding for pools that another number of slots would serve better, one for all that have and would have the same."""
    pools = {members.number: members.pool for members in seen.plan.members}
    services = Counter(pools[row.pool] for row in seen.plan.rows.of(ServiceRow) if row.pool in pools)
    spec = seen.loaded.spec
    alike: dict[tuple[int, int], list[_Advice]] = defaultdict(list)
    for name, sets in used_weights(spec).items():
        slots, rules = derived.slot_count(spec, spec.pools[name]), services[name] * len(spec.switch.uplinks)
        better = _better(seen, spec.pools[name], sets, rules)
        if better is not None:
            alike[slots, better].append(_Advice(name, rules, worst_of(sets, slots), worst_of(sets, better)))
    for (slots, better), found in alike.items():
        code = codes.MORE_SLOTS if better > slots else codes.FEWER_SLOTS
        rules = sum(each.rules for each in found)
        now = max((each.now for each in found), key=lambda share: abs(share[1]))
        then = max((each.then for each in found), key=lambda share: abs(share[1]))
        names = ", ".join(each.pool for each in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        text = (
            f"pool{'s' if len(found) > 1 else ''} {names}{more}: {slots} slots give backend {now[0]} {float(now[1]):+.1%} "
            f"against its weight and take {slots * rules:,} hardware rules; {better} give {then[0]} "
            f"{float(then[1]):+.1%} at most and take {better * rules:,}"
        )
        advice = f"slots: {better}, if the difference is worth that most clients of a pool move once"
        yield finding(seen, code, ("pools", found[0].pool), text, advice)


def _better(seen: Examination, pool: Pool, sets: Sequence[Mapping[str, int]], rules: int) -> int | None:
    """The number of slots that would serve a pool better; None where it is good as it is. *rules*: for each slot."""
    slots = derived.slot_count(seen.loaded.spec, pool)
    most = derived.most_slots(seen.loaded.spec, pool)
    error = abs(worst_of(sets, slots)[1])
    numbers = [1 << bits for bits in range(most.bit_length()) if 1 << bits <= most]
    if error > GOOD_SHARE:
        more = [n for n in numbers if n > slots]
        enough = next((n for n in more if abs(worst_of(sets, n)[1]) <= GOOD_SHARE), None)
        # Else the one from which on nothing is gained; where that is less than half of the error, it is not worth it.
        best = enough or min(more, key=lambda n: (abs(worst_of(sets, n)[1]), n), default=None)
        return best if best is not None and abs(worst_of(sets, best)[1]) * 2 <= error else None
    if slots * rules < MANY_RULES:
        return None
    fewer = [n for n in numbers if _FEWEST <= n < slots]
    return next((n for n in fewer if abs(worst_of(sets, n)[1]) <= GOOD_SHARE), None)
