# SPDX-License-Identifier: Apache-2.0
"""Ties a bundle to the tables that it was made for: the switch refuses it after a restart.

A bundle holds only what changes. On the empty tables of a restarted ovs-vswitchd it would leave a few flows, and among them
the one of table state, whose cookie says that the tables are complete. So the switch has one group that nothing uses, and
every bundle begins with a command that modifies it to what it is: where the group is gone, the switch refuses the bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dnsteer.render.flows import Group
from dnsteer.switch.openflow import OpenFlow, RejectedError, Tables
from dnsteer.switch.table_changes import TableChanges
from dnsteer.switch.tools import SwitchError
from dnsteer.tables.cookies import FENCE

_GROUP = f"group_id={FENCE},type=all"
"""Its number is beside those of the pools, so that it counts as a group of others, which stays."""


class RestartedError(SwitchError):
    """The switch has lost its tables since they were read: nothing of the bundle was applied."""

    def __init__(self) -> None:
        super().__init__(
            "ovs-vswitchd was restarted in the meantime, or the bridge's groups were removed; repeat the command"
        )


def has_fence(tables: Tables) -> bool:
    """Whether the group was there when *tables* were read."""
    return FENCE in tables.other_groups


def with_fence(todo: TableChanges, have: Tables) -> TableChanges:
    """The changes with that of the group, where somebody has changed it. One that is not there makes no difference: the
    next bundle makes it, and tables that were loaded from rendered files never had it.

    Every bundle begins with it, so it has no line of its own among them.
    """
    fence, there = Group(FENCE, _GROUP), have.other_groups.get(FENCE)
    if there in (None, fence):
        return todo
    return replace(todo, replace_groups=(*todo.replace_groups, fence))


def makes_fence(line: str) -> bool:
    """Whether this line of a bundle makes the group."""
    return line.startswith(f"group add group_id={FENCE},")


def send_bundle(client: OpenFlow, lines: Sequence[str], *, fenced: bool) -> None:
    """Send a bundle. *fenced*: the group existed when the tables were read; it exists afterwards in any case.

    Raises RestartedError, and else what `OpenFlow.bundle` raises.
    """
    try:
        client.bundle([f"group {'modify' if fenced else 'add'} {_GROUP}", *lines])
    except RejectedError as err:
        if f"group_id={FENCE}," in err.what and ("UNKNOWN_GROUP" in err.reason or "GROUP_EXISTS" in err.reason):
            raise RestartedError from None
        raise
