# SPDX-License-Identifier: Apache-2.0
"""A pool's members and the settings that its slots depend on, separate from the spec so that they can be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Member(NamedTuple):
    """A backend of a pool: its name, its number in the tables, its weight and whether the spec has it down."""

    name: str
    number: int
    weight: int
    down: bool


class Membership(NamedTuple):
    """A pool, or a pool in one family where its families have different backends.

    *number* is the pool's number in the tables, *title* what messages call it. *service* is the only service that has these
    slots, such as `853/tcp`; empty: all that have none of their own. *keeps*: the tracker keeps TCP connections to it.
    """

    pool: str
    title: str
    number: int
    selection: str
    slots: int
    on_all_down: str
    members: tuple[Member, ...]
    service: str = ""
    keeps: bool = False

    @property
    def weights(self) -> dict[str, int]:
        """Weight by member name."""
        return {m.name: m.weight for m in self.members}

    @property
    def down(self) -> list[str]:
        """Members that the spec has down."""
        return [m.name for m in self.members if m.down]


def to_value(memberships: Sequence[Membership]) -> list[Any]:
    """Return the memberships as a JSON value."""
    return [[*m[:6], [list(member) for member in m.members], *_optional(m)] for m in memberships]


def _optional(members: Membership) -> list[Any]:
    """What is recorded only of pools that have it."""
    return [members.service, members.keeps] if members.keeps else list(filter(None, [members.service]))


def from_value(value: Any) -> list[Membership]:
    """Parse the result of `to_value`. Raises ValueError or TypeError for anything else."""
    out = []
    for pool, title, number, selection, slots, on_all_down, members, *optional in value:
        texts, numbers = (pool, title, selection, on_all_down, *optional[:1]), (number, slots, *optional[1:])
        if not all(isinstance(t, str) for t in texts) or not all(isinstance(n, int) for n in numbers):
            raise ValueError(f"not a pool: {pool!r}")
        out.append(
            Membership(pool, title, number, selection, slots, on_all_down, tuple(map(_member, members)), *optional)
        )
    return out


def _member(value: Any) -> Member:
    name, number, weight, down = value
    if not isinstance(name, str) or not isinstance(number, int) or not isinstance(weight, int):
        raise ValueError(f"not a member of a pool: {value!r}")
    return Member(name, number, weight, bool(down))
