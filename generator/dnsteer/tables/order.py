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
    overlap while both are live, or a register exceeds 32 bits or ends before the table that owns it.
    """
    tables = {table.name: replace(table, number=number) for number, table in order}
    for (number, before), (higher, after) in pairwise(order):
        if number == higher:
            free = next(n for n in range(number) if n not in dict(order))
            raise DefinitionError(
                f"{_FILE}: tables {before.name} and {after.name} both have number {number}; {free} is free"
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
        owner, twice = next((t, r) for t, r in owned if registers[r.name] is not r)
        raise DefinitionError(f"{_file(owner)}: another table has a register {twice.name} too")
    for i, (owner, one) in enumerate(owned):
        low, high = one.bits
        if not (0 <= low <= high <= 31 and 0 <= one.number <= 15):
            raise DefinitionError(f"{_file(owner)}: register {one.name} needs a number up to 15 and bits from 0 to 31")
        if one.until not in tables:
            raise DefinitionError(
                f"{_file(owner)}: register {one.name} is live until {one.until}, and no table has that name"
            )
        if tables[one.until].number < owner.number:
            raise DefinitionError(
                f"{_file(owner)}: register {one.name} is live until {one.until}, which packets pass before {owner.name}"
            )
        for begins, other in owned[:i]:
            share = one.number == other.number and low <= other.bits[1] and other.bits[0] <= high
            ends = min(tables[one.until].number, tables[other.until].number)
            if share and max(owner.number, begins.number) <= ends:
                other_one = f"{other.name} of table {begins.name}"
                raise DefinitionError(
                    f"{_file(owner)}: register {one.name} overlaps {other_one}: both are live in register {one.number}"
                )
    return Pipeline(tables, registers, {register.name: table for table, register in owned})


def _file(table: Table) -> str:
    return f"dnsteer/tables/{table.name}.py"


PIPELINE = build_pipeline(ORDER)
TABLES: tuple[Table, ...] = tuple(PIPELINE.tables.values())
