# SPDX-License-Identifier: Apache-2.0
"""docs/slots.md says enough to recompute an assignment: what follows is written from its section "By hand" alone."""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnsteer.slots.assignment import assign
from dnsteer.slots.maintenance import DRAINED, Maintenance
from dnsteer.slots.takeover import with_maintenance, with_members_down

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "slots.md").read_text()
SECTION = PAGE.partition("\n## By hand\n")[2].partition("\n## ")[0]
WEIGHTS = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(0, 60), min_size=1, max_size=12).filter(
    lambda weights: any(weights.values())
)
SLOTS = st.integers(0, 7).map(lambda bits: 1 << bits)

Choice = tuple[int, str, int, int, str]


# The rules, as the page has them.


def order(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8")).digest()


def numbers(weights: Mapping[str, int], slots: int) -> dict[str, int]:
    total = sum(weights.values())
    out = {name: slots * weight // total for name, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda name: (-(slots * weights[name] % total), order(name)))
    for name in by_remainder[: slots - sum(out.values())]:
        out[name] += 1
    return out


def ranking(name: str, slots: int) -> list[int]:
    drawn = hashlib.shake_256("slots".encode("ascii") + bytes([0]) + name.encode("utf-8")).digest(4 * slots)
    number = [sum(drawn[4 * s + i] << 8 * i for i in range(4)) for s in range(slots)]
    return sorted(range(slots), key=lambda s: (number[s], s))


def steps(weights: Mapping[str, int], getting: Collection[str]) -> dict[str, int]:
    common = math.gcd(*(weights[name] for name in getting))
    return {name: math.isqrt(2**64 // (weights[name] // common)) for name in getting}


def choices(weights: Mapping[str, int], number: Mapping[str, int], table: list[str | None]) -> list[Choice]:
    """What becomes of each choice, in their order, until every slot of *table* has an owner."""
    getting = [name for name, n in number.items() if n]
    step = steps(weights, getting)
    coming = [
        ((2 * rank + 1) * step[name], order(name), name, rank, slot)
        for name in getting
        for rank, slot in enumerate(ranking(name, len(table)))
    ]
    left, out = dict(number), list[Choice]()
    for time, _, name, rank, slot in sorted(coming):
        if None not in table:
            break
        verdict = "granted"
        if not left[name]:
            verdict = "has its number"
        elif table[slot] is not None:
            verdict = f"{table[slot]} has it"
        else:
            table[slot] = name
            left[name] -= 1
        out.append((time, name, rank, slot, verdict))
    return out


def assigned(weights: Mapping[str, int], slots: int) -> list[str | None]:
    counted = {name: weight for name, weight in weights.items() if weight}
    table: list[str | None] = [None] * slots
    choices(counted, numbers(counted, slots), table)
    return table


def handed(
    table: Sequence[str | None], weights: Mapping[str, int], out: Collection[str], leaving: Collection[str]
) -> list[str | None]:
    """The slots of those *leaving* go to the backends that are not *out*."""
    up = {name: weight for name, weight in weights.items() if weight and name not in out}
    now = [None if name in leaving else name for name in table]
    if not up or None not in now:
        return list(table)
    total, slots = sum(up.values()), sum(1 for name in now if name is None or name in up)
    held = {name: now.count(name) for name in up}
    given = dict.fromkeys(up, 0)
    for _ in range(now.count(None)):
        name = min(up, key=lambda n: ((held[n] + given[n]) * total - slots * up[n], order(n)))
        given[name] += 1
    choices(up, given, now)
    return now


# The worked example.


def rows(title: str) -> list[list[str]]:
    """The table under a heading row that begins with *title*."""
    lines = SECTION.partition(f"\n| {title} |")[2].splitlines()[2:]
    end = next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[:end]]


EXAMPLE = {name: int(weight) for name, weight, *_ in rows("backend | weight")}
SIZE = 8


def test_the_numbers_of_the_example() -> None:
    assert EXAMPLE == {"ns1": 1, "ns2": 1, "ns3": 3}
    total, number, step = sum(EXAMPLE.values()), numbers(EXAMPLE, SIZE), steps(EXAMPLE, EXAMPLE)
    assert rows("backend | weight") == [
        [
            name,
            str(weight),
            str(SIZE * weight // total),
            str(SIZE * weight % total),
            order(name).hex()[:8],
            str(number[name]),
            str(step[name]),
        ]
        for name, weight in EXAMPLE.items()
    ]


def test_the_bytes_of_the_example_are_what_the_command_prints() -> None:
    shown = re.findall(r"^    \$ (printf .*)\n    ([0-9a-f ]+)$", SECTION, re.M)
    assert [re.findall(r"' (\w+) ", command) for command, _ in shown] == [[name] for name in EXAMPLE]
    for (command, groups), name in zip(shown, EXAMPLE, strict=True):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout.split()[-1] == groups.replace(" ", "")
        number = [int.from_bytes(bytes.fromhex(group), "little") for group in groups.split()]
        assert sorted(range(SIZE), key=number.__getitem__) == ranking(name, SIZE)
    first = re.search(r"Slot 0 of ns1 has the number 0x([0-9a-f]+) = (\d+)", SECTION)
    assert first is not None
    assert int(first[1], 16) == int(first[2]) == int.from_bytes(bytes.fromhex(shown[0][1].split()[0]), "little")


def test_the_rankings_of_the_example() -> None:
    shown = {name: [int(slot) for slot in slots.split(",")] for name, slots in rows("backend | its slots from rank 0")}
    assert shown == {name: ranking(name, SIZE) for name in EXAMPLE}


def test_the_choices_of_the_example() -> None:
    table: list[str | None] = [None] * SIZE
    made = choices(EXAMPLE, numbers(EXAMPLE, SIZE), table)
    assert rows("time") == [[str(cell) for cell in choice] for choice in made]
    assert table == list(assign(EXAMPLE, SIZE))


def test_the_owners_of_the_example() -> None:
    shown = {when: owners.split(", ") for when, owners in rows("slots 0 to 7")}
    base = assigned(EXAMPLE, SIZE)
    expected = {"all up": base, **{f"{name} down": handed(base, EXAMPLE, {name}, {name}) for name in EXAMPLE}}
    assert shown == expected
    real = assign(EXAMPLE, SIZE)
    assert shown == {
        "all up": [*real],
        **{f"{name} down": [*with_members_down(real, EXAMPLE, [name])] for name in EXAMPLE},
    }


# Any pool.


@given(WEIGHTS, SLOTS)
def test_the_rules_give_the_assignment(weights: dict[str, int], slots: int) -> None:
    assert tuple(assigned(weights, slots)) == assign(weights, slots)


@pytest.mark.parametrize("slots", [256, 1024, 4096])
def test_the_documented_rules_give_large_assignments(slots: int) -> None:
    weights = {f"backend-{n}.example": 1 + n * n % 23 for n in range(40)}
    assert tuple(assigned(weights, slots)) == assign(weights, slots)


@given(WEIGHTS, SLOTS, st.data())
def test_the_documented_rules_give_the_takeover(weights: dict[str, int], slots: int, data: st.DataObject) -> None:
    down = data.draw(st.sets(st.sampled_from(sorted(weights))))
    base = assign(weights, slots)
    assert tuple(handed(base, weights, down, down)) == with_members_down(base, weights, down)


@given(WEIGHTS, SLOTS, st.data())
def test_the_documented_rules_give_the_tables_of_commands(
    weights: dict[str, int], slots: int, data: st.DataObject
) -> None:
    """One backend after the other; somebody with a weight stays."""
    names = sorted(name for name, weight in weights.items() if weight)
    out = data.draw(st.permutations(names))[: data.draw(st.integers(0, len(names) - 1))]
    base = assign(weights, slots)
    table: Sequence[str | None] = base
    for n, name in enumerate(out, 1):
        table = handed(table, weights, set(out[:n]), {name})
    maintenance = [Maintenance("pool", name, "drain", "", "") for name in out]
    assert tuple(table) == with_maintenance(base, weights, (), maintenance)


@given(st.integers(1, DRAINED - 1))
def test_the_order_in_which_a_drain_takes_slots(gone: int) -> None:
    weights = {"ns1": 1, "ns2": 3}
    base = assign(weights, 64)
    own = [slot for slot, name in enumerate(base) if name == "ns2"]
    text = {slot: b"ns2" + bytes([0]) + str(slot).encode() for slot in own}
    leaving = sorted(own, key=lambda slot: hashlib.blake2b(text[slot], digest_size=8).digest())
    drain = Maintenance("p", "ns2", "drain", "", "", gone=gone)
    kept = [slot for slot, name in enumerate(with_maintenance(base, weights, (), [drain])) if name == "ns2"]
    assert set(kept) == set(leaving[len(own) - len(kept) :])
    assert len(own) - len(kept) == -(-len(own) * gone // DRAINED)
