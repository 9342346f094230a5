# SPDX-License-Identifier: Apache-2.0
"""Where the control socket of a bridge's agent is, for the agent and for those who look for one."""

from __future__ import annotations

import os
from pathlib import Path

PROTOCOL = 1
"""Version of what is spoken there."""
_SYSTEM = (Path("/run/openvswitch"), Path("/var/run/openvswitch"))
_FOLDER = Path("/run/dnsteer")


DIRECTORY = "/var/run/openvswitch"


def default_remote() -> str:
    """This machine's own OVSDB: in the directory that Open vSwitch's programs take, OVS_RUNDIR where that is set."""
    return f"unix:{os.environ.get('OVS_RUNDIR') or DIRECTORY}/db.sock"


def database_name(remote: str) -> str:
    """What messages call the OVSDB at *remote*: with OVS_RUNDIR where that is what chose its socket."""
    directory = os.environ.get("OVS_RUNDIR")
    kind, _, where = remote.partition(":")
    chosen = directory and kind == "unix" and Path(where).absolute() == Path(directory).absolute() / "db.sock"
    return f"OVSDB at {remote}{' (from OVS_RUNDIR)' if chosen else ''}"


def canonical_remote(remote: str) -> str:
    """An OVSDB's remote in the one spelling that is its own: without symbolic links such as /var/run."""
    kind, _, where = remote.partition(":")
    return f"unix:{os.path.realpath(where)}" if kind == "unix" else remote


def folder_of(remote: str) -> Path | None:
    """Return the directory of the sockets for the switch with this OVSDB; None for one that is reached by the network.

    For the system's Open vSwitch it is /run/dnsteer, for another one `dnsteer` beside its database's socket.
    """
    kind, _, where = remote.partition(":")
    if kind != "unix":
        return None
    beside = Path(where).absolute().parent
    return _FOLDER if beside in _SYSTEM else beside / "dnsteer"


def socket_of(remote: str, bridge: str) -> Path | None:
    """Return the path of the socket."""
    folder = folder_of(remote)
    return folder / f"{bridge}.sock" if folder is not None else None


def find_socket(remote: str, bridge: str | None) -> Path | None:
    """Return the socket of the bridge's agent, or of the only one there is; None where there is none."""
    folder = folder_of(remote)
    if folder is None:
        return None
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".sock"]
    except OSError:
        return None
    if bridge is not None:
        found = [path for path in found if path.stem == bridge]
    return found[0] if len(found) == 1 else None
