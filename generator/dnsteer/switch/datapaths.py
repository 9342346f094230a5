# SPDX-License-Identifier: Apache-2.0
"""The datapath of a bridge: its name, as ovs-vswitchd has it, and whether it gets megaflows.

OVS-DOCA of DOCA 3.5 makes `doca@ovs-doca` of bridges whose datapath type is `netdev` (recorded on a BlueField-3); earlier
releases make `netdev@ovs-netdev`, as upstream does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Appctl, Unixctl, control_socket

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


_MOST = 20_000
"""Datapath flows up to which they are looked at: reading more takes time of ovs-vswitchd."""
_FLOWS = re.compile(r"flows +: \(current (\d+)\)")
_IN_PORT = re.compile(r"\bin_port\(([^)]*)\)")
_EXACT = re.compile(r"\b(?:ttl|hlimit)=\d+[,)]")


def megaflows_disabled(remote: str, ports: Collection[str], timeout: float) -> bool:
    """Whether the switch is known to make a datapath flow for each packet header, by the UDP flows of some *ports*.

    That `ovs-appctl upcall/disable-megaflows` was run is in no database, and no command says it.
    dnsteer's flows for UDP never look at the TTL, so a datapath flow that has one matches the whole header. False where
    there are no such flows, and where the switch cannot be asked. Raises nothing.
    """
    try:
        with Unixctl(control_socket(remote), timeout) as control:
            if sum(map(int, _FLOWS.findall(control.run("upcall/show")))) > _MOST:
                return False
            texts = [
                control.run("dpctl/dump-flows", "--names", datapath, f"filter={kind}")
                for datapath in control.run("dpctl/dump-dps").split()
                for kind in ("udp", "udp6")
            ]
    except (SwitchError, PermissionError):
        return False
    lines = [line for text in texts for line in text.splitlines() if _is_of(line, ports)]
    return bool(lines) and all(_EXACT.search(line.partition(", actions:")[0]) for line in lines)


def _is_of(line: str, ports: Collection[str]) -> bool:
    m = _IN_PORT.search(line)
    return m is not None and m[1].strip('"') in ports
