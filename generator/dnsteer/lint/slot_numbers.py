# SPDX-License-Identifier: Apache-2.0
"""Findings about the number of slots: more bring shares nearer to the weights, fewer save hardware rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dnsteer.lint.finder import LintContext, finder
from dnsteer.lint.finding import Code, LintFinding, Severity
from dnsteer.modes import MODES
from dnsteer.plan.pool_slots import used_weights, worst_of
from dnsteer.spec import derived
from dnsteer.spec.bonds import uplink_devices
from dnsteer.spec.model.spec import Pool, Spec
from dnsteer.tables.passes import passes_of, query_rules
from dnsteer.tables.vip import ServiceRow

MORE_SLOTS = Code("DNS033", Severity.NOTE, "More slots would bring shares nearer to the weights")
FEWER_SLOTS = Code("DNS034", Severity.NOTE, "Fewer slots would take fewer hardware rules")

GOOD_SHARE = Fraction(2, 100)
"""Relative error of a backend's share that is good enough: resolvers' loads differ by more than this."""
MANY_RULES = 10_000
"""Rules of one pool from which fewer slots are worth moving clients: Open vSwitch's initial limit of datapath flows."""
_FEWEST = 64
"""With fewer slots, a change moves at least 5 % of the slots in addition to the unavoidable ones (docs/slots.md)."""
_NAMED = 3


@dataclass(frozen=True)
class _Advice:
    """A better number of slots for a pool. *now* and *then* are the backend with the worst share, and its relative error."""

    pool: str
    rules: int
    now: tuple[str, Fraction]
    then: tuple[str, Fraction]


@finder(MORE_SLOTS, FEWER_SLOTS)
def slot_numbers(context: LintContext) -> Iterator[LintFinding]:
    """Report pools that need another number of slots: one finding per pair of present and better number."""
    pools = {members.number: members.pool for members in context.plan.members}
    services = Counter(pools[row.pool] for row in context.plan.rows.of(ServiceRow) if row.pool in pools)
    spec = context.spec
    twice = {name for name, passes in passes_of(spec, MODES).items() if passes == 2}
    kinds = {name: len(rules.kinds) for name, rules in query_rules(spec, MODES).items()}
    alike: dict[tuple[int, int], list[_Advice]] = defaultdict(list)
    for name, sets in used_weights(spec).items():
        slots, uplinks = derived.slot_count(spec, spec.pools[name]), len(uplink_devices(spec.switch))
        rules = uplinks * (kinds[name] if name in twice else services[name])
        better = _better(spec, spec.pools[name], sets, rules)
        if better is not None:
            alike[slots, better].append(_Advice(name, rules, worst_of(sets, slots), worst_of(sets, better)))
    for (slots, better), found in alike.items():
        code = MORE_SLOTS if better > slots else FEWER_SLOTS
        rules = sum(each.rules for each in found)
        now = max((each.now for each in found), key=lambda share: abs(share[1]))
        then = max((each.then for each in found), key=lambda share: abs(share[1]))
        names = ", ".join(each.pool for each in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        text = (
            f"pool{'s' if len(found) > 1 else ''} {names}{more}: {slots} slots give backend {now[0]} "
            f"{100 * float(now[1]):+.1f} % against its weight and take {slots * rules:,} hardware rules; "
            f"{better} give {then[0]} {100 * float(then[1]):+.1f} % at most and take {better * rules:,}"
        )
        advice = f"set slots: {better} if this is worth moving many of a pool's clients once"
        yield context.finding(code, ("pools", found[0].pool), text, advice)


def _better(spec: Spec, pool: Pool, sets: Sequence[Mapping[str, int]], rules: int) -> int | None:
    """Return a better number of slots for a pool, None to keep the present one. *rules* is hardware rules per slot."""
    slots = derived.slot_count(spec, pool)
    most = derived.most_slots(spec, pool)
    error = abs(worst_of(sets, slots)[1])
    numbers = [1 << bits for bits in range(most.bit_length()) if 1 << bits <= most]
    if error > GOOD_SHARE:
        more = [n for n in numbers if n > slots]
        enough = next((n for n in more if abs(worst_of(sets, n)[1]) <= GOOD_SHARE), None)
        # If none is good enough, the smallest number with the least error, provided that it at least halves the error.
        best = enough or min(more, key=lambda n: (abs(worst_of(sets, n)[1]), n), default=None)
        return best if best is not None and abs(worst_of(sets, best)[1]) * 2 <= error else None
    if slots * rules < MANY_RULES:
        return None
    fewer = [n for n in numbers if _FEWEST <= n < slots]
    return next((n for n in fewer if abs(worst_of(sets, n)[1]) <= GOOD_SHARE), None)
