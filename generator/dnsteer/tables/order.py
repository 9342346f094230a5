# SPDX-License-Identifier: Apache-2.0
"""The pipeline: its tables with their OpenFlow numbers, in the order in which packets pass through them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dnsteer.spec.errors import DefinitionError
from dnsteer.tables import (
    access,
    access_lists,
    address,
    admit,
    admit_clients,
    advertise,
    client,
    client_meter,
    echo,
    egress,
    error,
    error_code,
    extension,
    forward,
    fragment,
    icmp,
    ingress,
    keep,
    nd_code,
    neighbor,
    own_port,
    own_traffic,
    port,
    protect,
    recirculate,
    return_,
    selection,
    slot,
    solicitation,
    state,
    syn,
    vip,
)
from dnsteer.tables.table import ALL_CONTENTS, Contents, Register, Table, Traffic

_FILE = "dnsteer/tables/order.py"
ORDER: tuple[tuple[Table, ...], ...] = (
    (
        ingress.TABLE,
        icmp.TABLE,
        solicitation.TABLE,
        nd_code.TABLE,
        neighbor.TABLE,
        advertise.TABLE,
        echo.TABLE,
        error_code.TABLE,
    ),
    (protect.TABLE, port.TABLE, *address.TABLES, access.TABLE),
    (syn.TABLE, vip.TABLE, recirculate.TABLE, keep.TABLE, selection.TABLE),
    (slot.TABLE,),
    (forward.TABLE, *own_port.TABLES, own_traffic.TABLE),
    (return_.TABLE, fragment.TABLE, extension.TABLE),
    (egress.TABLE, state.TABLE, error.TABLE, error.COPY_TABLE),
    access_lists.SWITCH_TABLES[:10],
    access_lists.SWITCH_TABLES[10:],
    access_lists.VIP_TABLES[:10],
    (*access_lists.VIP_TABLES[10:], admit.TABLE, client.TABLE, client_meter.TABLE, admit_clients.TABLE),
)
"""The tables in the order in which packets pass them, in stages of ten numbers: the first begins at 0, the second at 10.
A table that is added at the end of a stage takes the next number of the stage and renumbers no other table.
What packets pass before they begin again at an earlier table, in a second pass, stands at the end."""
_STAGE = 10
"""Numbers of a stage."""
_END = 240
"""Numbers from here on are those of the recorded states in OVSDB's flow_tables (switch/session.py)."""


@dataclass(frozen=True)
class Pipeline:
    """Tables and registers by name. *owners* maps each register to the table from which it is live."""

    tables: dict[str, Table]
    registers: dict[str, Register]
    owners: dict[str, Table]

    @property
    def first(self) -> Table:
        """The table in which all packets begin."""
        return next(iter(self.tables.values()))

    def holding(self, contents: Contents) -> Table:
        """Return the table that holds something."""
        return next(table for table in self.tables.values() if table.holds == contents)

    def passed_by(self, *kinds: Traffic) -> list[Table]:
        """Return the tables that packets of one of these kinds pass, in their order."""
        return [table for table in self.tables.values() if not set(kinds).isdisjoint(table.traffic)]

    def next_table(self, table: Table, kind: str = "") -> Table | None:
        """Return the next table that packets of a *kind* pass; without one, the next that all packets of *table* pass.

        None if there is no such table.
        """
        kinds = {kind} if kind else set(table.traffic)
        later = (other for other in self.tables.values() if other.number > table.number)
        return next((other for other in later if kinds and kinds.issubset(other.traffic)), None)


def build_pipeline(order: tuple[tuple[Table, ...], ...]) -> Pipeline:
    """Number, check and index tables and registers.

    Raises DefinitionError for a name that occurs twice, a stage with too many tables, contents that no table holds or two
    do, two registers that have one number while both are live, or a register that ends before the table that owns it.
    """
    tables: dict[str, Table] = {}
    for base, stage in zip(range(0, _END, _STAGE), order, strict=False):
        if len(stage) > _STAGE:
            raise DefinitionError(
                f"{_FILE}: the stage that begins with table {stage[0].name} has {len(stage)} tables; expected at most "
                f"{_STAGE}: begin another stage"
            )
        for number, table in enumerate(stage, base):
            if table.name in tables:
                raise DefinitionError(f"{_FILE}: table {table.name} occurs twice")
            tables[table.name] = replace(table, number=number)
    if len(order) > _END // _STAGE:
        raise DefinitionError(
            f"{_FILE}: {len(order)} stages; expected at most {_END // _STAGE}: numbers from {_END} on are those of recorded "
            "states"
        )
    for contents in ALL_CONTENTS:
        holders = [table for table in tables.values() if table.holds == contents]
        if len(holders) != 1:
            found = f"tables {' and '.join(t.name for t in holders)} both have" if holders else "no table has"
            raise DefinitionError(f"{_FILE}: {found} holds={contents!r}; expected one: others look for it there")
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


PIPELINE = build_pipeline(ORDER)
TABLES: tuple[Table, ...] = tuple(PIPELINE.tables.values())
