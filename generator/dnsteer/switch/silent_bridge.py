# SPDX-License-Identifier: Apache-2.0
"""Whether a switch forwards whose OpenFlow is silent, as ovs-vswitchd's control socket tells.

An ovs-vswitchd that has lost its database lets its bridges rest until it has it again: it answers no OpenFlow, and takes no
packets from ports that its main thread polls. The kernel, the threads that poll ports (PMD) and the NIC forward on by the
flows that there are, new ones included, and the control socket is served (measured with 3.1.0; docs/announce.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dnsteer.switch.tools import SwitchError, UnavailableError
from dnsteer.switch.unixctl import Appctl, Unixctl, control_socket

_DATAPATH = re.compile(r"^(\S+)@(\S+):")
_BRIDGE = re.compile(r"^ {2}(\S+):$")
_PORT = re.compile(r"^ {4}(\S+) \d+/\S+: \(")
_POLLED = re.compile(r"^\s+port: (\S+)\s+queue-id:\s*\d+ \(enabled\)", re.M)
_KERNEL = "system"


@dataclass(frozen=True)
class SilentBridge:
    """What is known of a bridge whose OpenFlow is silent.

    *fault* says why nothing forwards, empty where something does. *polled* are the ports of the bridge from which packets
    are still taken; None: all. Where the control socket cannot be *asked* from here that is not known.
    """

    fault: str = ""
    polled: frozenset[str] | None = None
    asked: bool = True

    def can_receive_from(self, port: str) -> bool:
        """Whether packets from a port are still taken."""
        return self.polled is None or port in self.polled


def read_silent_bridge(remote: str, bridge: str, timeout: float) -> SilentBridge:
    """Ask the ovs-vswitchd of the OVSDB at *remote*, which need not run. An answer may take *timeout* seconds."""
    if not remote.startswith("unix:"):
        return SilentBridge("whether it forwards cannot be asked from this machine", asked=False)
    try:
        with Unixctl(control_socket(remote), timeout) as control:
            return silent_bridge(control, bridge)
    except UnavailableError as err:
        return SilentBridge(f"its control socket does not answer either: {err}", frozenset())
    except (SwitchError, PermissionError) as err:
        return SilentBridge(f"whether it forwards cannot be asked: {err}", asked=False)


def silent_bridge(control: Appctl, bridge: str) -> SilentBridge:
    """What forwards on a bridge whose OpenFlow is silent. Raises SwitchError."""
    try:
        shown = control.run("dpif/show")
    except UnavailableError:
        raise
    except SwitchError:  # it has the command once it has had its database
        shown = ""
    kind, datapath, ports = _ports_of(shown, bridge)
    if not kind:
        return SilentBridge(f"it has no bridge {bridge}, as when it was started without its database", frozenset())
    if kind == _KERNEL:
        return SilentBridge()
    polled = ports & {*_POLLED.findall(control.run("dpif-netdev/pmd-rxq-show", datapath))}
    fault = "" if polled else "without its database, its main thread takes no packets, and no PMD thread polls a port"
    return SilentBridge(fault, frozenset(polled))


def _ports_of(shown: str, bridge: str) -> tuple[str, str, set[str]]:
    """The kind and the name of the datapath of a bridge, empty where it is not there, and the bridge's ports."""
    kind = datapath = found = ""
    here, ports = ("", ""), set[str]()
    for line in shown.splitlines():
        if m := _DATAPATH.match(line):
            kind, datapath = m[1], m[2]
        elif m := _BRIDGE.match(line):
            found = m[1]
            if found == bridge:
                here = kind, datapath
        elif found == bridge and (m := _PORT.match(line)):
            ports.add(m[1])
    return *here, ports
