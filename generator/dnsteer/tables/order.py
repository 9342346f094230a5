"""The pipeline: its tables with their OpenFlow numbers, in the order in which packets pass through them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from dnsteer.spec.errors import DefinitionError
from dnsteer.tables import (
    advertise,
    echo,
    egress,
    extension,
    forward,
    fragment,
    ingress,
    neighbor,
    protect,
    return_,
    slot,
    state,
    vip,
)
from dnsteer.tables.table import Register, Table

_FILE = "dnsteer/tables/order.py"
ORDER: tuple[tuple[int, Table], ...] = (
    (0, ingress.TABLE),
    (5, neighbor.TABLE),
    (6, advertise.TABLE),
    (8, echo.TABLE),
    (10, protect.TABLE),
    (20, vip.TABLE),
    (30, slot.TABLE),
    (40, forward.TABLE),
    (50, return_.TABLE),
    (55, fragment.TABLE),
    (58, extension.TABLE),
    (60, egress.TABLE),
    (63, state.TABLE),
)


@dataclass(frozen=True)
class Pipeline:
    """Tables and registers by name. *owners* maps each register to the table from which it is live."""

    tables: dict[str, Table]
    registers: dict[str, Register]
    owners: dict[str, Table]


def build_pipeline(order: tuple[tuple[int, Table], ...]) -> Pipeline:
    """Number, check and index tables and registers.

    Raises DefinitionError if a number or name occurs twice, tables are not in the order of their numbers, two registers
    have one number while both are live, or a register ends before the table that owns it.
    """
    tables = {table.name: replace(table, number=number) for number, table in order}
    for (number, before), (higher, after) in pairwise(order):
        if number == higher:
            raise DefinitionError(
                f"{_FILE}: tables {before.name} and {after.name} both have number {number}; {_free(order, number)}"
            )
        if number > higher:
            raise DefinitionError(
                f"{_FILE}: table {after.name} ({higher}) stands after {before.name} ({number}); expected a higher number"
            )
    if len(tables) != len(order):
        raise DefinitionError(f"{_FILE}: a table occurs twice: {', '.join(table.name for _, table in order)}")
    owned = [(table, register) for table in tables.values() for register in table.registers]
    registers = {register.name: register for _, register in owned}
    if len(registers) != len(owned):
        first, twice = next((t, r) for t, r in owned if registers[r.name] is not r)
        second = next(t for t, r in owned if registers[twice.name] is r)
        raise DefinitionError(f"{second.file}: register {twice.name} is owned by {first.file} already")
    for i, (owner, one) in enumerate(owned):
        if not 0 <= one.number <= 15:
            raise DefinitionError(f"{owner.file}: register {one.name} has number {one.number}; expected 0 to 15")
        if one.until not in tables:
            raise DefinitionError(
                f"{owner.file}: register {one.name} is live until {one.until}, and no table has that name"
            )
        if tables[one.until].number < owner.number:
            raise DefinitionError(
                f"{owner.file}: register {one.name} is live until {one.until}, which packets pass before {owner.name}"
            )
        for begins, other in owned[:i]:
            ends = min(tables[one.until].number, tables[other.until].number)
            if one.number == other.number and max(owner.number, begins.number) <= ends:
                other_one = f"{other.name} of table {begins.name}"
                raise DefinitionError(
                    f"{owner.file}: register {one.name} overlaps {other_one}: both are live in register {one.number}"
                )
    return Pipeline(tables, registers, {register.name: table for table, register in owned})


def _free(order: tuple[tuple[int, Table], ...], number: int) -> str:
    """Say which number nearest below or above *number* keeps the order, for one of two tables that have it."""
    taken = [n for n, _ in order]
    below, above = max((n for n in taken if n < number), default=-1), min((n for n in taken if n > number), default=254)
    free = [n for n in (number - 1, number + 1) if below < n < above]
    if not free:
        return "renumber those around them"
    return f"{' and '.join(map(str, free))} {'are' if len(free) > 1 else 'is'} free"


PIPELINE = build_pipeline(ORDER)
TABLES: tuple[Table, ...] = tuple(PIPELINE.tables.values())
