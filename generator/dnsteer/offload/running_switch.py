"""Read the settings that offload depends on from the OVSDB of a running switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dnsteer.switch.control_socket import database_name
from dnsteer.switch.rpc import Rpc, parse_remote
from dnsteer.switch.tools import SwitchError

LIBRARIES = ("dpdk", "doca")


@dataclass(frozen=True)
class RunningSwitch:
    """The bridge's datapath, other_config, and which libraries ovs-vswitchd has started.

    *datapath* is the name in dpctl that follows from the bridge's type; `switch/datapaths.py` has the one that is there.
    *started* has only the libraries for which the database has a column: the one for DOCA exists only in NVIDIA's.
    """

    datapath: str
    config: Mapping[str, str]
    started: Mapping[str, bool]


def read_running_switch(remote: str, bridge: str, timeout: float) -> RunningSwitch:
    """Read the OVSDB at *remote*. Raises SwitchError if the bridge is missing, UnavailableError if OVSDB is unreachable."""
    rpc = Rpc(parse_remote(remote), database_name(remote), timeout)
    try:
        # Select all columns, since naming a column that the database does not have is an error.
        of_bridge = {"op": "select", "table": "Bridge", "where": [["name", "==", bridge]]}
        of_switch = {"op": "select", "table": "Open_vSwitch", "where": []}
        bridges, switches = rpc.call("transact", ["Open_vSwitch", of_bridge, of_switch], timeout)
    finally:
        rpc.close()
    if not bridges["rows"]:
        raise SwitchError(f"there is no bridge {bridge}; apply the spec first")
    return _of_rows(bridges["rows"][0], switches["rows"][0])


def _of_rows(bridge: Mapping[str, Any], switch: Mapping[str, Any]) -> RunningSwitch:
    kind = bridge["datapath_type"] or "system"
    found = {library: switch.get(f"{library}_initialized") for library in LIBRARIES}
    started = {library: value for library, value in found.items() if isinstance(value, bool)}
    return RunningSwitch(f"{kind}@ovs-{kind}", dict(switch["other_config"][1]), started)
