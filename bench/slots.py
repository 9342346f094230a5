# SPDX-License-Identifier: Apache-2.0
"""Compare how slots are assigned: movement and balance of dnsteer, Maglev, weighted rendezvous and OVS's own buckets.

Random pools of 2 to 64 backends (equal weights, 1..10, 1..100), the same for all. In each a backend is removed, one is
added, and one's weight changes. Prints JSON. Movement is in percent of the table, that is of the hash space;
"beyond_least" is what moved less what had to, given the algorithm's own loads before and after: the sum of
max(0, before - after) over backends.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import statistics
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[1] / folder) for folder in (".", "generator"))

from bench.machine import machine
from dnsteer.slots.assignment import assign
from dnsteer.slots.takeover import with_members_down

SIZES = (64, 128, 256, 512, 1024)
GROUPS = ((2, 8), (9, 32), (33, 64))
OVS_MOST_SLOTS = 256

Weights = dict[str, int]
Table = Sequence[str]
Algorithm = Callable[[Weights, int], Table | None]


# The algorithms. Each takes the weights in the order of configuration and the wanted size, and returns its table, or None
# when it cannot serve these weights by a table.


def dnsteer(weights: Weights, slots: int) -> Table:
    return assign(weights, slots)


def maglev(weights: Weights, slots: int) -> Table:
    """Eisenbud et al., "Maglev", NSDI 2016, section 3.4, in a table of the smallest prime size of at least *slots*.

    The paper says that weights alter how often a backend takes its turn, not how. Here its turns up to a round are
    round * weight / largest weight, rounded to the nearest.
    """
    size = next(n for n in range(slots, 2 * slots + 2) if all(n % d for d in range(2, math.isqrt(n) + 1)))
    names = sorted(weights)
    order = [_maglev_walk(name, size) for name in names]
    following, turns = [0] * len(names), [0] * len(names)
    table: list[str | None] = [None] * size
    largest, filled, round_ = max(weights.values()), 0, 0
    while True:
        round_ += 1
        for i, name in enumerate(names):
            if (2 * turns[i] + 1) * largest > 2 * round_ * weights[name]:
                continue
            turns[i] += 1
            offset, skip = order[i]
            while True:
                slot = (offset + following[i] * skip) % size
                following[i] += 1
                if table[slot] is None:
                    break
            table[slot] = name
            filled += 1
            if filled == size:
                return [owner for owner in table if owner is not None]


@lru_cache(maxsize=4096)
def _maglev_walk(name: str, size: int) -> tuple[int, int]:
    first, second = struct.unpack("<QQ", hashlib.sha256(name.encode()).digest()[:16])
    return first % size, second % (size - 1) + 1


def rendezvous(weights: Weights, slots: int) -> Table:
    """Weighted rendezvous: each slot to the backend with the least -ln(u) / weight."""
    best: list[float] = [math.inf] * slots
    table = [""] * slots
    for name, weight in weights.items():
        for slot, drawn in enumerate(_exponentials(name, slots)):
            if drawn / weight < best[slot]:
                best[slot] = drawn / weight
                table[slot] = name
    return table


@lru_cache(maxsize=512)
def _exponentials(name: str, slots: int) -> tuple[float, ...]:
    drawn = struct.unpack(f"<{slots}I", hashlib.shake_256(name.encode()).digest(4 * slots))
    return tuple(-math.log((number + 0.5) / 2**32) for number in drawn)


def ovs_wide(weights: Weights, _slots: int) -> Table | None:
    """A select group's weighted buckets by dp_hash, in newer releases (slots/dp_hash.py); the size is OVS's own choice."""
    least = -(-sum(weights.values()) // min(weights.values()))
    return _webster(weights, max(least, min(4 * len(weights), OVS_MOST_SLOTS)))


def ovs_narrow(weights: Weights, _slots: int) -> Table | None:
    """The same in older releases."""
    return _webster(weights, -(-sum(weights.values()) // min(weights.values())))


def _webster(weights: Weights, least: int) -> Table | None:
    size = max(16, 1 << (least - 1).bit_length())
    if size > OVS_MOST_SLOTS:
        return None  # OVS then gives up dp_hash, and every client gets a megaflow of its own
    names = list(weights)
    divisors = [1] * len(names)
    values = [float(weights[name]) for name in names]
    table = []
    for _ in range(size):
        winner = values.index(max(values))
        divisors[winner] += 2
        values[winner] = weights[names[winner]] / divisors[winner]
        table.append(names[winner])
    return table


ALGORITHMS: dict[str, Algorithm] = {"dnsteer": dnsteer, "maglev": maglev, "rendezvous": rendezvous}
OVS: dict[str, Algorithm] = {"ovs_newer": ovs_wide, "ovs_older": ovs_narrow}


# The pools, and what is measured.


def pools(count: int, seed: int) -> Iterator[tuple[Weights, dict[str, Weights]]]:
    """*count* pools, each with its three changes."""
    rng = random.Random(seed)
    for index in range(count):
        most = (1, 10, 100)[index % 3]
        size = rng.randint(2, 64)
        names = rng.sample([f"backend-{number}" for number in range(10_000)], size + 1)
        weights = {name: rng.randint(1, most) for name in names[:-1]}
        gone, changed = rng.choice(names[:-1]), rng.choice(names[:-1])
        other = 2 if most == 1 else rng.choice([w for w in range(1, most + 1) if w != weights[changed]])
        yield (
            weights,
            {
                "remove": {name: weight for name, weight in weights.items() if name != gone},
                "add": weights | {names[-1]: rng.randint(1, most)},
                "weight": weights | {changed: other},
            },
        )


def movement(before: Table, after: Table) -> tuple[float, float]:
    """Percent of the hash space that moved, and of that, what went beyond the least possible."""
    size = max(len(before), len(after))  # of two sizes, both powers of two, the smaller table repeats
    moved = sum(before[i % len(before)] != after[i % len(after)] for i in range(size))
    held, now = Counter(before), Counter(after)
    least = sum(max(0.0, held[name] / len(before) - now[name] / len(after)) for name in held)
    return 100 * moved / size, 100 * (moved / size - least)


def balance(table: Table, weights: Weights) -> tuple[float, float]:
    """Largest load over the load due by weight, and the largest relative error of a share, in percent."""
    held, total = Counter(table), sum(weights.values())
    ratios = [held[name] * total / (len(table) * weight) for name, weight in weights.items()]
    return max(ratios), 100 * max(abs(ratio - 1) for ratio in ratios)


def spread(values: Iterable[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    p95 = ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)]
    return {"mean": round(statistics.fmean(ordered), 3), "p95": round(p95, 3)}


def measure(algorithm: Algorithm, cases: list[tuple[Weights, dict[str, Weights]]], size: int) -> dict[str, object]:
    """Movement and balance of *algorithm*. *size*: number of slots, 0 where the algorithm chooses."""
    moved: dict[str, list[float]] = {}
    beyond: dict[str, list[float]] = {}
    by_members: dict[str, list[float]] = {}
    loads: list[tuple[float, float]] = []
    served = 0
    for weights, changes in cases:
        before = algorithm(weights, size)
        if before is None:
            continue
        served += 1
        loads.append(balance(before, weights))
        group = next(f"{low}-{high}" for low, high in GROUPS if low <= len(weights) <= high)
        for kind, changed in changes.items():
            after = algorithm(changed, size)
            if after is None or 0 < size < len(changed):
                continue
            total, excess = movement(before, after)
            moved.setdefault(kind, []).append(total)
            beyond.setdefault(kind, []).append(excess)
            by_members.setdefault(group, []).append(excess)
    return {
        "pools": served,
        "moved": {kind: spread(values) for kind, values in moved.items()},
        "beyond_least": {kind: spread(values) for kind, values in beyond.items()}
        | {"all": spread(value for values in beyond.values() for value in values)},
        "beyond_least_by_members": {
            f"{low}-{high}": spread(by_members.get(f"{low}-{high}", ())) for low, high in GROUPS
        },
        "largest_load_over_due": spread(load for load, _ in loads),
        "worst_share_error_percent": spread(error for _, error in loads),
    }


def second_down(cases: list[tuple[Weights, dict[str, Weights]]], slots: int) -> dict[str, float]:
    """What moves beyond the least when, with one backend down, a second one goes down."""
    beyond = []
    for weights, _ in cases:
        if len(weights) > 2:
            base = assign(weights, slots)
            first, second, *_ = weights
            one, two = (with_members_down(base, weights, down) for down in ([first], [first, second]))
            beyond.append(movement(one, two)[1])
    return spread(beyond)


def speed() -> dict[str, float]:
    """Milliseconds of one `assign`, median of 15."""
    rng = random.Random(0)
    out = {}
    for members in (4, 16, 64):
        weights = {f"backend-{number}": rng.randint(1, 100) for number in range(members)}
        times = []
        for _ in range(15):
            start = time.perf_counter()
            assign(weights, 1024)
            times.append(time.perf_counter() - start)
        out[f"{members}_members_1024_slots"] = round(1000 * statistics.median(times), 2)
    return out


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=90, help="number of random pools (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random pools (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON to FILE as well")
    options = parser.parse_args()
    start = time.monotonic()
    cases = list(pools(options.pools, options.seed))
    report: dict[str, object] = {
        "machine": machine(),
        "seed": options.seed,
        "pools": options.pools,
        "assign_milliseconds": speed(),
        "by_slots": {
            str(slots): {name: measure(algorithm, cases, slots) for name, algorithm in ALGORITHMS.items()}
            for slots in SIZES
        },
        "own_slots": {name: measure(algorithm, cases, 0) for name, algorithm in OVS.items()},
        "second_backend_down_beyond_least": {str(slots): second_down(cases, slots) for slots in SIZES},
    }
    report["seconds"] = round(time.monotonic() - start, 1)
    text = json.dumps(report, indent=2) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
