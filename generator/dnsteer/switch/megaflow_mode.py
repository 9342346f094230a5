"""Whether ovs-vswitchd makes megaflows: `ovs-appctl upcall/disable-megaflows` is in no database, and no command says it."""

from __future__ import annotations

import re
from collections.abc import Collection

from dnsteer.switch.tools import SwitchError
from dnsteer.switch.unixctl import Unixctl, control_socket

_MOST = 20_000
"""Datapath flows up to which they are looked at: reading more takes time of ovs-vswitchd."""
_FLOWS = re.compile(r"flows +: \(current (\d+)\)")
_IN_PORT = re.compile(r"\bin_port\(([^)]*)\)")
_EXACT = re.compile(r"\b(?:ttl|hlimit)=\d+[,)]")


def megaflows_disabled(remote: str, ports: Collection[str], timeout: float) -> bool:
    """Whether the switch is known to make a datapath flow for each packet header, by the UDP flows of some *ports*.

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
