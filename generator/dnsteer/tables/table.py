"""What a table of the pipeline is: what it matches and does, its registers, and the rows that its template spells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dnsteer.tables.context import Context


class TemplateError(ValueError):
    """A template of a table names what there is not, or leads where no packet can go."""


@dataclass(frozen=True)
class Register:
    """A field of the register file, live from the table that owns it to the table *until*. *bits* are inclusive.

    *values* names those that flows write and match; templates write `@path.query` for the value `query` of `path`.
    """

    name: str
    number: int
    meaning: str
    until: str
    bits: tuple[int, int] = (0, 31)
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def field(self) -> str:
        """The register as ovs-ofctl spells it in matches and set_field."""
        return f"reg{self.number}"

    @property
    def nxm(self) -> str:
        """The register as ovs-ofctl spells it in move actions, without bits."""
        return f"NXM_NX_REG{self.number}"


def no_rows(_: Context) -> Iterable[object]:
    """The rows of a table whose flows are of other tables' rows, or always the same."""
    return ()


@dataclass(frozen=True)
class Table:
    """An OpenFlow table. Its number is given by its place in the list (`order`).

    *uses* names the rows that its template gets, by their type; *rows* makes those that are its own. Nothing leads to a
    table that is not *reached*.
    """

    name: str
    matches: str
    does: str
    uses: Mapping[str, type[object]] = field(default_factory=dict)
    rows: Callable[[Context], Iterable[object]] = no_rows
    registers: tuple[Register, ...] = ()
    reached: bool = True
    number: int = -1
