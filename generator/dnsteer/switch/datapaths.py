"""The datapath of a bridge, as ovs-vswitchd names it.

OVS-DOCA of DOCA 3.5 makes `doca@ovs-doca` of bridges whose datapath type is `netdev` (recorded on a BlueField-3); earlier
releases make `netdev@ovs-netdev`, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterable

from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Appctl

USERSPACE = ("netdev", "doca")
"""Kinds of datapath that forward in userspace, and what hardware does not."""


def kinds_of(datapath_type: str) -> tuple[str, ...]:
    """The kinds of datapath that a bridge with this type may have, the likeliest first."""
    others = [kind for kind in USERSPACE if kind != datapath_type] if datapath_type in USERSPACE else []
    return (datapath_type, *others)


def find_datapath(control: Appctl, datapath_type: str) -> str:
    """The name of the datapath that bridges of this type have on a running switch. Raises SwitchError if there is none."""
    names = [line.strip() for line in control.run("dpctl/dump-dps").splitlines()]
    found = pick_datapath(names, datapath_type)
    if not found:
        raise SwitchError(f"there is no datapath of the kind {' or '.join(kinds_of(datapath_type))}")
    return found


def actual_name(control: Appctl, expected: str) -> str:
    """The name on a running switch of the datapath that is *expected* by the type of its bridges: *expected* itself, unless
    only one of the alike is there. Raises SwitchError.
    """
    kind = expected.partition("@")[0]
    if kind not in USERSPACE:
        return expected
    return pick_datapath(control.run("dpctl/dump-dps").split(), kind) or expected


def pick_datapath(names: Iterable[str], datapath_type: str) -> str:
    """Of the *names* of all datapaths that which bridges of this type have; empty if there is none."""
    have = list(names)
    return next((name for kind in kinds_of(datapath_type) for name in have if name.startswith(f"{kind}@")), "")
